import { ApiError } from '../../../api.ts'
import type { Format } from './formats/format.ts'
import type { Piece } from './turns.ts'

/**
 * Yields the pieces of a streamed response (server-sent events) as they arrive. Throws an ApiError for an error inside
 * the stream, and for a stream that ends without its last event: that answer is not whole.
 */
export async function* piecesOf(response: Response, { read }: Format): AsyncGenerator<Piece> {
  const requestId = response.headers.get('x-request-id')
  let rest = ''
  let isWhole = false
  for await (const text of textOf(response.body!)) {
    const events = (rest + text).split('\n\n')
    rest = events.pop()!
    for (const event of events) {
      const data = dataOf(event)
      // The rest is read too, so that the connection is not aborted.
      if (data === '[DONE]') isWhole = true
      if (data === '' || isWhole) continue
      const piece = read(JSON.parse(data) as never)
      if (piece.error) throw new ApiError(200, piece.error.code, piece.error.message, piece.error.param, requestId)
      isWhole = piece.isLast === true
      yield piece
    }
  }
  if (!isWhole)
    throw new ApiError(200, 'stream_ended', 'The stream ended before the response was complete.', null, requestId)
}

/** Streams are not async iterable in every browser. */
async function* textOf(body: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<string> {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) yield part.value
  } finally {
    await reader.cancel().catch(() => {}) // It has ended by itself.
  }
}

function dataOf(event: string): string {
  const lines = event.split('\n').filter(line => line.startsWith('data:'))
  return lines.map(line => line.slice('data:'.length).trim()).join('\n')
}
