import { OutputHistory } from '../../shared/routing/output-history.ts'
import { test } from '../support/test.ts'

function after(tokens: number[]): number {
  const history = new OutputHistory()
  for (const count of tokens) history.record('key', 'model', count)
  return history.likelyTokens('key', 'model')
}
const times = (count: number, tokens: number) => new Array<number>(count).fill(tokens)

test('4,096 tokens are likely until 20 answers are known, and for other keys and models', t => {
  const history = new OutputHistory()
  for (const tokens of times(19, 100)) history.record('key', 'model', tokens)
  t.is(history.likelyTokens('key', 'model'), 4_096)
  history.record('key', 'model', 100)
  t.is(history.likelyTokens('key', 'model'), 1_024)
  t.is(history.likelyTokens('other key', 'model'), 4_096)
  t.is(history.likelyTokens('key', 'other model'), 4_096)
})

test('likely is what 95 % of the answers do not exceed, as a power of two from 1,024 to 32,768', t => {
  t.is(after(times(20, 1_024)), 1_024)
  t.is(after(times(20, 1_025)), 2_048)
  t.is(after([...times(19, 100), ...times(1, 9_000)]), 1_024)
  t.is(after([...times(18, 100), ...times(2, 9_000)]), 16_384)
  t.is(after(times(20, 500_000)), 32_768)
  t.is(after(times(20, 0)), 1_024)
})

test('recent answers count more than older ones', t => {
  t.is(after([...times(5_000, 30_000), ...times(1_000, 100)]), 1_024)
})

test('the oldest of more than 10,000 histories is forgotten', t => {
  const history = new OutputHistory()
  for (const tokens of times(20, 100)) history.record('first', 'model', tokens)
  for (let i = 1; i < 10_000; i++) history.record(`key ${i}`, 'model', 100)
  t.is(history.likelyTokens('first', 'model'), 1_024)
  history.record('one more', 'model', 100)
  t.is(history.likelyTokens('first', 'model'), 4_096)
})
