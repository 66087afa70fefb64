import { encode } from 'gpt-tokenizer/encoding/o200k_base'
import { BytePairEncoding } from '../../shared/kinds/byte-pair-encoding.ts'
import { tokenizer } from '../../shared/kinds/tokenizer.ts'
import { seededRandom } from '../prove/random.ts'
import { countTurns } from '../support/event-loop.ts'
import { test } from '../support/test.ts'

/** Text of so many characters that encodes badly, the same each time. */
function nonsense(chars: number, seed = 1): string {
  let state = seed
  let text = ''
  while (text.length < chars) {
    state = (state * 48_271) % 2_147_483_647
    text += state.toString(36)
  }
  return text.slice(0, chars)
}

test('exact up to 20,000 characters, whether counted, split or cut', async t => {
  const text = 'one two three four '.repeat(250)
  const tokens = await tokenizer()
  const exact = tokens.count(text)
  t.is(tokens.split(text).length, exact)
  t.is(tokens.split(text).join(''), text)
  t.is(tokens.first(text, 3), 'one two three')
  t.is(tokens.count('one two three'), 3)
  t.is(tokens.first(text, exact), text)
})

test('estimated beyond 20,000 characters: as many tokens a character as the text has', async t => {
  for (const text of ['A plain sentence, said again. '.repeat(2_000), nonsense(60_000)]) {
    const tokens = await tokenizer()
    let exact = 0
    for (let at = 0; at < text.length; at += 10_000) exact += tokens.createFresh().count(text.slice(at, at + 10_000))
    const estimate = tokens.count(text)
    t.true(Math.abs(estimate - exact) < exact / 20, `${estimate} for ${exact}`)
    t.is(tokens.split(text).join(''), text)
    t.true(text.startsWith(tokens.first(text, 50_000)))
  }
})

test('the work is bounded for all texts of a request together', async t => {
  const timeOf = (texts: string[], tokens: Awaited<ReturnType<typeof tokenizer>>) => {
    const { user } = process.cpuUsage()
    for (const text of texts) tokens.count(text)
    return process.cpuUsage().user - user
  }
  const tokens = await tokenizer()
  const texts = Array.from({ length: 30 }, (_, i) => nonsense(20_000, i + 1))
  timeOf(texts.slice(0, 2), tokens.createFresh())
  const one = timeOf(texts.slice(2, 3), tokens.createFresh())
  const many = timeOf(texts.slice(3), tokens.createFresh())
  t.true(many < 6 * one + 10_000, `${many} µs for 27 texts, ${one} µs for one`)
})

const samples = [
  () => ' ',
  (pick: (n: number) => number) =>
    ['the ', 'ing', "'s", '\r\n', '\t\t', 'tion', '12345', '<|endoftext|>', 'العربية'][pick(9)]!,
  (pick: (n: number) => number) => String.fromCharCode(0x20 + pick(95)),
  (pick: (n: number) => number) => String.fromCharCode(0x4e00 + pick(3_000)),
  (pick: (n: number) => number) => String.fromCodePoint(0x1f300 + pick(800)),
  (pick: (n: number) => number) => String.fromCharCode(pick(0x10000)),
]

test('equal to gpt-tokenizer: the token counts of random texts of every kind', async t => {
  const encoding = await BytePairEncoding.load()
  const random = seededRandom(7)
  const pick = (n: number) => Math.floor(random() * n)
  const word = nonsense(1_000)
  const texts = ['', 'x', word, `${word} 😀`, 'a'.repeat(1_000), '\ud83d', '\ud83dx']
  for (let i = 0; i < 5_000; i++) {
    const text = Array.from({ length: pick(40) }, () => samples[pick(samples.length)]!(pick)).join('')
    // The library leaves it out, which is three bytes.
    texts.push(text.replaceAll('\ufeff', ''))
  }
  const options = { disallowedSpecial: new Set<string>() }
  for (const text of texts) {
    const tokens = encoding.encode(text)
    t.deepEqual(tokens, encode(text, options), JSON.stringify(text))
    const bytes = Buffer.concat(tokens.map(token => encoding.bytesOf(token)))
    t.is(bytes.toString(), Buffer.from(text).toString())
  }
  t.is(encoding.encode('\ufeffa').length, 2)
})

test('loaded without stopping the process', async t => {
  const { turns } = await countTurns(() => BytePairEncoding.load())
  t.true(turns >= 40, `${turns} turns of the event loop`)
})

test('a text that is cut inside a character leaves nothing of it to the next', async t => {
  const tokens = await tokenizer()
  const text = '🧿🪬🫠'
  t.true(tokens.count(text) > 3, 'its characters are more than one token each')
  t.is(tokens.first(text, 1), '')
  t.is(tokens.createFresh().first('🪬 next', 50), '🪬 next')
  t.is(tokens.createFresh().split('🪬 next').join(''), '🪬 next')
})
