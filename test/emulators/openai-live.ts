import type { IncomingMessage } from 'node:http'
import { refusal } from './openai-realtime.ts'
import { type ProviderSession, SessionEmulator, type Upgrade } from './sessions.ts'

// biome-ignore lint/suspicious/noExplicitAny: events of every shape
type Event = any

/** The reported usage of a task that the session delegated to another model. */
export const delegatedUsage = {
  input_tokens: 1_200,
  input_tokens_details: { cached_tokens: 1_024, cache_write_tokens: 0 },
  output_tokens: 340,
  output_tokens_details: { reasoning_tokens: 256 },
  total_tokens: 1_540,
}

const models = ['gpt-live-1']
const bytesPerSecond = 48_000

/** One session as OpenAI's Live API holds it: it lasts as long as the sound it was sent. */
export class LiveSession {
  readonly provider: ProviderSession
  #config: Event = null
  #ids = 0
  #heardBytes = 0
  #toldSeconds = 0

  constructor(provider: ProviderSession) {
    this.provider = provider
    provider.socket.on('message', data => this.#take(JSON.parse(data.toString())))
  }

  /** The whole length until now. */
  get seconds(): number {
    return this.#heardBytes / bytesPerSecond
  }

  /** Tells how long the session lasted until now. */
  tell(usage: unknown = { seconds: this.seconds }): void {
    this.#say({ type: 'session.usage.updated', usage })
  }

  /** Delegates a task to another model, which ends like this. */
  delegate(model: string, { usage = delegatedUsage as unknown, ends = 'completed' } = {}): void {
    const delegation = { id: this.#id('dlg'), type: 'delegation', target: 'responses', response_id: this.#id('resp') }
    this.#say({ type: 'session.delegation.created', delegation, offset_ms: this.seconds * 1_000 })
    const response = { id: delegation.response_id, object: 'response', model, status: 'in_progress', output: [] }
    const tell = (event: object) => this.#say({ type: 'response.event', delegation_id: delegation.id, event })
    tell({ type: 'response.created', sequence_number: 0, response: { ...response, usage: null } })
    tell({ type: 'response.output_text.delta', sequence_number: 1, delta: 'Forty-two.', output_index: 0 })
    tell({ type: `response.${ends}`, sequence_number: 2, response: { ...response, status: ends, usage } })
  }

  /** Has questions answered by another model. */
  decide(model: string, usage: unknown = delegatedUsage): void {
    const decision = { id: this.#id('dec'), object: 'decision', model, answers: [], usage }
    const about = { delegation_id: null, source_event_id: null, source_event_type: null, trigger_id: null }
    this.#say({ type: 'decision.event', ...about, event: { type: 'decision.completed', decision } })
  }

  /** Ends the session with its final length. */
  end(reason = 'close_requested'): void {
    this.#say({ type: 'session.closed', reason, session: this.#config, usage: { seconds: this.seconds } })
    this.provider.socket.close(1000, reason)
  }

  #take(event: Event): void {
    if (this.#config === null && event.type !== 'session.start') {
      this.#refuse('session_not_started', 'Send session.start first.')
      return
    }
    switch (event.type) {
      case 'session.start':
        this.#start(event.session ?? {})
        break
      case 'session.input_audio.append':
        this.#hear(event.audio)
        break
      case 'session.update':
        this.#config = { ...this.#config, ...event.session }
        this.#say({ type: 'session.updated', session: this.#config })
        break
      case 'response.create':
        this.delegate(this.#config.delegation.responses.model)
        break
      case 'decision.item.create':
        break
      case 'decision.create':
        this.decide(this.#config.delegation.decisions.model)
        break
      case 'session.close':
        this.end()
        break
      default:
        this.#refuse('invalid_value', `Invalid value: '${event.type}'.`, 'type')
    }
  }

  #start(session: Event): void {
    if (this.#config) {
      this.#refuse('session_already_started', 'The session is started already.')
      return
    }
    if (!models.includes(session.model)) {
      this.#refuse('model_not_found', `The model '${session.model}' does not exist.`, 'session.model')
      return
    }
    if (session.audio?.output?.voice === 'nobody') {
      this.#refuse('invalid_value', 'There is no such voice.', 'session.audio.output.voice')
      return
    }
    const expiresAt = Math.floor(Date.now() / 1_000) + 3_600
    this.#config = { ...session, id: this.#id('live_sess'), status: 'active', expires_at: expiresAt }
    this.#say({ type: 'session.started', session: this.#config })
  }

  /** Says back what it hears, and how long the session is once a second. */
  #hear(audio: string): void {
    this.#heardBytes += Buffer.from(audio, 'base64').length
    this.provider.send({ type: 'session.output_audio.delta', delta: audio })
    if (Math.floor(this.seconds) === this.#toldSeconds) return
    this.#toldSeconds = Math.floor(this.seconds)
    this.tell()
  }

  #refuse(code: string, message: string, param?: string): void {
    this.#say({ type: 'error', error: { type: 'invalid_request_error', code, message, ...(param && { param }) } })
  }

  #say({ type, ...event }: Event): void {
    this.provider.send({ type, event_id: this.#id('event'), ...event })
  }

  #id(prefix: string): string {
    this.#ids++
    return `${prefix}_${this.#ids}`
  }
}

/** OpenAI's Live API on a local port; the API key `invalid` is refused. */
export class LiveEmulator {
  readonly provider: SessionEmulator
  readonly sessions: LiveSession[] = []

  private constructor(provider: SessionEmulator) {
    this.provider = provider
  }

  static async start(): Promise<LiveEmulator> {
    const serve = (session: ProviderSession) => void emulator.sessions.push(new LiveSession(session))
    const emulator = new LiveEmulator(await SessionEmulator.start(serve, admit))
    return emulator
  }

  /** What its provider's `OPENAI_BASE_URL` is. */
  get baseUrl(): string {
    return `${this.provider.url}/v1`
  }

  /** The last session that was opened. Throws when there is none. */
  get last(): LiveSession {
    const session = this.sessions.at(-1)
    if (!session) throw new Error('no session was opened')
    return session
  }

  close(): Promise<void> {
    return this.provider.close()
  }
}

function admit({ headers, url }: IncomingMessage): Upgrade | null {
  const [, key] = /^Bearer (\S+)$/.exec(headers.authorization ?? '') ?? []
  if (!key || key === 'invalid') return refusal(401, 'Incorrect API key provided.', 'invalid_api_key')
  return url === '/v1/live/sessions' ? null : refusal(404, `Invalid URL (GET ${url})`, null)
}
