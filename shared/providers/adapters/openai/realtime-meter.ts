import type { PendingWork, RealtimeMeter, RealtimeUse, WorkRequest } from '../../realtime-contract.ts'
import { escapedName, orEscaped } from '../../toolkit/marks.ts'
import {
  addContent,
  type ConversationPosition,
  ConversationSize,
  newWork,
  noContent,
  PendingResponses,
} from '../../toolkit/pending-responses.ts'
import { isObject, type Json } from './json.ts'
import { charactersPerToken, contentOf, isSound } from './realtime-content.ts'
import { eventOf, nameOf, useOf } from './realtime-usage.ts'

/** The beginning of most frames: audio, which reports nothing. */
const sound = '{"type":"response.output_audio.delta"'
const responseId = /"response_id":"([^"\\]+)"/
/**
 * Every event that reports a usage, begins or is part of what will be reported, or reports settings, contains one of
 * these.
 */
const marks =
  /"(?:usage|error|response\.(?:created|done|[a-z_]+\.delta)|session\.(?:created|updated)|input_audio_buffer\.(?:committed|cleared|speech_started)|conversation\.item\.input_audio_transcription\.(?:delta|completed|failed))"/
const nothing: readonly RealtimeUse[] = []
/**
 * Matches every frame that can request a response, or be refused as such a request; an escaped letter could spell it.
 */
const requestMarks = orEscaped(/"response(?:\.create)?"/)
/** Matches every frame whose content stays in the conversation. */
const persistentMarks = orEscaped(/"(?:item|session)"/)
/** Gives a response another prompt than the conversation. */
const ownPrompt = orEscaped(/"(?:conversation|input|instructions|tools)"\s*:/)
/** A reference to an item of the conversation, of which a prompt may have several; an escape could spell one. */
const references = /"item_reference"/g
const maxReferences = 1_000
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
    const text = frame.toString('latin1')
    if (isSound(text)) return this.#answersSpeech ? { work: this.#next(), isCertain: false } : null
    if (requestMarks.test(text)) return { work: this.#next(text), isCertain: true }
    // Uncommitted audio may trigger a response once it is committed.
    return this.#answersSpeech && this.#uncommittedTokens > 0 ? { work: this.#next(), isCertain: false } : null
  }

  countSent(frame: Buffer, ask: WorkRequest | null, nowMs: number): void {
    const text = frame.toString('latin1')
    if (isSound(text)) {
      this.#uncommittedTokens += text.length / charactersPerToken(this.#formats.input, 'input')
      return
    }
    if (ask?.isCertain) {
      this.#hasOwnPrompts ||= ownPrompt.test(text)
      this.#responses.request(ask, nowMs)
      if (!persistentMarks.test(text)) return
    }
    this.#conversation.add(contentOf(text, charactersPerToken(this.#formats.input, 'input')))
  }

  expireRequests(nowMs: number): void {
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
    if (frame.toString('latin1', 0, sound.length) === sound) {
      if (this.#responses.size > 0) this.#countAudio(frame.toString('latin1'))
      return nothing
    }
    if (!marks.test(frame.toString('latin1'))) return nothing
    const event = eventOf(frame)
    return event ? this.#handle(event) : nothing
  }

  #handle(event: Json): readonly RealtimeUse[] {
    const { response, usage, session, item_id: itemId, response_id: id, delta, error } = event
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
        return useOf(usage, this.#endTranscription(itemId))
      default:
        if (typeof delta === 'string') this.#responses.countOutput(id, { textBytes: Buffer.byteLength(delta) })
        return nothing
    }
  }

  /** The response that would begin now; `text` is the frame that requests it, which may have its own settings. */
  #next(text?: string): PendingWork {
    const prompt = this.#conversation.content
    if (this.#answersSpeech) prompt.audioTokens += this.#uncommittedTokens
    if (text === undefined)
      return newWork(prompt, { hasAudioOutput: this.#hasAudioOutput, maxOutputTokens: this.#maxOutputTokens })
    // The same item may be referred to again and again.
    const copies = escapedName.test(text) ? maxReferences : (text.match(references)?.length ?? 0)
    if (copies > 1) addContent(prompt, this.#conversation.content, copies - 1)
    addContent(prompt, contentOf(text, charactersPerToken(this.#formats.input, 'input')))
    return newWork(prompt)
  }

  #begin({ id, output_modalities: modalities, max_output_tokens: max }: Json): void {
    const isRequested = this.#responses.pendingWork.some(({ hasBegun }) => !hasBegun)
    const speaks = Array.isArray(modalities) ? modalities.includes('audio') : this.#hasAudioOutput
    const maxOutputTokens = max === undefined ? this.#maxOutputTokens : limitOf(max)
    this.#responses.begin(id, newWork(this.#conversation.content, { hasAudioOutput: speaks, maxOutputTokens }))
    this.#positions.set(id, isRequested ? this.#conversation.position : this.#earlierPosition)
  }

  #done({ id, usage }: Json): readonly RealtimeUse[] {
    this.#responses.end(id)
    const moment = this.#positions.get(id)
    this.#positions.delete(id)
    const uses = useOf(usage, null)
    const [use] = uses
    if (use && 'usage' in use && moment) this.#conversation.applyUsage(use.usage, moment, !this.#hasOwnPrompts)
    return uses
  }

  #countAudio(text: string): void {
    const [, id] = responseId.exec(text) ?? []
    this.#responses.countOutput(id, { audioTokens: text.length / charactersPerToken(this.#formats.output, 'output') })
  }

  #commit(itemId: unknown): void {
    const heardTokens = this.#uncommittedTokens
    this.#uncommittedTokens = 0
    this.#conversation.add({ audioTokens: heardTokens })
    const ended = this.#transcripts.end(itemId)
    if (!ended && !this.#transcribes) return
    // The model in the settings at the begin: they may have changed since.
    const upstreamModel = ended ? ended.upstreamModel : this.#transcriptionModel
    this.#transcripts.begin(itemId, this.#transcript(heardTokens, upstreamModel))
    this.#committed.add(itemId)
  }

  #transcript(audioTokens: number, upstreamModel: string | null): PendingWork {
    const prompt = addContent(noContent(), { audioTokens })
    return newWork(prompt, { upstreamModel, maxOutputTokens: Math.ceil(audioTokens), hasAudioOutput: false })
  }

  /** Ends the transcription of an item, and returns its model. */
  #endTranscription(itemId: unknown): string | null {
    this.#committed.delete(itemId)
    const transcript = this.#transcripts.end(itemId)
    return transcript ? transcript.upstreamModel : this.#transcriptionModel
  }

  #settings(session: unknown): void {
    if (!isObject(session)) return
    this.#maxOutputTokens = limitOf(session.max_output_tokens)
    if (Array.isArray(session.output_modalities)) this.#hasAudioOutput = session.output_modalities.includes('audio')
    const { input, output } = isObject(session.audio) ? session.audio : {}
    if (isObject(output)) this.#formats.output = formatOf(output)
    if (!isObject(input)) return
    this.#formats.input = formatOf(input)
    const { turn_detection: detection } = input
    if (detection !== undefined) this.#answersSpeech = isObject(detection) && detection.create_response !== false
    if (session.type === 'transcription') this.#answersSpeech = false
    this.#transcribes = isObject(input.transcription)
    // Transcripts of earlier audio may still arrive after it was switched off.
    if (isObject(input.transcription)) this.#transcriptionModel = nameOf(input.transcription.model)
  }
}

/** Whether an error is the refusal of a response. Frames without such a request cannot be refused with it. */
function refusesAnswer({ code, param }: Json): boolean {
  return code === 'conversation_already_has_active_response' || /^response(?:$|[.[])/.test(String(param))
}

function limitOf(max: unknown): number | null {
  return Number.isInteger(max) && (max as number) > 0 ? (max as number) : null
}

function formatOf({ format }: Json): unknown {
  return isObject(format) ? format.type : format
}
