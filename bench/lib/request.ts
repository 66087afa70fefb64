/**
 * How the emulated upstream behaves: milliseconds until the first byte, chunks of a stream, milliseconds between them, and how
 * many first calls it refuses with 503.
 */
export type Behaviour = { latencyMs: number; chunks: number; intervalMs: number; refusals?: number }

export const chatPath = '/v1/chat/completions'
const bodyBytes = 1024

/** The model slug that asks for a behaviour; every gateway passes it on. */
export function slugOf({ latencyMs, chunks, intervalMs, refusals = 0 }: Behaviour): string {
  return `emu-l${latencyMs}-c${chunks}-i${intervalMs}${refusals > 0 ? `-r${refusals}` : ''}`
}

export function behaviourOf(slug: string): Behaviour | null {
  const [, latencyMs, chunks, intervalMs, refusals] =
    /^emu-l(\d+)-c(\d+)-i(\d+)(?:-r(\d+))?$/.exec(slug)?.map(text => Number(text ?? 0)) ?? []
  return intervalMs === undefined ? null : { latencyMs: latencyMs!, chunks: chunks!, intervalMs, refusals: refusals! }
}

/** Another model than the one that says how the upstream behaves, and an image beside the text. */
export type Variant = { model?: string; imageUrl?: string }

/** A chat request of so many bytes of JSON, about 1 kB where not said, and of what an image takes beyond that. */
export function chatBody(behaviour: Behaviour, stream: boolean, bytes = bodyBytes, variant: Variant = {}): string {
  const { model = slugOf(behaviour), imageUrl } = variant
  const body = (content: unknown) =>
    JSON.stringify({
      model,
      messages: [
        { role: 'system', content: 'Answer in one short paragraph. Say so when you do not know.' },
        { role: 'user', content },
      ],
      max_tokens: 256,
      temperature: 0.7,
      stream,
      ...(stream && { stream_options: { include_usage: true } }),
    })
  const sentence = 'Please summarise the notes of our last meeting and name what is still open. '
  const room = bytes - body('').length
  const text = sentence.repeat(Math.ceil(room / sentence.length)).slice(0, room)
  if (imageUrl === undefined) return body(text)
  return body([
    { type: 'text', text },
    { type: 'image_url', image_url: { url: imageUrl } },
  ])
}

/** The whole HTTP/1.1 request of a chat call. `headers` are lines of `name: value`. */
export function chatRequest(headers: string[], body: string): string {
  const lines = ['host: 127.0.0.1', 'content-type: application/json', `content-length: ${Buffer.byteLength(body)}`]
  return `POST ${chatPath} HTTP/1.1\r\n${[...lines, ...headers].join('\r\n')}\r\n\r\n${body}`
}

// Each answer and each chunk says in its content when the upstream received the request and when it wrote this, in
// microseconds of the shared clock: `R<16 digits>T<16 digits>`.
const digits = 16
const mark = Buffer.from('"content":"R')

export function stampText(receivedUs: number, wroteUs: number): string {
  return `R${String(receivedUs).padStart(digits, '0')}T${String(wroteUs).padStart(digits, '0')}`
}

/** Calls `found` with every stamp in the first `length` bytes. */
export function eachStamp(buffer: Buffer, length: number, found: (receivedUs: number, wroteUs: number) => void): void {
  const bytes = buffer.subarray(0, length)
  for (let at = bytes.indexOf(mark); at >= 0; at = bytes.indexOf(mark, at)) {
    at += mark.length
    if (at + 2 * digits + 1 > length) return
    found(number(bytes, at), number(bytes, at + digits + 1))
  }
}

function number(bytes: Buffer, from: number): number {
  let value = 0
  for (let at = from; at < from + digits; at++) value = value * 10 + bytes[at]! - 0x30
  return value
}
