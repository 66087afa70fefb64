import { Accordion, Badge, Group, Paper, ScrollArea, Stack, Table, Text } from '@mantine/core'
import { ApiError } from '../../../api.ts'
import { Empty } from '../../../components/states.tsx'
import { count } from '../../../format.ts'
import { ApiFailure } from '../outcome.tsx'
import type { SessionEvent, TalkState } from './talk.ts'

/** What browsers do not say themselves. */
const reasons: Record<number, string> = {
  1000: 'ended here',
  1005: 'ended by the other side',
  1006: 'refused, or broken off. A browser is not told why; the same in a terminal shows the answer.',
}
const phases = { closed: 'closed', opening: 'opening', open: 'open' }
const clock = new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium' })

/** What is said in a session, and its events. */
export function SessionPanel({ state }: { state: TalkState }) {
  const { phase, lines, events, soundsIn, soundsOut, tokens, ended, error } = state
  const isNew = phase === 'closed' && events.length === 0 && !error && !ended
  if (isNew)
    return (
      <Empty title="Talk with a model">
        Start a session and speak, or write. A test key says back what it hears. Use headphones, so that the model does
        not hear itself.
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
              {count(soundsOut)} sounds sent · {count(soundsIn)} received · {count(tokens)} tokens
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

function Events({ events }: { events: SessionEvent[] }) {
  return (
    <Accordion variant="contained">
      <Accordion.Item value="events">
        <Accordion.Control>Events ({events.length})</Accordion.Control>
        <Accordion.Panel>
          <ScrollArea h={260} viewportProps={{ tabIndex: 0, role: 'region', 'aria-label': 'Events of the session' }}>
            <Table verticalSpacing={2} fz="xs">
              <Table.Thead>
                <Table.Tr>
                  <Table.Th>Time</Table.Th>
                  <Table.Th>Event</Table.Th>
                  <Table.Th>Detail</Table.Th>
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {events.map(({ id, at, type, detail }) => (
                  <Table.Tr key={id}>
                    <Table.Td className="numeric">{clock.format(at)}</Table.Td>
                    <Table.Td ff="monospace">{type}</Table.Td>
                    <Table.Td style={{ overflowWrap: 'anywhere' }}>{detail}</Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </ScrollArea>
        </Accordion.Panel>
      </Accordion.Item>
    </Accordion>
  )
}
