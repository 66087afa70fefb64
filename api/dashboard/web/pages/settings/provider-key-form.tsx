import { MultiSelect, PasswordInput, Select, Stack, Textarea, TextInput } from '@mantine/core'
import { useDebouncedValue } from '@mantine/hooks'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { DashboardKey, KeysAnswer } from '../../../wire/keys.ts'
import type { NewProviderKeyFields, ProviderKeyAnswer, ShownProviderKey } from '../../../wire/provider-keys.ts'
import { call, queryText } from '../../api.ts'
import { useModels } from '../../catalog.ts'
import { changedFields } from '../../changed-fields.ts'
import { AllOrOnly } from '../../components/all-or-only.tsx'
import { OpenModal } from '../../components/dialogs.tsx'
import { typingMs } from '../../components/filters.tsx'
import { Form } from '../../components/form.tsx'
import { usePlace } from '../../session.tsx'
import { useChange } from '../../use-change.ts'
import { withoutSecret } from '../keys/queries.ts'

export const changed = { path: '/provider-keys', queryKey: ['provider-keys'] }

const maxListed = 100

/** What a provider key serves; null = all. */
type Restrictions = { models: string[] | null; key_ids: string[] | null }
type RestrictionsProps = { provider: string; value: Restrictions; onChange: (value: Restrictions) => void }

/** An empty list never means all. */
const isComplete = ({ models, key_ids }: Restrictions) => models?.length !== 0 && key_ids?.length !== 0

function RestrictionFields({ provider, value, onChange }: RestrictionsProps) {
  const { models, key_ids } = value
  return (
    <Stack gap="sm">
      <AllOrOnly
        label="Models"
        all="All of the provider"
        only="Only these models"
        isAll={models === null}
        onChange={isAll => onChange({ ...value, models: isAll ? null : [] })}
      >
        <Models provider={provider} value={models ?? []} onChange={chosen => onChange({ ...value, models: chosen })} />
      </AllOrOnly>
      <AllOrOnly
        label="API keys"
        all="All that use own keys"
        only="Only these API keys"
        isAll={key_ids === null}
        onChange={isAll => onChange({ ...value, key_ids: isAll ? null : [] })}
      >
        <ApiKeys value={key_ids ?? []} onChange={chosen => onChange({ ...value, key_ids: chosen })} />
      </AllOrOnly>
    </Stack>
  )
}

type Choice = { value: string[]; onChange: (value: string[]) => void }

function Models({ provider, value, onChange }: Choice & { provider: string }) {
  const models = useModels().data ?? []
  // Providers of a region are of the family that the key is for.
  const served = models.filter(({ providers }) => providers.some(({ name }) => name.split('/')[0] === provider))
  const known = new Set(served.map(({ id }) => id))
  return (
    <MultiSelect
      aria-label="Only these models"
      placeholder={value.length === 0 ? 'Choose models' : undefined}
      data={[
        ...served.map(({ id, name }) => ({ value: id, label: `${name} (${id})` })),
        ...value.filter(id => !known.has(id)),
      ]}
      value={value}
      error={value.length === 0 && 'Choose at least one model, or “All of the provider”.'}
      onChange={onChange}
      searchable
      hidePickedOptions
      limit={maxListed}
      nothingFoundMessage="No matching model"
    />
  )
}

function ApiKeys({ value, onChange }: Choice) {
  const { id, base } = usePlace()
  const [search, setSearch] = useState('')
  const [typed] = useDebouncedValue(search.trim(), typingMs)
  const found = useQuery({
    queryKey: [id, 'keys', 'of provider key', typed],
    queryFn: async ({ signal }) => {
      const query = queryText({ limit: maxListed, search: withoutSecret(typed) })
      return (await call<KeysAnswer>(`${base}/keys${query}`, { signal })).data
    },
    placeholderData: keepPreviousData,
  })
  const [seen, setSeen] = useState<Record<string, string>>({})
  const listed = (found.data ?? []).filter(({ environment }) => environment === 'live')
  const labels = { ...seen, ...Object.fromEntries(listed.map(key => [key.id, labelOf(key)])) }
  return (
    <MultiSelect
      aria-label="Only these API keys"
      placeholder={value.length === 0 ? 'Choose API keys' : undefined}
      // The chosen ones stay listed, under the names that they were chosen by.
      data={[...new Set([...listed.map(key => key.id), ...value])].map(key => ({
        value: key,
        label: labels[key] ?? key,
      }))}
      value={value}
      error={value.length === 0 && 'Choose at least one API key, or “All that use own keys”.'}
      onChange={chosen => {
        setSeen(labels)
        onChange(chosen)
      }}
      searchable
      searchValue={search}
      onSearchChange={setSearch}
      // The server searches, in all keys and also by the last characters.
      filter={({ options }) => options}
      hidePickedOptions
      nothingFoundMessage={found.isFetching ? 'Searching…' : 'No such live key'}
    />
  )
}

const labelOf = ({ name, last4 }: DashboardKey) => `${name} (…${last4})`

/** What a key of Azure belongs to. `deployments`: a line each, as `model=deployment` or `model=deployment@zone`. */
type Resource = { name: string; deployments: string }
const noResource: Resource = { name: '', deployments: '' }
const needsResource = (provider: string) => provider === 'azure'

function resourceOf({ name, deployments }: Resource) {
  const lines = deployments.split(/[\n,]/).map(line => line.trim())
  return {
    name: name.trim(),
    deployments: lines.filter(Boolean).map(line => {
      const [model = '', place = ''] = line.split('=').map(part => part.trim())
      const [deployment = '', zone] = place.split('@')
      return { model, name: deployment, ...(zone && { zone }) }
    }),
  }
}

function textOf({ name, deployments }: NonNullable<ShownProviderKey['resource']>): Resource {
  const lines = deployments.map(one => `${one.model}=${one.name}${one.zone === undefined ? '' : `@${one.zone}`}`)
  return { name, deployments: lines.join('\n') }
}

function ResourceFields({ value, onChange }: { value: Resource; onChange: (value: Resource) => void }) {
  return (
    <>
      <TextInput
        label="Resource"
        description="Its name, which begins its address: <name>.openai.azure.com."
        required
        value={value.name}
        onChange={event => onChange({ ...value, name: event.currentTarget.value })}
      />
      <Textarea
        label="Deployments"
        description="One per line: model=deployment, or model=deployment@eu for one of a data zone."
        required
        autosize
        minRows={2}
        value={value.deployments}
        onChange={event => onChange({ ...value, deployments: event.currentTarget.value })}
      />
    </>
  )
}

function NameInput({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  return (
    <TextInput
      label="Name"
      required
      maxLength={100}
      value={value}
      onChange={event => onChange(event.currentTarget.value)}
    />
  )
}

/** Stores a new provider key. */
export function AddKey({ providers, onClose }: { providers: string[]; onClose: () => void }) {
  const [draft, setDraft] = useState<NewProviderKeyFields & Restrictions>({
    provider: '',
    name: '',
    secret: '',
    models: null,
    key_ids: null,
  })
  const [resource, setResource] = useState(noResource)
  const body = { ...draft, ...(needsResource(draft.provider) && { resource: resourceOf(resource) }) }
  const add = useChange<void, ProviderKeyAnswer>(changed, base => call(base, { method: 'POST', body }), onClose)
  return (
    <OpenModal onClose={onClose} title="Add provider key" centered>
      <Form mutation={add} submit="Test and add" disabled={draft.provider === '' || !isComplete(draft)}>
        <Select
          label="Provider"
          required
          searchable
          data={providers}
          value={draft.provider || null}
          // The models that were chosen are those of the provider before.
          onChange={provider => setDraft({ ...draft, provider: provider ?? '', models: draft.models && [] })}
        />
        <NameInput value={draft.name} onChange={name => setDraft({ ...draft, name })} />
        <Secret value={draft.secret} onChange={secret => setDraft({ ...draft, secret })} />
        {needsResource(draft.provider) && <ResourceFields value={resource} onChange={setResource} />}
        <RestrictionFields
          provider={draft.provider}
          value={draft}
          onChange={restrictions => setDraft({ ...draft, ...restrictions })}
        />
      </Form>
    </OpenModal>
  )
}

/** Changes the name of a provider key and what it serves. */
export function EditKey({ row, onClose }: { row: ShownProviderKey; onClose: () => void }) {
  const [begun] = useState(() => {
    const { name, models, key_ids } = row
    return { name, models, key_ids }
  })
  const [draft, setDraft] = useState(begun)
  const [before] = useState(row.resource && textOf(row.resource))
  const [resource, setResource] = useState(before)
  const body = {
    ...changedFields(draft, begun),
    ...(resource !== before && resource && { resource: resourceOf(resource) }),
  }
  const save = useChange<void, ProviderKeyAnswer>(
    changed,
    base => call(`${base}/${row.id}`, { method: 'PATCH', body }),
    onClose,
  )
  return (
    <OpenModal onClose={onClose} title={`Edit “${row.name}”`} centered>
      <Form mutation={save} submit="Save" disabled={!isComplete(draft)}>
        <NameInput value={draft.name} onChange={name => setDraft({ ...draft, name })} />
        {resource && <ResourceFields value={resource} onChange={setResource} />}
        <RestrictionFields
          provider={row.provider}
          value={draft}
          onChange={restrictions => setDraft({ ...draft, ...restrictions })}
        />
      </Form>
    </OpenModal>
  )
}

export function Secret({ value, onChange }: { value: string; onChange: (secret: string) => void }) {
  return (
    <PasswordInput
      label="Secret"
      description="It is stored encrypted and never shown again."
      required
      autoComplete="off"
      value={value}
      onChange={event => onChange(event.currentTarget.value)}
    />
  )
}
