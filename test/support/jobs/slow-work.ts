import type { QueuedKind } from '../../../shared/kinds/index.ts'
import type {
  Operation,
  PollReport,
  Protocol,
  ProviderConnection,
  QueuedAdapter,
  QueuedCall,
} from '../../../shared/providers/contract.ts'
import { ProviderError } from '../../../shared/providers/provider-error.ts'
import { json } from '../../emulators/emulator.ts'
import type { WorkEmulator } from '../../emulators/slow-work.ts'
import type { ExecutionContext } from '../test.ts'
import { connectionTo, refusedField } from './queued-adapter.ts'

/** One adapter and its emulator. */
export function bench<K extends QueuedKind>(
  provider: string,
  protocol: Protocol,
  kind: K,
  start: () => Promise<WorkEmulator>,
) {
  const adapter = protocol.queued![kind] as QueuedAdapter<K>
  const using = async <T>(body: (world: WorkEmulator, connection: ProviderConnection) => Promise<T>): Promise<T> => {
    const world = await start()
    try {
      return await body(world, connectionTo(provider, protocol, world.url))
    } finally {
      await world.close()
    }
  }
  return {
    adapter,
    using,
    /** The request that starts the work, as the emulator took it. */
    started: (call: QueuedCall<K>, after: Operation | null = null) =>
      using(async ({ emulator }, connection) => {
        const operation = await adapter.start(call, connection, after)
        const { method, path, headers, body } = emulator.requests.at(-1)!
        return { operation, method, path, headers, body }
      }),
    /** What `check` makes of an answer. */
    shown: (answer: unknown, operation: Operation): Promise<PollReport<K>> =>
      using(async ({ emulator }, connection) => {
        emulator.next(json(200, answer))
        return adapter.check(operation, connection)
      }),
    /** The refusal of a call before anything is sent. */
    refused: (t: ExecutionContext, call: QueuedCall<K>) =>
      using(async ({ emulator }, connection) => {
        const field = await refusedField(adapter.start(call, connection, null))
        t.is(emulator.requests.length, 0)
        return field
      }),
  }
}

/** Checks what `check` makes of answers: a status in short, or a reason where the look or the work failed. */
export async function assertReports(
  t: ExecutionContext,
  show: (answer: unknown) => Promise<PollReport<QueuedKind>>,
  cases: [answer: unknown, expected: string][],
) {
  for (const [answer, expected] of cases) {
    const found = await show(answer).then(
      report => (report.status === 'failed' ? `failed: ${report.error.reason}` : report.status),
      error => (error instanceof ProviderError ? `throws ${error.reason}` : String(error)),
    )
    t.is(found, expected, JSON.stringify(answer))
  }
}

/** Checks how a protocol classifies answers that are not 2xx. */
export function assertFailures(
  t: ExecutionContext,
  { failure }: Protocol,
  cases: [status: number, body: unknown, reason: string, message?: string][],
) {
  for (const [status, body, reason, message] of cases) {
    const error = failure(status, { 'retry-after': '7' }, typeof body === 'string' ? body : JSON.stringify(body))
    t.is(error.reason, reason as ProviderError['reason'], JSON.stringify([status, body]))
    t.is(error.status, status)
    t.is(error.retryAfterMs, 7_000)
    t.true(error.message.length > 0 && error.message.length <= 1_000)
    if (message !== undefined) t.is(error.message, message)
  }
}
