import fc from 'fast-check'
import { storable, storableJson } from '../../shared/wallet/storable-json.ts'
import { fuzzRuns } from '../support/fuzz.ts'
import { test } from '../support/test.ts'

const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 20 }),
  fc.string({ minLength: 495, maxLength: 505 }),
  fc.constantFrom(
    '\0',
    '\ud800',
    '\udc00a',
    '\\u0000',
    '\\\\ud800',
    '"',
    'é😀',
    `${'a'.repeat(499)}😀`,
    'a'.repeat(501),
  ),
)
const { value } = fc.letrec(tie => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.oneof(text, fc.integer(), fc.boolean(), fc.constantFrom(null, undefined)),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(fc.oneof(text, fc.constantFrom('__proto__', 'toJSON')), tie('value'), { maxKeys: 5 }),
  ),
}))

test('JSON of storable texts is what the replacer makes of it', t => {
  fc.assert(
    fc.property(fc.array(value), events => {
      // V8 may list the names of an object in another order when there is a replacer.
      t.deepEqual(JSON.parse(storableJson(events)), JSON.parse(JSON.stringify(events, storable)))
    }),
    { numRuns: fuzzRuns(2_000) },
  )
  t.pass()
})

test('Postgres can store every text and every name in it', t => {
  fc.assert(
    fc.property(fc.array(value), events => {
      JSON.parse(storableJson(events), (name, member: unknown) => {
        for (const part of [name, member])
          if (typeof part === 'string') t.true(part.isWellFormed() && !part.includes('\0'), JSON.stringify(part))
        return member
      })
    }),
    { numRuns: fuzzRuns(500) },
  )
})
