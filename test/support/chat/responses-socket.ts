import { eventually } from '../gateway.ts'
import { joined, type Opening, RealtimeClient } from '../realtime/sockets.ts'

// biome-ignore lint/suspicious/noExplicitAny: events of every shape
type Event = any

const endings = new Set(['response.completed', 'response.incomplete', 'response.failed', 'error'])

/** A plain client of the WebSocket at /v1/responses. */
export class ResponsesClient extends RealtimeClient {
  #read = 0

  constructor(url: string, opening: Opening) {
    super(url, { path: '/v1/responses', query: '', ...opening })
  }

  send(event: object | string): void {
    this.socket.send(typeof event === 'string' ? event : JSON.stringify(event))
  }

  /** The unread events up to the next of a type, by default the last of a turn. */
  async until(...types: string[]): Promise<Event[]> {
    const wanted = types.length > 0 ? new Set(types) : endings
    const found = () => this.events.findIndex(({ type }, index) => index >= this.#read && wanted.has(type))
    await eventually(() => found() >= 0 || this.closed !== null, `${[...wanted].join(' or ')} came`)
    if (found() < 0) throw new Error(`closed before: ${JSON.stringify(this.closed)}`)
    return this.events.slice(this.#read, (this.#read = found() + 1))
  }

  /** Runs a turn; its events. */
  turn(body: object): Promise<Event[]> {
    this.send({ type: 'response.create', ...body })
    return this.until()
  }

  /** Runs a turn that is refused; the error frame. */
  async refused(body: object | string): Promise<Event> {
    this.send(typeof body === 'string' ? body : { type: 'response.create', ...body })
    return (await this.until()).at(-1)
  }

  async close(): Promise<void> {
    this.socket.close()
    await this.end()
  }
}

/** Opens a connection. */
export async function openResponses(url: string, opening: Opening): Promise<ResponsesClient> {
  return (await joined(new ResponsesClient(url, opening))) as ResponsesClient
}

export function textOf(events: Event[]): string {
  return events.flatMap(({ type, delta }) => (type === 'response.output_text.delta' ? [delta] : [])).join('')
}
