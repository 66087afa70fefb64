import test from 'ava'
import fc from 'fast-check'
import { storable, storableJson } from '../../shared/wallet/storable-json.ts'

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
    fc.dictionary(fc.string({ maxLength: 6 }), tie('value'), { maxKeys: 5 }),
  ),
}))

test('JSON of storable texts is what the replacer makes of it', t => {
  fc.assert(
    fc.property(fc.array(value), events => {
      t.is(storableJson(events), JSON.stringify(events, storable))
    }),
    { numRuns: 2_000 },
  )
  t.pass()
})
