import type { Ask, RealtimeMeter, RealtimeUse, Work } from '../realtime-contract.ts'
import { Answers, addContent, Conversation, type Moment, noContent, workOf } from '../session-answers.ts'
import { isObject, type Json } from './json.ts'
import { charactersPerToken, contentOf, isSound } from './realtime-content.ts'
import { eventOf, nameOf, useOf } from './realtime-usage.ts'

/** How most frames begin: they are sound and report nothing. */
const sound = '{"type":"response.output_audio.delta"'
const responseId = /"response_id":"([^"\\]+)"/
/** One of these is in every event that reports a use, begins what will be reported, is a part of it, or tells the settings. */
const marks =
  /"(?:usage|error|response\.(?:created|done|[a-z_]+\.delta)|session\.(?:created|updated)|input_audio_buffer\.(?:committed|cleared|speech_started)|conversation\.item\.input_audio_transcription\.(?:delta|completed|failed))"/
const nothing: readonly RealtimeUse[] = []
/** In every frame that can ask for an answer, or be refused as one that does; a letter written as an escape could spell it. */
const asking = /"response(?:\.create)?"|\\u00(?:2e|5f|[46][1-9a-f]|[57][\da])/i
/** In every frame whose content stays in the conversation. */
const lasting = /"(?:item|session)"|\\u00(?:2e|5f|[46][1-9a-f]|[57][\da])/i
/** What gives an answer another prompt than the conversation. */
const ownPrompt = /"(?:conversation|input|instructions|tools)"\s*:|\\u00(?:2e|5f|[46][1-9a-f]|[57][\da])/i
/** What is kept of the sound before somebody speaks, in tokens: it begins less than ten seconds before. */
const maxSilenceTokens = 100

/** Reads one session of OpenAI's Realtime API. */
export class Meter implements RealtimeMeter {
  readonly ownClock = false
  readonly sessionSeconds = null
  readonly begun = true
  /** Responses, by their ids. */
  readonly #answers = new Answers()
  readonly #moments = new Map<unknown, Moment>()
  /** Items whose sound is being written down; some models begin before it is committed. */
  readonly #transcripts = new Answers()
  readonly #committed = new Set<unknown>()
  readonly #conversation = new Conversation()
  /** Whether a response was asked for that need not have the conversation as its prompt. */
  #hasOwnPrompts = false
  /** Moments of the last two looks: what was sent since the earlier one may not have been in the prompt of an answer that begins now. */
  #moment: Moment = this.#conversation.moment
  #earlier: Moment = this.#moment
  /** Sound that was sent and not committed, in tokens. */
  #heardTokens = 0
  /** Whether the provider begins answers by itself once somebody has spoken; it does unless it says otherwise. */
  #answersSpeech = true
  #formats: { input: unknown; output: unknown } = { input: null, output: null }
  #speaks = true
  #maxOutputTokens: number | null = null
  /** What is said is written down by another model, which the settings name, at its own price. */
  #transcriptionModel: string | null = null
  #transcribes = false

  get owing(): boolean {
    return this.#answers.size > 0 || this.#transcripts.size > 0
  }

  get underWay(): readonly Work[] {
    const works = [...this.#answers.underWay, ...this.#transcripts.underWay]
    if (this.#transcribes && this.#heardTokens > 0)
      works.push(this.#transcript(this.#heardTokens, this.#transcriptionModel))
    return works
  }

  asks(frame: Buffer): Ask | null {
    const text = frame.toString('latin1')
    if (isSound(text)) return this.#answersSpeech ? { work: this.#next(), certain: false } : null
    if (asking.test(text)) return { work: this.#next(text), certain: true }
    // What is heard may be answered once it is committed.
    return this.#answersSpeech && this.#heardTokens > 0 ? { work: this.#next(), certain: false } : null
  }

  sent(frame: Buffer, ask: Ask | null, nowMs: number): void {
    const text = frame.toString('latin1')
    if (isSound(text)) {
      this.#heardTokens += text.length / charactersPerToken(this.#formats.input, 'input')
      return
    }
    if (ask?.certain) {
      this.#hasOwnPrompts ||= ownPrompt.test(text)
      this.#answers.ask(ask, nowMs)
      if (!lasting.test(text)) return
    }
    this.#conversation.add(contentOf(text, charactersPerToken(this.#formats.input, 'input')))
  }

  forget(nowMs: number): void {
    this.#answers.forget(nowMs)
    this.#earlier = this.#moment
    this.#moment = this.#conversation.moment
  }

  /** Without its id only a response of the conversation would be cancelled. */
  farewell(): readonly string[] {
    const cancels = this.#answers.dismiss().map(id => ({ type: 'response.cancel', response_id: id }))
    const heardOnly = this.#transcripts.dismiss().some(id => !this.#committed.has(id))
    return [...cancels, ...(heardOnly ? [{ type: 'input_audio_buffer.commit' }] : [])].map(event =>
      JSON.stringify(event),
    )
  }

  read(frame: Buffer): readonly RealtimeUse[] {
    if (frame.toString('latin1', 0, sound.length) === sound) {
      if (this.#answers.size > 0) this.#speak(frame.toString('latin1'))
      return nothing
    }
    if (!marks.test(frame.toString('latin1'))) return nothing
    const event = eventOf(frame)
    return event ? this.#take(event) : nothing
  }

  #take(event: Json): readonly RealtimeUse[] {
    const { response, usage, session, item_id: itemId, response_id: id, delta, error } = event
    switch (event.type) {
      case 'session.created':
      case 'session.updated':
        this.#settings(session)
        return nothing
      case 'error':
        if (isObject(error) && refusesAnswer(error)) this.#answers.refuse()
        return nothing
      case 'response.created':
        if (isObject(response)) this.#begin(response)
        return nothing
      case 'response.done':
        return isObject(response) ? this.#done(response) : nothing
      case 'input_audio_buffer.speech_started':
        this.#heardTokens = Math.min(this.#heardTokens, maxSilenceTokens)
        return nothing
      case 'input_audio_buffer.cleared':
        this.#heardTokens = 0
        return nothing
      case 'input_audio_buffer.committed':
        this.#commit(itemId)
        return nothing
      case 'conversation.item.input_audio_transcription.delta':
        this.#transcripts.begin(itemId, this.#transcript(this.#heardTokens, this.#transcriptionModel))
        return nothing
      case 'conversation.item.input_audio_transcription.completed':
      case 'conversation.item.input_audio_transcription.failed':
        return useOf(usage, this.#written(itemId))
      default:
        if (typeof delta === 'string') this.#answers.see(id, { textBytes: Buffer.byteLength(delta) })
        return nothing
    }
  }

  /** The answer that would begin now; `text` is the frame that asks for it, which may have settings of its own. */
  #next(text?: string): Work {
    const prompt = this.#conversation.content
    if (this.#answersSpeech) prompt.audioTokens += this.#heardTokens
    if (text === undefined) return workOf(prompt, { speaks: this.#speaks, maxOutputTokens: this.#maxOutputTokens })
    addContent(prompt, contentOf(text, charactersPerToken(this.#formats.input, 'input')))
    return workOf(prompt)
  }

  #begin({ id, output_modalities: modalities, max_output_tokens: most }: Json): void {
    const asked = this.#answers.underWay.some(({ begun }) => !begun)
    const speaks = Array.isArray(modalities) ? modalities.includes('audio') : this.#speaks
    const maxOutputTokens = most === undefined ? this.#maxOutputTokens : limitOf(most)
    this.#answers.begin(id, workOf(this.#conversation.content, { speaks, maxOutputTokens }))
    this.#moments.set(id, asked ? this.#conversation.moment : this.#earlier)
  }

  #done({ id, usage }: Json): readonly RealtimeUse[] {
    this.#answers.end(id)
    const moment = this.#moments.get(id)
    this.#moments.delete(id)
    const uses = useOf(usage, null)
    const [use] = uses
    if (use && 'usage' in use && moment) this.#conversation.tell(use.usage, moment, !this.#hasOwnPrompts)
    return uses
  }

  #speak(text: string): void {
    const [, id] = responseId.exec(text) ?? []
    this.#answers.see(id, { audioTokens: text.length / charactersPerToken(this.#formats.output, 'output') })
  }

  #commit(itemId: unknown): void {
    const heardTokens = this.#heardTokens
    this.#heardTokens = 0
    this.#conversation.add({ audioTokens: heardTokens })
    const begun = this.#transcripts.end(itemId)
    if (!begun && !this.#transcribes) return
    // The model is that of the settings when it began: those may have changed since.
    const upstreamModel = begun ? begun.upstreamModel : this.#transcriptionModel
    this.#transcripts.begin(itemId, this.#transcript(heardTokens, upstreamModel))
    this.#committed.add(itemId)
  }

  #transcript(audioTokens: number, upstreamModel: string | null): Work {
    const prompt = addContent(noContent(), { audioTokens })
    return workOf(prompt, { upstreamModel, maxOutputTokens: Math.ceil(audioTokens), speaks: false })
  }

  /** Ends what was begun of an item; the model that wrote it down. */
  #written(itemId: unknown): string | null {
    this.#committed.delete(itemId)
    const known = this.#transcripts.end(itemId)
    return known ? known.upstreamModel : this.#transcriptionModel
  }

  #settings(session: unknown): void {
    if (!isObject(session)) return
    this.#maxOutputTokens = limitOf(session.max_output_tokens)
    if (Array.isArray(session.output_modalities)) this.#speaks = session.output_modalities.includes('audio')
    const { input, output } = isObject(session.audio) ? session.audio : {}
    if (isObject(output)) this.#formats.output = formatOf(output)
    if (!isObject(input)) return
    this.#formats.input = formatOf(input)
    const { turn_detection: detection } = input
    if (detection !== undefined) this.#answersSpeech = isObject(detection) && detection.create_response !== false
    if (session.type === 'transcription') this.#answersSpeech = false
    this.#transcribes = isObject(input.transcription)
    // What was said before it was switched off may come yet.
    if (isObject(input.transcription)) this.#transcriptionModel = nameOf(input.transcription.model)
  }
}

/** Whether an error is the refusal of an answer. No frame that asks for none can be refused so. */
function refusesAnswer({ code, param }: Json): boolean {
  return code === 'conversation_already_has_active_response' || /^response(?:$|[.[])/.test(String(param))
}

function limitOf(most: unknown): number | null {
  return Number.isInteger(most) && (most as number) > 0 ? (most as number) : null
}

function formatOf({ format }: Json): unknown {
  return isObject(format) ? format.type : format
}
