import { asText } from '../../../base/as-text.ts'
import { newId } from '../../../base/ids.ts'
import { isObject } from '../../../base/is-object.ts'
import { formatPath } from '../../../base/json.ts'
import type { MonotonicMs } from '../../../base/time.ts'
import type {
  JudgeModel,
  PendingWork,
  RealtimeAdapter,
  RealtimeMeter,
  RealtimeUse,
  SessionGuard,
  WorkRequest,
} from '../../realtime-contract.ts'
import { withModel } from '../../toolkit/first-frame.ts'
import type { Json } from '../../toolkit/json-fields.ts'
import { orEscaped } from '../../toolkit/marks.ts'
import { addContent, newWork, noContent, PendingResponses, usesOfEnded } from '../../toolkit/pending-responses.ts'
import { isText, jsonBytes, textBytes } from '../../toolkit/read-frame.ts'
import { checkUnpriced, modelNotAllowed, refusalOf, toolGuard, unsupported } from '../../toolkit/tool-guard.ts'
import { type ClientContent, charactersPerToken, contentOf, readClientContent } from './realtime-content.ts'
import { eventOf, nameOf, secondsOf, tokensUsed } from './realtime-usage.ts'

/** Matches every frame that can name another model, which its delegate is, or a file of the provider's account. */
const marks = /"(?:delegation|responses|decisions|file_id)"/i

/** Blocks also frames that name models to which a session may not delegate tasks, and stored files. */
const liveGuard: SessionGuard = {
  ...toolGuard,
  suspects: frame => marks.test(frame.toString('latin1')) || toolGuard.suspects(frame),
  refusal: (frame, judge) =>
    refusalOf(frame, event => {
      checkUnpriced(event)
      checkNames(event, judge)
    }),
}

/**
 * OpenAI's Live API: JSON events in text frames, the model in the client's `session.start`, billed by the session's
 * duration, which its events report. Work delegated to other models is reported with their names
 * (developers.openai.com/api/docs/guides/live-delegation).
 */
export const live: RealtimeAdapter = {
  path: () => '/live/sessions',
  meter: () => new Meter(),
  opening: (frame, target) => withModel(frame, 'session', target),
  guard: liveGuard,
  errorEvent({ message, type, code, param }) {
    const error = { message, type, code, ...(param !== null && { param }) }
    return JSON.stringify({ type: 'error', event_id: newId('evt'), error })
  },
}

const nothing: readonly RealtimeUse[] = []
/** The client's audio is not text. */
const audioAppend = 'session.input_audio.append'
const soundMembers = ['type', 'event_id', 'audio']
/** Base64 characters per token of audio in the items of a task. */
const base64PerToken = charactersPerToken(null, 'input')
const requests = ['response.create', 'decision.create']
/** Matches frames that parsers may read in several ways, where they can request a task or a decision. */
const requestMarks = orEscaped(/"(?:response|decision)\.create"/)
/** The size of a file, which may be behind a URL: as much as a model reads at once. */
const fileTokens = 1_000_000
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
  /** Requested decisions; that they begin is not reported. */
  readonly #decisions = new PendingResponses()
  /** What the client sent beside its audio. */
  readonly #sent = noContent()
  /** The model that the settings delegate to; '' = none is named, which is priced as the most expensive one. */
  #delegate = ''
  /** In the same way, the model of decisions, and whether the provider begins some by itself. */
  #decider = ''
  #hasTriggers = false
  #isCloseSent = false

  /** A session that the provider never started is not billed. */
  get sessionSeconds(): number | null {
    return this.hasBegun ? this.#seconds : 0
  }

  get hasPendingUsage(): boolean {
    return this.hasBegun && !this.#closed
  }

  get pendingWork(): readonly PendingWork[] {
    const works = [...this.#tasks.pendingWork, ...this.#decisions.pendingWork]
    return this.#hasTriggers ? [...works, this.#work(this.#decider)] : works
  }

  detectRequest(frame: Buffer): WorkRequest | null {
    const { type } = readClientContent(frame)
    if (type === null) return requestMarks.test(frame.toString('latin1')) ? certain(this.#work('')) : null
    if (!requests.includes(type)) return null
    return certain(this.#work(type === 'decision.create' ? this.#decider : this.#delegate))
  }

  countSent(frame: Buffer, ask: WorkRequest | null, nowMs: MonotonicMs): void {
    const content = readClientContent(frame)
    if (ask) (content.type === 'decision.create' ? this.#decisions : this.#tasks).request(ask, nowMs)
    addContent(
      this.#sent,
      content.type === audioAppend ? { textBytes: bytesBesideSound(content) } : contentOf(content, base64PerToken),
    )
    addContent(this.#sent, { textTokens: content.files * fileTokens })
  }

  expireRequests(nowMs: MonotonicMs): void {
    this.#tasks.expireRequests(nowMs)
    this.#decisions.expireRequests(nowMs)
  }

  finalFrames(): readonly string[] {
    if (this.#isCloseSent) return []
    this.#isCloseSent = true
    return [JSON.stringify({ type: 'session.close' })]
  }

  readUsage(frame: Buffer): readonly RealtimeUse[] {
    const event = eventOf(frame)
    if (!event) return nothing
    if (event.type === 'session.started') this.hasBegun = true
    if (event.type === 'session.closed') this.#closed = true
    if (event.type === 'session.usage.updated' || event.type === 'session.closed') this.#updateDuration(event.usage)
    if (asText(event.type).startsWith('session.')) this.#settings(event.session)
    if (!isObject(event.event)) return nothing
    const ended = event.type === 'response.event' ? this.#trackTask(event.event, event.delegation_id) : undefined
    // The others were begun by the provider.
    if (event.type === 'decision.event' && event.delegation_id === null && event.trigger_id === null)
      this.#decisions.dropOldestRequest()
    return usesOfEnded(delegatedUsage(event, event.event), ended)
  }

  #settings(session: unknown): void {
    if (!isObject(session)) return
    const { delegation, triggers } = session
    this.#hasTriggers = Array.isArray(triggers) && triggers.length > 0
    const { responses, decisions } = isObject(delegation) ? delegation : {}
    if (isObject(responses)) this.#delegate = nameOf(responses.model) ?? ''
    if (isObject(decisions)) this.#decider = nameOf(decisions.model) ?? ''
  }

  /** Counts the relayed content of a task; returns it once it has ended. */
  #trackTask({ type, response, delta }: Json, id: unknown): PendingWork | undefined {
    if (ends.includes(asText(type))) return this.#tasks.end(id)
    if (type === 'response.created' && isObject(response))
      this.#tasks.begin(id, this.#work(nameOf(response.model) ?? ''))
    else if (isText(delta)) this.#tasks.countOutput(id, { textBytes: textBytes(delta) })
    return undefined
  }

  #work(upstreamModel: string): PendingWork {
    const textTokens = promptEstimate.tokens + promptEstimate.tokensPerSecond * (this.#seconds ?? 0)
    const prompt = addContent({ ...this.#sent }, { textTokens })
    return newWork(prompt, { upstreamModel, hasAudioOutput: false })
  }

  /** The cumulative duration; never decreases. */
  #updateDuration(usage: unknown): void {
    this.hasBegun = true
    const seconds = isObject(usage) ? secondsOf(usage.seconds) : null
    if (seconds !== null) this.#seconds = Math.max(this.#seconds ?? 0, seconds)
  }
}

function certain(work: PendingWork): WorkRequest {
  return { work, isCertain: true }
}

/** What a frame of audio contains that may be text. */
function bytesBesideSound({ event }: ClientContent): number {
  const others = Object.entries(event).filter(
    ([name, value]) => !soundMembers.includes(name) && typeof value !== 'number',
  )
  return others.reduce((sum, [, value]) => sum + jsonBytes(value), 0)
}

/**
 * The usage of another model in a task of the session, reported within an event. One without a name is priced as the
 * most expensive one.
 */
function delegatedUsage({ type }: Json, event: Json): readonly RealtimeUse[] {
  const isResponse = type === 'response.event' && ends.includes(asText(event.type))
  const isDecision = type === 'decision.event' && event.type === 'decision.completed'
  const task = isResponse ? event.response : isDecision ? event.decision : null
  return isObject(task) ? tokensUsed(task.usage, nameOf(task.model) ?? '') : nothing
}

/** Names count wherever they are, apart from the session's own model and from functions, which the client runs. */
function checkNames(value: unknown, judge: JudgeModel, path: readonly string[] = []): void {
  if (typeof value !== 'object' || value === null) return
  for (const [name, member] of Object.entries(value)) {
    const at = [...path, name]
    switch (name.toLowerCase()) {
      case 'tools':
        break
      case 'file_id':
        if (member !== null) throw unsupported('Files by id are not supported here.', at)
        break
      case 'model':
        if (typeof member === 'string' && formatPath(at) !== 'session.model') checkModel(member, judge, at)
        break
      default:
        checkNames(member, judge, at)
    }
  }
}

function checkModel(model: string, judge: JudgeModel, path: readonly string[]): void {
  const fault = judge(model)
  if (fault === 'unpriced')
    throw unsupported(`There is no price for \`${formatPath([model])}\` here: name another model.`, path)
  if (fault === 'not_allowed') throw modelNotAllowed(model, path)
}
