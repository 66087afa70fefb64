import { setTimeout as sleep } from 'node:timers/promises'
import type { InstantKind, WorkKinds } from '../kinds/index.ts'
import {
  type InstantAdapter,
  type InstantCall,
  type Operation,
  ProviderError,
  type ProviderLine,
  type QueuedAdapter,
} from '../providers/contract.ts'

/** One request for media, on its way to one provider with one of its API keys. */
export type Work<K extends InstantKind> = {
  adapter: InstantAdapter<K>
  call: InstantCall<K>
  line: ProviderLine
  /** How long slow work may take. */
  mostMs: number
}

/** Looks that fail one after the other, before the work is given up. */
const mostFailedLooks = 4
const growth = 1.3

/** Has a provider do the work, and waits for it where it is slow. Throws a ProviderError, or the adapter's GatewayError. */
export async function done<K extends InstantKind>({
  adapter,
  call,
  line,
  mostMs,
}: Work<K>): Promise<WorkKinds[K]['output']> {
  if ('make' in adapter) return adapter.make(call, line)
  call.signal.throwIfAborted()
  const operation = await adapter.start(call, line, null)
  const late = AbortSignal.timeout(mostMs)
  try {
    return await looked<K>(adapter, operation, line, AbortSignal.any([call.signal, late]))
  } catch (error) {
    if (error instanceof Ended) throw error.verdict
    // Nobody waits for it any more, nor for the provider to hear of it.
    void adapter.cancel?.(operation, line).catch(() => {})
    if (late.aborted) throw new ProviderError('timeout', 'The provider did not finish in time.', { cause: error })
    throw error
  }
}

async function looked<K extends InstantKind>(
  adapter: QueuedAdapter<K>,
  operation: Operation,
  line: ProviderLine,
  signal: AbortSignal,
): Promise<WorkKinds[K]['output']> {
  let delayMs = adapter.poll.firstMs
  for (let failed = 0; ; delayMs = Math.min(delayMs * growth, adapter.poll.mostMs)) {
    await sleep(delayMs, undefined, { signal })
    try {
      const report = await adapter.check(operation, line)
      if (report.status === 'completed') return report.output
      if (report.status === 'failed') throw new Ended(report.error)
      if (report.status === 'next') throw new Error('work that is waited for has one part')
      failed = 0
    } catch (error) {
      if (!(error instanceof ProviderError) || ++failed >= mostFailedLooks) throw error
    }
  }
}

/** The end of work, as opposed to a look at it that failed. */
class Ended extends Error {
  readonly verdict: ProviderError
  constructor(verdict: ProviderError) {
    super(verdict.message)
    this.verdict = verdict
  }
}
