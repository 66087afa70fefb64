import { unixNow } from '../../../base/time.ts'
import type { Tokenizer } from '../../../kinds/tokenizer.ts'
import { Conversation } from './conversation.ts'
import { EventError, errorEvent } from './event-error.ts'
import type { ResponseOptions } from './events.ts'
import { InputBuffer } from './input.ts'
import { type ClientItem, type Item, itemOf, newId, type Part, presentItem, soundsOf, withoutContent } from './items.ts'
import { RealtimeResponse } from './response.ts'
import { SessionMemory } from './session-memory.ts'
import {
  applyUpdate,
  newSettings,
  presentSettings,
  type Settings,
  type SettingsUpdate,
  turnLimitsOf,
} from './settings.ts'
import { firstSeconds, type Sound, secondsOf } from './sound.ts'
import { transcribe } from './transcript.ts'
import type { Turn } from './turns.ts'
import type { Wire } from './wire.ts'

const [maxSessionSeconds, maxResponses] = [3_600, 8]
/** Per chunk of audio: all are handled before the frames of other sessions. */
const maxTurns = 500
/** Maximum base64 of one item: a session's frame limit. */
const maxRetrieved = 15 * 1024 * 1024

/** One session: its settings, its conversation, its input and its responses. Its methods throw an EventError. */
export class SandboxSession {
  readonly #wire: Wire
  readonly #tokenizer: Tokenizer
  readonly #head = { id: newId('sess'), expires_at: unixNow() + maxSessionSeconds }
  readonly #conversationId = newId('conv')
  readonly #memory = new SessionMemory()
  readonly #conversation = new Conversation(this.#memory)
  readonly #responses = new Map<string, RealtimeResponse>()
  #settings: Settings
  #input: InputBuffer
  /** The speech in progress: the id of its future item, and its start. */
  #speech: { id: string; fromByte: number } | null = null
  #hasSpoken = false
  #idle: NodeJS.Timeout | undefined

  constructor(wire: Wire, tokenizer: Tokenizer, model: string, type: Settings['type']) {
    this.#wire = wire
    this.#tokenizer = tokenizer
    this.#settings = newSettings(type, model)
    this.#input = new InputBuffer(this.#memory, 'audio/pcm', turnLimitsOf(this.#settings))
    wire.send('session.created', { session: presentSettings(this.#settings, this.#head) })
  }

  /** Ends the session after the client has disconnected. */
  close(): void {
    clearTimeout(this.#idle)
    this.#memory.release()
    for (const response of this.#responses.values()) response.abandon()
  }

  update(update: SettingsUpdate): void {
    const previousInput = this.#settings.audio.input
    this.#settings = applyUpdate(this.#settingsFor(update.type), update, this.#isVoiceFixed)
    const { format, turn_detection } = this.#settings.audio.input
    if (format.type !== this.#input.encoding) {
      this.#input = this.#input.replace(format.type, turnLimitsOf(this.#settings))
      this.#speech = null
    } else if (JSON.stringify(turn_detection) !== JSON.stringify(previousInput.turn_detection)) {
      this.#input.setTurnDetection(turnLimitsOf(this.#settings))
      this.#speech = null
    }
    clearTimeout(this.#idle)
    this.#wire.send('session.updated', { session: presentSettings(this.#settings, this.#head) })
  }

  appendAudio(bytes: Buffer): void {
    let turns = 0
    for (const turn of this.#input.append(bytes)) {
      if (++turns > maxTurns) {
        this.clear()
        const message = `The sound has more than ${maxTurns} beginnings and ends of speech; the buffer was cleared. Send less at a time.`
        throw new EventError('too_many_turns', message, 'audio')
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

  add(given: ClientItem, previousId: string | null): void {
    const item = itemOf(given, this.#settings.audio.input.format.type)
    if (item.type === 'function_call_output') this.#checkCall(item.call_id)
    this.#insert(item, previousId)
    this.#sendItem('conversation.item.added', item)
    this.#sendItem('conversation.item.done', item)
  }

  retrieve(id: string): void {
    const item = this.#conversation.find(id, 'retrieving')
    const bytes = soundsOf(item).reduce((sum, { sound }) => sum + sound.bytes.length, 0)
    if ((bytes * 4) / 3 > maxRetrieved)
      throw new EventError('item_too_large', 'The sound of this item does not fit into one event.', 'item_id')
    this.#wire.send('conversation.item.retrieved', { item: presentItem(item, true) })
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
      throw new EventError('invalid_value', message, 'item_id')
    }
    const lengthMs = Math.round(secondsOf(part.sound) * 1_000)
    if (endMs > lengthMs) {
      const message = `Audio content of ${lengthMs}ms is already shorter than ${endMs}ms.`
      throw new EventError('invalid_value', message, 'audio_end_ms')
    }
    part.sound = firstSeconds(part.sound, endMs / 1_000)
    part.transcript = null
    this.#wire.send('conversation.item.truncated', { item_id: id, content_index: index, audio_end_ms: endMs })
  }

  respond(options: ResponseOptions): void {
    if (this.#settings.type === 'transcription')
      throw new EventError('invalid_value', 'A transcription session makes no responses.', 'type')
    const inConversation = options.conversation !== 'none'
    const active = this.#active
    if (inConversation && active) {
      const message = `Conversation already has an active response in progress: ${active.id}. Wait until the response is finished before creating a new one.`
      throw new EventError('conversation_already_has_active_response', message)
    }
    if (this.#responses.size >= maxResponses)
      throw new EventError('too_many_responses', `At most ${maxResponses} responses may be in progress at a time.`)
    const response = new RealtimeResponse(this.#responseDetails(options, inConversation), {
      wire: this.#wire,
      tokenizer: this.#tokenizer.createFresh(),
      addItem: item => {
        this.#insert(item)
        this.#sendItem('conversation.item.added', withoutContent(item))
      },
      onEnd: response => this.#onResponseEnd(response),
    })
    this.#responses.set(response.id, response)
    clearTimeout(this.#idle)
    response.start()
  }

  cancel(id: string | undefined): void {
    const response = id === undefined ? this.#active : this.#responses.get(id)
    if (!response)
      throw new EventError('response_cancel_not_active', 'Cancellation failed: no active response found', 'response_id')
    response.cancel('client_cancelled')
  }

  /** The response in progress that becomes part of the conversation. */
  get #active(): RealtimeResponse | null {
    return [...this.#responses.values()].find(({ conversation }) => conversation !== null) ?? null
  }

  get #isVoiceFixed(): boolean {
    return this.#hasSpoken || [...this.#responses.values()].some(({ sentMs }) => sentMs > 0)
  }

  /** The settings that an update of a type applies to. A session can become a transcription until it has content. */
  #settingsFor(type: Settings['type']): Settings {
    if (type === this.#settings.type) return this.#settings
    if (type === 'transcription' && this.#conversation.items.length === 0 && this.#responses.size === 0)
      return newSettings(type, this.#settings.model)
    throw new EventError('invalid_value', `This is a ${this.#settings.type} session.`, 'session.type')
  }

  #startSpeech({ atByte }: Turn): void {
    this.#speech = { id: newId('item'), fromByte: atByte }
    clearTimeout(this.#idle)
    const location = { audio_start_ms: this.#input.msAt(atByte), item_id: this.#speech.id }
    this.#wire.send('input_audio_buffer.speech_started', location)
    if (this.#settings.audio.input.turn_detection?.interrupt_response) this.#active?.cancel('turn_detected')
  }

  #stopSpeech({ atByte }: Turn): void {
    const { id, fromByte } = this.#speech!
    this.#wire.send('input_audio_buffer.speech_stopped', { audio_end_ms: this.#input.msAt(atByte), item_id: id })
    this.#commit(this.#input.take(fromByte, atByte), id)
    const { type, audio } = this.#settings
    if (type === 'realtime' && audio.input.turn_detection?.create_response) this.respond({})
  }

  /** Creates an item from audio. */
  #commit(sound: Sound, id: string): void {
    this.#speech = null
    const part: Part = { type: 'input_audio', sound, transcript: null }
    const item: Item = { id, status: 'completed', type: 'message', role: 'user', content: [part] }
    this.#insert(item)
    const previous = this.#conversation.previousId(item)
    this.#wire.send('input_audio_buffer.committed', { previous_item_id: previous, item_id: id })
    this.#sendItem('conversation.item.added', item)
    this.#sendItem('conversation.item.done', item)
    const { include, audio } = this.#settings
    if (!audio.input.transcription) return
    const location = { item_id: id, content_index: 0 }
    const means = { wire: this.#wire, tokenizer: this.#tokenizer.createFresh(), logprobs: Boolean(include?.length) }
    part.transcript = transcribe(sound, location, means)
  }

  #insert(item: Item, previousId: string | null = null): void {
    for (const { id } of this.#conversation.add(item, previousId))
      this.#wire.send('conversation.item.deleted', { item_id: id })
  }

  #sendItem(type: 'conversation.item.added' | 'conversation.item.done', item: Item): void {
    this.#wire.send(type, { previous_item_id: this.#conversation.previousId(item), item: presentItem(item) })
  }

  #checkCall(callId: string): void {
    const isKnown = this.#conversation.items.some(item => item.type === 'function_call' && item.call_id === callId)
    if (!isKnown)
      throw new EventError(
        'invalid_tool_call_id',
        `Tool call ID '${callId}' not found in conversation.`,
        'item.call_id',
      )
  }

  #responseDetails(options: ResponseOptions, inConversation: boolean) {
    const { audio, ...settings } = this.#settings
    const outputOptions = options.audio?.output
    const { format, voice } = { ...audio.output, ...outputOptions }
    if (this.#isVoiceFixed && JSON.stringify(voice) !== JSON.stringify(audio.output.voice)) {
      const message = "Cannot update a conversation's voice if assistant audio is present."
      throw new EventError('cannot_update_voice', message, 'response.audio.output.voice')
    }
    const modalities = options.output_modalities ?? settings.output_modalities
    const max = options.max_output_tokens ?? settings.max_output_tokens
    return {
      items: options.input ? options.input.map(given => this.#resolveItem(given)) : [...this.#conversation.items],
      instructions: options.instructions ?? settings.instructions,
      modality: modalities[0]!,
      tools: options.tools ?? settings.tools,
      toolChoice: options.tool_choice ?? settings.tool_choice,
      maxTokens: max === 'inf' ? Number.POSITIVE_INFINITY : max,
      encoding: format.type,
      conversation: inConversation ? this.#conversation : null,
      shownSettings: {
        ...(inConversation && { conversation_id: this.#conversationId }),
        output_modalities: modalities,
        max_output_tokens: max,
        audio: { output: { format, voice: typeof voice === 'string' ? voice : voice.id } },
        metadata: options.metadata ?? null,
      },
    }
  }

  #resolveItem(given: NonNullable<ResponseOptions['input']>[number]): Item {
    if (given.type !== 'item_reference') return itemOf(given, this.#settings.audio.input.format.type)
    const item = this.#conversation.items.find(({ id }) => id === given.id)
    if (item) return item
    throw new EventError('invalid_value', `There is no item with id '${given.id}'.`, 'response.input')
  }

  #onResponseEnd(response: RealtimeResponse): void {
    this.#responses.delete(response.id)
    this.#hasSpoken ||= response.sentMs > 0
    if (response.conversation) this.#awaitSpeech(response.sentMs)
  }

  /** If the settings say so, the model speaks again after a silence that begins when its audio has been played. */
  #awaitSpeech(playedMs: number): void {
    const detection = this.#settings.audio.input.turn_detection
    if (detection?.type !== 'server_vad' || detection.idle_timeout_ms === null || this.#speech) return
    const startMs = this.#input.endMs
    clearTimeout(this.#idle)
    this.#idle = setTimeout(() => this.#respondToSilence(startMs), detection.idle_timeout_ms + playedMs)
  }

  #respondToSilence(startMs: number): void {
    const id = newId('item')
    const location = { audio_start_ms: startMs, audio_end_ms: this.#input.endMs, item_id: id }
    this.#wire.send('input_audio_buffer.timeout_triggered', location)
    try {
      this.#commit(this.#input.takeRest(), id)
      this.respond({})
    } catch (error) {
      this.#wire.send('error', { error: { ...errorEvent(error), event_id: null } })
    }
  }
}
