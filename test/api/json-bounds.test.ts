import fc from 'fast-check'
import { GatewayError } from '../../shared/base/errors.ts'
import { parseJson } from '../../shared/base/json.ts'
import { validate } from '../../shared/base/validate.ts'
import { directKinds } from '../../shared/kinds/index.ts'
import { test } from '../support/test.ts'

const maxBytes = 4 * 1024 * 1024

/** What a text is made of: parts that stand there once, and parts (in lists) that are repeated until it is large enough. */
type Shape = (string | [string])[]

function textOf(shape: Shape, bytes: number): Buffer {
  const share = bytes / shape.filter(part => typeof part !== 'string').length
  const parts = shape.map(part => (typeof part === 'string' ? part : part[0].repeat(Math.ceil(share / part[0].length))))
  return Buffer.from(parts.join(''))
}

/** Milliseconds of this process's time that a text costs. Other processes can only add to it. */
function costMs(text: Buffer): number {
  const before = process.cpuUsage()
  try {
    parseJson(text)
  } catch (error) {
    if (!(error instanceof GatewayError) || error.status !== 400) throw error
  }
  return process.cpuUsage(before).user / 1_000
}

const rounds = 3

/** The least of some measurements, which are ended by the first below a limit: no further one could raise it again. */
function leastCostMs(text: Buffer, limitMs: number): number {
  let least = Number.POSITIVE_INFINITY
  for (let round = 0; round < rounds && least >= limitMs; round++) least = Math.min(least, costMs(text))
  return least
}

/** The size is multiplied by this: the cost by as much where it is linear, by its square (64) where it is quadratic. */
const sizeFactor = 8
/** Between the two, with room for a machine on which the larger size is measured at a worse moment than the smaller. */
const maxGrowth = 24
/** What can be measured. */
const minCostMs = 3

/** By how much the cost of a shape grows with its size; null where it costs too little, at any size, to be measured. */
function growthOf(shape: Shape, max = maxBytes): number | null {
  for (let bytes = 16 * 1024; bytes * sizeFactor <= max; bytes *= 2) {
    const cost = leastCostMs(textOf(shape, bytes), minCostMs)
    if (cost >= minCostMs) return leastCostMs(textOf(shape, bytes * sizeFactor), cost * maxGrowth) / cost
  }
  return null
}

const shapes: Record<string, Shape> = {
  'colons after a long name': ['{"', ['a'], '"', [':']],
  'colons after a long name of backslashes': ['{"', ['\\\\'], '"', [':']],
  'colons after a name of escapes': ['{"\\u0061', ['x'], '"', [':']],
  'names without values': ['{', ['"a":']],
  'escaped quotes': ['["', ['\\"']],
  'quotes far apart': ['["', [`${'a'.repeat(40)}\\"`]],
  'quotes behind many backslashes': ['["', [`${'\\'.repeat(99)}"`]],
  backslashes: ['["', ['\\']],
  'halves of surrogates': ['["', ['\\ud83d'], '"]'],
  surrogates: ['["', ['\\ud83d\\ude00'], '"]'],
  'one long number': ['[', ['9'], ']'],
  spaces: ['[', [' '], ']'],
  commas: ['[', [',']],
  'open lists': [['[']],
  'empty objects': ['[', ['{},'], '{}]'],
  'escaped names': ['[', ['{"\\u0061":0},']],
  characters: ['["', ['漢'], ['😀'], ['é'], '"]'],
}

for (const [name, shape] of Object.entries(shapes)) {
  test(`the cost is linear in the size: ${name}`, t => {
    const growth = growthOf(shape)
    t.true(growth === null || growth < maxGrowth, `grows by ${growth}`)
  })
}

test('the cost is linear in the size, whatever the text is made of', t => {
  const token = fc.constantFrom(
    ...['"', '\\', ':', ',', '{', '}', '[', ']', ' ', '0', 'a', '\\u00', 'ud8', '漢', '"a":'],
  )
  const unit = fc.array(token, { minLength: 1, maxLength: 4 }).map(tokens => tokens.join(''))
  const repeated = unit.map((text): [string] => [text])
  const shape = fc.tuple(unit, repeated, unit, repeated, unit)
  fc.assert(
    fc.property(shape, shape => {
      const growth = growthOf(shape, 1024 * 1024)
      t.true(growth === null || growth < maxGrowth, `${JSON.stringify(shape)} grows by ${growth}`)
    }),
    { numRuns: 60 },
  )
})

const many = (unit: string, count: number) => Array(count).fill(unit).join(',')
const numbered = (count: number, unit: (i: number) => string) =>
  Array.from({ length: count }, (_, i) => unit(i)).join(',')

test('400 for more strings, objects, lists, values, fields and bytes of numbers than there may be', t => {
  const bounds: [taken: string, refused: string, RegExp][] = [
    [`[${many('{}', 99_999)}]`, `[${many('{}', 100_000)}]`, /more than 100,000 strings, objects and lists/],
    [`[${many('""', 99_999)}]`, `[${many('""', 100_000)}]`, /more than 100,000 strings, objects and lists/],
    [`[${many('0', 400_000)}]`, `[${many('0', 400_001)}]`, /more than 400,000 values/],
    [
      `{${numbered(10_000, i => `"a${i}":0`)}}`,
      `{${numbered(10_001, i => `"a${i}":0`)}}`,
      /an object with more than 10,000 fields/,
    ],
    [`[${many('{"a":0,"b":0}', 25_000)}]`, `[${many('{"a":0,"b":0}', 25_000)},{"a":0}]`, /more than 50,000 fields/],
    [
      `[${'7'.repeat(2 * 1024 * 1024)}, ${'7'.repeat(2 * 1024 * 1024)}]`,
      `[${'7'.repeat(2 * 1024 * 1024)},${'7'.repeat(2 * 1024 * 1024)}1]`,
      /more than 4 MiB of numbers/,
    ],
  ]
  for (const [taken, refused, message] of bounds) {
    t.notThrows(() => parseJson(Buffer.from(taken)))
    t.throws(() => parseJson(Buffer.from(refused)), { code: 'invalid_request', message } as object)
  }
  // Fields are counted by object, and what stands inside of strings is not counted.
  t.notThrows(() => parseJson(Buffer.from(`[${many(`{${numbered(9_000, i => `"a${i}":0`)}}`, 5)}]`)))
  t.notThrows(() => parseJson(Buffer.from(JSON.stringify([many('{"a":[]}', 500_000), '7'.repeat(5 * 1024 * 1024)]))))
  t.notThrows(() => parseJson(Buffer.from(`[${' '.repeat(9 * 1024 * 1024)}]`)))
})

test('accepted: large requests with a legitimate use', t => {
  const messages = numbered(
    16_384,
    i => `{"role":"${i % 2 ? 'assistant' : 'user'}","content":"${'word '.repeat(100)}"}`,
  )
  const tokens = many(`[${many('54321', 145)}]`, 2_048)
  const image = `{"type":"image_url","image_url":{"url":"data:image/png;base64,${'A'.repeat(10_000_000)}"}}`
  const requests: [keyof typeof directKinds, string][] = [
    ['chat', `{"model":"auto","messages":[${messages}]}`],
    ['chat', `{"model":"auto","messages":[{"role":"user","content":[${image}]}]}`],
    ['embedding', `{"model":"x","input":[${tokens}]}`],
    ['completion', `{"model":"x","prompt":[${many('54321', 300_000)}]}`],
  ]
  for (const [kind, text] of requests) {
    const schema: Parameters<typeof validate>[0] = directKinds[kind]
    t.notThrows(() => validate(schema, parseJson(Buffer.from(text))), kind)
  }
})

test('400 at the first of many bad members: no issue is made for each', t => {
  const user = (content: string) => `{"model":"x","messages":[{"role":"user","content":[${content}]}]}`
  const cases: [keyof typeof directKinds, string, string][] = [
    ['chat', user(many('0', 300_000)), 'messages.0.content.0'],
    ['chat', user(many('{}', 99_000)), 'messages.0.content.0.type'],
    ['chat', `{"model":"x","messages":[${many('{}', 16_000)}]}`, 'messages.0.role'],
    ['embedding', `{"model":"x","input":[${many(`[${many('-1', 190)}]`, 2_048)}]}`, 'input.0.0'],
    ['completion', `{"model":"x","prompt":[${many('-1', 390_000)}]}`, 'prompt.0'],
  ]
  for (const [kind, text, param] of cases) {
    const schema: Parameters<typeof validate>[0] = directKinds[kind]
    const started = process.cpuUsage()
    const value = parseJson(Buffer.from(text))
    const parsed = process.cpuUsage()
    const error = t.throws<GatewayError>(() => validate(schema, value), { instanceOf: GatewayError }, kind)
    const parseUs = Math.max(minCostMs * 1_000, parsed.user - started.user)
    const validateUs = process.cpuUsage(parsed).user
    t.is(error.param, param)
    // An issue for each of the members takes many times as long as reading them.
    t.true(validateUs < 8 * parseUs, `${param}: parsed in ${parseUs} us, validated in ${validateUs} us`)
  }
})
