import { StringDecoder } from 'node:string_decoder'
import { GatewayError } from '../base/errors.ts'
import { parseWithCalls } from '../base/exact-numbers.ts'
import { elapsedMs, type MonotonicClock, type MonotonicMs } from '../base/time.ts'
import { ForwardingWriter } from '../engine/forwarding-writer.ts'
import { formatUsd } from '../engine/report.ts'
import type { DeferredSettlement, Encoding, ResponseWriter } from '../engine/response-writer.ts'
import { readStreamEvent } from '../guardrails/stream-texts.ts'
import type { GuardedText } from '../guardrails/text-guard.ts'
import { EventCutter, parseEvent, splitEvents } from '../io/sse.ts'
import type { DirectKind } from '../kinds/index.ts'
import { emptyEnvelope } from '../kinds/reasoning.ts'
import type { ChatFormat } from './chat-format.ts'
import { type AnswerGuard, answerTextsOf, type NamedText } from './guard.ts'

/** Longer answers of streams cannot be checked as a whole. */
const maxPendingCharacters = 16 * 1024 * 1024
/** Maximum silence of a stream towards its client while its events are held back for a check. */
const maxSilenceMs = 10_000

/** How a stream is written to its client. */
export type StreamForm = {
  kind: DirectKind
  /** What its run writes while the provider is silent, and what the client gets then. */
  keepAliveFrame: string
  shownKeepAlive: string
  events: ChatFormat<DirectKind>['events']
  /** The content type of a stream of JSON instead of events; null = events. */
  arrayType: string | null
  /** The events that tell a client that its stream failed. */
  failureEvents(failure: GatewayError, id: string): string
}

// biome-ignore lint/suspicious/noExplicitAny: events of five formats
type Event = any

/** A text of a stream that has not ended. */
type OpenText = { text: GuardedText; rest(text: string): Event }

/**
 * Passes an answer on to its client as its guardrails want it. A whole answer is checked when it is there (`finish`); a stream
 * that is only masked is passed on text by text, and one that may be refused when its end is known.
 */
export class GuardedClient extends ForwardingWriter {
  readonly #answerGuard: AnswerGuard
  readonly #form: StreamForm
  readonly #monotonic: MonotonicClock
  readonly #cutter = new EventCutter()
  readonly #decoder = new StringDecoder('utf8')
  readonly #open = new Map<string, OpenText>()
  /** What the webhook replaced whole texts of the stream by. */
  readonly #replaced = new Map<string, string>()
  /** The channels of texts that their client sees changed. */
  readonly #changed = new Set<string>()
  #answer: { headers: Record<string, string>; body: string } | null = null
  #headers: Record<string, string> | null = null
  #isOpened = false
  #pending: string[] = []
  #pendingCharacters = 0
  #overflow: GatewayError | null = null
  #hasEnded = false
  #sentMs: MonotonicMs
  /** Events that were added to the stream. */
  #added = 0
  #hasItems = false
  readonly #settlements: DeferredSettlement[] = []
  #isSettled = false

  constructor(client: ResponseWriter, answerGuard: AnswerGuard, form: StreamForm, monotonic: MonotonicClock) {
    super(client)
    this.#answerGuard = answerGuard
    this.#form = form
    this.#monotonic = monotonic
    this.#sentMs = monotonic.now()
  }

  override defer(settlement: DeferredSettlement): void {
    if (this.#isSettled || !this.#isPending) this.#settle(settlement)
    else this.#settlements.push(settlement)
  }

  /** Whether the outcome of the request depends on a check that is still to come. */
  get #isPending(): boolean {
    return this.#answerGuard.needsWhole || this.#answer !== null
  }

  #settle(settlement: DeferredSettlement, failure: GatewayError | null = null): void {
    const { event } = settlement
    if (event) {
      const { guard, texts } = this.#answerGuard
      guard.noteMasked('output', texts.counts)
      event.routing = { ...event.routing, guardrails: guard.record }
      if (failure) Object.assign(event, { status: failure.status, errorCode: failure.code })
    }
    super.defer(settlement)
  }

  override answer(headers: Record<string, string>, body: string): void {
    this.#answer = { headers, body }
  }

  override open(headers: Record<string, string>): void {
    const { arrayType } = this.#form
    this.#headers = arrayType === null ? headers : { ...headers, 'content-type': arrayType }
    if (!this.#answerGuard.needsWhole) this.#openNow()
  }

  #openNow(): void {
    if (this.#isOpened) return
    this.#isOpened = true
    super.open(this.#named(this.#headers ?? {}))
  }

  #named(headers: Record<string, string>): Record<string, string> {
    const { header } = this.#answerGuard.guard
    return header === '' ? headers : { ...headers, 'x-gateway-guardrails': header }
  }

  override write(text: string, encoding: Encoding): boolean {
    if (text === this.#form.keepAliveFrame) return this.#keepAlive()
    const events = this.#cutter.push(encoding === 'latin1' ? this.#decoder.write(Buffer.from(text, encoding)) : text)
    if (events === '') return true
    return this.#answerGuard.needsWhole ? this.#buffer(events) : this.#send(this.#relay(events))
  }

  #keepAlive(): boolean {
    this.#openNow()
    this.#sentMs = this.#monotonic.now()
    return super.write(this.#form.shownKeepAlive, 'utf8')
  }

  #buffer(events: string): boolean {
    if (this.#overflow) return true
    this.client.collect(events.length)
    this.#pendingCharacters += events.length
    this.#pending.push(events)
    if (this.#pendingCharacters > maxPendingCharacters) {
      this.#pending = []
      const message = `The answer is too long to be checked by the guardrails of this key (${maxPendingCharacters} characters).`
      const metadata = { guardrail: { side: 'output', guard: 'length' } }
      this.#overflow = new GatewayError('guardrail_blocked', message, { metadata })
    }
    if (elapsedMs(this.#sentMs, this.#monotonic.now()) > maxSilenceMs && this.#headers) this.#keepAlive()
    return true
  }

  override end(): void {
    this.#hasEnded = true
    if (this.#answerGuard.needsWhole) return
    this.#send(this.#relay(this.#cutter.rest()) + this.#restOfAll() + this.#framingEnd())
    super.end()
  }

  /**
   * Sends what was kept back, once its run is over, and settles. Throws the GatewayError of an answer that is refused, unless its
   * stream has begun; then that tells the client. Returns that error; null = the answer was sent.
   */
  async finish(): Promise<GatewayError | null> {
    let failure: GatewayError | null = null
    try {
      if (this.#answer) await this.#sendAnswer(this.#answer)
      else if (this.#answerGuard.needsWhole && this.#hasEnded && !this.client.gone) await this.#sendStream()
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error
      failure = this.#refused(error)
    } finally {
      this.settleAll(failure)
    }
    if (!failure) return null
    if (!this.#isOpened) throw failure
    super.write(this.#frame(this.#form.failureEvents(failure, this.#headers?.['x-generation-id'] ?? '')), 'utf8')
    super.write(this.#framingEnd(), 'utf8')
    super.end()
    return failure
  }

  /** Settles what waited for the outcome. */
  settleAll(failure: GatewayError | null): void {
    this.#isSettled = true
    for (const settlement of this.#settlements.splice(0)) this.#settle(settlement, failure)
  }

  /** The refusal of an answer with what it costs: the provider was paid. */
  #refused(failure: GatewayError): GatewayError {
    const costNano = this.#settlements.reduce((sum, { event }) => sum + (event?.cost ?? 0), 0)
    const usd = formatUsd(costNano)
    const headers = { ...this.#answer?.headers, ...this.#headers, ...failure.headers, 'x-gateway-cost-usd': usd }
    const { 'content-type': _, 'content-length': __, ...shown } = this.#named(headers)
    const message =
      costNano > 0 ? `${failure.message} The provider was paid: the request is charged ${usd} USD.` : failure.message
    const { code, metadata } = failure
    return new GatewayError(code, message, { headers: shown, ...(metadata && { metadata }), cause: failure })
  }

  async #sendAnswer({ headers, body }: { headers: Record<string, string>; body: string }): Promise<void> {
    const answerGuard = this.#answerGuard
    if (answerGuard.isOff || this.#form.kind === 'embedding') return super.answer(this.#named(headers), body)
    const json = parseWithCalls(body) as object
    if (answerGuard.needsWhole) await answerGuard.check(answerTextsOf(json))
    const shown = answerGuard.presentObject(json)
    answerGuard.guard.noteMasked('output', answerGuard.texts.counts)
    super.answer(this.#named(headers), shown === json ? body : JSON.stringify(shown))
  }

  async #sendStream(): Promise<void> {
    if (this.#overflow) throw this.#overflow
    const events = splitEvents(this.#pending.join('') + this.#cutter.rest())
    this.#pending = []
    await this.#answerGuard.check(this.#textsOf(events))
    if (this.client.gone) return
    this.#openNow()
    for (const event of events) this.#send(this.#relay(event))
    this.#send(this.#restOfAll() + this.#framingEnd())
    super.end()
  }

  /** The whole texts of a stream. */
  #textsOf(events: readonly string[]): NamedText[] {
    const streamed = new Map<string, { text: string; isJson: boolean }>()
    const others: NamedText[] = []
    for (const event of events.map(parsedJson)) {
      if (event === null) continue
      for (const { channel, holder, member, isJson } of readStreamEvent(this.#form.kind, event).parts) {
        const { text = '' } = streamed.get(channel) ?? {}
        streamed.set(channel, { text: text + holder[member], isJson })
        holder[member] = ''
      }
      others.push(...answerTextsOf(event))
    }
    const texts = Array.from(streamed, ([id, text]) => ({ id, role: 'assistant', ...text }))
    this.#streamed = new Map(texts.map(({ id, text }) => [id, text]))
    const known = new Set(texts.map(({ text }) => text))
    const repeated = others.filter(({ text }) => !known.has(text)).map((one, i) => ({ ...one, id: `${i}.${one.id}` }))
    return [...texts, ...repeated]
  }

  /** The whole texts of a stream that was kept back, by their channel. */
  #streamed = new Map<string, string>()

  /** Complete events as the client is to see them. */
  #relay(events: string): string {
    let shown = ''
    for (const raw of splitEvents(events)) shown += this.#relayEvent(raw)
    return shown
  }

  #relayEvent(raw: string): string {
    const parsed = parsedJson(raw)
    if (parsed === null) return raw.includes('[DONE]') ? this.#restOfAll() + this.#frame(raw) : this.#frame(raw)
    const { kind } = this.#form
    const read = readStreamEvent(kind, parsed)
    let before = ''
    for (const channel of [...this.#open.keys()])
      if (read.ends(channel) && !read.parts.some(part => part.channel === channel))
        before += this.#restOf(channel, parsed)
    const parts = read.parts.map(({ holder, member }) => holder[member] as string)
    for (const { holder, member } of read.parts) holder[member] = ''
    const event: Event = this.#answerGuard.presentObject(parsed)
    const shown = event === parsed ? read : readStreamEvent(kind, event)
    let isChanged = event !== parsed
    for (const [i, part] of shown.parts.entries()) {
      const isLast =
        read.ends(part.channel) && !shown.parts.slice(i + 1).some(({ channel }) => channel === part.channel)
      const text = this.#guardPart(part, parts[i]!, isLast, text => shown.rest(part.channel, text))
      part.holder[part.member] = text
      isChanged ||= text !== parts[i]
    }
    if (read.signed !== undefined && this.#changed.has(read.signed)) {
      event.delta.signature = emptyEnvelope
      isChanged = true
    }
    if (this.#added > 0 && typeof event.sequence_number === 'number') {
      event.sequence_number += this.#added
      isChanged = true
    }
    return before + (isChanged ? this.#format(raw, event) : this.#frame(raw))
  }

  #guardPart(
    { channel, isJson, isSealed }: { channel: string; isJson: boolean; isSealed: boolean },
    part: string,
    isLast: boolean,
    rest: (text: string) => Event,
  ): string {
    const whole = this.#streamed.get(channel)
    const replaced = whole === undefined ? null : this.#answerGuard.replacementOf(whole, { isJson })
    if (replaced !== null) {
      // The first part is the whole text; nothing is left of the others.
      const isFirst = !this.#replaced.has(channel)
      this.#replaced.set(channel, replaced)
      this.#changed.add(channel)
      return isFirst ? replaced : ''
    }
    const open = this.#open.get(channel) ?? { text: this.#answerGuard.open({ isJson, isSealed }), rest }
    open.rest = rest
    const shown = open.text.push(part, isLast)
    if (open.text.isChanged) this.#changed.add(channel)
    if (isLast) this.#open.delete(channel)
    else this.#open.set(channel, open)
    return shown
  }

  /** The rest of a text that ended before an event. */
  #restOf(channel: string, before: Event): string {
    const { text, rest } = this.#open.get(channel)!
    this.#open.delete(channel)
    const shown = text.push('', true)
    if (text.isChanged) this.#changed.add(channel)
    if (shown === '') return ''
    const event = rest(shown)
    if (typeof before?.sequence_number === 'number') event.sequence_number = before.sequence_number + this.#added++
    return this.#format('', event)
  }

  #restOfAll(): string {
    let rest = ''
    for (const channel of [...this.#open.keys()]) rest += this.#restOf(channel, null)
    return rest
  }

  /** An event in the form of the one that it replaces. */
  #format(raw: string, event: Event): string {
    const { areNamed, lineEnd } = this.#form.events
    const json = JSON.stringify(event).replace(/[\u2028\u2029]/g, sign => (sign === '\u2028' ? '\\u2028' : '\\u2029'))
    const end = raw.includes('\r\n') ? '\r\n' : lineEnd
    const name = areNamed && typeof event.type === 'string' ? `event: ${event.type}${end}` : ''
    return this.#frame(`${name}data: ${json}${end}${end}`)
  }

  /** Events as their client reads them: where it asked for a JSON array, as the items of that. */
  #frame(events: string): string {
    if (this.#form.arrayType === null) return events
    let items = ''
    for (const raw of splitEvents(events)) {
      const data = parseEvent(raw)?.data
      if (data === undefined) continue
      items += (this.#hasItems ? ',\r\n' : '[') + data
      this.#hasItems = true
    }
    return items
  }

  #framingEnd(): string {
    if (this.#form.arrayType === null) return ''
    return this.#hasItems ? '\n]' : '[]'
  }

  #send(text: string): boolean {
    if (text === '') return true
    this.#sentMs = this.#monotonic.now()
    return super.write(text, 'utf8')
  }
}

/** The JSON of an event; null for others. */
function parsedJson(raw: string): Event {
  const data = parseEvent(raw)?.data
  if (data === undefined || !data.startsWith('{')) return null
  try {
    return parseWithCalls(data) as Event
  } catch {
    return null
  }
}
