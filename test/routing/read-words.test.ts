import fc from 'fast-check'
import { type CueName, cueNames, readPrompt, writeCues } from '../../shared/routing/prompt-cues.ts'
import { takeWords } from '../../shared/routing/read-words.ts'
import { fuzzRuns } from '../support/fuzz.ts'
import { test } from '../support/test.ts'

const pieces = [
  ...[
    "don't ",
    "'tis ",
    "o'",
    'the ',
    'what is ',
    'Prove',
    ' that ',
    'python ',
    'function',
    'summarise ',
    'hello',
    'x',
  ],
  ...[
    'Ann ',
    'New York, ',
    'iPhone ',
    'USA ',
    'a B c',
    'a Bc De',
    '; Ab',
    ', Cd. ',
    '  ',
    '\n',
    '\nA. one\nB) two ',
    '. ',
  ],
  ...['3', '1.5', '! ', '?"', '{', '`', '@', '_', 'aA', 'extraordinarily ', '(', '\t', '\u0000', '\u007f'],
]
const asciiText = fc
  .array(fc.oneof(fc.constantFrom(...pieces), fc.string({ unit: 'binary-ascii', maxLength: 8 })), { maxLength: 60 })
  .map(parts => parts.join(''))

test('a text of ASCII is read as by the reader of any text, which a character beyond ASCII at its end calls for', t => {
  fc.assert(
    fc.property(asciiText, text => {
      const { names, sentences, ...plain } = takeWords(text)
      const { names: noNames, sentences: noSentences, ...any } = takeWords(`${text}\n·`)
      t.deepEqual({ ...plain, flags: { ...plain.flags, hasSymbol: true } }, any)
      t.is(names, text.match(/[a-z,;] \p{Lu}\p{Ll}/gu)?.length ?? 0)
      t.is(sentences, text.match(/[.!?](?=[\s"]|$)/g)?.length ?? 0)
      t.deepEqual([noNames, noSentences], [null, null])
    }),
    { numRuns: fuzzRuns(3_000) },
  )
})

test('texts of any length and script are read', t => {
  const word = 'prove '
  for (const count of [1_375, 1_376, 1_377, 3_000]) {
    t.is(takeWords(word.repeat(count)).count, count)
    t.is(takeWords(`${word.repeat(count)}é`).count, count + 1)
  }
  // As many bytes as code units cannot be mistaken for ASCII.
  t.deepEqual([takeWords('\ud800').names, takeWords('').names, takeWords('é').letters], [null, 0, 1])
})

test('the values of cues are in the order of their names, with the usual one in place of an absent cue', t => {
  const usual = Object.fromEntries(cueNames.map((name, index) => [name, 100 + index])) as Record<CueName, number>
  for (const text of ['Is 12 more than 3?\nA. yes\nB. no', '你好']) {
    const { cues } = readPrompt(text)
    const values = new Float64Array(cueNames.length)
    writeCues(cues, usual, values)
    t.deepEqual(
      [...values],
      cueNames.map(name => cues[name] ?? usual[name]),
    )
  }
})
