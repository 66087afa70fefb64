import { Box, Group, Stack, Text } from '@mantine/core'
import type { RequestCall } from '../../../wire/request-calls.ts'
import { duration } from '../../format.ts'

type Bar = { key: string; kind: 'call' | 'failed' | 'pause'; startMs: number; ms: number }

/** Calls to providers and the waits between them, over the duration of a request or job. `firstByteMs`: until the first token of a stream, in the last call. */
export function CallList({
  calls,
  durationMs,
  firstByteMs = null,
}: {
  calls: RequestCall[]
  durationMs: number
  firstByteMs?: number | null
}) {
  const isTimed = calls.every(({ started_ms }) => started_ms !== null) || calls.length === 1
  const totalMs = Math.max(1, durationMs, ...calls.map(call => (call.started_ms ?? 0) + call.duration_ms))
  return (
    <Stack gap="xs" component="ol" m={0} p={0} style={{ listStyle: 'none' }}>
      {calls.map((call, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: calls never change their order
        <li key={i}>
          <Group gap="xs" justify="space-between" wrap="nowrap">
            <Text size="sm">
              {call.provider}{' '}
              <Text span size="xs" c="dimmed">
                {call.model}
              </Text>
            </Text>
            <Text size="xs" c="dimmed" ta="right">
              {startOf(call)}
              {resultOf(call)}, {duration(call.duration_ms)}
            </Text>
          </Group>
          {isTimed && (
            <Track
              totalMs={totalMs}
              bars={barsOf(call)}
              {...(i === calls.length - 1 && call.fault === null && { markMs: firstByteMs })}
            />
          )}
          {call.message !== null && <Text size="xs">{call.message}</Text>}
        </li>
      ))}
    </Stack>
  )
}

function barsOf({ started_ms: startedMs, duration_ms: ms, pause, fault }: RequestCall): Bar[] {
  const startMs = startedMs ?? 0
  const call: Bar = { key: 'call', kind: fault === null ? 'call' : 'failed', startMs, ms }
  return pause
    ? [{ key: 'pause', kind: 'pause', startMs: Math.max(0, startMs - pause.ms), ms: pause.ms }, call]
    : [call]
}

/** A row of the timeline; `markMs`: when the first byte arrived. */
function Track({ totalMs, bars, markMs = null }: { totalMs: number; bars: Bar[]; markMs?: number | null }) {
  const percent = (ms: number) => `${Math.min(100, (100 * ms) / totalMs)}%`
  return (
    <Box className="waterfall" aria-hidden>
      {bars.map(({ key, kind, startMs, ms }) => (
        <div key={key} data-kind={kind} style={{ left: percent(startMs), width: percent(ms) }} />
      ))}
      {markMs !== null && <div data-kind="mark" style={{ left: percent(markMs) }} />}
    </Box>
  )
}

const waits: Record<NonNullable<RequestCall['pause']>['reason'], string> = {
  backoff: 'before the retry',
  cooldown: 'until the provider could be called again',
  concurrency: 'for other background requests',
}

/** When a call began, and the wait before it: "at 1.2 s, after waiting 250 ms before the retry: ". */
function startOf({ started_ms: startedMs, pause }: RequestCall): string {
  if (startedMs === null) return ''
  const wait = pause ? `, after waiting ${duration(pause.ms)} ${waits[pause.reason]}` : ''
  return `at ${duration(startedMs)}${wait}: `
}

function resultOf({ status, fault }: RequestCall): string {
  if (fault === null) return status === null ? 'accepted' : `answered ${status}`
  // A wrong base URL and a wrong model look the same.
  const isUnknown = status === 404 && fault === 'model_unavailable'
  const reason = isUnknown ? 'the model or the base URL is unknown there' : fault.replaceAll('_', ' ')
  return status === null ? reason : `answered ${status}: ${reason}`
}
