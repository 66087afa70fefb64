import type { Clock } from '../../base/time.ts'
import type { QueuedKind } from '../../kinds/index.ts'
import type { Operation, QueuedAdapter, QueuedCall, Report } from '../contract.ts'
import { failures, magicWordIn } from './magic.ts'

/** How one kind of slow work is made up. */
export type Work<K extends QueuedKind> = {
  /** The text that may hold magic words. */
  text(input: QueuedCall<K>['input']): string
  /** What the end has to know, as plain JSON. */
  remember(call: QueuedCall<K>): Operation
  /** The end, from what was remembered. */
  finish(memory: Operation): Promise<Omit<Extract<Report<K>, { status: 'completed' }>, 'status'>>
}

const usualMs = 1_000
const poll = { firstMs: 1_000, mostMs: 2_000 }

/**
 * An adapter whose work happens in its operation: started and ready at moments in epoch milliseconds, `readyAtMs` null =
 * never, and the magic word. Starting has no effect, so a start whose answer was lost is simply made again.
 */
export function slowWork<K extends QueuedKind>(work: Work<K>, clock: Clock): QueuedAdapter<K> {
  return {
    poll,
    start: async call => {
      const magic = magicWordIn(work.text(call.input))
      const startedAtMs = clock.now()
      const waitMs = magic?.waitMs || usualMs
      const readyAtMs = waitMs === Infinity ? null : startedAtMs + waitMs
      return { ...work.remember(call), startedAtMs, readyAtMs, magic: magic?.word ?? null }
    },
    check: async operation => {
      const progress = progressOf(operation, clock.now())
      if (progress < 100) return { status: 'pending', progress }
      if (operation.magic === 'fail' || operation.magic === 'rate_limit')
        return { status: 'failed', error: failures[operation.magic]() }
      return { status: 'completed', ...(await work.finish(operation)) }
    },
    find: async () => null,
  }
}

/** Whole percents of the way; 100 only once the work is done. */
function progressOf({ startedAtMs, readyAtMs }: Operation, nowMs: number): number {
  if (typeof startedAtMs !== 'number' || typeof readyAtMs !== 'number') return 0
  if (nowMs >= readyAtMs) return 100
  return Math.max(0, Math.min(99, Math.floor((100 * (nowMs - startedAtMs)) / (readyAtMs - startedAtMs))))
}
