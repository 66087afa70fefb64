import { tokenizer } from '../../shared/kinds/tokenizer.ts'
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
