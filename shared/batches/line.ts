import { GatewayError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { Slab } from '../base/slab.ts'
import { internalError } from '../chat/failures.ts'
import { measureInline } from '../chat/measure.ts'
import type { Order } from '../chat/order.ts'
import { run } from '../chat/run.ts'
import { WholeClient } from '../chat/whole-client.ts'
import type { LineResult } from '../jobs/batch-journal.ts'
import type { Scope } from '../keys/policy.ts'
import type { ChatRequest } from '../kinds/chat.ts'
import { chatFeatures, completionFeatures, embeddingFeatures, type Features } from '../kinds/features.ts'
import type { DirectKind, DirectKinds } from '../kinds/index.ts'
import type { Services } from '../services.ts'
import type { Admission, Gate, Spender, Ticket } from '../wallet/admission.ts'
import type { UsageEvent } from '../wallet/usage-event.ts'

/** A reservation to be given up once the line that it was for has its result; `tokens` corrects the rate lane. */
export type Reservation = { ticket: Ticket; tokens: number }

/** A line with its result, and what it still has reserved. */
export type Finished = LineResult & { customId: string; reservation: Reservation | null }

/** One go at a line: answered or refused for good, with what it reserved; or cut off. */
export type Go = { reservation: Reservation | null; event: UsageEvent | null } & (
  | { body: string }
  | { error: GatewayError }
  | { cut: true }
)

type LineOrder = Omit<Order<DirectKind>, 'raw' | 'session' | 'stream' | 'includeUsage'>

/** Runs one line as if it were a request, but for its money: what it reserved and its usage are given to the caller. */
export async function go(services: Services, order: LineOrder, calls: Calls): Promise<Go> {
  const gate = new LineGate(services.admission, calls)
  const client = new WholeClient()
  const place = calls.begin(client)
  const whole = { ...order, raw: null, session: null, stream: false, includeUsage: false }
  try {
    await run({ ...services, admission: gate }, whole, client)
  } catch (error) {
    if (error instanceof GatewayError) return { ...gate.settled, error }
    services.log.error({ err: error }, 'batch line failed')
    return { ...gate.settled, error: internalError(error) }
  } finally {
    calls.end(place)
  }
  return client.body === null ? { ...gate.settled, cut: true } : { ...gate.settled, body: client.body }
}

/** Batch lines have minutes of their own: they never use up those of the key's direct requests. */
export function inBatchMinutes(spender: Spender): Spender {
  return { ...spender, rateKey: `${spender.keyId}:batch` }
}

const nothingYet = { reservation: null, event: null }

/** Lets a line through as a request is, and keeps what it came to for its batch. */
class LineGate implements Gate {
  settled: { reservation: Reservation | null; event: UsageEvent | null } = nothingYet
  readonly #admission: Gate
  readonly #calls: Calls

  constructor(admission: Gate, calls: Calls) {
    this.#admission = admission
    this.#calls = calls
  }

  async admit(...[spender, ...rest]: Parameters<Gate['admit']>): ReturnType<Gate['admit']> {
    const ticket = await this.#admission.admit(inBatchMinutes(spender), ...rest)
    if (!('stale' in ticket)) this.#calls.reserved()
    return ticket
  }

  extend(...asked: Parameters<Gate['extend']>): ReturnType<Gate['extend']> {
    return this.#admission.extend(...asked)
  }

  release(ticket: Ticket): void {
    this.#admission.release(ticket)
  }

  settle(ticket: Ticket, _costNano: number, tokens: number, event: UsageEvent | null): void {
    const routing = { ...event?.routing, batch: this.#calls.batchId }
    this.settled = { reservation: { ticket, tokens }, event: event && { ...event, routing } }
  }
}

/** A line that waits for money of its own batch looks again after this, should nobody tell it. */
const moneyWaitMs = 1_000

/** The calls of a batch that are under way, to be cut off together, and what they have reserved. */
export class Calls {
  readonly batchId: string
  readonly #admission: Admission
  #reservations = 0
  readonly #waitingForMoney = new Set<() => void>()
  readonly #clients = new Slab<WholeClient>()
  #isCut = false

  constructor(admission: Admission, batchId: string) {
    this.batchId = batchId
    this.#admission = admission
  }

  /** Takes a call's client; gives the key to end the call by. */
  begin(client: WholeClient): number {
    if (this.#isCut) client.leave()
    return this.#clients.add(client)
  }

  end(key: number): void {
    this.#clients.remove(key)
  }

  reserved(): void {
    this.#reservations++
  }

  /** Gives reservations up. Whoever waits for money is told once it is free, not before: it would be refused for good. */
  async giveUp(reservations: readonly Reservation[]): Promise<void> {
    if (reservations.length === 0) return
    for (const { ticket, tokens } of reservations) this.#admission.settle(ticket, 0, tokens, null)
    await this.#admission.flush()
    this.#reservations -= reservations.length
    for (const wake of this.#waitingForMoney) wake()
  }

  /** Waits until money may have come back, as calls have more reserved than they will cost; false when none has any. */
  async moneyBack(): Promise<boolean> {
    if (this.#reservations === 0) return false
    const given = Promise.withResolvers<void>()
    this.#waitingForMoney.add(given.resolve)
    const timer = setTimeout(given.resolve, moneyWaitMs)
    await given.promise
    clearTimeout(timer)
    this.#waitingForMoney.delete(given.resolve)
    return true
  }

  /** Cuts all calls off, those to come too; `how` their clients leave. */
  cut(how: 'unbilled' | 'at_once' = 'unbilled'): void {
    this.#isCut = true
    for (const client of this.#clients.values()) client.leave(how)
  }
}

export const scopes = { chat: 'chat', embedding: 'embeddings', completion: 'completions' } as const satisfies Record<
  DirectKind,
  Scope
>

/** What a line asks for; `bytes` is its whole length, which is more than its body's. */
export function featuresOf<K extends DirectKind>(kind: K, body: DirectKinds[K]['request'], bytes: number): Features {
  if (kind === 'chat') return chatFeatures(body as DirectKinds['chat']['request'], bytes)
  if (kind === 'embedding') return embeddingFeatures(body as DirectKinds['embedding']['request'], bytes)
  return completionFeatures(body as DirectKinds['completion']['request'], bytes)
}

/** The same with the sizes of its sound and documents, for a provider that reads them by itself. `owner`: the organisation. */
export async function measuredFeatures<K extends DirectKind>(
  kind: K,
  body: DirectKinds[K]['request'],
  bytes: number,
  owner: string,
): Promise<Features> {
  const features = featuresOf(kind, body, bytes)
  if (features.inputs.audio || features.inputs.file) await measureInline(body as ChatRequest, features, owner)
  return features
}

/** The line of the output file, or of the error file, that an answer makes (contract §7). `body` is JSON text. */
export function answeredText(customId: string, requestId: string, statusCode: number, body: string): string {
  const [id, custom_id, request_id] = [newId('batch_req'), customId, requestId].map(text => JSON.stringify(text))
  return `{"id":${id},"custom_id":${custom_id},"response":{"status_code":${statusCode},"request_id":${request_id},"body":${body}},"error":null}`
}

/** Why lines end without having been answered. */
export const ends = {
  cancelled: { code: 'batch_cancelled', message: 'The batch was cancelled before this request was answered.' },
  expired: { code: 'batch_expired', message: 'The batch expired before this request was answered.' },
} as const

/** Why a line has no answer; `request_id` where it was asked all the same, and charged. */
type LineError = { code: string; message: string; request_id?: string }

/** The line of the error file for a request that was never answered. */
export function unansweredText(customId: string, error: LineError): string {
  return JSON.stringify({ id: newId('batch_req'), custom_id: customId, response: null, error })
}

type Answered = Pick<Finished, 'event' | 'reservation'> & { status: number; body: string }

/** The result of a line that has its answer, be it an error. */
export function answered(line: number, customId: string, requestId: string, given: Answered): Finished {
  const { status, body, event, reservation } = given
  const text = answeredText(customId, requestId, status, body)
  return { line, customId, failed: status !== 200, text, event, reservation }
}

/** The result of a line that was cut off during its call: charged what was used, on what it reserved. */
export function cutOff(line: number, customId: string, why: LineError, { event, reservation }: Go): Finished {
  return { ...unanswered(line, customId, why), event, reservation }
}

/** The result of a line that was never answered. */
export function unanswered(line: number, customId: string, why: LineError): Finished {
  return { line, customId, failed: true, text: unansweredText(customId, why), event: null, reservation: null }
}
