import type { Answer } from './answer-relay.ts'

type Json = unknown
type Path = (string | number)[]
type Mutant = { what: string; answer: Answer }

const maxEvents = 3
const substitutes: Json[] = [undefined, null, 'hello', -1, {}, [], { toString: 1 }]

/**
 * Answers, about as many as `max`, of which one value is missing or another than it must be; none for an answer that is not
 * JSON or events of it.
 */
export function mutants(answer: Answer, max: number): Mutant[] {
  const documents = documentsOf(answer)
  const perDocument = Math.ceil(max / substitutes.length / documents.length)
  return documents.flatMap(({ json, put }) =>
    pathsOf(json)
      .slice(0, perDocument)
      .flatMap(path =>
        substitutes.map(value => ({
          what: `${path.join('.')} = ${JSON.stringify(value)}`,
          answer: put(changed(json, path, value)),
        })),
      ),
  )
}

/** The same answer, with unknown fields in each of its objects. */
export function withMore(answer: Answer): Answer {
  const documents = documentsOf(answer, Number.POSITIVE_INFINITY)
  return documents.reduce((result, { put, json }) => put(extended(json), result), answer)
}

function extended(json: Json): Json {
  if (Array.isArray(json)) return json.map(extended)
  if (typeof json !== 'object' || json === null) return json
  const fields = Object.entries(json).map(([name, value]) => [name, extended(value)])
  return { ...Object.fromEntries(fields), unknown_field: { of: ['another', 'time'] } }
}

/** A JSON document in an answer, and how another is put in its place. */
type Document = { json: Json; put(json: Json, into?: Answer): Answer }

/** All of a JSON answer; the first and last ones of its events, or each. */
function documentsOf(answer: Answer, max = maxEvents): Document[] {
  const type = answer.headers['content-type'] ?? ''
  const text = answer.body.toString()
  if (type.includes('json'))
    return [{ json: JSON.parse(text), put: (json, into = answer) => ({ ...into, body: Buffer.from(textOf(json)) }) }]
  if (!type.includes('event-stream')) return []
  const lines = text.split('\n')
  const events = lines.flatMap((line, at) => (/^data: *\{/.test(line) ? [at] : []))
  return [...events.slice(0, max - 1), ...events.slice(max - 1).slice(-1)].map(at => ({
    json: JSON.parse(lines[at]!.replace(/^data: */, '')),
    put: (json, into = answer) => {
      const others = into.body.toString().split('\n')
      return { ...into, body: Buffer.from(others.with(at, `data: ${textOf(json)}`).join('\n')) }
    },
  }))
}

function textOf(json: Json): string {
  return JSON.stringify(json) ?? ''
}

/** Every place in a document, of lists the first entry only; the whole first. */
function pathsOf(json: Json): Path[] {
  if (typeof json !== 'object' || json === null) return [[]]
  const entries = Array.isArray(json) ? json.slice(0, 1).entries() : Object.entries(json)
  return [[], ...[...entries].flatMap(([name, value]) => pathsOf(value).map(path => [name, ...path]))]
}

function changed(json: Json, [name, ...rest]: Path, value: Json): Json {
  if (name === undefined) return value
  if (Array.isArray(json)) return json.with(Number(name), changed(json[Number(name)], rest, value))
  const { [name]: inner, ...others } = json as Record<string, Json>
  const next = changed(inner, rest, value)
  return next === undefined ? others : { ...others, [name]: next }
}
