import fc from 'fast-check'
import { findMatches } from '../../shared/guardrails/detectors.ts'
import { Placeholders } from '../../shared/guardrails/placeholders.ts'
import { GuardedText, TextGuard } from '../../shared/guardrails/text-guard.ts'
import { type DetectorType, detectorTypes, type Guardrails } from '../../shared/keys/guardrails.ts'
import { test } from '../support/test.ts'

const found = (text: string, types: readonly DetectorType[] = detectorTypes) =>
  Array.from(findMatches(text, new Set(types)), ({ type, start, end }) => [type, text.slice(start, end)])

const openAiKey = `sk-proj-${'a1B2c3D4'.repeat(6)}`
const ownKey = `svc_sk_live_${'Zx9'.repeat(12)}`

test('finds payment cards by their issuer and check digit', t => {
  for (const card of [
    ...['4111111111111111', '4111 1111 1111 1111', '4111-1111-1111-1111', '5555555555554444', '2223003122003222'],
    ...['378282246310005', '3782 822463 10005', '30569309025904', '6011111111111117', '3530111333300000'],
  ])
    t.deepEqual(found(`My card is ${card}, thanks. 2024`), [['card', card]], card)
  for (const other of [
    ...['4111111111111112', '1234567890123456', '0.4111111111111111', 'id4111111111111111', '41111111111111111111'],
    ...['4111 1111-1111 1111', '9999999999999995'],
  ])
    t.deepEqual(found(`It is ${other} or so`, ['card']), [], other)
  t.deepEqual(found('4111 1111 1111 1111 123 exp 12/29', ['card']), [['card', '4111 1111 1111 1111']], 'with its code')
})

test('finds IBANs by their country, length and check digits', t => {
  for (const iban of [
    ...['DE89370400440532013000', 'DE89 3704 0044 0532 0130 00', 'GB82 WEST 1234 5698 7654 32', 'NO93 8601 1117 947'],
    ...['AT61 1904 3002 3457 3201', 'MT84MALT011000012345MTLCAST001S', 'de89370400440532013000'],
  ])
    t.deepEqual(found(`Pay to ${iban} THE money`), [['iban', iban]], iban)
  for (const other of [
    'DE89370400440532013001',
    'XX89370400440532013000',
    'DE8937040044053201300',
    'aDE89370400440532013000',
  ])
    t.deepEqual(found(`It is ${other}`, ['iban']), [], other)
})

test('finds keys of known forms, ours too, web tokens and private keys', t => {
  const privateKey = `-----BEGIN RSA PRIVATE KEY-----\nMIIEow${'AbC/+9\n'.repeat(40)}==\n-----END RSA PRIVATE KEY-----`
  for (const secret of [
    ...[
      openAiKey,
      ownKey,
      'AKIAIOSFODNN7EXAMPLE',
      `ghp_${'a1B2'.repeat(9)}`,
      `xoxb-${'123456789012-'.repeat(2)}abcdef`,
    ],
    ...[`eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U`, privateKey],
  ])
    t.deepEqual(found(`key: ${secret} end`), [['secret', secret]], secret)
  t.deepEqual(found('Use sk-learn and a task-list, or eyJ.'), [])
})

test('finds email addresses and phone numbers', t => {
  for (const address of ['jane@example.com', 'j.doe+tag@mail.example.co.uk', 'jörg@müller.de'])
    t.deepEqual(found(`Write to <${address}>.`), [['email', address]], address)
  for (const other of ['jane@example', '@types/node', 'a @ b.com', 'npm i foo@1.2.3'])
    t.deepEqual(found(`It is ${other} here`, ['email']), [], other)
  for (const phone of [
    '+49 30 901820',
    '+14155552671',
    '0049 (0)30-901820',
    '(555) 234-5678',
    '555-234-5678',
    '1-800-234-5678',
  ])
    t.deepEqual(found(`Call ${phone} now`), [['phone', phone]], phone)
  for (const other of ['2024-11-27', '1.234.567', '12:30:45', '10.0.0.1', '123456789', 'v1.22.333'])
    t.deepEqual(found(`It is ${other} here`, ['phone']), [], other)
})

const values = [
  ...[
    '4111 1111 1111 1111',
    '378282246310005',
    'GB82 WEST 1234 5698 7654 32',
    'DE89370400440532013000',
    openAiKey,
    ownKey,
  ],
  ...[
    '4111\u202f1111\u202f1111\u202f1111',
    '5555\u200b555555554444',
    '４１１１１１１１１１１１１１１１',
    '+49\u201130\u2011901820',
  ],
  ...['jane@example.com', 'john.doe@mail.example.org', '+49 30 901820', '(555) 234-5678', 'AKIAIOSFODNN7EXAMPLE'],
]
const filler = [
  ...[
    ' ',
    ', ',
    '\n',
    '. ',
    ' the ',
    ' AND ',
    ' 12 ',
    '-',
    '(',
    ') ',
    'a',
    '[',
    ']',
    '[EMAIL_',
    '1]',
    '\\n',
    '\\"',
    '"',
  ],
  ...[
    '+',
    '00',
    ' 4 ',
    'DE',
    '@',
    '.com',
    'sk-',
    '-----BEGIN ',
    'é',
    '🙂',
    '\u00a0',
    '\u200b',
    '\u202f',
    '\\u00e9',
    '\\',
    ':',
  ],
]
const pieces = fc.array(fc.oneof(fc.constantFrom(...values), fc.constantFrom(...filler)), { maxLength: 30 })
const maskAll: Pick<Guardrails, 'detectors'> = {
  detectors: detectorTypes.map(type => ({ type, action: 'mask' as const, on: 'both' as const })),
}

/** Splits a text at random places. */
function chunksOf(text: string, cuts: readonly number[]): string[] {
  const places = [...new Set(cuts.map(cut => cut % (text.length + 1)))].sort((a, b) => a - b)
  return [0, ...places].map((place, i) => text.slice(place, places[i] ?? text.length))
}

for (const isJson of [false, true])
  test(`a text in any parts is masked and restored as the whole${isJson ? ', within JSON' : ''}`, t => {
    const form = { isJson, isSealed: false }
    const cuts = fc.array(fc.nat(2_000), { maxLength: 40 })
    fc.assert(
      fc.property(pieces, cuts, fc.boolean(), (parts, cuts, masksOutput) => {
        const text = parts.join('')
        const run = (chunks: readonly string[]) => {
          const placeholders = new Placeholders()
          new TextGuard(maskAll, 'input', placeholders).apply('Of jane@example.com and +49 30 901820', form)
          const guard = new TextGuard(masksOutput ? maskAll : { detectors: [] }, 'output', placeholders)
          const guarded = new GuardedText(guard, form)
          return chunks.map((chunk, i) => guarded.push(chunk, i === chunks.length - 1)).join('')
        }
        t.is(run(chunksOf(text, cuts)), run([text]), JSON.stringify(text))
      }),
      { numRuns: 3_000 },
    )
    t.pass()
  })

test('what was masked is restored, in any parts', t => {
  const form = { isJson: false, isSealed: false }
  fc.assert(
    fc.property(pieces, fc.array(fc.nat(2_000), { maxLength: 40 }), (parts, cuts) => {
      const text = parts.join('')
      const placeholders = new Placeholders()
      placeholders.reserve(text)
      const masked = new TextGuard(maskAll, 'input', placeholders).apply(text, form)
      const guarded = new GuardedText(new TextGuard({ detectors: [] }, 'output', placeholders), form)
      const chunks = chunksOf(masked, cuts)
      const restored = chunks.map((chunk, i) => guarded.push(chunk, i === chunks.length - 1)).join('')
      t.is(restored, text)
    }),
    { numRuns: 2_000 },
  )
})

test('an escape of JSON before a value stays whole', t => {
  const placeholders = new Placeholders()
  const guard = new TextGuard(maskAll, 'input', placeholders)
  const json = JSON.stringify({ note: 'Hello\njane@example.com\t4111111111111111' })
  const masked = guard.apply(json, { isJson: true, isSealed: false })
  t.deepEqual(JSON.parse(masked), { note: 'Hello\n[EMAIL_1]\t[CARD_1]' })
})

test('a number in JSON is masked by a text', t => {
  for (const cuts of [[], [3, 9, 20, 21, 40]]) {
    const guarded = new GuardedText(new TextGuard(maskAll, 'input', new Placeholders()), {
      isJson: true,
      isSealed: false,
    })
    const chunks = chunksOf('{"note":"\\"4111111111111111","cards":[4111111111111111,1],"n": 5555555555554444}', cuts)
    const masked = chunks.map((chunk, i) => guarded.push(chunk, i === chunks.length - 1)).join('')
    t.deepEqual(JSON.parse(masked), { note: '"[CARD_1]', cards: ['[CARD_1]', 1], n: '[CARD_2]' })
  }
})

/** Forms in which documents, web pages and models write the same value, and programs text that has JSON in it. */
const forms: Record<string, [type: DetectorType, text: string]> = {
  'narrow no-break spaces': ['card', '4111\u202f1111\u202f1111\u202f1111'],
  'thin spaces': ['iban', 'DE89\u20093704\u20090044\u20090532\u20090130\u200900'],
  'no-break hyphens': ['card', '4111\u20111111\u20111111\u20111111'],
  'en dashes': ['phone', '+49\u201330\u2013901820'],
  'digits of full width': ['card', '４１１１　１１１１　１１１１　１１１１'],
  'an address of full width': ['email', 'ｊａｎｅ＠ｅｘａｍｐｌｅ．ｃｏｍ'],
  'Arabic digits': ['phone', '+٤٩ ٣٠ ٩٠١٨٢٠'],
  'Devanagari digits': ['card', '४१११११११११११११११'],
  'zero-width spaces': ['card', '4111\u200b1111\u200b1111\u200b1111'],
  'soft hyphens': ['email', 'jane.doe@exam\u00adple.com'],
}
for (const [name, [type, value]] of Object.entries(forms))
  test(`masks a value in another form: ${name}`, t => {
    const placeholders = new Placeholders()
    const form = { isJson: false, isSealed: false }
    const masked = new TextGuard(maskAll, 'input', placeholders).apply(`Of ${value} and 12`, form)
    t.is(masked, `Of [${type.toUpperCase()}_1] and 12`)
    t.is(new TextGuard({ detectors: [] }, 'output', placeholders).apply(masked, form), `Of ${value} and 12`)
  })

test('masks values behind escapes, in text that has JSON in it', t => {
  const values = {
    card: '4111111111111111',
    phone: '+49 30 901820',
    iban: 'DE89370400440532013000',
    email: 'jane@example.com',
  }
  for (const [type, value] of Object.entries(values))
    for (const control of ['\n', '\t', '\u0001', '"']) {
      const text = `Result: ${JSON.stringify({ text: `x${control}${value}${control}y` })}`
      const masked = new TextGuard(maskAll, 'input', new Placeholders()).apply(text, { isJson: false, isSealed: false })
      t.is(masked, text.replace(value, `[${type.toUpperCase()}_1]`))
    }
})

test('ordinary words are passed on as they come', t => {
  const guard = new TextGuard(maskAll, 'output', new Placeholders())
  const guarded = new GuardedText(guard, { isJson: false, isSealed: false })
  t.is(guarded.push('The quick brown fo', false), 'The quick brown ')
  t.is(guarded.push('x jumps ', false), 'fox jumps ')
})

test('long texts without values, with many of them and with many beginnings of them are scanned in linear time', t => {
  const guard = new TextGuard(maskAll, 'output', new Placeholders())
  const beginnings = [
    ...['a', '4111 ', '+49 3', 'sk-', 'a@', 'eyJ', 'DE89 ', '-----BEGIN ', '[EMAIL_', 'x.', '(555) '],
    ...['4\u200b', '４', '٤', '\u202f', '\\n', '\\u00e9', '\\', '"'],
    // Values of one form between beginnings of another.
    ...[
      'xoxb------BEGIN PRIVATE KEY-----',
      `ghp_${'a'.repeat(36)} -----BEGIN `,
      '+49 30 9018200 (555) 234-',
      'a@b.cd eyJ',
    ],
  ]
  for (const part of beginnings) {
    const text = part.repeat(Math.ceil(1_000_000 / part.length))
    const began = performance.now()
    guard.apply(text, { isJson: true, isSealed: false })
    const tookMs = performance.now() - began
    t.true(tookMs < 5_000, `${part}: ${tookMs} ms`)
  }
})
