import { GatewayError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { Slab } from '../base/slab.ts'
import { chatFormatOf } from '../chat/chat-formats.ts'
import { measureInline } from '../chat/measure-request.ts'
import { run } from '../chat/run.ts'
import type { ChatRunInput } from '../chat/run-input.ts'
import { BufferedResponse } from '../engine/buffered-response.ts'
import { internalError } from '../engine/failures.ts'
import { receivedError } from '../engine/messages-error.ts'
import type { SlotOwner } from '../io/fair-slots.ts'
import type { Scope } from '../keys/policy.ts'
import type { DirectKind, DirectKinds } from '../kinds/index.ts'
import type { Features } from '../routing/features.ts'
import type { Admission, AdmissionGate, BillingContext, Reservation } from '../wallet/admission.ts'
import type { UsageEvent } from '../wallet/usage-event.ts'
import type { LineResult } from './batch-journal.ts'
import type { BatchServices } from './batch-services.ts'

/** A reservation to be released once its line has its result; `tokens` corrects the token rate limit. */
export type LineReservation = { reservation: Reservation; tokens: number }

/** A line with its result, and its remaining reservation. */
export type FinishedLine = LineResult & { customId: string; reservation: LineReservation | null }

/** The outcome of one attempt at a line, with its reservation: answered, failed, or cut off. */
export type LineOutcome = { reservation: LineReservation | null; event: UsageEvent | null } & (
  | { body: string }
  | { error: GatewayError }
  | { cut: true }
)

type LineInput = Omit<ChatRunInput<DirectKind>, 'raw' | 'session' | 'stream' | 'includeUsage'>

/** Runs one line like a request, but returns its reservation and usage to the caller instead of settling them. */
export async function runLine(services: BatchServices, input: LineInput, calls: LineCalls): Promise<LineOutcome> {
  const admission = new LineAdmission(services.admission, calls)
  const client = new BufferedResponse()
  const callKey = calls.begin(client)
  const runInput = { ...input, raw: null, session: null, stream: false, includeUsage: false }
  try {
    await run({ ...services, admission }, runInput, client)
  } catch (error) {
    if (error instanceof GatewayError) return { ...admission.settled, error }
    services.log.error({ err: error }, 'batch line failed')
    return { ...admission.settled, error: internalError(error) }
  } finally {
    calls.end(callKey)
  }
  return client.body === null ? { ...admission.settled, cut: true } : { ...admission.settled, body: client.body }
}

/** The billing context of batch lines: they have rate-limit windows of their own, apart from the key's direct requests. */
export function batchRateContext(context: BillingContext): BillingContext {
  const { keyId, shared } = context
  return { ...context, rateKey: `${keyId}:batch`, shared: shared && { ...shared, rateKey: `${shared.rateKey}:batch` } }
}

const unsettled = { reservation: null, event: null }

/** Admits a line like a request, and keeps its settlement for its batch. */
class LineAdmission implements AdmissionGate {
  settled: { reservation: LineReservation | null; event: UsageEvent | null } = unsettled
  readonly #admission: AdmissionGate
  readonly #calls: LineCalls

  constructor(admission: AdmissionGate, calls: LineCalls) {
    this.#admission = admission
    this.#calls = calls
  }

  async admit(...[context, ...rest]: Parameters<AdmissionGate['admit']>): ReturnType<AdmissionGate['admit']> {
    const reservation = await this.#admission.admit(batchRateContext(context), ...rest)
    if (!('stale' in reservation)) this.#calls.countReservation()
    return reservation
  }

  extend(...asked: Parameters<AdmissionGate['extend']>): ReturnType<AdmissionGate['extend']> {
    return this.#admission.extend(...asked)
  }

  release(reservation: Reservation): void {
    this.#admission.release(reservation)
  }

  settle(reservation: Reservation, _costNano: number, tokens: number, event: UsageEvent | null): void {
    const routing = { ...event?.routing, batch: this.#calls.batchId }
    this.settled = { reservation: { reservation, tokens }, event: event && { ...event, routing } }
  }
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

export const scopes = {
  chat: 'chat',
  embedding: 'embeddings',
  completion: 'completions',
  messages: 'chat',
  responses: 'chat',
} as const satisfies Record<DirectKind, Scope>

/** The features of a line with the measured sizes of its audio and documents, for a provider's own batch. */
export async function measuredFeatures<K extends DirectKind>(
  kind: K,
  body: DirectKinds[K]['request'],
  bytes: number,
  owner: SlotOwner,
): Promise<Features> {
  // The length of the whole line, which exceeds its body's.
  const format = chatFormatOf(kind)
  const features = format.readFeatures(body, bytes)
  await measureInline(format, body, features, owner)
  return features
}

/** In JSON they occur between values only. */
const lineEnds = /[\r\n]+/g

/** Formats an answer as a line of the output or error file (contract §7). `text` is JSON, with or without line ends. */
export function answeredText(customId: string, requestId: string, statusCode: number, text: string): string {
  const body = text.replace(lineEnds, ' ')
  const [id, custom_id, request_id] = [newId('batch_req'), customId, requestId].map(text => JSON.stringify(text))
  return `{"id":${id},"custom_id":${custom_id},"response":{"status_code":${statusCode},"request_id":${request_id},"body":${body}},"error":null}`
}

/** The errors of lines that end without an answer. */
export const endErrors = {
  cancelled: { code: 'batch_cancelled', message: 'The batch was cancelled before this request was answered.' },
  expired: { code: 'batch_expired', message: 'The batch expired before this request was answered.' },
} as const

/** Why a line has no answer; with `request_id` if its call was made and charged. */
type LineError = { code: string; message: string; request_id?: string }

/** Formats the error-file line of a request without an answer. */
export function unansweredText(customId: string, error: LineError): string {
  return JSON.stringify({ id: newId('batch_req'), custom_id: customId, response: null, error })
}

/** The status and the body of a line that failed: the provider's own refusal where it speaks the line's format. */
export function refusalOf(kind: DirectKind, error: GatewayError): { status: number; body: string } {
  const received = chatFormatOf(kind).passesRefusals ? receivedError(error) : null
  return received ?? { status: error.status, body: JSON.stringify(error.body) }
}

type Answered = Pick<FinishedLine, 'event' | 'reservation'> & { status: number; body: string }

/** The result of a line with an answer, which may be an error. */
export function answeredLine(line: number, customId: string, requestId: string, answer: Answered): FinishedLine {
  const { status, body, event, reservation } = answer
  const text = answeredText(customId, requestId, status, body)
  return { line, customId, failed: status !== 200, text, event, reservation }
}

/** The result of a line whose call was aborted: its usage is charged against its reservation. */
export function cutOffLine(
  line: number,
  customId: string,
  why: LineError,
  { event, reservation }: LineOutcome,
): FinishedLine {
  return { ...unansweredLine(line, customId, why), event, reservation }
}

/** The result of a line without an answer. */
export function unansweredLine(line: number, customId: string, why: LineError): FinishedLine {
  return { line, customId, failed: true, text: unansweredText(customId, why), event: null, reservation: null }
}
