/** What the sandbox answers with; `body` is made while it is sent, so a long answer never lies in memory as a whole. */
export type Answer = { status: number; headers: Record<string, string>; body: Iterable<string> }

export function json(value: unknown): Answer {
  return { status: 200, headers: { 'content-type': 'application/json' }, body: [JSON.stringify(value)] }
}

/** Server-sent events, ended by `[DONE]` as OpenAI does. */
export function eventStream(chunks: Iterable<unknown>): Answer {
  return { status: 200, headers: { 'content-type': 'text/event-stream' }, body: framed(chunks) }
}

function* framed(chunks: Iterable<unknown>): Generator<string> {
  for (const chunk of chunks) yield `data: ${JSON.stringify(chunk)}\n\n`
  yield 'data: [DONE]\n\n'
}

type Fault = { type: string; code: string | null; param?: string | null }

/** An error in OpenAI's shape. */
export function fault(status: number, message: string, { type, code, param = null }: Fault, headers = {}): Answer {
  const error = { message, type, code, param }
  return { status, headers: { 'content-type': 'application/json', ...headers }, body: [JSON.stringify({ error })] }
}

export function badRequest(message: string, param: string | null): Answer {
  return fault(400, message, { type: 'invalid_request_error', code: 'invalid_value', param })
}

/** `text` up to the first of the stop sequences. */
export function untilStop(text: string, stop: string | string[] | null | undefined): string {
  const ends = [stop ?? []].flat().map(sequence => (sequence ? text.indexOf(sequence) : -1))
  return text.slice(0, Math.min(text.length, ...ends.filter(end => end >= 0)))
}

const longestAnswerChars = 1_000_000
/** With logarithms of probability a token takes some hundred bytes. */
const longestDetailedChars = 20_000

/** Characters each of an answer's choices may have: the sandbox's own output limit. `detailed`: with log probabilities. */
export function roomFor(choices: number, detailed = false): number {
  return Math.max(1, Math.floor((detailed ? longestDetailedChars : longestAnswerChars) / choices))
}

/** `text` word by word, as it is streamed. */
export function words(text: string): string[] {
  return text.match(/\s*\S+|\s+/g) ?? []
}
