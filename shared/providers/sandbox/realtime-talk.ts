import type { Tokenizer } from '../../kinds/tokenizer.ts'
import { Conversation } from './realtime-conversation.ts'
import type { ResponseOptions } from './realtime-events.ts'
import { InputBuffer } from './realtime-input.ts'
import { emptied, type GivenItem, type Item, itemOf, newId, type Part, toldItem } from './realtime-items.ts'
import { errorOf, Refused } from './realtime-refused.ts'
import { Response } from './realtime-response.ts'
import { newSettings, type Settings, type SettingsUpdate, told, turnLimitsOf, updated } from './realtime-settings.ts'
import { firstSeconds, type Sound, secondsOf } from './realtime-sound.ts'
import { transcribe } from './realtime-transcript.ts'
import type { Turn } from './realtime-turns.ts'
import type { Wire } from './realtime-wire.ts'

const longestSessionSeconds = 3_600
const mostResponses = 8
/** In one piece of sound: each is answered before anybody else's frames are. */
const mostTurns = 500
/** Of the base64 of one item: what a session's frames have room for. */
const mostRetrieved = 15 * 1024 * 1024

/** One session: its settings, its conversation, what it hears and what it says. Its verbs throw a Refused. */
export class SandboxTalk {
  readonly #wire: Wire
  readonly #tokenizer: Tokenizer
  readonly #head = { id: newId('sess'), expires_at: Math.floor(Date.now() / 1_000) + longestSessionSeconds }
  readonly #conversationId = newId('conv')
  readonly #conversation = new Conversation()
  readonly #responses = new Map<string, Response>()
  #settings: Settings
  #input: InputBuffer
  /** The speech that is under way: the item it will be, and where it began. */
  #speech: { id: string; fromByte: number } | null = null
  #hasSpoken = false
  #idle: NodeJS.Timeout | undefined

  constructor(wire: Wire, tokenizer: Tokenizer, model: string, type: Settings['type']) {
    this.#wire = wire
    this.#tokenizer = tokenizer
    this.#settings = newSettings(type, model)
    this.#input = new InputBuffer('audio/pcm', turnLimitsOf(this.#settings), 0)
    wire.send('session.created', { session: told(this.#settings, this.#head) })
  }

  /** Its client is gone. */
  close(): void {
    clearTimeout(this.#idle)
    for (const response of this.#responses.values()) response.abandon()
  }

  update(update: SettingsUpdate): void {
    const before = this.#settings.audio.input
    this.#settings = updated(this.#settingsFor(update.type), update, this.#isVoiceFixed)
    const { format, turn_detection } = this.#settings.audio.input
    if (format.type !== this.#input.encoding) {
      this.#input = new InputBuffer(format.type, turnLimitsOf(this.#settings), this.#input.endMs)
      this.#speech = null
    } else if (JSON.stringify(turn_detection) !== JSON.stringify(before.turn_detection)) {
      this.#input.detect(turnLimitsOf(this.#settings))
      this.#speech = null
    }
    clearTimeout(this.#idle)
    this.#wire.send('session.updated', { session: told(this.#settings, this.#head) })
  }

  hear(bytes: Buffer): void {
    let turns = 0
    for (const turn of this.#input.append(bytes)) {
      if (++turns > mostTurns) {
        this.clear()
        const message = `The sound has more than ${mostTurns} beginnings and ends of speech; the buffer was cleared. Send less at a time.`
        throw new Refused('too_many_turns', message, 'audio')
      }
      if (turn.speaking) this.#startSpeech(turn)
      else this.#stopSpeech(turn)
    }
  }

  commit(): void {
    const sound = this.#input.takeAll()
    this.#commit(sound, this.#speech?.id ?? newId('item'))
  }

  clear(): void {
    this.#input.clear()
    this.#speech = null
    this.#wire.send('input_audio_buffer.cleared', {})
  }

  add(given: GivenItem, previousId: string | null): void {
    const item = itemOf(given, this.#settings.audio.input.format.type)
    if (item.type === 'function_call_output') this.#checkCall(item.call_id)
    this.#keep(item, previousId)
    this.#tell('conversation.item.added', item)
    this.#tell('conversation.item.done', item)
  }

  retrieve(id: string): void {
    const item = this.#conversation.find(id, 'retrieving')
    const bytes = soundsOf(item).reduce((sum, { sound }) => sum + sound.bytes.length, 0)
    if ((bytes * 4) / 3 > mostRetrieved)
      throw new Refused('item_too_large', 'The sound of this item does not fit into one event.', 'item_id')
    this.#wire.send('conversation.item.retrieved', { item: toldItem(item, true) })
  }

  delete(id: string): void {
    this.#conversation.delete(id)
    this.#wire.send('conversation.item.deleted', { item_id: id })
  }

  truncate(id: string, index: number, endMs: number): void {
    const item = this.#conversation.find(id, 'truncating')
    const part = item.type === 'message' ? item.content[index] : undefined
    if (part?.type !== 'output_audio' || item.status === 'in_progress') {
      const message = 'Only the sound of a message of the model can be truncated, once the model has ended it.'
      throw new Refused('invalid_value', message, 'item_id')
    }
    const lengthMs = Math.round(secondsOf(part.sound) * 1_000)
    if (endMs > lengthMs) {
      const message = `Audio content of ${lengthMs}ms is already shorter than ${endMs}ms.`
      throw new Refused('invalid_value', message, 'audio_end_ms')
    }
    part.sound = firstSeconds(part.sound, endMs / 1_000)
    part.transcript = null
    const place = { item_id: id, content_index: index, audio_end_ms: endMs }
    this.#wire.send('conversation.item.truncated', place)
  }

  respond(options: ResponseOptions): void {
    if (this.#settings.type === 'transcription')
      throw new Refused('invalid_value', 'A transcription session makes no responses.', 'type')
    const inConversation = options.conversation !== 'none'
    const active = this.#active
    if (inConversation && active) {
      const message = `Conversation already has an active response in progress: ${active.id}. Wait until the response is finished before creating a new one.`
      throw new Refused('conversation_already_has_active_response', message)
    }
    if (this.#responses.size >= mostResponses)
      throw new Refused('too_many_responses', `At most ${mostResponses} responses may be in progress at a time.`)
    const response = new Response(this.#detailsOf(options, inConversation), {
      wire: this.#wire,
      tokenizer: this.#tokenizer.renewed(),
      added: item => {
        this.#keep(item)
        this.#tell('conversation.item.added', emptied(item))
      },
      ended: response => this.#ended(response),
    })
    this.#responses.set(response.id, response)
    clearTimeout(this.#idle)
    response.start()
  }

  cancel(id: string | undefined): void {
    const response = id === undefined ? this.#active : this.#responses.get(id)
    if (!response)
      throw new Refused('response_cancel_not_active', 'Cancellation failed: no active response found', 'response_id')
    response.cancel('client_cancelled')
  }

  /** The response under way that becomes part of the conversation. */
  get #active(): Response | null {
    return [...this.#responses.values()].find(({ conversation }) => conversation !== null) ?? null
  }

  get #isVoiceFixed(): boolean {
    return this.#hasSpoken || [...this.#responses.values()].some(({ sentMs }) => sentMs > 0)
  }

  /** What an update of a type applies to. A session can become a transcription until something is said in it. */
  #settingsFor(type: Settings['type']): Settings {
    if (type === this.#settings.type) return this.#settings
    if (type === 'transcription' && this.#conversation.items.length === 0 && this.#responses.size === 0)
      return newSettings(type, this.#settings.model)
    throw new Refused('invalid_value', `This is a ${this.#settings.type} session.`, 'session.type')
  }

  #startSpeech({ atByte }: Turn): void {
    this.#speech = { id: newId('item'), fromByte: atByte }
    clearTimeout(this.#idle)
    const place = { audio_start_ms: this.#input.msAt(atByte), item_id: this.#speech.id }
    this.#wire.send('input_audio_buffer.speech_started', place)
    if (this.#settings.audio.input.turn_detection?.interrupt_response) this.#active?.cancel('turn_detected')
  }

  #stopSpeech({ atByte }: Turn): void {
    const { id, fromByte } = this.#speech!
    this.#wire.send('input_audio_buffer.speech_stopped', { audio_end_ms: this.#input.msAt(atByte), item_id: id })
    this.#commit(this.#input.take(fromByte, atByte), id)
    const { type, audio } = this.#settings
    if (type === 'realtime' && audio.input.turn_detection?.create_response) this.respond({})
  }

  /** Makes an item of sound. */
  #commit(sound: Sound, id: string): void {
    this.#speech = null
    const part: Part = { type: 'input_audio', sound, transcript: null }
    const item: Item = { id, status: 'completed', type: 'message', role: 'user', content: [part] }
    this.#keep(item)
    const previous = this.#conversation.before(item)
    this.#wire.send('input_audio_buffer.committed', { previous_item_id: previous, item_id: id })
    this.#tell('conversation.item.added', item)
    this.#tell('conversation.item.done', item)
    const { include, audio } = this.#settings
    if (!audio.input.transcription) return
    const place = { item_id: id, content_index: 0 }
    const means = { wire: this.#wire, tokenizer: this.#tokenizer.renewed(), logprobs: Boolean(include?.length) }
    part.transcript = transcribe(sound, place, means)
  }

  #keep(item: Item, previousId: string | null = null): void {
    for (const { id } of this.#conversation.add(item, previousId))
      this.#wire.send('conversation.item.deleted', { item_id: id })
  }

  #tell(type: 'conversation.item.added' | 'conversation.item.done', item: Item): void {
    this.#wire.send(type, { previous_item_id: this.#conversation.before(item), item: toldItem(item) })
  }

  #checkCall(callId: string): void {
    const isKnown = this.#conversation.items.some(item => item.type === 'function_call' && item.call_id === callId)
    if (!isKnown)
      throw new Refused('invalid_tool_call_id', `Tool call ID '${callId}' not found in conversation.`, 'item.call_id')
  }

  #detailsOf(options: ResponseOptions, inConversation: boolean) {
    const { audio, ...settings } = this.#settings
    const own = options.audio?.output
    const { format, voice } = { ...audio.output, ...own }
    if (this.#isVoiceFixed && JSON.stringify(voice) !== JSON.stringify(audio.output.voice)) {
      const message = "Cannot update a conversation's voice if assistant audio is present."
      throw new Refused('cannot_update_voice', message, 'response.audio.output.voice')
    }
    const modalities = options.output_modalities ?? settings.output_modalities
    const most = options.max_output_tokens ?? settings.max_output_tokens
    return {
      items: options.input ? options.input.map(given => this.#given(given)) : [...this.#conversation.items],
      instructions: options.instructions ?? settings.instructions,
      modality: modalities[0]!,
      tools: options.tools ?? settings.tools,
      toolChoice: options.tool_choice ?? settings.tool_choice,
      mostTokens: most === 'inf' ? Number.POSITIVE_INFINITY : most,
      encoding: format.type,
      conversation: inConversation ? this.#conversation : null,
      told: {
        ...(inConversation && { conversation_id: this.#conversationId }),
        output_modalities: modalities,
        max_output_tokens: most,
        audio: { output: { format, voice: typeof voice === 'string' ? voice : voice.id } },
        metadata: options.metadata ?? null,
      },
    }
  }

  #given(given: NonNullable<ResponseOptions['input']>[number]): Item {
    if (given.type !== 'item_reference') return itemOf(given, this.#settings.audio.input.format.type)
    const item = this.#conversation.items.find(({ id }) => id === given.id)
    if (item) return item
    throw new Refused('invalid_value', `There is no item with id '${given.id}'.`, 'response.input')
  }

  #ended(response: Response): void {
    this.#responses.delete(response.id)
    this.#hasSpoken ||= response.sentMs > 0
    if (response.conversation) this.#awaitSpeech(response.sentMs)
  }

  /** Where the settings say so, the model speaks again after a silence that begins when it has been heard. */
  #awaitSpeech(playedMs: number): void {
    const detection = this.#settings.audio.input.turn_detection
    if (detection?.type !== 'server_vad' || detection.idle_timeout_ms === null || this.#speech) return
    const startMs = this.#input.endMs
    clearTimeout(this.#idle)
    this.#idle = setTimeout(() => this.#breakSilence(startMs), detection.idle_timeout_ms + playedMs)
  }

  #breakSilence(startMs: number): void {
    const id = newId('item')
    const place = { audio_start_ms: startMs, audio_end_ms: this.#input.endMs, item_id: id }
    this.#wire.send('input_audio_buffer.timeout_triggered', place)
    try {
      this.#commit(this.#input.takeRest(), id)
      this.respond({})
    } catch (error) {
      this.#wire.send('error', { error: { ...errorOf(error), event_id: null } })
    }
  }
}

function soundsOf(item: Item): Extract<Part, { sound: Sound }>[] {
  return item.type === 'message' ? item.content.filter(part => 'sound' in part) : []
}
