import type { IncomingMessage } from 'node:http'
import { type ProviderSession, refuse, SessionEmulator, type Upgrade } from './sessions.ts'

// biome-ignore lint/suspicious/noExplicitAny: events of every shape
type Event = any

/** How a `response.create` is answered; what is left out is as usual. */
export type Answer = {
  status?: 'completed' | 'failed' | 'incomplete'
  usage?: unknown
  /** Happens after the first delta. */
  midway?: (session: ProviderSession) => void
  /** False = it continues until it is cancelled. */
  ends?: boolean
  /** Spoken slowly, a piece after the other, in telephone quality: its usage is what was said by its end. */
  speech?: Speech
}

/** Tokens of sound in one piece, how many pieces there are, and what is waited for after each. The prompt is text. */
export type Speech = { promptTokens: number; pieceTokens: number; pieces: number; pause: () => Promise<unknown> }

/** Base64 characters of a token of the model's sound in telephone quality: 8,000 bytes are 20 tokens. */
const charactersPerToken = (8_000 * 4) / 3 / 20

/** The usage of a spoken answer. */
function spokenUsage({ promptTokens }: Speech, outputTokens: number) {
  return {
    total_tokens: promptTokens + outputTokens,
    input_tokens: promptTokens,
    output_tokens: outputTokens,
    input_token_details: { text_tokens: promptTokens, audio_tokens: 0, cached_tokens: 0 },
    output_token_details: { text_tokens: 0, audio_tokens: outputTokens },
  }
}

/** What a response is said to have used, as the real service writes it. */
export const usualUsage = {
  total_tokens: 253,
  input_tokens: 132,
  output_tokens: 121,
  input_token_details: {
    text_tokens: 119,
    audio_tokens: 13,
    image_tokens: 0,
    cached_tokens: 64,
    cached_tokens_details: { text_tokens: 64, audio_tokens: 0, image_tokens: 0 },
  },
  output_token_details: { text_tokens: 30, audio_tokens: 91 },
}
/** What one is said to have used that was cancelled. */
export const cancelledUsage = {
  ...usualUsage,
  total_tokens: 143,
  output_tokens: 11,
  output_token_details: { text_tokens: 5, audio_tokens: 6 },
}

/** Ends the session in the midst of a response. */
export const failsMidway = (session: ProviderSession) => session.socket.close(1011, 'server had an error')
/** Breaks the connection. */
export const breaksMidway = (session: ProviderSession) => void session.connection.resetAndDestroy()
/** Sends a frame that is not text. */
export const sendsBinary = (session: ProviderSession) => session.socket.send(Buffer.from([0, 1, 2, 255]))
/** Sends a frame of 20 MB. */
export const sendsHuge = (session: ProviderSession) => session.send(soundOf('x'.repeat(20_000_000)))

/** OpenAI's Realtime API on a local port; the API key `invalid` is refused. */
export class RealtimeEmulator {
  readonly provider: SessionEmulator
  /** The answer to every upgrade; null = sessions are taken. */
  refusing: Upgrade | null = null
  /** Every response that ended, with its usage and its session, whether its client was there to hear of it or not. */
  readonly reported: Event[] = []
  #answers: Answer[] = []
  #transcription: { usage?: unknown } = {}

  private constructor(provider: SessionEmulator) {
    this.provider = provider
  }

  static async start(): Promise<RealtimeEmulator> {
    const serve = (session: ProviderSession) =>
      holdConversation(
        session,
        () => emulator.#answers.shift() ?? {},
        response => emulator.reported.push({ session, ...response }),
        () => emulator.#transcription,
      )
    const emulator = new RealtimeEmulator(
      await SessionEmulator.start(serve, request => emulator.refusing ?? admit(request)),
    )
    return emulator
  }

  /** What its provider's `OPENAI_BASE_URL` is. */
  get baseUrl(): string {
    return `${this.provider.url}/v1`
  }

  get last(): ProviderSession {
    return this.provider.last
  }

  /** Forgets how coming responses were to go. */
  forget(): void {
    this.#answers = []
  }

  /** How the coming responses go, one each, in whatever session. */
  answers(...answers: Answer[]): void {
    this.#answers.push(...answers)
  }

  /** What the coming transcripts have instead of what they usually have. */
  transcribes(instead: { usage?: unknown }): void {
    this.#transcription = instead
  }

  close(): Promise<void> {
    return this.provider.close()
  }
}

/** OpenAI's answer to an upgrade that it does not take; null for one that it takes. */
function admit({ headers, url }: IncomingMessage): Upgrade | null {
  const { pathname, searchParams } = new URL(url ?? '/', 'http://emulator')
  const [, key] = /^Bearer (\S+)$/.exec(headers.authorization ?? '') ?? []
  if (!key || key === 'invalid') return refusal(401, 'Incorrect API key provided.', 'invalid_api_key')
  if (pathname !== '/v1/realtime') return refusal(404, `Invalid URL (GET ${pathname})`, null)
  if (searchParams.has('model') || searchParams.get('intent') === 'transcription') return null
  return refusal(400, 'You must provide a model parameter.', 'missing_model')
}

/** An error as OpenAI answers an upgrade with it. */
export function refusal(status: number, message: string, code: string | null): Upgrade {
  const type = status >= 500 ? 'server_error' : 'invalid_request_error'
  return refuse(status, { error: { message, type, code, param: null } })
}

function soundOf(delta: string) {
  return { type: 'response.output_audio.delta', delta, output_index: 0, content_index: 0 }
}

/** Why an event is rejected. The session continues. */
class Refusal extends Error {
  readonly code: string
  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

function jsonOf(text: string): Event {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/** Holds a session: `nextAnswer` selects each response, `reported` is called for each that ended. */
export function holdConversation(
  session: ProviderSession,
  nextAnswer: () => Answer,
  reported: (response: Event) => void,
  transcription: () => { usage?: unknown } = () => ({}),
): void {
  new Conversation(session, nextAnswer, reported, transcription).begin()
}

/** One session as the real service holds it, with answers that are always the same. */
class Conversation {
  readonly #session: ProviderSession
  readonly #nextAnswer: () => Answer
  readonly #reported: (response: Event) => void
  readonly #transcription: () => { usage?: unknown }
  #settings: Event
  #ids = 0
  #bufferedBytes = 0
  /** The response of the conversation that is under way. */
  #response: Event = null
  /** All that are under way, with how each is cancelled. */
  readonly #responses = new Map<string, () => void>()

  constructor(
    session: ProviderSession,
    nextAnswer: () => Answer,
    reported: (response: Event) => void,
    transcription: () => { usage?: unknown },
  ) {
    this.#transcription = transcription
    this.#session = session
    this.#nextAnswer = nextAnswer
    this.#reported = reported
    const type = session.query.get('intent') === 'transcription' ? 'transcription' : 'realtime'
    this.#settings = {
      type,
      object: `realtime.${type === 'realtime' ? 'session' : 'transcription_session'}`,
      id: this.#id('sess'),
      model: session.query.get('model'),
      output_modalities: ['audio'],
      audio: { input: { format: { type: 'audio/pcm', rate: 24_000 }, transcription: null } },
    }
  }

  begin(): void {
    if (this.#session.query.size > 1) {
      const message = 'You must not provide a model parameter for transcription sessions.'
      this.#say({ type: 'error', error: { type: 'invalid_request_error', code: 'invalid_model', message } })
      this.#session.socket.close()
      return
    }
    this.#session.socket.on('message', (data, isBinary) => {
      const event = isBinary ? null : jsonOf(data.toString())
      try {
        if (!event) throw new Refusal('invalid_json', 'The event is not valid JSON.')
        this.#take(event)
      } catch (error) {
        if (!(error instanceof Refusal)) throw error
        const { code, message } = error
        const about = { param: null, event_id: event?.event_id ?? null }
        this.#say({ type: 'error', error: { type: 'invalid_request_error', code, message, ...about } })
      }
    })
    this.#say({ type: 'session.created', session: this.#settings })
  }

  #take(event: Event): void {
    switch (event.type) {
      case 'session.update':
        this.#update(event)
        break
      case 'conversation.item.create':
        this.#add({ id: this.#id('item'), status: 'completed', ...event.item })
        break
      case 'input_audio_buffer.append':
        this.#bufferedBytes += Buffer.from(event.audio, 'base64').length
        break
      case 'input_audio_buffer.clear':
        this.#bufferedBytes = 0
        this.#say({ type: 'input_audio_buffer.cleared' })
        break
      case 'input_audio_buffer.commit':
        this.#commit()
        break
      case 'response.create':
        this.#respond(event)
        break
      case 'response.cancel':
        this.#cancel(event.response_id ?? this.#response?.id)
        break
      default:
        throw new Refusal('invalid_value', `Invalid value: '${event.type}'.`)
    }
  }

  #update(event: Event): void {
    const { session } = event
    if (session?.type === undefined) throw new Refusal('missing_required_parameter', 'Missing: session.type.')
    if (session.model !== undefined && session.model !== this.#settings.model)
      throw new Refusal('session_model_immutable', 'The model of a session cannot be changed.')
    const input = { ...this.#settings.audio.input, ...session.audio?.input }
    this.#settings = { ...this.#settings, ...session, audio: { ...this.#settings.audio, ...session.audio, input } }
    this.#say({ type: 'session.updated', session: this.#settings })
  }

  #add(item: Event): void {
    this.#say({ type: 'conversation.item.added', previous_item_id: null, item })
    this.#say({ type: 'conversation.item.done', previous_item_id: null, item })
  }

  #commit(): void {
    const seconds = this.#bufferedBytes / 48_000
    if (seconds < 0.1) throw new Refusal('input_audio_buffer_commit_empty', 'The buffer is too small.')
    this.#bufferedBytes = 0
    const id = this.#id('item')
    this.#say({ type: 'input_audio_buffer.committed', previous_item_id: null, item_id: id })
    this.#add({ id, type: 'message', role: 'user', content: [{ type: 'input_audio', transcript: null }] })
    const { transcription } = this.#settings.audio.input
    if (transcription) this.#transcribe(id, transcription.model, seconds)
  }

  /** Whisper is paid by the length of what it hears, the others by the token. */
  #transcribe(itemId: string, model: string, seconds: number): void {
    const where = { item_id: itemId, content_index: 0 }
    const audioTokens = Math.ceil(seconds * 10)
    const tokens = {
      type: 'tokens',
      total_tokens: audioTokens + 12,
      input_tokens: audioTokens,
      input_token_details: { text_tokens: 0, audio_tokens: audioTokens },
      output_tokens: 12,
    }
    const usage = model.startsWith('whisper') ? { type: 'duration', seconds } : tokens
    const event = 'conversation.item.input_audio_transcription'
    this.#say({ type: `${event}.delta`, ...where, delta: 'Good morning.' })
    this.#say({ type: `${event}.completed`, ...where, transcript: 'Good morning.', usage, ...this.#transcription() })
  }

  #respond(event: Event): void {
    const isOutside = event.response?.conversation === 'none'
    if (this.#response && !isOutside)
      throw new Refusal('conversation_already_has_active_response', 'A response is under way.')
    const { status = 'completed', usage = usualUsage, midway, ends = true, speech } = this.#nextAnswer()
    const id = this.#id('resp')
    const conversationId = isOutside ? null : 'conv_1'
    const head = { object: 'realtime.response', id, conversation_id: conversationId, output: [], usage: null }
    const response = { ...head, status: 'in_progress' }
    if (!isOutside) this.#response = response
    this.#responses.set(id, () => this.#done(response, 'cancelled', cancelledUsage))
    this.#say({ type: 'response.created', response })
    const limits = [{ name: 'tokens', limit: 40_000, remaining: 39_747, reset_seconds: 0.4 }]
    this.#say({ type: 'rate_limits.updated', rate_limits: limits })
    const item = { id: this.#id('item'), type: 'message', role: 'assistant', status: 'in_progress', content: [] }
    const where = { response_id: id, item_id: item.id, output_index: 0 }
    this.#say({ type: 'response.output_item.added', ...where, item })
    if (speech) return void this.#speak(response, where, speech)
    const isText = event.response?.output_modalities?.[0] === 'text' || this.#settings.output_modalities[0] === 'text'
    const delta = isText
      ? { type: 'response.output_text.delta', delta: 'Hello ' }
      : soundOf(Buffer.alloc(960, 7).toString('base64'))
    this.#say({ ...delta, ...where, content_index: 0 })
    midway?.(this.#session)
    if (!ends) return
    this.#say({ ...delta, ...where, content_index: 0 })
    this.#say({ type: `${delta.type.replace('delta', 'done')}`, ...where, content_index: 0 })
    this.#say({ type: 'response.output_item.done', ...where, item: { ...item, status } })
    this.#done(response, status, usage)
  }

  /** Speaks until the end, a cancellation, or a closed connection. */
  async #speak(response: Event, where: object, speech: Speech): Promise<void> {
    const { pieceTokens, pieces, pause } = speech
    const piece = soundOf('A'.repeat(Math.ceil(charactersPerToken * pieceTokens)))
    let said = 0
    const end = (status: string) => this.#done(response, status, spokenUsage(speech, said * pieceTokens))
    this.#responses.set(response.id, () => end('cancelled'))
    while (said < pieces && this.#responses.has(response.id)) {
      this.#say({ ...piece, ...where })
      said++
      await pause()
    }
    if (this.#responses.has(response.id)) end('completed')
  }

  #cancel(id: string | undefined): void {
    const cancel = this.#responses.get(String(id))
    if (!cancel) throw new Refusal('response_cancel_not_active', 'No response is active.')
    cancel()
  }

  #done(response: Event, status: string, usage: unknown): void {
    this.#responses.delete(response.id)
    if (this.#response?.id === response.id) this.#response = null
    const error = status === 'failed' ? { type: 'server_error', code: null } : null
    const details = status === 'completed' ? null : { type: status, ...(error && { error }) }
    this.#say({ type: 'response.done', response: { ...response, status, status_details: details, usage } })
  }

  #say({ type, ...event }: Event): void {
    if (type === 'response.done') this.#reported(event.response)
    this.#session.send({ type, event_id: this.#id('event'), ...event })
  }

  #id(prefix: string): string {
    this.#ids++
    return `${prefix}_${this.#ids}`
  }
}
