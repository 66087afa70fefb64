import { GatewayError } from '../base/errors.ts'
import { Slab } from '../base/slab.ts'
import { run } from '../chat/run.ts'
import type { ChatRunInput } from '../chat/run-input.ts'
import { BufferedResponse } from '../engine/buffered-response.ts'
import { internalError } from '../engine/failures.ts'
import type { DirectKind } from '../kinds/index.ts'
import type { Admission, AdmissionGate, BillingContext } from '../wallet/admission.ts'
import type { BatchServices } from './batch-services.ts'
import type { LineReservation, LineSettlement } from './line-output.ts'

/** The outcome of one attempt at a line: answered, failed, or cut off. */
export type LineOutcome = LineSettlement & ({ body: string } | { error: GatewayError } | { cut: true })

type LineInput = Omit<ChatRunInput<DirectKind>, 'raw' | 'session' | 'stream' | 'includeUsage'>

/** Runs one line like a request, but returns its reservation and usage to the caller instead of settling them. */
export async function runLine(services: BatchServices, input: LineInput, calls: LineCalls): Promise<LineOutcome> {
  const { admission, log } = services
  let settled: LineSettlement = { reservation: null, event: null }
  const gate: AdmissionGate = {
    async admit(context, ...rest) {
      const reservation = await admission.admit(batchRateContext(context), ...rest)
      if (!('stale' in reservation)) calls.countReservation()
      return reservation
    },
    extend: (...asked) => admission.extend(...asked),
    release: reservation => admission.release(reservation),
    settle(reservation, _costNano, tokens, event) {
      const routing = { ...event?.routing, batch: calls.batchId }
      settled = { reservation: { reservation, tokens }, event: event && { ...event, routing } }
    },
  }
  const client = new BufferedResponse()
  const callKey = calls.begin(client)
  const runInput = { ...input, raw: null, session: null, stream: false, includeUsage: false }
  try {
    await run({ ...services, admission: gate }, runInput, client)
  } catch (error) {
    if (error instanceof GatewayError) return { ...settled, error }
    log.error({ err: error }, 'batch line failed')
    return { ...settled, error: internalError(error) }
  } finally {
    calls.end(callKey)
  }
  return client.body === null ? { ...settled, cut: true } : { ...settled, body: client.body }
}

/** The billing context of batch lines: they have rate-limit windows of their own, apart from the key's direct requests. */
export function batchRateContext(context: BillingContext): BillingContext {
  const { keyId, shared } = context
  return { ...context, rateKey: `${keyId}:batch`, shared: shared && { ...shared, rateKey: `${shared.rateKey}:batch` } }
}

/** Poll interval while a line waits until another line of the batch releases its reservation. */
const releasePollMs = 1_000

/** The calls of a batch that are under way, so that they can be aborted together, and their reservations. */
export class LineCalls {
  readonly batchId: string
  readonly #admission: Admission
  #reservations = 0
  readonly #releaseWaiters = new Set<() => void>()
  readonly #clients = new Slab<BufferedResponse>()
  #isAborted = false

  constructor(admission: Admission, batchId: string) {
    this.batchId = batchId
    this.#admission = admission
  }

  /** Registers a call's client; returns the key for `end`. */
  begin(client: BufferedResponse): number {
    if (this.#isAborted) client.leave()
    return this.#clients.add(client)
  }

  end(key: number): void {
    this.#clients.remove(key)
  }

  countReservation(): void {
    this.#reservations++
  }

  /** Releases reservations, then wakes the waiters: woken before the flush, they would be refused for good. */
  async release(reservations: readonly LineReservation[]): Promise<void> {
    if (reservations.length === 0) return
    for (const { reservation, tokens } of reservations) this.#admission.settle(reservation, 0, tokens, null)
    await this.#admission.flush()
    this.#reservations -= reservations.length
    for (const wake of this.#releaseWaiters) wake()
  }

  /** Waits until a reservation may have been released; false when the batch has none. */
  async waitForRelease(): Promise<boolean> {
    if (this.#reservations === 0) return false
    const released = Promise.withResolvers<void>()
    this.#releaseWaiters.add(released.resolve)
    const timer = setTimeout(released.resolve, releasePollMs)
    await released.promise
    clearTimeout(timer)
    this.#releaseWaiters.delete(released.resolve)
    return true
  }

  /** Aborts all calls, including later ones; `how` their clients disconnect. */
  abort(how: 'unbilled' | 'at_once' = 'unbilled'): void {
    this.#isAborted = true
    for (const client of this.#clients.values()) client.leave(how)
  }
}
