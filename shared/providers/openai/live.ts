import { newId } from '../../base/ids.ts'
import { withModel } from '../first-frame.ts'
import type { Ask, RealtimeAdapter, RealtimeMeter, RealtimeUse, Work } from '../realtime-contract.ts'
import { Answers, addContent, noContent, workOf } from '../session-answers.ts'
import { toolGuard } from '../session-tools.ts'
import { isObject, type Json } from './json.ts'
import { eventOf, nameOf, secondsOf, tokensUsed } from './realtime-usage.ts'

/**
 * OpenAI's Live API: JSON events in text frames, the model in the client's `session.start`, paid by the length of the
 * session, which its events tell. What it delegates to other models is reported with their names
 * (developers.openai.com/api/docs/guides/live-delegation).
 */
export const live: RealtimeAdapter = {
  path: () => '/live/sessions',
  meter: () => new Meter(),
  opening: (frame, target) => withModel(frame, 'session', target),
  guard: toolGuard,
  errorEvent({ message, type, code, param }) {
    const error = { message, type, code, ...(param !== null && { param }) }
    return JSON.stringify({ type: 'error', event_id: newId('evt'), error })
  },
}

/** How most frames begin: they are sound and report nothing. */
const sound = '{"type":"session.output_audio.delta"'
/** One of these is in every event that begins or ends the session, or tells of a task of another model. */
const marks = /"(?:usage|session\.(?:started|updated|closed)|response\.event)"/
const nothing: readonly RealtimeUse[] = []
/** What the client says is no text. */
const heard = Buffer.from('"session.input_audio.append"')
/** In every frame that asks for a task. */
const asking = /"response\.create"|\\u00(?:2e|5f|[46][1-9a-f]|[57][\da])/i
/** What a task is thought to be told of what was said: the text of 250 words a minute, and instructions of the provider's. */
const told = { tokensPerSecond: 6, tokens: 2_000 }
const ends = ['response.completed', 'response.incomplete', 'response.failed']

class Meter implements RealtimeMeter {
  readonly ownClock = true
  begun = false
  #closed = false
  #seconds: number | null = null
  readonly #tasks = new Answers()
  /** The bytes of the client's texts so far. */
  #textBytes = 0
  /** Which model the settings delegate to; '' = none is named, which is as dear as any. */
  #delegate = ''
  #isLeft = false

  /** Nothing is paid for a session that the provider never started. */
  get sessionSeconds(): number | null {
    return this.begun ? this.#seconds : 0
  }

  get owing(): boolean {
    return this.begun && !this.#closed
  }

  get underWay(): readonly Work[] {
    return this.#tasks.underWay
  }

  asks(frame: Buffer): Ask | null {
    return asking.test(frame.toString('latin1')) ? { work: this.#task(this.#delegate), certain: true } : null
  }

  sent(frame: Buffer, ask: Ask | null, nowMs: number): void {
    if (ask) this.#tasks.ask(ask, nowMs)
    if (!frame.includes(heard)) this.#textBytes += frame.length
  }

  forget(nowMs: number): void {
    this.#tasks.forget(nowMs)
  }

  farewell(): readonly string[] {
    if (this.#isLeft) return []
    this.#isLeft = true
    return [JSON.stringify({ type: 'session.close' })]
  }

  read(frame: Buffer): readonly RealtimeUse[] {
    if (frame.toString('latin1', 0, sound.length) === sound || !marks.test(frame.toString('latin1'))) return nothing
    const event = eventOf(frame)
    if (!event) return nothing
    if (event.type === 'session.started') this.begun = true
    if (event.type === 'session.closed') this.#closed = true
    if (event.type === 'session.usage.updated' || event.type === 'session.closed') this.#lasted(event.usage)
    this.#settings(event.session)
    if (!isObject(event.event)) return nothing
    if (event.type === 'response.event') this.#follow(event.event, event.delegation_id)
    return delegated(event, event.event)
  }

  #settings(session: unknown): void {
    const delegation = isObject(session) ? session.delegation : null
    if (isObject(delegation) && isObject(delegation.responses))
      this.#delegate = nameOf(delegation.responses.model) ?? ''
  }

  /** Counts what passes of a task. */
  #follow({ type, response, delta }: Json, id: unknown): void {
    if (ends.includes(String(type))) this.#tasks.end(id)
    else if (type === 'response.created' && isObject(response))
      this.#tasks.begin(id, this.#task(nameOf(response.model) ?? ''))
    else if (typeof delta === 'string') this.#tasks.see(id, { textBytes: Buffer.byteLength(delta) })
  }

  #task(upstreamModel: string): Work {
    const textTokens = told.tokens + told.tokensPerSecond * (this.#seconds ?? 0)
    const prompt = addContent(noContent(), { textTokens, textBytes: this.#textBytes })
    return workOf(prompt, { upstreamModel, speaks: false })
  }

  /** The whole length until now, and never less than it was. */
  #lasted(usage: unknown): void {
    this.begun = true
    const seconds = isObject(usage) ? secondsOf(usage.seconds) : null
    if (seconds !== null) this.#seconds = Math.max(this.#seconds ?? 0, seconds)
  }
}

/** What another model used in a task of the session, told within one of its events. One without a name is as dear as any. */
function delegated({ type }: Json, event: Json): readonly RealtimeUse[] {
  const isResponse = type === 'response.event' && ends.includes(String(event.type))
  const isDecision = type === 'decision.event' && event.type === 'decision.completed'
  const task = isResponse ? event.response : isDecision ? event.decision : null
  return isObject(task) ? tokensUsed(task.usage, nameOf(task.model) ?? '') : nothing
}
