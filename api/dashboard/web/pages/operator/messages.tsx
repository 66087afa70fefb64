import { Anchor, Text } from '@mantine/core'
import type { ReactNode } from 'react'
import { Link } from 'wouter'
import type { IncidentMessage } from '../../../wire/operator-home.ts'
import { Status } from '../../components/status.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'

/** Messages to operators, and what happened to each. */
export function Messages({ messages, empty }: { messages: IncidentMessage[]; empty: ReactNode }) {
  return (
    <DataTable
      label="Messages to operators"
      rows={messages}
      columns={columns}
      rowKey={({ id }) => id}
      minWidth={640}
      empty={empty}
    />
  )
}

const events = { opened: 'Incident', resolved: 'Resolved', test: 'Test' }
const channels = { email: 'Email', webhook: 'Webhook', slack: 'Slack' }

const columns: Column<IncidentMessage>[] = [
  {
    header: 'Message',
    card: 'lead',
    kind: 'rowHeader',
    cell: ({ event, incident_id }) =>
      incident_id === null ? (
        events[event]
      ) : (
        <Anchor component={Link} href={`/operator/incidents/${incident_id}`} size="sm">
          {events[event]}
        </Anchor>
      ),
  },
  { header: 'To', card: 'line', maxWidth: 280, cell: ({ channel, target }) => `${channels[channel]}, ${target}` },
  {
    header: 'State',
    card: 'aside',
    cell: ({ status, error, attempts, next_attempt_at }) => (
      <>
        <Status value={status} />
        {error !== null && (
          <Text size="xs" c="dimmed">
            {error}
            {attempts > 1 && ` (${attempts} attempts)`}
          </Text>
        )}
        {next_attempt_at !== null && (
          <Text size="xs" c="dimmed">
            Next attempt: <Time at={next_attempt_at} />
          </Text>
        )}
      </>
    ),
  },
  { header: 'Created', card: 'line', nowrap: true, cell: ({ created_at }) => <Time at={created_at} /> },
]
