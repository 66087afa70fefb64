/** Bodies that are as expensive as their bytes allow, for every operation of an OpenAPI document. */

import { resolved } from './openapi.ts'

const mib = 1024 * 1024
export const jsonLimit = 10 * mib - 1_024

type Json = Record<string, unknown>
type Schema = {
  $ref?: string
  type?: string | string[]
  const?: unknown
  enum?: unknown[]
  format?: string
  minimum?: number
  maxLength?: number
  minItems?: number
  properties?: Record<string, Schema>
  required?: string[]
  items?: Schema
  anyOf?: Schema[]
  oneOf?: Schema[]
  allOf?: Schema[]
}

/** What is behind an operation's door: a key, a provisioning key, a session of the dashboard; or nothing. */
export type Access = 'public' | 'key' | 'provisioning' | 'session'
export type Operation = {
  method: string
  path: string
  access: Access
  json: Schema | null
  isForm: boolean
  form: Schema | null
}

type DocumentOperation = {
  security: Record<string, unknown>[]
  requestBody?: { $ref?: string; content: Record<string, { schema: Schema }> }
}
export type Document = { paths: Record<string, Record<string, DocumentOperation>>; components: object }

/** Every operation of a document. Throws when one takes a kind of body without a mutation here. */
export function operationsOf(document: Document, access?: Access): Operation[] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { security, requestBody }]) => {
      const {
        'application/json': json,
        'multipart/form-data': form,
        ...others
      } = (requestBody && resolved(document, requestBody))?.content ?? {}
      const [unknown] = Object.keys(others)
      if (unknown) throw new Error(`${method} ${path} takes ${unknown}: write down what is nasty in it`)
      const scheme = Object.keys(security[0] ?? {})[0] as Access | undefined
      return {
        method: method.toUpperCase(),
        path,
        access: access ?? scheme ?? 'public',
        json: json?.schema ?? null,
        isForm: form !== undefined,
        form: form?.schema ?? null,
      }
    }),
  )
}

const fill = (unit: string, bytes: number) => unit.repeat(Math.floor(bytes / Buffer.byteLength(unit)))
const many = (unit: string, count: number) => `${`${unit},`.repeat(count - 1)}${unit}`
const numbered = (count: number, unit: (i: number) => string) =>
  Array.from({ length: count }, (_, i) => unit(i)).join(',')

/** Text that is no request of any route, at the limit of a body or at the limits of `parseJson`. Made when they are asked for. */
export const hostileTexts: Record<string, (bytes: number) => string> = {
  'a colon bomb': bytes => `{"${fill('\\\\', bytes / 2)}"${fill(':', bytes / 2)}`,
  'a name without end': bytes => `{"${fill('a', bytes)}`,
  'open lists': bytes => fill('[', bytes),
  'deep objects': bytes => fill('{"a":', bytes),
  'empty objects': bytes => `[${fill('{},', bytes)}{}]`,
  zeros: bytes => `[${fill('0,', bytes)}0]`,
  'small objects': bytes => `[${fill('{"a":0},', bytes)}0]`,
  'escaped quotes': bytes => `{"a":"${fill('\\"', bytes)}"}`,
  backslashes: bytes => `{"a":"${fill('\\\\', bytes)}"}`,
  escapes: bytes => `{"a":"${fill('\\u0041', bytes)}"}`,
  surrogates: bytes => `{"a":"${fill('\\ud83d\\ude00', bytes)}"}`,
  'wide text': bytes => `{"a":"漢${fill('a', bytes)}"}`,
  'NUL characters': bytes => `{"a":"${fill('\\u0000', bytes)}"}`,
  'a long number': bytes => `{"a":${fill('7', bytes)}}`,
  spaces: bytes => `{"a":${fill(' ', bytes)}1}`,
  'as many numbers as there may be, and a surrogate': () => `{"a":["\\ud83d\\ude00",${many('0', 399_000)}]}`,
  'as many objects as there may be': () => `{"a":[${many('{}', 99_000)}]}`,
  'as many names as there may be': () => `{"a":[${numbered(5, j => `{${numbered(9_990, i => `"${j}a${i}":0`)}}`)}]}`,
  'as many objects of one name as there may be': () => `{"a":[${numbered(49_000, i => `{"a${i}":0}`)}]}`,
  'as many long numbers as there may be': () => `{"a":[${many('2.4703282292062327208e-324', 155_000)}]}`,
  'half a surrogate behind as many strings as there may be': () => `{"a":[${many('""', 98_000)},"\\ud83d"]}`,
}

/** Fields with which a request gets past its own checks, by path. What is not here is made of the schema. */
const known: Record<string, Json> = {
  '/v1/chat/completions': { model: 'gpt-5.6-luna', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 16 },
  '/v1/route': { model: 'auto', messages: [{ role: 'user', content: 'Hello' }] },
  '/v1/completions': { model: 'gpt-5.6-luna', prompt: 'Hello', max_tokens: 16 },
  '/v1/embeddings': { model: 'text-embedding-3-small', input: 'Hello' },
}

/** Requests of one operation in which one field after the other is as large as it can be. */
export function* inflated({ path, json }: Operation, document: Document): Generator<[field: string, body: Buffer]> {
  const schema = resolve(json!, document)
  const properties = Object.entries(schema.properties ?? {})
  const small = known[path] ?? (sample(schema, document) as Json)
  for (const [name, property] of properties) {
    const { [name]: _, ...rest } = small
    const others = JSON.stringify(rest).slice(1)
    for (const value of largeValues(name, resolve(property, document), document))
      yield [name, Buffer.from(`{${JSON.stringify(name)}:${value}${others === '}' ? '' : ','}${others}`)]
  }
}

function typesOf(schema: Schema, document: Document): Set<string> {
  const branches = [...(schema.anyOf ?? []), ...(schema.oneOf ?? [])].map(branch => resolve(branch, document))
  const own = schema.type === undefined ? [] : [schema.type].flat()
  return new Set([...own, ...branches.flatMap(branch => [...typesOf(branch, document)])])
}

function* largeValues(name: string, schema: Schema, document: Document): Generator<string> {
  const types = typesOf(schema, document)
  if (types.size === 0) types.add('object')
  if (types.has('string')) {
    // A body refused for its length is not read to its end.
    const bytes = schema.maxLength === undefined ? jsonLimit - 4_096 : 200 * 1024
    if (/url|image|video|audio|file/.test(name)) yield `"data:image/png;base64,${fill('A', bytes)}"`
    else yield `"${fill('a1- ', bytes)}"`
  }
  if (types.has('array')) {
    if (name === 'messages') {
      yield `[${many('{"role":"user","content":"Hello"}', 16_384)}]`
      yield `[{"role":"user","content":[${many('{"type":"text","text":"A word; "}', 19_000)}]}]`
      yield `[{"role":"user","content":"${fill('Prove it; [x] 12.5 = y. ', jsonLimit - 4_096)}"}]`
    }
    if (name === 'input' || name === 'prompt') yield `[${many(`[${many('54321', 190)}]`, 2_048)}]`
    yield `[${many('"a"', 98_000)}]`
    yield `[${many('1', 398_000)}]`
  }
  if (types.has('object')) yield `{${numbered(9_990, i => `"k${i}":"v"`)}}`
}

function resolve(schema: Schema, document: Document): Schema {
  return schema.$ref ? resolve(resolved(document, schema), document) : schema
}

/** A small value of a schema, valid where the schema says all there is to know. */
function sample(schema: Schema, document: Document): unknown {
  const whole = resolve(schema, document)
  const [branch] = [...(whole.anyOf ?? []), ...(whole.oneOf ?? []), ...(whole.allOf ?? [])]
  if (whole.const !== undefined) return whole.const
  if (whole.enum) return whole.enum[0]
  if (branch && !whole.properties) return sample(branch, document)
  switch ([whole.type].flat()[0]) {
    case 'string':
      return whole.format === 'uri' ? 'https://example.com/a' : 'xx'
    case 'integer':
    case 'number':
      return whole.minimum ?? 1
    case 'boolean':
      return true
    case 'array':
      return Array(whole.minItems ?? 0).fill(whole.items ? sample(whole.items, document) : 'x')
    default: {
      const fields = Object.entries(whole.properties ?? {}).filter(([name]) => whole.required?.includes(name))
      return Object.fromEntries(fields.map(([name, property]) => [name, sample(property, document)]))
    }
  }
}

const boundary = 'b'
const part = (head: string, body: string) => `--${boundary}\r\n${head}\r\n\r\n${body}\r\n`
const field = (name: string, value: string) => part(`Content-Disposition: form-data; name="${name}"`, value)
const fileOf = (name: string, body: string, more = '') =>
  part(`Content-Disposition: form-data; name="${name}"; filename="a.png"\r\nContent-Type: image/png${more}`, body)
const end = `--${boundary}--\r\n`

export const formType = `multipart/form-data; boundary=${boundary}`

/** Forms that a route with files does not want; `names` are its fields. */
export function* nastyForms(names: string[]): Generator<[what: string, body: Buffer]> {
  const [first = 'file'] = names
  const forms: [string, string][] = [
    ['2,000 fields', Array.from({ length: 2_000 }, (_, i) => field(`f${i}`, 'x')).join('') + end],
    ['2,000 files', Array.from({ length: 2_000 }, () => fileOf(first, 'x')).join('') + end],
    ['64 fields at the limit', names.map(name => field(name, fill('a', 256 * 1024 - 1))).join('') + end],
    ['one field 64 times at the limit', fill(field(`${first}[]`, fill('a', 256 * 1024 - 1)), 17 * mib) + end],
    ['a field of 10 MiB', field(first, fill('a', 10 * mib)) + end],
    ['a header of 10 MiB', part(`Content-Disposition: form-data; name="${fill('a', 10 * mib)}"`, 'x') + end],
    ['100,000 headers', fileOf(first, 'x', fill('\r\nX-A: b', mib)) + end],
    ['a file that is nothing', fileOf(first, fill('\u0000\u0001', 10 * mib)) + end],
    ['10 MiB that begin no part', fill('a', 10 * mib)],
    ['line ends', fill('\r\n', 10 * mib)],
    [
      'almost a boundary, again and again',
      `${part('Content-Disposition: form-data; name="x"', '')}${fill('\r\n--', 10 * mib)}`,
    ],
    ['no end', fileOf(first, fill('a', 1_000))],
  ]
  for (const [what, body] of forms) yield [what, Buffer.from(body)]
}

/** Fields of a form, by its schema. */
export function fieldsOf(form: Schema, document: Document): string[] {
  return Object.keys(resolve(form, document).properties ?? {})
}
