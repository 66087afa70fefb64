import { Text } from '@mantine/core'
import type { RequestDetail } from '../../../wire/requests.ts'
import { Section } from '../../components/facts.tsx'
import { CallList } from '../../components/work/calls.tsx'
import { count, duration } from '../../format.ts'

/** The calls to providers and the waits between them, over the duration of the request. */
export function Calls({ request }: { request: RequestDetail }) {
  const { calls, attempts, duration_ms: durationMs, first_byte_ms: firstByteMs, overhead_ms: overheadMs } = request
  const missing = attempts - calls.length
  return (
    <Section title="Timeline">
      {calls.length === 0 ? (
        <Text size="sm" c="dimmed">
          No provider was called.
        </Text>
      ) : (
        <CallList calls={calls} durationMs={durationMs} firstByteMs={firstByteMs} />
      )}
      {missing > 0 && calls.length > 0 && (
        <Text size="xs" c="dimmed" mt="xs">
          {missing === 1 ? 'One more' : `${count(missing)} more`}, without details.
        </Text>
      )}
      <Text size="xs" c="dimmed" mt="xs">
        {[
          `${duration(durationMs)} in total`,
          firstByteMs !== null && calls.length > 0 && `TTFT ${duration(firstByteMs)}`,
          overheadMs !== null && `${duration(overheadMs)} of it in the gateway`,
        ]
          .filter(Boolean)
          .join(', ')}
        .
      </Text>
    </Section>
  )
}
