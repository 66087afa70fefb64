import { Accordion, Badge, Group, Paper, Stack, Text } from '@mantine/core'
import { ApiError } from '../../../api.ts'
import { Empty } from '../../../components/states.tsx'
import { type Column, DataTable } from '../../../components/table.tsx'
import { count } from '../../../format.ts'
import { ApiFailure } from '../outcome.tsx'
import type { SessionEvent, TalkState } from './talk.ts'

/** Descriptions of close codes, which browsers do not provide. */
const reasons: Record<number, string> = {
  1000: 'ended by you',
  1005: 'ended by the server',
  1006: 'rejected or interrupted. Browsers do not report the reason; the terminal command shows it.',
}
const phases = { closed: 'closed', opening: 'opening', open: 'open' }
const clock = new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium' })

/** The transcript and the events of a session. */
export function SessionPanel({ state }: { state: TalkState }) {
  const { phase, lines, events, soundsIn, soundsOut, tokens, ended, error } = state
  const isNew = phase === 'closed' && events.length === 0 && !error && !ended
  if (isNew)
    return (
      <Empty title="Talk with a model">
        Start a session, then speak or type. A test key repeats what it hears. Use headphones so that the model does not
        hear itself.
      </Empty>
    )
  return (
    <Stack gap="sm">
      {error && <ApiFailure error={new ApiError(0, error.code, error.message, null, null)} />}
      <Paper withBorder p="md">
        <Stack gap="sm">
          <Group gap="xs">
            <Badge color={phase === 'open' ? 'green' : 'gray'} aria-live="polite">
              Session {phases[phase]}
            </Badge>
            <Text size="xs" c="dimmed" className="numeric">
              {count(soundsOut)} audio events sent · {count(soundsIn)} received · {count(tokens)} tokens
            </Text>
          </Group>
          {ended && (
            <Text size="xs" c="dimmed">
              Closed with {ended.code}: {ended.reason || (reasons[ended.code] ?? 'no reason given')}
            </Text>
          )}
          <Stack gap={6} component="section" aria-label="Transcript" aria-live="polite">
            {lines.map(({ id, who, text }) => (
              <Text key={id} size="sm">
                <Text span inherit fw={600}>
                  {who === 'you' ? 'You: ' : 'Model: '}
                </Text>
                {text}
              </Text>
            ))}
          </Stack>
        </Stack>
      </Paper>
      <Events events={events} />
    </Stack>
  )
}

const eventColumns: Column<SessionEvent>[] = [
  { header: 'Time', cell: ({ at }) => clock.format(at) },
  {
    header: 'Event',
    kind: 'rowHeader',
    cell: ({ type }) => (
      <Text size="xs" ff="monospace">
        {type}
      </Text>
    ),
  },
  { header: 'Detail', maxWidth: 320, cell: ({ detail }) => detail },
]

function Events({ events }: { events: SessionEvent[] }) {
  return (
    <Accordion variant="contained">
      <Accordion.Item value="events">
        <Accordion.Control>Events ({events.length})</Accordion.Control>
        <Accordion.Panel>
          <DataTable
            label="Events of the session"
            rows={events}
            columns={eventColumns}
            rowKey={({ id }) => String(id)}
            maxHeight={260}
            dense
          />
        </Accordion.Panel>
      </Accordion.Item>
    </Accordion>
  )
}
