/**
 * A response of the sandbox; `body` is generated while it is sent, so a long response is never held in memory as a
 * whole.
 */
export type SandboxResponse = { status: number; headers: Record<string, string>; body: Iterable<string> }

export function jsonResponse(value: unknown): SandboxResponse {
  return { status: 200, headers: { 'content-type': 'application/json' }, body: [JSON.stringify(value)] }
}

/** Server-sent events, terminated by `[DONE]` as OpenAI does. */
export function eventStream(chunks: Iterable<unknown>): SandboxResponse {
  return { status: 200, headers: { 'content-type': 'text/event-stream' }, body: framed(chunks) }
}

function* framed(chunks: Iterable<unknown>): Generator<string> {
  for (const chunk of chunks) yield `data: ${JSON.stringify(chunk)}\n\n`
  yield 'data: [DONE]\n\n'
}

type Fault = { type: string; code: string | null; param?: string | null }

/** An error in OpenAI's shape. */
export function errorResponse(
  status: number,
  message: string,
  { type, code, param = null }: Fault,
  headers = {},
): SandboxResponse {
  const error = { message, type, code, param }
  return { status, headers: { 'content-type': 'application/json', ...headers }, body: [JSON.stringify({ error })] }
}

export function badRequest(message: string, param: string | null): SandboxResponse {
  return errorResponse(400, message, { type: 'invalid_request_error', code: 'invalid_value', param })
}

/** `text` up to the first stop sequence. */
export function cutAtStop(text: string, stop: string | string[] | null | undefined): string {
  const ends = [stop ?? []].flat().map(sequence => (sequence ? text.indexOf(sequence) : -1))
  return text.slice(0, Math.min(text.length, ...ends.filter(end => end >= 0)))
}

const maxAnswerChars = 1_000_000
/** With log probabilities a token takes several hundred bytes. */
const maxDetailedChars = 20_000

/** Maximum characters per choice of a response: the sandbox's own output limit. `detailed`: with log probabilities. */
export function maxCharacters(choices: number, detailed = false): number {
  return Math.max(1, Math.floor((detailed ? maxDetailedChars : maxAnswerChars) / choices))
}

/** For all choices of a streamed answer together: an event is some hundred bytes, whatever it contains. */
const maxPieces = 4_000

/** The minimum length of a piece, in characters, so that a streamed answer of this length has at most some thousand pieces. */
export function minPieceCharacters(answerCharacters: number): number {
  return Math.max(1, Math.ceil(answerCharacters / maxPieces))
}

/**
 * Splits `text` for streaming, as it is read: into words, or into as many words as give a piece its minimum length.
 */
export function* splitWords(text: string, minCharacters = minPieceCharacters(text.length)): Generator<string> {
  const word = /\s*\S+|\s+/gy
  for (let from = 0; word.test(text); ) {
    const to = word.lastIndex
    if (to - from < minCharacters && to < text.length) continue
    yield text.slice(from, to)
    from = to
  }
}
