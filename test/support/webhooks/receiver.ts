import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import OpenAI from 'openai'
import { Webhook } from 'standardwebhooks'

/** One delivery as it arrived. */
export type Received = { method: string; path: string; headers: Record<string, string>; body: string }
export type Event = { type: string; timestamp: string; data: Record<string, unknown> }
export type Answer = (request: http.IncomingMessage, response: http.ServerResponse) => void

export const status =
  (code: number, headers: Record<string, string> = {}, body = ''): Answer =>
  (_request, response) => {
    response.writeHead(code, headers).end(body)
  }
/** Never answers. */
export const hang: Answer = () => {}
/** Hangs up instead of answering. */
export const hangUp: Answer = request => request.socket.resetAndDestroy()

/** A customer's endpoint on loopback. It answers as told: each `once` answer for one request, then `always`. */
export class Receiver {
  readonly received: Received[] = []
  always: Answer = status(200)
  readonly #next: Answer[] = []
  readonly #server: http.Server
  sockets = 0

  private constructor() {
    this.#server = http.createServer(async (request, response) => {
      const { method = '', url = '', headers } = request
      // The body of one that is cut off while it arrives does not count.
      const body = await text(request).catch(() => null)
      if (body === null) return
      this.received.push({ method, path: url, headers: headers as Record<string, string>, body })
      const answer = this.#next.shift() ?? this.always
      answer(request, response)
    })
    this.#server.on('connection', () => this.sockets++)
  }

  static async start(port = 0): Promise<Receiver> {
    const receiver = new Receiver()
    receiver.#server.listen(port, '127.0.0.1')
    await once(receiver.#server, 'listening')
    return receiver
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}/hook`
  }

  once(...answers: Answer[]): void {
    this.#next.push(...answers)
  }

  /** How often an event arrived. */
  count(id: string): number {
    return this.received.filter(({ headers }) => headers['webhook-id'] === id).length
  }

  last(): Received {
    return this.received.at(-1)!
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }
}

/** The event, when a customer who knows `secret` would believe it, by the `standardwebhooks` package. Throws otherwise. */
export function verified({ body, headers }: Received, secret: string): Event {
  return new Webhook(secret).verify(body, headers) as Event
}

/** The same by the OpenAI SDK. */
export async function unwrapped({ body, headers }: Received, secret: string): Promise<Event> {
  return (await new OpenAI({ apiKey: 'none' }).webhooks.unwrap(body, headers, secret)) as unknown as Event
}

/** Whether `secret` signed it at the time it says, however long ago that is. */
export function signedBy({ body, headers }: Received, secret: string): boolean {
  const at = new Date(Number(headers['webhook-timestamp']) * 1_000)
  const expected = new Webhook(secret).sign(headers['webhook-id']!, at, body)
  return headers['webhook-signature']!.split(' ').includes(expected)
}
