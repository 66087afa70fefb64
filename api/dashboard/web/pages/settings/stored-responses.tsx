import { NumberInput, Stack, Switch } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { ResponseSettings } from '../../../wire/responses.ts'
import { call } from '../../api.ts'
import { Form } from '../../components/form.tsx'
import { Show } from '../../components/states.tsx'
import { usePlace } from '../../session.tsx'
import { useChange } from '../../use-change.ts'

/** Whether the organisation's responses and conversations are stored, and for how long. */
export function StoredResponses() {
  const place = usePlace()
  const settings = useQuery({
    queryKey: [place.id, 'responses'],
    queryFn: ({ signal }) => call<ResponseSettings>(`${place.base}/responses`, { signal }),
  })
  return (
    <Show query={settings} rows={2}>
      {current => <StoredResponsesForm settings={current} />}
    </Show>
  )
}

function StoredResponsesForm({ settings }: { settings: ResponseSettings }) {
  /** The values that the form began with, so that concurrent changes of others are not reverted. */
  const [begun, setBegun] = useState(settings)
  const [keep_responses, setKeeps] = useState(settings.keep_responses)
  const [days, setDays] = useState<number | string>(settings.response_retention_days ?? '')
  const response_retention_days = days === '' ? null : Number(days)
  const body = {
    ...(keep_responses !== begun.keep_responses && { keep_responses }),
    ...(response_retention_days !== begun.response_retention_days && { response_retention_days }),
  }
  const save = useChange<void, ResponseSettings>(
    { path: '/responses', queryKey: ['responses'] },
    base => call(base, { method: 'PATCH', body }),
    setBegun,
  )
  return (
    <Stack maw={520}>
      <Form mutation={save} submit="Save" disabled={Object.keys(body).length === 0} w="fit-content">
        <Switch
          label="Keep responses"
          description="Stores responses of /v1/responses and conversations, so that requests can continue them by id. Off: nothing is stored, and what is stored already expires."
          checked={keep_responses}
          onChange={event => setKeeps(event.currentTarget.checked)}
        />
        <NumberInput
          label="Retention in days"
          description={`For responses from their creation, for conversations from their last use. Leave empty for ${settings.max_retention_days}, the maximum.`}
          min={1}
          max={settings.max_retention_days}
          allowDecimal={false}
          value={days}
          onChange={setDays}
        />
      </Form>
    </Stack>
  )
}
