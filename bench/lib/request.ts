/**
 * How the emulated upstream behaves: milliseconds until the first byte, chunks of a stream, milliseconds between them, and how
 * many first calls it refuses with 503.
 */
export type Behaviour = { latencyMs: number; chunks: number; intervalMs: number; refusals?: number }

export const chatPath = '/v1/chat/completions'
export const messagesPath = '/v1/messages'
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
  const text = textOf(bytes - body('').length)
  if (imageUrl === undefined) return body(text)
  return body([
    { type: 'text', text },
    { type: 'image_url', image_url: { url: imageUrl } },
  ])
}

/** The same request of Anthropic's Messages for a model of the catalog, about 1 kB. */
export function messagesBody(model: string, stream: boolean): string {
  const body = (content: string) =>
    JSON.stringify({
      model,
      system: 'Answer in one short paragraph. Say so when you do not know.',
      messages: [{ role: 'user', content }],
      max_tokens: 256,
      temperature: 0.7,
      stream,
    })
  return body(textOf(bodyBytes - body('').length))
}

/** Prose of so many characters. */
function textOf(length: number): string {
  const sentence = 'Please summarise the notes of our last meeting and name what is still open. '
  return sentence.repeat(Math.ceil(length / sentence.length)).slice(0, length)
}

/** The whole HTTP/1.1 request of a call. `headers` are lines of `name: value`. */
export function postRequest(path: string, headers: string[], body: string): string {
  const lines = ['host: 127.0.0.1', 'content-type: application/json', `content-length: ${Buffer.byteLength(body)}`]
  return `POST ${path} HTTP/1.1\r\n${[...lines, ...headers].join('\r\n')}\r\n\r\n${body}`
}

// Each answer and each chunk says in its content when the upstream received the request and when it wrote this, in
// microseconds of the shared clock: `R<16 digits>T<16 digits>`.
const digits = 16
const marks = ['"content":"R', '"text":"R'].map(text => Buffer.from(text))

export function stampText(receivedUs: number, wroteUs: number): string {
  return `R${String(receivedUs).padStart(digits, '0')}T${String(wroteUs).padStart(digits, '0')}`
}

/** Calls `found` with every stamp in the first `length` bytes. */
export function eachStamp(buffer: Buffer, length: number, found: (receivedUs: number, wroteUs: number) => void): void {
  const bytes = buffer.subarray(0, length)
  const mark = marks.find(mark => bytes.includes(mark))
  if (!mark) return
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
