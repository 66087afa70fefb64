import { crc32 } from 'node:zlib'
import { EventStreamCodec } from '@smithy/eventstream-codec'
import { fromUtf8, toUtf8 } from '@smithy/util-utf8'
import { PieceCollector } from '../../../io/byte-budget.ts'
import type { ResponseSink } from '../../../io/http.ts'

/** The media type of streams in frames (`application/vnd.amazon.eventstream`). */
const framedType = 'application/vnd.amazon.eventstream'
/** Length of a frame, length of its headers, and their checksum. */
const preludeBytes = 12
/** A frame without headers and payload: its prelude and its checksum. */
const minFrameBytes = preludeBytes + 4
/** A payload of 24 MB and headers of 128 kB, as in `botocore/eventstream.py`. */
const maxFrameBytes = 24 * 1024 * 1024 + 128 * 1024 + minFrameBytes

/** The type of the event for a frame that cannot be read, and of those for what the service reports in the stream. */
export const faultEvent = 'error'
export const exceptionPrefix = 'exception:'

const codec = new EventStreamCodec(toUtf8, fromUtf8)

/**
 * Takes the place of a sink for responses whose body may be an AWS event stream: its frames reach `sink` as server-sent
 * events, whose names are the types of the frames, as for all other providers. Other bodies pass unchanged.
 */
export function readAsEvents(sink: ResponseSink): ResponseSink {
  let frames: FrameReader | null = null
  return {
    onSent: () => sink.onSent?.(),
    onHead(status, headers) {
      if (String(headers['content-type'] ?? '').startsWith(framedType)) frames = new FrameReader()
      sink.onHead(status, headers)
    },
    onData(chunk) {
      if (!frames) return sink.onData(chunk)
      const events = frames.read(chunk)
      if (events !== '') sink.onData(Buffer.from(events))
    },
    onEnd: () => sink.onEnd(),
    onError: (fault, error) => sink.onError(fault, error),
  }
}

/** Cuts a body into frames, checks their checksums, and writes each as a server-sent event. */
class FrameReader {
  readonly #pieces = new PieceCollector()
  /** The length of the frame that has begun; 0 = not known yet. */
  #frameBytes = 0
  #isBroken = false

  /** The events of all frames that are now complete. After a frame that cannot be read, nothing more is. */
  read(chunk: Buffer): string {
    if (this.#isBroken) return ''
    this.#pieces.add(chunk)
    let events = ''
    try {
      for (let frame = this.#next(); frame !== null; frame = this.#next()) events += eventOf(frame)
    } catch (error) {
      this.#isBroken = true
      this.#pieces.clear()
      events += formatEvent(faultEvent, JSON.stringify({ message: (error as Error).message }))
    }
    return events
  }

  /** The next complete frame; null until it is. A long one is joined once, however many pieces it has. */
  #next(): Buffer | null {
    if (this.#frameBytes === 0) {
      if (this.#pieces.bytes < preludeBytes) return null
      const beginning = this.#pieces.take()
      this.#frameBytes = frameLength(beginning)
      this.#pieces.add(beginning)
    }
    if (this.#pieces.bytes < this.#frameBytes) return null
    const joined = this.#pieces.take()
    const frame = joined.subarray(0, this.#frameBytes)
    if (joined.length > this.#frameBytes) this.#pieces.add(joined.subarray(this.#frameBytes))
    this.#frameBytes = 0
    return frame
  }
}

/** The length that a prelude states. It is checked before it is trusted: a wrong one would wait for bytes that never come. */
function frameLength(bytes: Buffer): number {
  if (crc32(bytes.subarray(0, 8)) !== bytes.readUInt32BE(8)) throw new Error('a frame has a wrong checksum')
  const length = bytes.readUInt32BE(0)
  if (length < minFrameBytes || length > maxFrameBytes) throw new Error(`a frame of ${length} bytes is not possible`)
  return length
}

function eventOf(frame: Buffer): string {
  const { headers, body } = codec.decode(frame)
  const text = (name: string) => String(headers[name]?.value ?? '')
  switch (text(':message-type')) {
    case 'event':
      return formatEvent(text(':event-type'), toUtf8(body))
    case 'exception':
      return formatEvent(exceptionPrefix + text(':exception-type'), toUtf8(body))
    default: {
      const reported = JSON.stringify({ message: text(':error-message') })
      return formatEvent(exceptionPrefix + text(':error-code'), reported)
    }
  }
}

/** Line breaks are none of the JSON's own characters. */
function formatEvent(name: string, json: string): string {
  return `event: ${name.replace(/\s/g, '')}\ndata: ${json.replace(/[\r\n]+/g, ' ')}\n\n`
}
