import { Alert, Stack, Text } from '@mantine/core'
import { notifications } from '@mantine/notifications'
import { useState } from 'react'
import type { DashboardKey } from '../../../wire/keys.ts'
import { draftOfLogging, isComplete, LoggingFields, loggingOf } from '../../components/content-logging.tsx'
import { Form } from '../../components/form.tsx'
import { useContentLogging } from './queries.ts'

/** Sets which input and output of a key is logged. */
export function KeyLogging({ apiKey }: { apiKey: DashboardKey }) {
  const begun = apiKey.content_logging
  const [draft, setDraft] = useState(() => draftOfLogging(begun, 'follow'))
  const save = useContentLogging(apiKey.id, loggingOf(draft, begun, 'follow'), () => {
    setDraft(current => ({ ...current, hours: null }))
    notifications.show({ title: 'Logging saved', message: 'It applies to the next requests.' })
  })
  return (
    <Stack maw={520}>
      <Text size="sm">
        What this key sends and is answered is stored apart from the request log, for admins of the organisation. Every
        view is recorded in the audit log, and so is this setting.
      </Text>
      {apiKey.environment === 'live' && (
        <Alert color="yellow">
          Prompts may contain personal data. Log no more than you need, and tell who is concerned.
        </Alert>
      )}
      <Form mutation={save} submit="Save" disabled={!isComplete(draft, begun)} w="fit-content">
        <LoggingFields
          draft={draft}
          begun={begun}
          modes={[
            { value: 'follow', label: 'As the organisation says' },
            { value: 'off', label: 'Never' },
          ]}
          onChange={setDraft}
        />
      </Form>
    </Stack>
  )
}
