import { Ajv2020 } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import { fakeInstance } from '../../shared/providers/sandbox/chat/schema-faker.ts'
import { test } from '../support/test.ts'

const scalar = fc.oneof(
  fc.constant({ type: 'boolean' }),
  fc.constant({ type: 'null' }),
  fc.constant({ type: ['string', 'null'] }),
  fc
    .record({ minLength: fc.nat(20), extra: fc.nat(20) })
    .map(({ minLength, extra }) => ({ type: 'string', minLength, maxLength: minLength + extra })),
  fc
    .record({ low: fc.integer({ min: -100, max: 100 }), extra: fc.integer({ min: 2, max: 50 }) })
    .map(({ low, extra }) => {
      return { type: 'integer', minimum: low, exclusiveMaximum: low + extra }
    }),
  fc.record({ low: fc.integer({ min: -9, max: 9 }), step: fc.integer({ min: 1, max: 7 }) }).map(({ low, step }) => {
    return { type: 'number', exclusiveMinimum: low, multipleOf: step }
  }),
  fc
    .array(fc.oneof(fc.string(), fc.integer(), fc.constant(null)), { minLength: 1, maxLength: 4 })
    .map(values => ({ enum: [...new Set(values)] })),
  fc.jsonValue().map(value => ({ const: value })),
)

const { schema } = fc.letrec<{ schema: object; object: object; array: object }>(tie => ({
  schema: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    scalar,
    tie('object'),
    tie('array'),
    fc.array(tie('schema'), { minLength: 1, maxLength: 3 }).map(anyOf => ({ anyOf })),
    fc.constant({ $ref: '#/$defs/node' }),
    fc.constant({ $ref: '#/$defs/a~1b' }),
  ),
  object: fc
    .dictionary(fc.string(), fc.tuple(tie('schema'), fc.boolean()), { maxKeys: 4, noNullPrototype: true })
    .map(properties => ({
      type: 'object',
      properties: Object.fromEntries(Object.entries(properties).map(([name, [value]]) => [name, value])),
      required: Object.keys(properties).filter(name => properties[name]![1]),
      additionalProperties: false,
    })),
  array: fc.record({ items: tie('schema'), minItems: fc.nat(3) }).map(array => ({ type: 'array', ...array })),
}))

const $defs = {
  node: {
    type: 'object',
    properties: { value: { type: 'integer' }, next: { anyOf: [{ $ref: '#/$defs/node' }, { type: 'null' }] } },
    required: ['value', 'next'],
  },
  'a/b': { allOf: [{ type: 'object', properties: { a: { type: 'string' } }, required: ['a'] }, { required: ['b'] }] },
}

test('lists and members that may be null have something in them where the schema says what', t => {
  const person = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] }
  const properties = {
    people: { type: 'array', items: { $ref: '#/$defs/person' } },
    first: { anyOf: [{ $ref: '#/$defs/person' }, { type: 'null' }] },
    anything: { type: 'array' },
    nothing: { type: 'array', items: { type: 'string' }, maxItems: 0 },
  }
  const instance = fakeInstance({ type: 'object', properties, required: Object.keys(properties), $defs: { person } })
  const one = { name: 'text' }
  t.deepEqual(instance, { people: [one], first: one, anything: [], nothing: [] })
})

test('valid: the instance of any schema of the grammar, as ajv sees it', t => {
  const ajv = new Ajv2020({ strict: false, validateFormats: false, ownProperties: true })
  fc.assert(
    fc.property(schema, generated => {
      const whole = { ...generated, $defs }
      const instance = fakeInstance(whole)
      const validate = ajv.compile(whole)
      if (!validate(instance)) throw new Error(`${JSON.stringify(instance)}: ${ajv.errorsText(validate.errors)}`)
    }),
    { numRuns: 100 },
  )
  t.pass()
})

test('valid: the smallest instance of a recursive schema', t => {
  const tree = { type: 'object', properties: { left: { $ref: '#' }, size: { type: 'integer' } }, required: ['size'] }
  t.deepEqual(fakeInstance(tree), { size: 0 })
  t.deepEqual(fakeInstance({ $ref: '#/$defs/node', $defs }), { value: 0, next: null })
  t.deepEqual(
    fakeInstance({ type: 'array', minItems: 3, uniqueItems: true, items: { type: 'integer', minimum: 4 } }),
    [4, 5, 6],
  )
  t.deepEqual(fakeInstance({ type: 'array', prefixItems: [{ const: 'a' }], items: { const: 'b' }, minItems: 2 }), [
    'a',
    'b',
  ])
})

test('valid: formats', t => {
  const format = (name: string) => String(fakeInstance({ type: 'string', format: name }))
  t.false(Number.isNaN(Date.parse(format('date-time'))))
  t.regex(format('date'), /^\d{4}-\d\d-\d\d$/)
  t.regex(format('uuid'), /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  t.regex(format('email'), /^[^@]+@example\.com$/)
  t.is(new URL(format('uri')).protocol, 'https:')
})

for (const [name, hopeless] of Object.entries({
  'endless recursion': { type: 'object', properties: { self: { $ref: '#' } }, required: ['self'] },
  'a branching recursion': {
    $ref: '#/$defs/t',
    $defs: {
      t: { type: 'object', properties: { a: { $ref: '#/$defs/t' }, b: { $ref: '#/$defs/t' } }, required: ['a', 'b'] },
    },
  },
  'a reference to itself': { $ref: '#' },
  'a lost reference': { $ref: '#/$defs/none' },
  'a reference elsewhere': { $ref: 'https://example.com/schema.json' },
  false: false,
  'an impossible number': { type: 'integer', minimum: 3, maximum: 2 },
  'an endless list': { type: 'array', minItems: 1e9, items: { type: 'integer' } },
  'a huge text': { type: 'string', minLength: 1e9 },
  'a long list of long constants': { type: 'array', minItems: 1000, items: { const: 'x'.repeat(10_000) } },
})) {
  test(`given up, soon and without an error: ${name}`, t => t.is(fakeInstance(hopeless), undefined))
}

/** A schema of so many keys that counts how many of them are copied out of it. */
function counted(schema: Record<string, unknown>, keys: number) {
  const all = { ...schema, ...Object.fromEntries(Array.from({ length: keys }, (_, i) => [`k${i}`, 0])) }
  const copied = { keys: 0 }
  const ownKeys = () => {
    copied.keys += Object.keys(all).length
    return Reflect.ownKeys(all)
  }
  return { schema: new Proxy(all, { ownKeys }), copied }
}

const costly: [what: string, schema: (n: number) => Record<string, unknown>][] = [
  ['options', n => ({ anyOf: Array.from({ length: n }, () => ({})) })],
  ['options without an instance', n => ({ oneOf: Array.from({ length: n }, () => ({ type: 'none' })) })],
  ['types', n => ({ type: Array.from({ length: n }, () => 'none') })],
]
for (const [what, make] of costly) {
  test(`given up before the work is more than linear: many ${what}, each beside many keys`, t => {
    const workOf = (n: number) => {
      const { schema, copied } = counted(make(n), n)
      fakeInstance(schema)
      return copied.keys
    }
    for (const n of [1_000, 4_000, 16_000]) {
      const work = workOf(n)
      t.true(work <= 200_000 + 2 * n, `${n}: ${work}`)
    }
  })
}

test('given up soon: a list of many values that must differ, a long reference, and a long constant', t => {
  const reference = `#/$defs/${'b'.repeat(10_000)}`
  for (const schema of [
    {
      type: 'array',
      minItems: 1_000,
      uniqueItems: true,
      items: { enum: Array.from({ length: 100_000 }, (_, i) => i) },
    },
    { anyOf: Array.from({ length: 1_000 }, () => ({ $ref: reference })) },
    {
      $defs: { x: { const: 'a'.repeat(3_000_000) } },
      anyOf: Array.from({ length: 100 }, () => ({ $ref: '#/$defs/x' })),
    },
  ])
    t.is(fakeInstance(schema), undefined)
})

test('given up: a reference with an escape that cannot be decoded', t => {
  for (const $ref of ['#/%', '#/$defs/%E0%A4%A']) t.is(fakeInstance({ $ref }), undefined)
})
