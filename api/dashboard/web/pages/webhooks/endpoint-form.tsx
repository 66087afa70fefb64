import { MultiSelect, Radio, Stack, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { DashboardEndpoint, EndpointSecretAnswer } from '../../../wire/webhook-endpoints.ts'
import { changedFields } from '../../changed-fields.ts'
import { OpenModal } from '../../components/dialogs.tsx'
import { Form } from '../../components/form.tsx'
import { useCreateEndpoint, usePatchEndpoint } from './endpoint-queries.ts'

type Draft = { url: string; description: string; events: string[] }
type Fields = { draft: Draft; onChange: (draft: Draft) => void; patterns: string[] }

function EndpointFields({ draft, onChange, patterns }: Fields) {
  return (
    <>
      <TextInput
        label="URL"
        placeholder="https://example.com/webhooks"
        type="url"
        required
        maxLength={2_048}
        data-autofocus
        value={draft.url}
        onChange={event => onChange({ ...draft, url: event.currentTarget.value })}
      />
      <TextInput
        label="Description"
        maxLength={200}
        value={draft.description}
        onChange={event => onChange({ ...draft, description: event.currentTarget.value })}
      />
      <MultiSelect
        label="Events"
        description="“*” stands for all events, “job.*” for all events of jobs."
        required
        searchable
        data={patterns}
        value={draft.events}
        onChange={events => onChange({ ...draft, events })}
      />
    </>
  )
}

/** Creates an endpoint; `onCreated` gets its secret. */
export function CreateEndpoint({
  patterns,
  onCreated,
  onClose,
}: {
  patterns: string[]
  onCreated: (answer: EndpointSecretAnswer) => void
  onClose: () => void
}) {
  const [draft, setDraft] = useState<Draft>({ url: '', description: '', events: ['*'] })
  const [signing_secret, setSigning] = useState<'own' | 'organisation'>('own')
  const create = useCreateEndpoint({ ...draft, url: draft.url.trim(), signing_secret }, onCreated)
  return (
    <OpenModal onClose={onClose} title="Add endpoint" centered>
      <Form mutation={create} submit="Add endpoint" disabled={draft.events.length === 0}>
        <EndpointFields draft={draft} onChange={setDraft} patterns={patterns} />
        <Radio.Group
          label="Signing secret"
          value={signing_secret}
          onChange={value => setSigning(value as 'own' | 'organisation')}
        >
          <Stack gap="xs" mt="xs">
            <Radio value="own" label="A new secret for this endpoint" />
            <Radio value="organisation" label="The organisation’s secret" />
          </Stack>
        </Radio.Group>
      </Form>
    </OpenModal>
  )
}

/** Changes an endpoint. */
export function EditEndpoint({
  endpoint,
  patterns,
  onClose,
}: {
  endpoint: DashboardEndpoint
  patterns: string[]
  onClose: () => void
}) {
  const [begun] = useState<Draft>(() => {
    const { url, description, events } = endpoint
    return { url, description, events }
  })
  const [draft, setDraft] = useState(begun)
  const changes = changedFields({ ...draft, url: draft.url.trim() }, begun)
  const save = usePatchEndpoint(endpoint.id, changes, onClose)
  return (
    <OpenModal onClose={onClose} title="Edit endpoint" centered>
      <Form mutation={save} submit="Save" disabled={Object.keys(changes).length === 0 || draft.events.length === 0}>
        <EndpointFields draft={draft} onChange={setDraft} patterns={patterns} />
      </Form>
    </OpenModal>
  )
}
