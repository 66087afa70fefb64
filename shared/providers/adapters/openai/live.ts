import { newId } from '../../../base/ids.ts'
import type { PendingWork, RealtimeAdapter, RealtimeMeter, RealtimeUse, WorkRequest } from '../../realtime-contract.ts'
import { withModel } from '../../toolkit/first-frame.ts'
import { addContent, newWork, noContent, PendingResponses } from '../../toolkit/pending-responses.ts'
import { toolGuard } from '../../toolkit/tool-guard.ts'
import { isObject, type Json } from './json.ts'
import { eventOf, nameOf, secondsOf, tokensUsed } from './realtime-usage.ts'

/**
 * OpenAI's Live API: JSON events in text frames, the model in the client's `session.start`, billed by the session's
 * duration, which its events report. Work delegated to other models is reported with their names
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

/** The beginning of most frames: audio, which reports nothing. */
const sound = '{"type":"session.output_audio.delta"'
/** Every event that begins or ends the session, or concerns another model's task, contains one of these. */
const marks = /"(?:usage|session\.(?:started|updated|closed)|response\.event)"/
const nothing: readonly RealtimeUse[] = []
/** The client's audio is not text. */
const audioAppend = Buffer.from('"session.input_audio.append"')
/** Matches every frame that requests a task. */
const requestMarks = /"response\.create"|\\u00(?:2e|5f|[46][1-9a-f]|[57][\da])/i
/**
 * Estimated prompt of a task about the conversation: the text of 250 words a minute, and the provider's instructions.
 */
const promptEstimate = { tokensPerSecond: 6, tokens: 2_000 }
const ends = ['response.completed', 'response.incomplete', 'response.failed']

class Meter implements RealtimeMeter {
  readonly ownClock = true
  hasBegun = false
  #closed = false
  #seconds: number | null = null
  readonly #tasks = new PendingResponses()
  /** Total bytes of the client's texts. */
  #textBytes = 0
  /** The model that the settings delegate to; '' = none is named, which is priced as the most expensive one. */
  #delegate = ''
  #isCloseSent = false

  /** A session that the provider never started is not billed. */
  get sessionSeconds(): number | null {
    return this.hasBegun ? this.#seconds : 0
  }

  get hasPendingUsage(): boolean {
    return this.hasBegun && !this.#closed
  }

  get pendingWork(): readonly PendingWork[] {
    return this.#tasks.pendingWork
  }

  detectRequest(frame: Buffer): WorkRequest | null {
    return requestMarks.test(frame.toString('latin1')) ? { work: this.#task(this.#delegate), isCertain: true } : null
  }

  countSent(frame: Buffer, ask: WorkRequest | null, nowMs: number): void {
    if (ask) this.#tasks.request(ask, nowMs)
    if (!frame.includes(audioAppend)) this.#textBytes += frame.length
  }

  expireRequests(nowMs: number): void {
    this.#tasks.expireRequests(nowMs)
  }

  finalFrames(): readonly string[] {
    if (this.#isCloseSent) return []
    this.#isCloseSent = true
    return [JSON.stringify({ type: 'session.close' })]
  }

  readUsage(frame: Buffer): readonly RealtimeUse[] {
    if (frame.toString('latin1', 0, sound.length) === sound || !marks.test(frame.toString('latin1'))) return nothing
    const event = eventOf(frame)
    if (!event) return nothing
    if (event.type === 'session.started') this.hasBegun = true
    if (event.type === 'session.closed') this.#closed = true
    if (event.type === 'session.usage.updated' || event.type === 'session.closed') this.#updateDuration(event.usage)
    this.#settings(event.session)
    if (!isObject(event.event)) return nothing
    if (event.type === 'response.event') this.#trackTask(event.event, event.delegation_id)
    return delegatedUsage(event, event.event)
  }

  #settings(session: unknown): void {
    const delegation = isObject(session) ? session.delegation : null
    if (isObject(delegation) && isObject(delegation.responses))
      this.#delegate = nameOf(delegation.responses.model) ?? ''
  }

  /** Counts the relayed content of a task. */
  #trackTask({ type, response, delta }: Json, id: unknown): void {
    if (ends.includes(String(type))) this.#tasks.end(id)
    else if (type === 'response.created' && isObject(response))
      this.#tasks.begin(id, this.#task(nameOf(response.model) ?? ''))
    else if (typeof delta === 'string') this.#tasks.countOutput(id, { textBytes: Buffer.byteLength(delta) })
  }

  #task(upstreamModel: string): PendingWork {
    const textTokens = promptEstimate.tokens + promptEstimate.tokensPerSecond * (this.#seconds ?? 0)
    const prompt = addContent(noContent(), { textTokens, textBytes: this.#textBytes })
    return newWork(prompt, { upstreamModel, hasAudioOutput: false })
  }

  /** The cumulative duration; never decreases. */
  #updateDuration(usage: unknown): void {
    this.hasBegun = true
    const seconds = isObject(usage) ? secondsOf(usage.seconds) : null
    if (seconds !== null) this.#seconds = Math.max(this.#seconds ?? 0, seconds)
  }
}

/**
 * The usage of another model in a task of the session, reported within an event. One without a name is priced as the
 * most expensive one.
 */
function delegatedUsage({ type }: Json, event: Json): readonly RealtimeUse[] {
  const isResponse = type === 'response.event' && ends.includes(String(event.type))
  const isDecision = type === 'decision.event' && event.type === 'decision.completed'
  const task = isResponse ? event.response : isDecision ? event.decision : null
  return isObject(task) ? tokensUsed(task.usage, nameOf(task.model) ?? '') : nothing
}
