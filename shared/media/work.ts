import { setTimeout as sleep } from 'node:timers/promises'
import type { ByteBudget, HeldBytes } from '../io/byte-budget.ts'
import { semaphore } from '../io/semaphore.ts'
import type { SyncKind, WorkKinds } from '../kinds/index.ts'
import type {
  Operation,
  ProviderConnection,
  QueuedAdapter,
  Source,
  SyncAdapter,
  SyncCall,
} from '../providers/contract.ts'
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

type Sources = ReadonlyMap<string, Source>

/** A file takes this many times its bytes: in base64, in the text of the request, and as the bytes of that text. */
const copies = 4
/** Of the files that the calls of one request hold at the same time, unless a single call has more. */
const maxBytesAtOnce = 16 * 1024 * 1024

/**
 * The files that the calls of a request send inside of JSON. A short request can name uploads of many megabytes, which each of its
 * calls holds. So they count in a budget of memory while a call runs, and calls with large files run one after the other.
 */
export class InlineFiles {
  readonly #held: HeldBytes
  readonly #inTurn: (call: () => Promise<void>) => Promise<void>

  constructor(budget: ByteBudget, organisationId: string, sources: Sources) {
    this.#held = budget.open(organisationId)
    const bytes = [...sources.values()].reduce((sum, source) => sum + source.bytes, 0)
    this.#inTurn = semaphore(Math.max(1, Math.floor(maxBytesAtOnce / Math.max(1, bytes))))
  }

  /** Runs a call, whose sources throw 429 and 503 for an exhausted budget. */
  async during<T>(sources: Sources, call: (counted: Sources) => Promise<T>): Promise<T> {
    const { promise: ended, resolve: end } = Promise.withResolvers<void>()
    let begun: Promise<void> | null = null
    let heldBytes = 0
    const begin = () =>
      new Promise<void>(resolve => {
        void this.#inTurn(() => {
          resolve()
          return ended
        })
      })
    const count = async (bytes: number) => {
      begun ??= begin()
      await begun
      this.#held.grow(bytes * copies)
      heldBytes += bytes * copies
    }
    try {
      return await call(new Map([...sources].map(([field, source]) => [field, countedSource(source, count)])))
    } finally {
      end()
      this.#held.hold(-heldBytes)
    }
  }
}

/** A source whose bytes are counted before they are read as text, also those of its link. */
function countedSource(source: Source, count: (bytes: number) => Promise<void>): Source {
  const base64 = async () => {
    await count(source.bytes)
    return source.base64()
  }
  return { ...source, base64 }
}

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
