import { Text, Timeline } from '@mantine/core'
import type { RequestCall, RequestDetail } from '../../../wire/requests.ts'
import { Section } from '../../components/facts.tsx'
import { count, duration } from '../../format.ts'

/** The calls to providers in order, with their results. */
export function Calls({ request: { calls, attempts } }: { request: RequestDetail }) {
  const missing = attempts - calls.length
  return (
    <Section title="Attempts">
      {calls.length === 0 ? (
        <Text size="sm" c="dimmed">
          No provider was called.
        </Text>
      ) : (
        <Timeline active={calls.length - 1} bulletSize={14} lineWidth={2}>
          {calls.map((call, i) => (
            <Timeline.Item
              // biome-ignore lint/suspicious/noArrayIndexKey: calls never change their order
              key={i}
              color={call.fault === null ? 'green' : 'red'}
              title={
                <Text size="sm">
                  {call.provider}{' '}
                  <Text span size="xs" c="dimmed">
                    {call.model}
                  </Text>
                </Text>
              }
            >
              <Text size="xs" c="dimmed">
                {startOf(call)}
                {resultOf(call)}, {duration(call.duration_ms)}
              </Text>
              {call.message !== null && <Text size="xs">{call.message}</Text>}
            </Timeline.Item>
          ))}
        </Timeline>
      )}
      {missing > 0 && calls.length > 0 && (
        <Text size="xs" c="dimmed" mt="xs">
          {missing === 1 ? 'One more' : `${count(missing)} more`}, without details.
        </Text>
      )}
    </Section>
  )
}

const waits: Record<NonNullable<RequestCall['pause']>['reason'], string> = {
  backoff: 'before the retry',
  cooldown: 'until the provider could be called again',
  concurrency: 'for other delayed work',
}

/** When a call began, and the wait before it: "at 1.2 s, after waiting 250 ms before the retry: ". */
function startOf({ started_ms: startedMs, pause }: RequestCall): string {
  if (startedMs === null) return ''
  const wait = pause ? `, after waiting ${duration(pause.ms)} ${waits[pause.reason]}` : ''
  return `at ${duration(startedMs)}${wait}: `
}

function resultOf({ status, fault }: RequestCall): string {
  if (fault === null) return status === null ? 'accepted' : `answered ${status}`
  const reason = fault.replaceAll('_', ' ')
  return status === null ? reason : `answered ${status}: ${reason}`
}
