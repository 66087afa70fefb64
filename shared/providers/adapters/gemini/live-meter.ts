import { isObject } from '../../../base/is-object.ts'
import type { MonotonicMs } from '../../../base/time.ts'
import type { Usage } from '../../../base/usage.ts'
import { imageTokens } from '../../../catalog/image-tokens.ts'
import type { Content, PendingWork, RealtimeMeter, RealtimeUse, WorkRequest } from '../../realtime-contract.ts'
import type { Json } from '../../toolkit/json-fields.ts'
import { orEscaped } from '../../toolkit/marks.ts'
import {
  addContent,
  type ConversationPosition,
  ConversationSize,
  newWork,
  noContent,
  PendingResponses,
} from '../../toolkit/pending-responses.ts'
import { isText, jsonBytes, maxClientValues, readFrame, textBytes } from '../../toolkit/read-frame.ts'
import { liveUsage, usageIncrease } from './live-usage.ts'

const nothing: readonly RealtimeUse[] = []
/**
 * Of frames that parsers may read in several ways: match those that certainly request a response; that have images; after which
 * prompts may have content that the client did not send.
 */
const requestMarks = orEscaped(
  /"turn_?complete"\s*:\s*true|"(?:activity_?end|audio_?stream_?end|tool_?response|realtime_?input)"/,
)
const imageMarks = /"(?:image|video)\\?\//g
const foreignMarks = orEscaped(/"(?:handle|url_?context)"/)
/** Such content, in tokens of the most expensive class: more than any context, which limits it. */
const unknownTokens = 10_000_000
/** Base64 characters per audio token: at most 25 tokens a second, of 8 kHz PCM in, of 24 kHz PCM out. */
const charactersPerToken = { input: (8_000 * 2 * 4) / 3 / 25, output: (24_000 * 2 * 4) / 3 / 25 }
/** The id of the single response in progress. */
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
    const message = clientMessage(frame)
    const work = newWork(addContent(this.#prompt(), contentOf(message, frame)))
    return { work, isCertain: message ? requestsResponse(message) : requestMarks.test(frame.toString('latin1')) }
  }

  countSent(frame: Buffer, ask: WorkRequest | null, nowMs: MonotonicMs): void {
    if (ask?.isCertain) this.#responses.request(ask, nowMs)
    const message = clientMessage(frame)
    if (!this.hasBegun) {
      const setup = message ? setupOf(message) : unclearSetup(frame)
      this.#isResumed ||= setup.isResumed
      this.#readsPages ||= setup.readsPages
    }
    this.#conversation.add(contentOf(message, frame))
  }

  expireRequests(nowMs: MonotonicMs): void {
    this.#responses.expireRequests(nowMs)
    this.#earlierPosition = this.#position
    this.#position = this.#conversation.position
  }

  finalFrames(): readonly string[] {
    return []
  }

  readUsage(frame: Buffer): readonly RealtimeUse[] {
    const message = readFrame(frame)?.event
    if (!message) return nothing
    if ('setupComplete' in message) this.hasBegun = true
    const { modelTurn, turnComplete } = objectOf(message.serverContent)
    if (modelTurn !== undefined || message.toolCall !== undefined) {
      this.#responses.begin(responseId, newWork(this.#prompt()))
      this.#responses.countOutput(responseId, outputOf([modelTurn, message.toolCall]))
    }
    const uses = this.#count(message.usageMetadata)
    if (turnComplete !== undefined || message.toolCall !== undefined) this.#reported = null
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
  #count(usageMetadata: unknown): readonly RealtimeUse[] {
    const usage = liveUsage(usageMetadata)
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

/** The message in a client's frame; null where parsers may read it in several ways. */
function clientMessage(frame: Buffer): Json | null {
  const read = readFrame(frame, maxClientValues)
  return read && !read.hasDuplicates ? read.event : null
}

/** The values of a member in the two spellings that Google accepts of its name; a message may have both. */
function valuesOf(value: unknown, name: string): unknown[] {
  const object = objectOf(value)
  const snake = name.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`)
  return [...new Set([name, snake])].filter(one => object[one] !== undefined).map(one => object[one])
}

/** Whether a message certainly requests a response. */
function requestsResponse(message: Json): boolean {
  const turns = valuesOf(message, 'clientContent').flatMap(content => valuesOf(content, 'turnComplete'))
  const inputs = valuesOf(message, 'realtimeInput')
  const ends = ['text', 'activityEnd', 'audioStreamEnd']
  return (
    turns.some(isComplete => isComplete !== false) ||
    inputs.some(input => ends.some(name => valuesOf(input, name).length > 0)) ||
    valuesOf(message, 'toolResponse').length > 0
  )
}

/** Content of prompts that the client did not send: an earlier conversation, or pages that the provider reads. */
type Setup = { isResumed: boolean; readsPages: boolean }

function setupOf(message: Json): Setup {
  const { setup } = message
  const names = valuesOf(setup, 'tools')
    .flat()
    .flatMap(tool => Object.keys(objectOf(tool)))
  return {
    isResumed: valuesOf(setup, 'sessionResumption').some(resumption => textBytes(objectOf(resumption).handle) > 0),
    readsPages: names.some(name => /^url_?context$/i.test(name)),
  }
}

function unclearSetup(frame: Buffer): Setup {
  const isForeign = foreignMarks.test(frame.toString('latin1'))
  return { isResumed: isForeign, readsPages: isForeign }
}

/** The data of a message that are no text: their base64 characters. */
type Media = { audioCharacters: number; images: number }

/** Values that may have any members: what looks like data in them is text. */
const freeForm = ['response', 'args', 'tools']
const mediaMembers = ['data', 'mimeType', 'mime_type']

/** The bytes of a value's texts, names apart; adds its other data to `media`. */
function textOf(value: unknown, media: Media): number {
  if (isText(value)) return textBytes(value)
  if (Array.isArray(value)) return value.reduce((sum: number, item) => sum + textOf(item, media), 0)
  if (!isObject(value)) return 0
  let sum = 0
  const isMedia = isText(value.data) && countMedia(value, media)
  for (const [name, member] of Object.entries(value)) {
    if (freeForm.includes(name)) sum += jsonBytes(member)
    else if (!isMedia || !mediaMembers.includes(name)) sum += textOf(member, media)
  }
  return sum
}

/** Counts a blob; false for one that is text. */
function countMedia({ data, mimeType, mime_type: type = mimeType }: Json, media: Media): boolean {
  const [kind] = typeof type === 'string' ? type.toLowerCase().split('/') : ['audio']
  if (kind === 'audio') media.audioCharacters += textBytes(data)
  else if (kind === 'image' || kind === 'video') media.images++
  else return false
  return true
}

/** Upper bound of what a client frame adds to a prompt. */
function contentOf(message: Json | null, frame: Buffer): Content {
  if (!message) {
    const images = frame.toString('latin1').match(imageMarks)?.length ?? 0
    const imageBound = images * imageTokens.realtimeBound.gemini
    return addContent(noContent(), { textBytes: frame.length, imageTokens: imageBound })
  }
  const media = { audioCharacters: 0, images: 0 }
  return addContent(noContent(), {
    textBytes: textOf(message, media),
    audioTokens: media.audioCharacters / charactersPerToken.input,
    imageTokens: media.images * imageTokens.realtimeBound.gemini,
  })
}

/** The size of the model's output. */
function outputOf(output: unknown): Partial<Content> {
  const media = { audioCharacters: 0, images: 0 }
  const textBytes = textOf(output, media)
  return { textBytes, audioTokens: media.audioCharacters / charactersPerToken.output }
}

function objectOf(value: unknown): Json {
  return isObject(value) ? value : {}
}
