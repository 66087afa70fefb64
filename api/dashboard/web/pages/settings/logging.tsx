import { NumberInput, Stack, Switch, Text, Title } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { ContentSettings } from '../../../wire/contents.ts'
import { call } from '../../api.ts'
import { draftOfLogging, isComplete, LoggingFields, loggingOf } from '../../components/content-logging.tsx'
import { Form } from '../../components/form.tsx'
import { Show } from '../../components/states.tsx'
import { usePlace } from '../../session.tsx'
import { useChange } from '../../use-change.ts'

/** Which input and output of the organisation's keys is logged, and how it is kept. */
export function InputOutputLogging() {
  const place = usePlace()
  const settings = useQuery({
    queryKey: [place.id, 'content-settings'],
    queryFn: ({ signal }) => call<ContentSettings>(`${place.base}/content-settings`, { signal }),
  })
  return (
    <>
      <Title order={2}>Input and output logging</Title>
      <Show query={settings} rows={3}>
        {current => <LoggingForm settings={current} />}
      </Show>
    </>
  )
}

function LoggingForm({ settings }: { settings: ContentSettings }) {
  /** The values that the form began with, so that concurrent changes of others are not reverted. */
  const [begun, setBegun] = useState(settings)
  const [draft, setDraft] = useState(() => draftOfLogging(settings.content_logging, 'off'))
  const [days, setDays] = useState<number | string>(settings.retention_days)
  const [redact_emails, setRedacts] = useState(settings.redact_emails)
  const isChanged = draft.mode !== (begun.content_logging?.mode ?? 'off') || draft.hours !== null
  const body = {
    ...((isChanged || draft.percent !== (begun.content_logging?.sample_percent ?? draft.percent)) && {
      content_logging: loggingOf(draft, begun.content_logging, 'off'),
    }),
    ...(Number(days) !== begun.retention_days && { retention_days: Number(days) }),
    ...(redact_emails !== begun.redact_emails && { redact_emails }),
  }
  const save = useChange<void, ContentSettings>(
    { path: '/content-settings', queryKey: ['content-settings'] },
    base => call(base, { method: 'PATCH', body }),
    saved => {
      setBegun(saved)
      setDraft(draftOfLogging(saved.content_logging, 'off'))
    },
  )
  const isReady = Object.keys(body).length > 0 && days !== '' && isComplete(draft, begun.content_logging)
  return (
    <Stack maw={520}>
      <Text size="sm" c="dimmed">
        For API keys without their own setting. Admins view what is logged on the page of a request.
        {settings.encrypted ? '' : ' The operator has not configured encryption: it would be stored in clear.'}
      </Text>
      <Form mutation={save} submit="Save" disabled={!isReady} w="fit-content">
        <LoggingFields
          draft={draft}
          begun={begun.content_logging}
          modes={[{ value: 'off', label: 'Off' }]}
          onChange={setDraft}
        />
        <NumberInput
          label="Keep for (days)"
          description={`At most ${settings.max_retention_days}. Applies to what is logged from now on.`}
          min={1}
          max={settings.max_retention_days}
          allowDecimal={false}
          value={days}
          onChange={setDays}
        />
        <Switch
          label="Remove email addresses"
          description="API keys, tokens and private keys are always removed."
          checked={redact_emails}
          onChange={event => setRedacts(event.currentTarget.checked)}
        />
      </Form>
    </Stack>
  )
}
