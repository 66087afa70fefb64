import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { findValue, insertMember, replaceValue } from '../../shared/providers/toolkit/json-value.ts'
import { fuzzRuns } from '../support/fuzz.ts'
import { test } from '../support/test.ts'

type Json = Record<string, unknown>

/**
 * Names that are escaped, that repeat those of the path elsewhere, and that say something to JavaScript. None begins with a
 * backslash: those confuse the `JSON.parse` that the tests compare with.
 */
const name = fc
  .oneof(
    fc.constantFrom('setup', 'model', '__proto__', 'toString', 'a"b', 'a\\', '{', 'é🎤', ''),
    fc.string({ unit: 'binary' }),
  )
  // Nor is one a single character that must be escaped: the gateway refuses such names.
  .filter(text => !text.startsWith('\\') && !(text.length === 1 && JSON.stringify(text).length > 3))
const { value } = fc.letrec(tie => ({
  value: fc.oneof(
    { maxDepth: 3 },
    fc.constantFrom(null, true, false, '}', '"model":"x"', '\\"', '\\'),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.string({ unit: 'binary' }),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(name, tie('value'), { maxKeys: 5 }),
  ),
}))
const document = fc.dictionary(name, value, { maxKeys: 6 })
const space = fc.constantFrom('', ' ', '\n\t', '\r\n  ')

/** Every way to a value inside of objects. */
function pathsOf(json: unknown, path: string[] = []): string[][] {
  if (typeof json !== 'object' || json === null || Array.isArray(json)) return [path]
  return [path, ...Object.keys(json).flatMap(key => pathsOf((json as Json)[key], [...path, key]))]
}

function at(json: unknown, path: string[]): unknown {
  return path.reduce<unknown>((inner, key) => (inner as Json)[key], json)
}

/** JSON as other serialisers write it: with spaces anywhere, and with needless escapes. */
function write(json: unknown, pad: string, escaped: boolean): string {
  const text = (plain: string, unneeded: RegExp) => {
    const short = JSON.stringify(plain)
    return escaped ? short.replace(unneeded, escapeOf) : short
  }
  const inside = (parts: string[]) => `${pad}${parts.join(`${pad},${pad}`)}${pad}`
  if (typeof json === 'string') return text(json, /[a-zé]/g)
  if (typeof json !== 'object' || json === null) return JSON.stringify(json)
  if (Array.isArray(json)) return `[${inside(json.map(item => write(item, pad, escaped)))}]`
  const members = Object.entries(json).map(
    ([key, item]) => `${text(key, /é/g)}${pad}:${pad}${write(item, pad, escaped)}`,
  )
  return `{${inside(members)}}`
}

/** Letters after a backslash have a meaning already. */
function escapeOf(letter: string, position: number, all: string): string {
  const before = /(\\+)$/.exec(all.slice(0, position))?.[1] ?? ''
  const inEscape = /\\u[0-9a-f]{0,3}$/.test(all.slice(0, position))
  if (before.length % 2 === 1 || inEscape) return letter
  return `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`
}

const written = fc
  .tuple(document, space, fc.boolean())
  .map(([json, pad, escaped]) => pad + write(json, pad, escaped) + pad)
  .chain(text => fc.tuple(fc.constant(text), fc.constantFrom(...pathsOf(JSON.parse(text)).slice(1), ['none'])))

test('a value that is found is the one that JSON.parse has there, and so are its bytes', t => {
  fc.assert(
    fc.property(written, ([text, path]) => {
      const bytes = Buffer.from(text)
      const found = findValue(bytes, path, 'It')
      if (path[0] === 'none' && !Object.hasOwn(JSON.parse(text), 'none')) return found === null
      t.true(isDeepStrictEqual(found!.value, at(JSON.parse(text), path)), text)
      const slice = bytes.toString('utf8', found!.start, found!.end)
      t.is(slice.trim(), slice)
      return true
    }),
    { numRuns: fuzzRuns(500) },
  )
  t.pass()
})

test('a value that is replaced changes nothing else, to the byte', t => {
  fc.assert(
    fc.property(written, value, ([text, path], other) => {
      const bytes = Buffer.from(text)
      const found = findValue(bytes, path, 'It')
      if (!found) return
      const changed = replaceValue(bytes, found, JSON.stringify(other))
      const expected = JSON.parse(text)
      const parent = at(expected, path.slice(0, -1)) as Json
      // An assignment to `__proto__` would set the prototype.
      Object.defineProperty(parent, path.at(-1)!, { value: JSON.parse(JSON.stringify(other)), enumerable: true })
      t.true(isDeepStrictEqual(JSON.parse(changed.toString()), expected), text)
      t.deepEqual(changed.subarray(0, found.start), bytes.subarray(0, found.start))
      const after = bytes.length - found.end
      t.deepEqual(changed.subarray(changed.length - after), bytes.subarray(found.end))
    }),
    { numRuns: fuzzRuns(500) },
  )
  t.pass()
})

test('a member that is inserted is the only difference', t => {
  fc.assert(
    fc.property(written, ([text, path]) => {
      const bytes = Buffer.from(text)
      const found = findValue(bytes, path, 'It')
      if (typeof found?.value !== 'object' || found.value === null || Array.isArray(found.value)) return
      const changed = insertMember(bytes, found, 'new one', '"said"')
      const expected = JSON.parse(text)
      ;(at(expected, path) as Json)['new one'] = 'said'
      t.true(isDeepStrictEqual(JSON.parse(changed.toString()), expected), text)
    }),
    { numRuns: fuzzRuns(500) },
  )
  t.pass()
})

test('400 for what is no JSON, and for a field that is there twice', t => {
  const find = (text: string) => findValue(Buffer.from(text), ['setup', 'model'], 'It')
  for (const text of ['', '{', "{'setup':{}}", '{"setup":{},}', '\ufeff{}', '{"setup":{"model":1}} x']) {
    t.like(
      t.throws(() => find(text)),
      { code: 'invalid_json', status: 400 },
      text,
    )
  }
  // Which of the two counts, one parser says so and another so.
  const twice = [
    ['{"setup":{"model":"a"},"setup":{"model":"b"}}', 'setup'],
    ['{"setup":{"model":"a","\\u006dodel":"b"}}', 'model'],
  ] as const
  for (const [text, param] of twice)
    t.like(
      t.throws(() => find(text)),
      { code: 'invalid_json', param },
      text,
    )
})

test('null for a text without a value at the path', t => {
  for (const text of [
    'null',
    '[]',
    '"setup"',
    '[{"setup":{"model":1}}]',
    '{"setup":null}',
    '{"setup":[{"model":1}]}',
    '{}',
  ]) {
    t.is(findValue(Buffer.from(text), ['setup', 'model'], 'It'), null, text)
  }
  t.is(findValue(Buffer.from('{"setup":{}}'), ['setup', 'toString'], 'It'), null)
  const elsewhere = '{"model":1,"a":{"setup":{"model":2}},"setup":{"b":{"model":3},"model" : 4 }}'
  const start = elsewhere.indexOf('4')
  t.deepEqual(findValue(Buffer.from(elsewhere), ['setup', 'model'], 'It'), { value: 4, start, end: start + 1 })
})

test('skipped: what is nested deeply', t => {
  const deep = `{"deep":${'[{"a":'.repeat(60)}1${'}]'.repeat(60)},"model":"x"}`
  t.is(findValue(Buffer.from(deep), ['model'], 'It')?.value, 'x')
})

test('400 for the letters of a name behind escapes', t => {
  const error = t.throws(() => findValue(Buffer.from('{"\\u006dodel":"x"}'), ['model'], 'It'))
  t.like(error, { code: 'invalid_json' })
})
