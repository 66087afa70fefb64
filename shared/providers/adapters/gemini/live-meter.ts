import type { Usage } from '../../../base/usage.ts'
import { imageTokens } from '../../../catalog/image-tokens.ts'
import type { Content, PendingWork, RealtimeMeter, RealtimeUse, WorkRequest } from '../../realtime-contract.ts'
import { orEscaped } from '../../toolkit/marks.ts'
import {
  addContent,
  type ConversationPosition,
  ConversationSize,
  newWork,
  noContent,
  PendingResponses,
} from '../../toolkit/pending-responses.ts'
import { liveUsage, usageIncrease } from './live-usage.ts'

const nothing: readonly RealtimeUse[] = []
const setupComplete = Buffer.from('"setupComplete"')
const usageMetadata = Buffer.from('"usageMetadata"')
/** Markers of a response, and of its end: in texts their quotes are escaped, and audio contains none. */
const responseMarks = ['"modelTurn"', '"toolCall"'].map(text => Buffer.from(text))
const endMarks = ['"turnComplete"', '"toolCall"'].map(text => Buffer.from(text))

/**
 * Matches frames that certainly request a response, in either spelling that Google accepts; an escape could spell it
 * too.
 */
const requestMarks = orEscaped(
  /"turn_?complete"\s*:\s*true|"(?:activity_?end|audio_?stream_?end|tool_?response)"|"realtime_?input"\s*:\s*\{\s*"text"/,
)
const audioData = /"data"\s*:\s*"([A-Za-z0-9+/=_\\-]*)"/g
const imageMark = /"(?:image|video)\\?\//
/**
 * Match a setup after which prompts have content that the client did not send: an earlier conversation, or pages that
 * the provider reads. An escape could spell the first.
 */
const resumption = orEscaped(/"handle"\s*:\s*"[^"]/)
const pageReading = /"url_?context"/i
/** Such content, in tokens of the most expensive class: more than any context, which limits it. */
const unknownTokens = 10_000_000
/** Base64 characters per audio token: at most 25 tokens a second, of 8 kHz PCM in, of 24 kHz PCM out. */
const charactersPerToken = { input: (8_000 * 2 * 4) / 3 / 25, output: (24_000 * 2 * 4) / 3 / 25 }
/** Of the single response in progress. */
const responseId = 'answer'

/**
 * Meters one session of Google's Live API. One response is in progress at a time: a request for another interrupts it.
 */
export class Meter implements RealtimeMeter {
  readonly ownClock = false
  readonly sessionSeconds = null
  hasBegun = false
  readonly #responses = new PendingResponses()
  readonly #conversation = new ConversationSize()
  #position: ConversationPosition = this.#conversation.position
  #earlierPosition: ConversationPosition = this.#position
  /** Whether the conversation began in an earlier session, and no usage has reported its size yet. */
  #isResumed = false
  #readsPages = false
  /** The usage reported for the response in progress; null = none yet. */
  #reported: Usage | null = null

  get hasPendingUsage(): boolean {
    return this.#responses.size > 0
  }

  get pendingWork(): readonly PendingWork[] {
    return this.#responses.pendingWork
  }

  detectRequest(frame: Buffer): WorkRequest | null {
    if (!this.hasBegun) return null
    const text = frame.toString('latin1')
    const work = newWork(addContent(this.#prompt(), contentOf(text)))
    return { work, isCertain: requestMarks.test(text) }
  }

  countSent(frame: Buffer, ask: WorkRequest | null, nowMs: number): void {
    if (ask?.isCertain) this.#responses.request(ask, nowMs)
    const text = frame.toString('latin1')
    if (!this.hasBegun) {
      this.#isResumed ||= resumption.test(text)
      this.#readsPages ||= pageReading.test(text)
    }
    this.#conversation.add(contentOf(text))
  }

  expireRequests(nowMs: number): void {
    this.#responses.expireRequests(nowMs)
    this.#earlierPosition = this.#position
    this.#position = this.#conversation.position
  }

  finalFrames(): readonly string[] {
    return []
  }

  readUsage(frame: Buffer): readonly RealtimeUse[] {
    if (!this.hasBegun && frame.includes(setupComplete)) this.hasBegun = true
    if (responseMarks.some(sign => frame.includes(sign))) {
      this.#responses.begin(responseId, newWork(this.#prompt()))
      this.#responses.countOutput(responseId, outputOf(frame.toString('latin1')))
    }
    const uses = frame.includes(usageMetadata) ? this.#count(frame) : nothing
    if (this.#reported && endMarks.some(sign => frame.includes(sign))) this.#reported = null
    return uses
  }

  /** Upper bound of the prompt of the next response. */
  #prompt(): Content {
    const isUnknown = this.#isResumed || this.#readsPages
    return addContent(this.#conversation.content, { audioTokens: isUnknown ? unknownTokens : 0 })
  }

  /**
   * Each response has its own usage, with the whole conversation in its prompt. A further report of the same response
   * replaces the previous one: the difference is counted.
   */
  #count(frame: Buffer): readonly RealtimeUse[] {
    const usage = liveUsage(messageOf(frame).usageMetadata)
    if (!usage) return nothing
    this.#responses.end(responseId)
    this.#conversation.applyUsage(usage, this.#earlierPosition, true)
    this.#isResumed = false
    const previous = this.#reported?.prompt_tokens === usage.prompt_tokens ? this.#reported : null
    if (!previous || usage.completion_tokens > previous.completion_tokens) this.#reported = usage
    const increase = previous ? usageIncrease(previous, usage) : usage
    return increase.total_tokens > 0 ? [{ upstreamModel: null, usage: increase }] : nothing
  }
}

/** Upper bound of what a client frame adds to a prompt. */
function contentOf(text: string): Content {
  let characters = 0
  let count = 0
  for (const [, { length }] of text.matchAll(audioData) as Iterable<[string, string]>) {
    characters += length
    count++
  }
  const content = addContent(noContent(), { textBytes: text.length - characters })
  if (imageMark.test(text)) content.imageTokens = count * imageTokens.realtimeBound.gemini
  else content.audioTokens = characters / charactersPerToken.input
  return content
}

/** The output that a provider frame contains. */
function outputOf(text: string): Partial<Content> {
  const characters = [...text.matchAll(audioData)].reduce((sum, [, base64]) => sum + base64!.length, 0)
  if (characters === 0) return { textBytes: text.length }
  return { audioTokens: characters / charactersPerToken.output }
}

function messageOf(frame: Buffer): { usageMetadata?: unknown } {
  try {
    return JSON.parse(frame.toString()) ?? {}
  } catch {
    return {}
  }
}
