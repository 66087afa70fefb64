import type { IncomingMessage } from 'node:http'
import { type ProviderSession, refuse, SessionEmulator, type Upgrade } from './sessions.ts'

// biome-ignore lint/suspicious/noExplicitAny: messages of every shape
type Message = any

/** How a turn is answered; what is left out is as usual. */
export type Turn = {
  usage?: object | null
  /** Calls this function, and continues once it is answered. */
  tool?: { name: string; usage: object }
  /** Happens after the first sound. */
  midway?: (session: ProviderSession) => void
  /** False = it continues until it is interrupted. */
  ends?: boolean
}

const method = 'BidiGenerateContent'
const inBinary = { binary: true }
/** 24 kHz PCM, some milliseconds. */
export const sound = Buffer.alloc(960, 7).toString('base64')

/** What the first turn is said to have used, as the real service writes it. */
export const usualUsage = {
  promptTokenCount: 143,
  responseTokenCount: 19,
  totalTokenCount: 162,
  promptTokensDetails: [
    { modality: 'TEXT', tokenCount: 101 },
    { modality: 'AUDIO', tokenCount: 42 },
  ],
  responseTokensDetails: [{ modality: 'AUDIO', tokenCount: 19 }],
}

/** Google's Live API on a local port; the API key `invalid` is refused. */
export class LiveEmulator {
  readonly provider: SessionEmulator
  #turns: Turn[] = []

  private constructor(provider: SessionEmulator) {
    this.provider = provider
  }

  static async start(): Promise<LiveEmulator> {
    const serve = (session: ProviderSession) => new Conversation(session, () => emulator.#turns.shift() ?? {}).begin()
    const emulator = new LiveEmulator(await SessionEmulator.start(serve, admit))
    return emulator
  }

  get url(): string {
    return this.provider.url
  }

  get last(): ProviderSession {
    return this.provider.last
  }

  /** How the coming turns go, one each, in whatever session. */
  turns(...turns: Turn[]): void {
    this.#turns.push(...turns)
  }

  close(): Promise<void> {
    return this.provider.close()
  }
}

/** Google's answer to an upgrade that it does not take; null for one that it takes. */
function admit({ headers, url }: IncomingMessage): Upgrade | null {
  // Clients with an own base address send the path with two slashes.
  const { pathname, searchParams } = new URL((url ?? '/').replace(/^\/+/, '/'), 'http://emulator')
  const [, version, called] =
    /^\/ws\/google\.ai\.generativelanguage\.(v1|v1beta)\.GenerativeService\.(\w+)$/.exec(pathname) ?? []
  if (!version || called !== method) return refusal(404, 'NOT_FOUND', 'Not found.')
  const key = headers['x-goog-api-key'] ?? searchParams.get('key')
  return !key || key === 'invalid' ? refusal(403, 'PERMISSION_DENIED', 'API key not valid.') : null
}

function refusal(code: number, status: string, message: string): Upgrade {
  return refuse(code, { error: { code, message, status } })
}

/** One session as the real service holds it, with answers that are always the same. Its messages are in binary frames. */
class Conversation {
  readonly #session: ProviderSession
  readonly #nextTurn: () => Turn
  #setUp = false
  /** The turn under way. */
  #turn: Turn | null = null

  constructor(session: ProviderSession, nextTurn: () => Turn) {
    this.#session = session
    this.#nextTurn = nextTurn
  }

  begin(): void {
    this.#session.socket.on('message', (frame: Buffer) => this.#hear(jsonOf(frame)))
  }

  #hear(message: Message) {
    if (!message) return this.#end('Invalid JSON payload received.')
    if (!this.#setUp) return this.#start(message.setup)
    const { setup, clientContent, realtimeInput, toolResponse } = message
    if (setup) return this.#end('setup must be sent once, as the first message.')
    if (toolResponse) return this.#goOn()
    if (!clientContent && !realtimeInput) return this.#end('Unknown name.')
    const interrupts = clientContent || realtimeInput.activityStart
    if (interrupts && this.#turn) this.#finish({ interrupted: true })
    const { text, audioStreamEnd, activityEnd } = realtimeInput ?? {}
    if (clientContent?.turnComplete || text || audioStreamEnd || activityEnd) this.#answer()
  }

  #start(setup: Message) {
    if (typeof setup?.model !== 'string' || !setup.model.startsWith('models/')) {
      return this.#end('setup.model: expected models/{model}.')
    }
    this.#setUp = true
    this.#say({ setupComplete: {} })
    if (setup.sessionResumption) this.#say({ sessionResumptionUpdate: { newHandle: 'handle-1', resumable: true } })
  }

  #answer() {
    this.#turn = this.#nextTurn()
    const { tool, midway, ends } = this.#turn
    this.#speak()
    midway?.(this.#session)
    if (tool) {
      const functionCalls = [{ id: 'call-1', name: tool.name, args: {} }]
      return this.#say({ toolCall: { functionCalls }, usageMetadata: tool.usage })
    }
    if (ends !== false) this.#goOn()
  }

  #speak(): void {
    const parts = [{ inlineData: { mimeType: 'audio/pcm;rate=24000', data: sound } }]
    this.#say({ serverContent: { modelTurn: { parts } } })
  }

  #goOn(): void {
    if (!this.#turn) return
    this.#speak()
    this.#say({ serverContent: { outputTranscription: { text: 'Hello there.' } } })
    this.#say({ serverContent: { generationComplete: true } })
    this.#finish({})
  }

  #finish({ interrupted = false }): void {
    const usage = this.#turn!.usage === undefined ? usualUsage : this.#turn!.usage
    this.#turn = null
    if (interrupted) this.#say({ serverContent: { interrupted: true } })
    this.#say({ serverContent: { turnComplete: true }, ...(usage && { usageMetadata: usage }) })
  }

  #say(message: object): void {
    this.#session.send(message, inBinary)
  }

  #end(reason: string): void {
    this.#session.socket.close(1007, reason)
  }
}

function jsonOf(frame: Buffer): Message {
  try {
    return JSON.parse(frame.toString())
  } catch {
    return null
  }
}
