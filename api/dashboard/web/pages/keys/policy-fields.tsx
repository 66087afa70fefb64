import {
  Button,
  Checkbox,
  Fieldset,
  Group,
  MultiSelect,
  NumberInput,
  Radio,
  Select,
  Stack,
  TagsInput,
  TextInput,
} from '@mantine/core'
import { useDebouncedValue } from '@mantine/hooks'
import type { Mode } from '../../../wire/keys.ts'
import { typeNames, useModels } from '../../catalog.ts'
import { AllOrOnly } from '../../components/all-or-only.tsx'
import { typingMs } from '../../components/filters.tsx'
import { MomentInput } from '../../components/moment-input.tsx'
import { Failure } from '../../components/states.tsx'
import { type Draft, missingChoices } from './draft.ts'
import { GuardrailFields } from './guardrail-fields.tsx'
import { useKeyNamed } from './queries.ts'

const maxModelsListed = 100
const maxName = 200
const maxLimit = 2_147_483_647
const maxCapUsd = 1_000_000
const dayMs = 24 * 3_600_000
/** Limits the year to four digits. */
const latestExpiry = '9999-12-31T23:59'
const lifetimes = [
  { label: '30 days', days: 30 },
  { label: '90 days', days: 90 },
  { label: '1 year', days: 365 },
]

/** All scopes that the API knows, but for the one for everything. */
const scopes = [
  {
    value: 'chat',
    label: 'Chat',
    description: 'Chat completions, Responses and conversations, Messages, routing and feedback',
  },
  { value: 'embeddings', label: 'Embeddings', description: 'Vectors of texts' },
  { value: 'completions', label: 'Completions', description: 'Plain text that a model continues' },
]

type Fields = { draft: Draft; onChange: (draft: Draft) => void; disabled?: boolean }

/** Every field of a key’s policy. */
export function PolicyFields({ draft, onChange, disabled = false, keyId }: Fields & { keyId: string }) {
  return (
    <Fieldset variant="unstyled" disabled={disabled} aria-label="Policy">
      <Stack>
        <NameField draft={draft} onChange={onChange} keyId={keyId} />
        <Fieldset legend="Limits">
          <Stack gap="sm">
            <CapField draft={draft} onChange={onChange} />
            <Rates draft={draft} onChange={onChange} />
          </Stack>
        </Fieldset>
        <AccessRoutingAndExpiry draft={draft} onChange={onChange} />
      </Stack>
    </Fieldset>
  )
}

/** What keeps a submitted draft from being saved; nothing if it is complete. */
export function MissingChoices({ draft }: { draft: Draft }) {
  return Object.values(missingChoices(draft)).map(text => <Failure key={text} error={new Error(text)} />)
}

/** The fields of a policy that a new key seldom needs: all but its name and cap. */
export function MoreFields({ draft, onChange }: Fields) {
  return (
    <Stack>
      <Fieldset legend="Rate limits">
        <Rates draft={draft} onChange={onChange} />
      </Fieldset>
      <AccessRoutingAndExpiry draft={draft} onChange={onChange} />
    </Stack>
  )
}

/** `keyId`: the key that has the name; absent for a new one. `hasFocus`: a dialog begins here. */
export function NameField({
  draft,
  onChange,
  keyId,
  hasFocus = false,
}: Fields & { keyId?: string; hasFocus?: boolean }) {
  const [name] = useDebouncedValue(draft.name.trim(), typingMs)
  const same = useKeyNamed(name, keyId)
  return (
    <TextInput
      data-autofocus={hasFocus || undefined}
      label="Name"
      placeholder="The application that uses this key"
      inputWrapperOrder={['label', 'input', 'description', 'error']}
      description={
        <span role="status">
          {same &&
            `A ${same.environment} key has this name already: …${same.last4}. Another name tells them apart in lists and exports.`}
        </span>
      }
      maxLength={maxName}
      value={draft.name}
      onChange={event => onChange({ ...draft, name: event.currentTarget.value })}
    />
  )
}

const number = {
  min: 0,
  placeholder: 'No limit',
  allowNegative: false,
  clampBehavior: 'strict',
  thousandSeparator: ',',
} as const

type CapProps = { value: number | string; onChange: (value: number | string) => void; hasFocus?: boolean }

/** The field of a monthly cap; '' = no cap. */
export function CapInput({ value, onChange, hasFocus = false }: CapProps) {
  return (
    <NumberInput
      {...number}
      label="Monthly spend cap (USD)"
      description="Hard limit per calendar month (UTC). Leave empty for no cap."
      prefix="$"
      max={maxCapUsd}
      decimalScale={9}
      value={value}
      onChange={onChange}
      data-autofocus={hasFocus || undefined}
    />
  )
}

export function CapField({ draft, onChange }: Fields) {
  return <CapInput value={draft.capUsd} onChange={capUsd => onChange({ ...draft, capUsd })} />
}

function Rates({ draft, onChange }: Fields) {
  return (
    <Group grow align="flex-end">
      <NumberInput
        {...number}
        label="Requests per minute"
        max={maxLimit}
        allowDecimal={false}
        value={draft.rpmLimit}
        onChange={rpmLimit => onChange({ ...draft, rpmLimit })}
      />
      <NumberInput
        {...number}
        label="Tokens per minute"
        max={maxLimit}
        allowDecimal={false}
        value={draft.tpmLimit}
        onChange={tpmLimit => onChange({ ...draft, tpmLimit })}
      />
    </Group>
  )
}

function AccessRoutingAndExpiry({ draft, onChange }: Fields) {
  return (
    <>
      <Access draft={draft} onChange={onChange} />
      <Fieldset legend="Routing">
        <Radio.Group
          label="Mode"
          description="What the model “auto” prefers unless the request says otherwise."
          value={draft.mode}
          onChange={mode => onChange({ ...draft, mode: mode as Mode })}
        >
          <Group mt="xs">
            <Radio value="cost" label="Cost" />
            <Radio value="balanced" label="Balanced" />
            <Radio value="quality" label="Quality" />
          </Group>
        </Radio.Group>
      </Fieldset>
      <Providers draft={draft} onChange={onChange} />
      <Expiry draft={draft} onChange={onChange} />
    </>
  )
}

/** What a request can only tighten. Members without a field here, set by the API, are kept. */
function Providers({ draft, onChange }: Fields) {
  const provider = draft.provider ?? {}
  const change = (changed: NonNullable<Draft['provider']>) => {
    const kept = Object.entries({ ...provider, ...changed }).filter(([, value]) => value !== undefined)
    onChange({ ...draft, provider: kept.length === 0 ? null : Object.fromEntries(kept) })
  }
  return (
    <Fieldset legend="Providers">
      <Stack gap="sm">
        <Checkbox
          label="No data collection"
          description="Only providers whose terms exclude training on requests. Providers with unknown terms are excluded."
          checked={provider.data_collection === 'deny'}
          onChange={event => change({ data_collection: event.currentTarget.checked ? 'deny' : undefined })}
        />
        <Checkbox
          label="Zero data retention"
          description="Only providers that keep nothing of a request."
          checked={provider.zdr === true}
          onChange={event => change({ zdr: event.currentTarget.checked || undefined })}
        />
        <AllOrOnly
          label="Who may serve it"
          all="All providers"
          only="Only these providers"
          isAll={provider.only === undefined}
          onChange={isAll => change({ only: isAll ? undefined : [] })}
        >
          <TagsInput
            aria-label="Only these providers"
            placeholder="The name of a provider, such as openai"
            value={provider.only ?? []}
            error={missingChoices(draft).providers}
            onChange={only => change({ only })}
          />
        </AllOrOnly>
        <TagsInput
          label="None of these providers"
          value={provider.ignore ?? []}
          onChange={names => change({ ignore: names.length === 0 ? undefined : names })}
        />
      </Stack>
    </Fieldset>
  )
}

function Access({ draft, onChange }: Fields) {
  return (
    <Fieldset legend="Access">
      <Stack gap="sm">
        <ModelField draft={draft} onChange={onChange} />
        <ScopeField draft={draft} onChange={onChange} />
        <TierField draft={draft} onChange={onChange} />
        <Select
          label="Provider keys"
          description="Own keys are stored in the settings of the organisation. Test keys use none."
          allowDeselect={false}
          data={[
            { value: 'shared', label: 'Those of this service' },
            { value: 'own_then_shared', label: 'Own keys first, then those of this service' },
            { value: 'own', label: 'Own keys only' },
          ]}
          value={draft.ownKeys}
          onChange={ownKeys => onChange({ ...draft, ownKeys: ownKeys as Draft['ownKeys'] })}
        />
        <NumberInput
          label="Response cache (seconds)"
          description="For this time, equal requests are answered from the cache, free of charge. Leave empty for no cache."
          min={1}
          max={2_592_000}
          allowDecimal={false}
          value={draft.cacheTtlS}
          onChange={cacheTtlS => onChange({ ...draft, cacheTtlS })}
        />
        <GuardrailFields guardrails={draft.guardrails} onChange={guardrails => onChange({ ...draft, guardrails })} />
        <Checkbox
          label="Learn from feedback"
          description="“auto” prefers models whose responses were scored higher."
          checked={draft.learning}
          onChange={event => onChange({ ...draft, learning: event.currentTarget.checked })}
        />
      </Stack>
    </Fieldset>
  )
}

function ModelField({ draft, onChange }: Fields) {
  const models = useModels().data ?? []
  const known = new Set(models.map(({ id }) => id))
  const others = (draft.models ?? []).filter(slug => !known.has(slug))
  const groups = Object.entries(typeNames).map(([type, group]) => ({
    group,
    items: models.filter(model => model.type === type).map(({ id, name }) => ({ value: id, label: `${name} (${id})` })),
  }))
  return (
    <AllOrOnly
      label="Models"
      all="All models"
      only="Only these models"
      isAll={draft.models === null}
      onChange={isAll => onChange({ ...draft, models: isAll ? null : [] })}
    >
      <MultiSelect
        aria-label="Only these models"
        description="“auto” selects among them."
        placeholder={draft.models?.length === 0 ? 'Choose models' : undefined}
        data={[
          ...groups.filter(({ items }) => items.length > 0),
          ...(others.length > 0 ? [{ group: 'Others', items: others }] : []),
        ]}
        value={draft.models ?? []}
        error={missingChoices(draft).models}
        onChange={slugs => onChange({ ...draft, models: slugs })}
        searchable
        hidePickedOptions
        limit={maxModelsListed}
        maxDropdownHeight={280}
        nothingFoundMessage="No matching model"
      />
    </AllOrOnly>
  )
}

function ScopeField({ draft, onChange }: Fields) {
  return (
    <AllOrOnly
      label="Endpoints"
      all="All endpoints"
      only="Only these endpoints"
      isAll={draft.scopes === null}
      onChange={isAll => onChange({ ...draft, scopes: isAll ? null : [] })}
    >
      <Checkbox.Group
        aria-label="Only these endpoints"
        description="Images, audio, media jobs, delayed jobs, batches, files and realtime have no selection of their own: only keys for all endpoints can call them."
        value={draft.scopes ?? []}
        error={missingChoices(draft).scopes}
        onChange={chosen => onChange({ ...draft, scopes: chosen })}
      >
        <Stack gap="xs" mt="xs">
          {scopes.map(scope => (
            <Checkbox key={scope.value} {...scope} />
          ))}
        </Stack>
      </Checkbox.Group>
    </AllOrOnly>
  )
}

function TierField({ draft, onChange }: Fields) {
  return (
    <Checkbox.Group
      label="Refused service tiers"
      description="What `service_tier` of a request may not ask for."
      value={draft.deniedTiers}
      onChange={deniedTiers => onChange({ ...draft, deniedTiers })}
    >
      <Group mt="xs">
        <Checkbox value="priority" label="Priority (faster, at a higher price)" />
        <Checkbox value="flex" label="Flex (slower, at a lower price)" />
      </Group>
    </Checkbox.Group>
  )
}

function Expiry({ draft, onChange }: Fields) {
  return (
    <Fieldset legend="Expiry">
      <Stack gap="xs">
        <MomentInput
          max={latestExpiry}
          label="Expires"
          description="The key is rejected from this time on. Leave empty for no expiry."
          value={draft.expires}
          onChange={expires => onChange({ ...draft, expires })}
        />
        <Group gap="xs">
          {lifetimes.map(({ label, days }) => (
            <Button
              key={label}
              size="compact-xs"
              variant="default"
              onClick={() => onChange({ ...draft, expires: new Date(Date.now() + days * dayMs).toISOString() })}
            >
              In {label}
            </Button>
          ))}
          <Button size="compact-xs" variant="default" onClick={() => onChange({ ...draft, expires: '' })}>
            Never
          </Button>
        </Group>
      </Stack>
    </Fieldset>
  )
}
