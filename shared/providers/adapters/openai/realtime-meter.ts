import { asText } from '../../../base/as-text.ts'
import { isObject } from '../../../base/is-object.ts'
import type { MonotonicMs } from '../../../base/time.ts'
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
  usesOfEnded,
} from '../../toolkit/pending-responses.ts'
import { isText, textBytes } from '../../toolkit/read-frame.ts'
import { type ClientContent, charactersPerToken, contentOf, readClientContent } from './realtime-content.ts'
import { eventOf, nameOf, useOf } from './realtime-usage.ts'

const nothing: readonly RealtimeUse[] = []
const append = 'input_audio_buffer.append'
/**
 * Of frames that parsers may read in several ways: match those that can request a response, or be refused as such a request;
 * that can add to the conversation; that can be sound.
 */
const requestMarks = orEscaped(/"response(?:\.create)?"/)
const contentMarks = orEscaped(/"(?:item|session)"/)
const soundMarks = orEscaped(/"input_audio_buffer\.append"/)
/** Members that give a response another prompt than the conversation. */
const ownPrompt = ['conversation', 'input', 'instructions', 'tools']
/** OpenAI's `response.output_audio.delta`, and `response.audio.delta` of earlier versions. */
const soundDelta = /^response\.(?:\w+_)?audio\.delta$/
const delta = /^response\..+\.delta$/
/** Audio kept from before speech starts, in tokens: at most ten seconds. */
const maxSilenceTokens = 100

/** Meters one session of OpenAI's Realtime API. */
export class Meter implements RealtimeMeter {
  readonly ownClock = false
  readonly sessionSeconds = null
  readonly hasBegun = true
  /** Responses, by their ids. */
  readonly #responses = new PendingResponses()
  readonly #positions = new Map<unknown, ConversationPosition>()
  /** Items being transcribed; some models begin before the audio is committed. */
  readonly #transcripts = new PendingResponses()
  readonly #committed = new Set<unknown>()
  readonly #conversation = new ConversationSize()
  /** Whether a response was requested whose prompt may differ from the conversation. */
  #hasOwnPrompts = false
  /**
   * Positions at the last two checks: content sent after the earlier one may be missing from the prompt of a response
   * that begins now.
   */
  #position: ConversationPosition = this.#conversation.position
  #earlierPosition: ConversationPosition = this.#position
  /** Audio that was sent and not committed, in tokens. */
  #uncommittedTokens = 0
  /** Whether the provider begins responses by itself after speech; the default. */
  #answersSpeech = true
  #formats: { input: unknown; output: unknown } = { input: null, output: null }
  #hasAudioOutput = true
  #maxOutputTokens: number | null = null
  /** Another model, named in the settings, transcribes the input at its own price. */
  #transcriptionModel: string | null = null
  #transcribes = false

  get hasPendingUsage(): boolean {
    return this.#responses.size > 0 || this.#transcripts.size > 0
  }

  get pendingWork(): readonly PendingWork[] {
    const works = [...this.#responses.pendingWork, ...this.#transcripts.pendingWork]
    if (this.#transcribes && this.#uncommittedTokens > 0)
      works.push(this.#transcript(this.#uncommittedTokens, this.#transcriptionModel))
    return works
  }

  detectRequest(frame: Buffer): WorkRequest | null {
    const content = readClientContent(frame)
    if (isRequest(content, frame)) return { work: this.#next(content), isCertain: true }
    // Uncommitted audio may trigger a response once it is committed.
    const mayTrigger = charactersOfSound(content, frame) > 0 || this.#uncommittedTokens > 0
    return this.#answersSpeech && mayTrigger ? { work: this.#next(), isCertain: false } : null
  }

  countSent(frame: Buffer, ask: WorkRequest | null, nowMs: MonotonicMs): void {
    const content = readClientContent(frame)
    this.#uncommittedTokens += charactersOfSound(content, frame) / this.#charactersPerToken('input')
    if (ask?.isCertain) {
      this.#hasOwnPrompts ||= hasOwnPrompt(content)
      this.#responses.request(ask, nowMs)
    }
    if (isPersistent(content, frame)) this.#conversation.add(this.#contentOf(content))
  }

  expireRequests(nowMs: MonotonicMs): void {
    this.#responses.expireRequests(nowMs)
    this.#earlierPosition = this.#position
    this.#position = this.#conversation.position
  }

  /** Without an id only a response of the conversation would be cancelled. */
  finalFrames(): readonly string[] {
    const cancels = this.#responses.dismiss().map(id => ({ type: 'response.cancel', response_id: id }))
    const hasUncommitted = this.#transcripts.dismiss().some(id => !this.#committed.has(id))
    return [...cancels, ...(hasUncommitted ? [{ type: 'input_audio_buffer.commit' }] : [])].map(event =>
      JSON.stringify(event),
    )
  }

  readUsage(frame: Buffer): readonly RealtimeUse[] {
    const event = eventOf(frame)
    return event ? this.#handle(event) : nothing
  }

  #handle(event: Json): readonly RealtimeUse[] {
    const { response, session, item_id: itemId, error } = event
    switch (event.type) {
      case 'session.created':
      case 'session.updated':
        this.#settings(session)
        return nothing
      case 'error':
        if (isObject(error) && refusesAnswer(error)) this.#responses.dropOldestRequest()
        return nothing
      case 'response.created':
        if (isObject(response)) this.#begin(response)
        return nothing
      case 'response.done':
        return isObject(response) ? this.#done(response) : nothing
      case 'input_audio_buffer.speech_started':
        this.#uncommittedTokens = Math.min(this.#uncommittedTokens, maxSilenceTokens)
        return nothing
      case 'input_audio_buffer.cleared':
        this.#uncommittedTokens = 0
        return nothing
      case 'input_audio_buffer.committed':
        this.#commit(itemId)
        return nothing
      case 'conversation.item.input_audio_transcription.delta':
        this.#transcripts.begin(itemId, this.#transcript(this.#uncommittedTokens, this.#transcriptionModel))
        return nothing
      case 'conversation.item.input_audio_transcription.completed':
      case 'conversation.item.input_audio_transcription.failed':
        return this.#endTranscription(event)
      default:
        this.#countOutput(event)
        return nothing
    }
  }

  /** The response that would begin now; `request` is the frame that requests it, which may have its own settings. */
  #next(request?: ClientContent): PendingWork {
    const prompt = this.#conversation.content
    if (this.#answersSpeech) prompt.audioTokens += this.#uncommittedTokens
    if (!request)
      return newWork(prompt, { hasAudioOutput: this.#hasAudioOutput, maxOutputTokens: this.#maxOutputTokens })
    // The same item may be referred to again and again.
    if (request.references > 1) addContent(prompt, this.#conversation.content, request.references - 1)
    return newWork(hasSettings(request) ? addContent(prompt, this.#contentOf(request)) : prompt)
  }

  #contentOf(content: ClientContent): Content {
    return contentOf(content, this.#charactersPerToken('input'))
  }

  #charactersPerToken(side: 'input' | 'output'): number {
    return charactersPerToken(this.#formats[side], side)
  }

  #begin({ id, output_modalities: modalities, max_output_tokens: max }: Json): void {
    const isRequested = this.#responses.pendingWork.some(({ hasBegun }) => !hasBegun)
    const speaks = Array.isArray(modalities) ? modalities.includes('audio') : this.#hasAudioOutput
    const maxOutputTokens = max === undefined ? this.#maxOutputTokens : limitOf(max)
    const work = newWork(this.#conversation.content, { hasAudioOutput: speaks, maxOutputTokens })
    if (!this.#responses.begin(id, work)) return
    this.#positions.set(id, isRequested ? this.#conversation.position : this.#earlierPosition)
  }

  #done({ id, usage }: Json): readonly RealtimeUse[] {
    const ended = this.#responses.end(id)
    const moment = this.#positions.get(id)
    this.#positions.delete(id)
    const uses = usesOfEnded(useOf(usage, null), ended)
    if (uses.length > 0 && this.#responses.isRepeated(id)) return nothing
    const [use] = uses
    if (use && 'unreported' in use) this.#conversation.add(use.unreported.output)
    if (use && 'usage' in use && moment) this.#conversation.applyUsage(use.usage, moment, !this.#hasOwnPrompts)
    return uses
  }

  #countOutput({ type, response_id: id, delta: piece }: Json): void {
    if (!delta.test(asText(type)) || !isText(piece)) return
    const bytes = textBytes(piece)
    const isSound = soundDelta.test(asText(type))
    const output = isSound ? { audioTokens: bytes / this.#charactersPerToken('output') } : { textBytes: bytes }
    this.#responses.countOutput(id, output)
  }

  #commit(itemId: unknown): void {
    const heardTokens = this.#uncommittedTokens
    this.#uncommittedTokens = 0
    this.#conversation.add({ audioTokens: heardTokens })
    const ended = this.#transcripts.end(itemId)
    if (!ended && !this.#transcribes) return
    // The model in the settings at the begin: they may have changed since.
    const upstreamModel = ended ? ended.upstreamModel : this.#transcriptionModel
    const isTracked = this.#transcripts.begin(itemId, this.#transcript(heardTokens, upstreamModel))
    if (isTracked) this.#committed.add(itemId)
  }

  #transcript(audioTokens: number, upstreamModel: string | null): PendingWork {
    const prompt = addContent(noContent(), { audioTokens })
    return newWork(prompt, { upstreamModel, maxOutputTokens: Math.ceil(audioTokens), hasAudioOutput: false })
  }

  /** Ends the transcription of an item. */
  #endTranscription({ item_id: itemId, transcript, usage }: Json): readonly RealtimeUse[] {
    this.#committed.delete(itemId)
    const ended = this.#transcripts.end(itemId)
    if (ended) ended.output.textBytes = textBytes(transcript)
    const uses = usesOfEnded(useOf(usage, ended ? ended.upstreamModel : this.#transcriptionModel), ended)
    return uses.length > 0 && this.#transcripts.isRepeated(itemId) ? nothing : uses
  }

  #settings(session: unknown): void {
    if (!isObject(session)) return
    this.#maxOutputTokens = limitOf(session.max_output_tokens)
    if (Array.isArray(session.output_modalities)) this.#hasAudioOutput = session.output_modalities.includes('audio')
    // The name of the beta, which servers that have not changed still give.
    const { input_audio_transcription: transcription } = session
    if (isObject(transcription)) this.#transcribeBy(transcription)
    const { input, output } = isObject(session.audio) ? session.audio : {}
    if (isObject(output)) this.#formats.output = formatOf(output)
    if (!isObject(input)) return
    this.#formats.input = formatOf(input)
    const { turn_detection: detection } = input
    if (detection !== undefined) this.#answersSpeech = isObject(detection) && detection.create_response !== false
    if (session.type === 'transcription') this.#answersSpeech = false
    // Transcripts of earlier audio may still arrive after it was switched off.
    if (isObject(input.transcription)) this.#transcribeBy(input.transcription)
    else this.#transcribes = false
  }

  #transcribeBy({ model }: Record<string, unknown>): void {
    this.#transcribes = true
    this.#transcriptionModel = nameOf(model)
  }
}

function isRequest({ type, event }: ClientContent, frame: Buffer): boolean {
  if (type === null) return requestMarks.test(frame.toString('latin1'))
  return type === 'response.create' || 'response' in event
}

/** Whether a request is more than its type. */
function hasSettings({ type, event }: ClientContent): boolean {
  return type === null || Object.keys(event).some(name => name !== 'type' && name !== 'event_id')
}

/** Whether a request may give its response another prompt than the conversation. */
function hasOwnPrompt({ type, event }: ClientContent): boolean {
  const { response } = event
  return type === null || ownPrompt.some(name => name in event || (isObject(response) && name in response))
}

/** The base64 that a frame adds to the buffer of uncommitted audio. */
function charactersOfSound({ type, event }: ClientContent, frame: Buffer): number {
  if (type === append) return textBytes(event.audio)
  return type === null && soundMarks.test(frame.toString('latin1')) ? frame.length : 0
}

/** Whether a frame's content stays in the conversation; that of a response is its own. */
function isPersistent({ type, event }: ClientContent, frame: Buffer): boolean {
  if (type === null) return contentMarks.test(frame.toString('latin1'))
  return 'item' in event || 'session' in event
}

/** Whether an error is the refusal of a response. Frames without such a request cannot be refused with it. */
function refusesAnswer({ code, param }: Json): boolean {
  return code === 'conversation_already_has_active_response' || /^response(?:$|[.[])/.test(asText(param))
}

function limitOf(max: unknown): number | null {
  return Number.isInteger(max) && (max as number) > 0 ? (max as number) : null
}

function formatOf({ format }: Json): unknown {
  return isObject(format) ? format.type : format
}
