import { createHash } from 'node:crypto'
import { connect, createServer } from 'node:net'
import { nowUs } from './clock.ts'
import { Samples } from './statistics.ts'
import { type Frame, RawWebSocket, StampedFrame, textFrame } from './websocket.ts'
import { type Job, Wheel } from './wheel.ts'

/** Sound is sent in frames of so many milliseconds, 24 kHz PCM16. */
export const frameMs = 20
const frameBytes = (24_000 * 2 * frameMs) / 1_000
const sound = StampedFrame.stamp + Buffer.alloc(frameBytes, 'sound').toString('base64').slice(StampedFrame.stamp.length)
const framesPerResponse = 1_000 / frameMs

/** What the provider reports of every response, once a second. */
export const usage = {
  total_tokens: 420,
  input_tokens: 300,
  output_tokens: 120,
  input_token_details: { text_tokens: 100, audio_tokens: 200, cached_tokens: 0 },
  output_token_details: { text_tokens: 40, audio_tokens: 80 },
}

const response = { object: 'realtime.response', id: 'resp_CfWkHIEGNVwoNTIPfnYEm', output: [] }
const events = {
  created: {
    type: 'session.created',
    event_id: 'event_CfWkGKeBxkfRGRzxvvSRw',
    session: {
      type: 'realtime',
      object: 'realtime.session',
      id: 'sess_CfWkGoOHbYHBxMfzY8wLj',
      model: 'gpt-realtime',
      output_modalities: ['audio'],
      instructions: 'You are a helpful voice assistant. '.repeat(20),
      audio: {
        input: {
          format: { type: 'audio/pcm', rate: 24_000 },
          transcription: null,
          turn_detection: { type: 'server_vad' },
        },
        output: { format: { type: 'audio/pcm', rate: 24_000 }, voice: 'marin', speed: 1 },
      },
    },
  },
  begun: { type: 'response.created', event_id: 'event_CfWkHQwQbXzuGfuVWvRqg', response },
  done: { type: 'response.done', event_id: 'event_CfWkHSYBFBcVfPfvkOUKn', response: { ...response, usage } },
  heard: {
    type: 'response.output_audio.delta',
    event_id: 'event_CfWkHpLZwJWcRqBqxVWHd',
    response_id: response.id,
    item_id: 'item_CfWkHPqpzSjTgAPTFGmFm',
    output_index: 0,
    content_index: 0,
    delta: sound,
  },
  said: { type: 'input_audio_buffer.append', audio: sound },
}

/** What went one way through the subject, and how long it took. */
export class Direction {
  readonly frame: StampedFrame
  sent = 0
  received = 0
  delaysUs = new Samples()

  constructor(event: object, masked: boolean) {
    this.frame = new StampedFrame(event, masked)
  }
}

/** Both ends of realtime sessions with the subject between them: clients, and the provider that answers sound with sound. */
export class Voices {
  /** From the clients to the provider, and back. */
  readonly up = new Direction(events.said, true)
  readonly down = new Direction(events.heard, false)
  readonly created = textFrame(events.created, false)
  readonly response = Buffer.concat([textFrame(events.begun, false), textFrame(events.done, false)])
  readonly wheel = new Wheel()
  /** Sessions that talk do so while it is true. */
  talking = false
  measuring = false
  /** Responses reported by the provider. */
  responses = 0
  /** Seconds that closed sessions lasted, as the provider saw them. */
  seconds = 0
  /** Connections that the provider has open. */
  open = 0

  /** Provider's end: listens. */
  async provide(port: number): Promise<void> {
    const server = createServer({ noDelay: true }, socket => {
      const session = new ProviderSession(this)
      session.socket = new RawWebSocket(socket, false, session)
    })
    await new Promise<void>(resolve => server.listen({ host: '127.0.0.1', port, backlog: 4096 }, resolve))
  }

  received(direction: Direction, frame: Frame): boolean {
    if (frame.length !== direction.frame.length) return false
    direction.received++
    if (this.measuring) direction.delaysUs.push(nowUs() - direction.frame.madeUs(frame))
    return true
  }
}

/** Sends a frame of sound every 20 ms from a moment on, however late earlier ones were. */
class Speaker implements Job {
  readonly #voices: Voices
  readonly #direction: Direction
  readonly #socket: RawWebSocket
  readonly #fromMs: number
  readonly #each: (frames: number) => void
  #frames = 0

  constructor(
    voices: Voices,
    { direction, socket, fromMs }: { direction: Direction; socket: RawWebSocket; fromMs: number },
    each: (frames: number) => void = () => {},
  ) {
    this.#voices = voices
    this.#direction = direction
    this.#socket = socket
    this.#fromMs = fromMs
    this.#each = each
    voices.wheel.at(fromMs, this)
  }

  run(): void {
    if (!this.#voices.talking) return
    this.#socket.write(this.#direction.frame.made(nowUs()))
    this.#direction.sent++
    this.#each(++this.#frames)
    this.#voices.wheel.at(this.#fromMs + this.#frames * frameMs, this)
  }
}

class ProviderSession {
  readonly #voices: Voices
  socket!: RawWebSocket
  #openedUs = 0
  #speaks = false

  constructor(voices: Voices) {
    this.#voices = voices
  }

  onHead(head: string): void {
    const [, key] = /\r\nsec-websocket-key: *(\S+)/i.exec(head) ?? []
    const accept = createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64')
    this.#voices.open++
    this.#openedUs = nowUs()
    this.socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: ${accept}\r\n\r\n`,
    )
    this.socket.write(this.#voices.created)
  }

  onFrame(frame: Frame): void {
    const voices = this.#voices
    if (!voices.received(voices.up, frame) || this.#speaks) return
    this.#speaks = true
    const fromMs = nowUs() / 1e3 + frameMs / 2
    new Speaker(voices, { direction: voices.down, socket: this.socket, fromMs }, frames => {
      if (frames % framesPerResponse !== 0) return
      this.socket.write(voices.response)
      voices.responses++
    })
  }

  onClose(): void {
    if (this.#openedUs === 0) return
    this.#voices.open--
    this.#voices.seconds += (nowUs() - this.#openedUs) / 1e6
  }
}

/** A client's end of one session. */
export class Client {
  /** Rejects when the session is refused, or closed before the provider greeted. */
  readonly ready: Promise<void>
  readonly closed: Promise<void>
  readonly #voices: Voices
  readonly #socket: RawWebSocket
  readonly #greeted = Promise.withResolvers<void>()
  readonly #left = Promise.withResolvers<void>()

  constructor(voices: Voices, { port, path, key }: { port: number; path: string; key: string }) {
    this.#voices = voices
    this.ready = this.#greeted.promise
    this.closed = this.#left.promise
    this.#socket = new RawWebSocket(connect({ host: '127.0.0.1', port, noDelay: true }), true, this)
    const lines = [
      `GET ${path} HTTP/1.1`,
      `host: 127.0.0.1:${port}`,
      'upgrade: websocket',
      'connection: Upgrade',
      'sec-websocket-version: 13',
      'sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==',
      `authorization: Bearer ${key}`,
    ]
    this.#socket.write(`${lines.join('\r\n')}\r\n\r\n`)
  }

  /** Talks from a millisecond of the shared clock on. */
  talk(fromMs: number): void {
    new Speaker(this.#voices, { direction: this.#voices.up, socket: this.#socket, fromMs })
  }

  close(): void {
    this.#socket.close()
  }

  onHead(head: string): void {
    if (!head.startsWith('HTTP/1.1 101')) this.#greeted.reject(new Error(head))
  }

  onFrame(frame: Frame): void {
    // Anything but sound is the greeting, or a report that is not awaited.
    if (!this.#voices.received(this.#voices.down, frame)) this.#greeted.resolve()
  }

  onClose(): void {
    this.#greeted.reject(new Error('the session was closed'))
    this.#left.resolve()
  }
}
