import { setImmediate } from 'node:timers/promises'
import { Ajv2020 } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import { checkText } from '../../shared/chat/schema-check.ts'
import { schemaChecks } from '../../shared/chat/schema-checks.ts'
import { fakeInstance } from '../../shared/providers/sandbox/chat/schema-faker.ts'
import { test } from '../support/test.ts'

const schema = { type: 'object', properties: { a: { type: 'integer' } }, required: ['a'], additionalProperties: false }

test('unchanged if valid; a fault names the place and the rule', t => {
  t.deepEqual(checkText('{"a":1}', schema, false), { json: '{"a":1}', repaired: false })
  t.deepEqual(checkText('{"a":"x"}', schema, true), { fault: '`/a` must be integer' })
  t.deepEqual(checkText('nonsense', schema, true), { fault: 'it is not JSON' })
  t.deepEqual(checkText('[]', null, false), { fault: 'it must be object' })
})

test('repaired: JSON with faults of form, only if the result is valid', t => {
  const repaired = (text: string) => checkText(text, schema, true)
  for (const text of ['```json\n{"a":1}\n```', 'Here: {"a":1} Bye', '{"a":1,}', '{"a":1', "{'a':1}", '{a:1}'])
    t.deepEqual(JSON.parse((repaired(text) as { json: string }).json), { a: 1 }, text)
  t.true('fault' in checkText('```json\n{"a":1}\n```', schema, false)!)
  t.true('fault' in repaired('{"a":1,"b":')!)
  t.true('fault' in checkText('I refuse.', { type: 'string' }, true)!, 'prose is not made a JSON text')
})

test('a schema that cannot be used, or takes too long, is not checked', t => {
  t.is(checkText('{}', { $ref: 'https://example.com/schema.json' }, true), null)
  t.is(checkText('{}', { type: 'strange' }, true), null)
  t.is(checkText('{}', { description: 'x'.repeat(70_000) }, true), null)
  const slow = { type: 'string', pattern: '^(a+)+$' }
  t.is(checkText(JSON.stringify(`${'a'.repeat(60)}!`), slow, true), null)
  const branch = { type: 'object', properties: { x: { $ref: '#/$defs/node' } }, required: ['x'] }
  const recursive = { $ref: '#/$defs/node', $defs: { node: { anyOf: [branch, branch, { type: 'number' }] } } }
  const deep = `${'{"x":'.repeat(60)}"end"${'}'.repeat(60)}`
  t.is(checkText(deep, recursive, false), null)
  t.deepEqual(checkText('{"x":{"x":1}}', recursive, false), { json: '{"x":{"x":1}}', repaired: false })
})

const owner = { organisationId: 'org_1', environment: 'live' } as const

test.serial('a text is checked however many slow ones of others wait', async t => {
  const pattern = { type: 'string', pattern: '^(a+)+$' }
  const text = JSON.stringify(`${'a'.repeat(20)}!`)
  for (const environment of ['live', 'test'] as const) {
    const other = { organisationId: `org_${environment}`, environment }
    const slow = Array.from({ length: 100 }, () => schemaChecks.check(other, text, pattern, false))
    const checked = await schemaChecks.check(owner, '{"a":1}', schema, false)
    t.deepEqual(checked, { json: '{"a":1}', repaired: false }, environment)
    await Promise.all(slow)
  }
})

test.serial('a slow check leaves the event loop free, and the next one is made after it', async t => {
  const order: string[] = []
  const slow = schemaChecks.check(
    owner,
    JSON.stringify(`${'a'.repeat(60)}!`),
    { type: 'string', pattern: '^(a+)+$' },
    true,
  )
  const next = schemaChecks.check(owner, '{"a":1}', schema, true)
  const noted = [slow.then(() => order.push('slow')), next.then(() => order.push('next'))]
  await setImmediate()
  order.push('turn')
  await Promise.all(noted)
  t.deepEqual(order, ['turn', 'slow', 'next'])
  t.is(await slow, null)
  t.deepEqual(await next, { json: '{"a":1}', repaired: false })
})

test.serial('more texts than may wait are not checked', async t => {
  const checks = await Promise.all(
    Array.from({ length: 80 }, () => schemaChecks.check(owner, '{"a":1}', schema, false)),
  )
  t.is(checks.filter(checked => checked === null).length, 15)
})

const anySchema = fc.letrec(tie => ({
  schema: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom(
      { type: 'string' },
      { type: 'integer' },
      { type: 'boolean' },
      { enum: ['a', 'b'] },
      { type: 'null' },
    ),
    fc.record({ type: fc.constant('array'), items: tie('schema') }),
    fc.dictionary(fc.stringMatching(/^[a-z]{1,5}$/), tie('schema'), { maxKeys: 4 }).map(properties => ({
      type: 'object',
      properties,
      additionalProperties: false,
      required: Object.keys(properties),
    })),
  ),
})).schema as fc.Arbitrary<object>

test('agrees with Ajv about any value of any schema, within a fence as well', t => {
  const ajv = new Ajv2020({ strict: false })
  fc.assert(
    fc.property(anySchema, fc.jsonValue(), (given, other) => {
      const value = fakeInstance(given)
      for (const candidate of [value, other]) {
        const text = JSON.stringify(candidate)
        t.is('json' in checkText(text, given, false)!, ajv.compile(given)(candidate))
      }
      const isNested = typeof value === 'object' && value !== null
      if (isNested) t.true('json' in checkText(`\`\`\`json\n${JSON.stringify(value)}\n\`\`\``, given, true)!)
    }),
    { numRuns: 60 },
  )
})
