import { setTimeout as sleep } from 'node:timers/promises'
import type { InlineFiles } from '../files/inline-files.ts'
import type { SyncKind, WorkKinds } from '../kinds/index.ts'
import type { Operation, ProviderConnection, QueuedAdapter, SyncAdapter, SyncCall } from '../providers/contract.ts'
import { ProviderError } from '../providers/provider-error.ts'

/** A media request for one provider and one of its API keys. */
export type Work<K extends SyncKind> = {
  adapter: SyncAdapter<K>
  call: SyncCall<K>
  connection: ProviderConnection
  files: InlineFiles
  /** Timeout of queued work. */
  maxMs: number
}

/** Consecutive failed polls before the work is abandoned. */
const maxFailedPolls = 4
const growth = 1.3

/**
 * Performs the work at a provider and polls queued work until it ends. Throws a ProviderError, or the adapter's
 * GatewayError.
 */
export function performWork<K extends SyncKind>({ call, files, ...work }: Work<K>): Promise<WorkKinds[K]['output']> {
  return files.during(call.sources, sources => perform<K>({ ...work, call: { ...call, sources } }))
}

async function perform<K extends SyncKind>({
  adapter,
  call,
  connection,
  maxMs,
}: Omit<Work<K>, 'files'>): Promise<WorkKinds[K]['output']> {
  if ('make' in adapter) return adapter.make(call, connection)
  call.signal.throwIfAborted()
  const operation = await adapter.start(call, connection, null)
  const late = AbortSignal.timeout(maxMs)
  try {
    return await pollUntilDone<K>(adapter, operation, connection, AbortSignal.any([call.signal, late]))
  } catch (error) {
    if (error instanceof WorkFailed) throw error.error
    // Best effort: the result is no longer needed.
    void adapter.cancel?.(operation, connection).catch(() => {})
    if (late.aborted) throw new ProviderError('timeout', 'The provider did not finish in time.', { cause: error })
    throw error
  }
}

async function pollUntilDone<K extends SyncKind>(
  adapter: QueuedAdapter<K>,
  operation: Operation,
  connection: ProviderConnection,
  signal: AbortSignal,
): Promise<WorkKinds[K]['output']> {
  let delayMs = adapter.poll.firstMs
  for (let failedPolls = 0; ; delayMs = Math.min(delayMs * growth, adapter.poll.maxMs)) {
    await sleep(delayMs, undefined, { signal })
    try {
      const report = await adapter.check(operation, connection)
      if (report.status === 'completed') return report.output
      if (report.status === 'failed') throw new WorkFailed(report.error)
      if (report.status === 'next') throw new Error('synchronous media has one part')
      failedPolls = 0
    } catch (error) {
      if (!(error instanceof ProviderError) || ++failedPolls >= maxFailedPolls) throw error
    }
  }
}

/** The work failed, as opposed to a failed poll. */
class WorkFailed extends Error {
  readonly error: ProviderError
  constructor(error: ProviderError) {
    super(error.message)
    this.error = error
  }
}
