import type { ContentCopy } from '../../../shared/content-log/content-copy.ts'
import type { Encoding, ResponseWriter } from '../../../shared/engine/response-writer.ts'
import { parseEvent, splitEvents } from '../../../shared/io/sse.ts'
import type { ResponsesEvent, ResponsesOutputItem } from '../../../shared/kinds/responses-answer.ts'
import type { Trace } from '../../../shared/traces/trace.ts'
import type { FrameSender } from './frame-sender.ts'

/** A response that ended and can be continued. */
type EndedResponse = { id: string; output: readonly ResponsesOutputItem[]; isStored: boolean }

/** Matches the events that are read here, also with escapes in their names; most of a stream is passed on unread. */
const readEvents = /"response\.(?:created|output_item\.done|completed|incomplete)"|\\u00[2-7]/

/** On a socket an `error` is a turn that was refused: a response that fails ends with `response.failed` alone. */
const errorEvent = '{"type":"error",'

/** Response writer of one turn on a WebSocket: sends each event of the stream as a text frame. */
export class TurnWriter implements ResponseWriter {
  gone = false
  /** The trace of the turn; null = none. */
  trace: Trace | null = null
  /** Copies the stream, for the log of input and output; null = not logged. */
  copy: ContentCopy | null = null
  readonly keeps = false
  readonly requestId: string
  /** The client's name of the turn, which is added to each of its events. */
  streamId: string | null = null
  /** The response, once it has begun. */
  responseId: string | null = null
  /** The response, once it is complete or incomplete. */
  ended: EndedResponse | null = null
  /** Resolves when the client has left the turn. */
  readonly left: Promise<void>
  readonly #sender: FrameSender
  readonly #resolveLeft: () => void
  readonly #listeners: (() => void)[] = []
  readonly #items: ResponsesOutputItem[] = []

  constructor(sender: FrameSender, requestId: string) {
    this.requestId = requestId
    this.#sender = sender
    const { promise, resolve } = Promise.withResolvers<void>()
    this.left = promise
    this.#resolveLeft = resolve
  }

  /** The client has disconnected or cancelled the turn: nothing more is sent of it. */
  leave(): void {
    if (this.gone) return
    this.gone = true
    for (const listener of this.#listeners) listener()
    this.#resolveLeft()
  }

  onGone(listener: () => void): void {
    this.#listeners.push(listener)
    if (this.gone) listener()
  }

  write(stream: string, encoding: Encoding): boolean {
    if (this.gone) return true
    this.copy?.write(stream, encoding)
    const frames: Buffer[] = []
    for (const one of splitEvents(stream)) {
      const data = parseEvent(one)?.data.trim()
      if (data === undefined || data === '[DONE]' || data.startsWith(errorEvent)) continue
      const json = Buffer.from(data, encoding)
      if (readEvents.test(data)) this.#read(JSON.parse(json.toString()))
      frames.push(this.#named(json))
    }
    return frames.length === 0 || this.#sender.send(...frames)
  }

  /** Sends an object of ours. */
  writeObject(object: object): void {
    if (!this.gone) this.#sender.send(this.#named(Buffer.from(JSON.stringify(object))))
  }

  onDrain(listener: () => void): void {
    this.#sender.onDrain(listener)
  }

  #read(event: ResponsesEvent): void {
    switch (event.type) {
      case 'response.created':
        this.responseId = event.response.id
        return
      case 'response.output_item.done':
        this.#items[event.output_index] = event.item
        return
      case 'response.completed':
      case 'response.incomplete': {
        const { id, output, store } = event.response
        // Some providers do not repeat the items here.
        this.ended = { id, output: output?.length ? output : this.#items.filter(Boolean), isStored: store === true }
      }
    }
  }

  #named(json: Buffer): Buffer {
    if (this.streamId === null) return json
    const member = `{"stream_id":${JSON.stringify(this.streamId)},`
    return Buffer.concat([Buffer.from(member), json.subarray(json.indexOf('{') + 1)])
  }

  // A turn is always a stream of events: it has no head, is never a whole answer or a file, and ends with its last event.
  collect(): void {}
  answer(): void {}
  open(): void {}
  send(): boolean {
    return true
  }
  end(): void {}
  abandon(): boolean {
    return true
  }
}
