import type { Clock } from '../../../base/time.ts'
import type { QueuedKind } from '../../../kinds/index.ts'
import type { Operation, PollReport, QueuedAdapter, QueuedCall } from '../../contract.ts'
import { findDirective, simulatedErrors } from '../directives.ts'

/** How one kind of queued work is simulated. */
export type SimulatedWork<K extends QueuedKind> = {
  /** The text searched for directives. */
  text(input: QueuedCall<K>['input']): string
  /** The data that `finish` needs, as plain JSON. */
  remember(call: QueuedCall<K>): Operation
  /** The result, from what `remember` returned. */
  finish(memory: Operation): Promise<Omit<Extract<PollReport<K>, { status: 'completed' }>, 'status'>>
}

const usualMs = 1_000
const poll = { firstMs: 1_000, maxMs: 2_000 }

/**
 * An adapter whose work exists only in its operation: the start and completion times in epoch milliseconds, `readyAtMs`
 * null = never, and the directive. Starting has no effect, so a start whose response was lost is simply repeated.
 */
export function simulateWork<K extends QueuedKind>(work: SimulatedWork<K>, clock: Clock): QueuedAdapter<K> {
  return {
    poll,
    start: async call => {
      const directive = findDirective(work.text(call.input))
      const startedAtMs = clock.now()
      const waitMs = directive?.waitMs || usualMs
      const readyAtMs = waitMs === Infinity ? null : startedAtMs + waitMs
      return { ...work.remember(call), startedAtMs, readyAtMs, magic: directive?.word ?? null }
    },
    check: async operation => {
      const progress = progressOf(operation, clock.now())
      if (progress < 100) return { status: 'pending', progress }
      if (operation.magic === 'fail' || operation.magic === 'rate_limit')
        return { status: 'failed', error: simulatedErrors[operation.magic]() }
      return { status: 'completed', ...(await work.finish(operation)) }
    },
    find: async () => null,
  }
}

/** Progress in whole percent; 100 only on completion. */
function progressOf({ startedAtMs, readyAtMs }: Operation, nowMs: number): number {
  if (typeof startedAtMs !== 'number' || typeof readyAtMs !== 'number') return 0
  if (nowMs >= readyAtMs) return 100
  return Math.max(0, Math.min(99, Math.floor((100 * (nowMs - startedAtMs)) / (readyAtMs - startedAtMs))))
}
