import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { formatPlan, plan, readModel } from '../../bench/capacity.ts'
import { answersOf, askedBy, dialects, emptyStamp } from '../../bench/lib/dialects.ts'
import { secretOf } from '../../bench/lib/many-keys.ts'
import { chatBody, slugOf } from '../../bench/lib/request.ts'
import { quartiles } from '../../bench/lib/statistics.ts'
import { type Row, targetTable } from '../../bench/report.ts'
import { alternate, type Figures, pairs } from '../../bench/rounds.ts'
import { secretKind } from '../../shared/keys/secret.ts'
import { test } from '../support/test.ts'

const plain = { latencyMs: 0, chunks: 1, intervalMs: 0 }

test('every slice is paired with that of the reference in its own round, and each subject comes first in turn', async t => {
  const order: string[] = []
  const mode = {
    cases: ['a case'],
    columns: [],
    warm: async () => {},
    measure: async (subject: string): Promise<Figures> => {
      order.push(subject)
      return { at: order.length }
    },
  }
  const options = { reference: 'bare', subjects: ['one', 'two'], rounds: 3, maxNoise: Infinity, report: () => {} }
  const slices = await alternate(mode, options)
  t.deepEqual(order, ['bare', 'one', 'two', 'one', 'two', 'bare', 'two', 'bare', 'one'])
  t.deepEqual(
    slices.filter(({ subject }) => subject === 'one').map(({ own, reference }) => [own.at, reference.at]),
    [
      [2, 1],
      [4, 6],
      [9, 8],
    ],
  )
  t.deepEqual(
    pairs(slices, ['one', 'two'], (own, other) => own.at! - other.at!),
    [-1, -1, 2],
  )
  t.deepEqual(
    pairs(slices, ['one', 'three'], () => 1),
    [],
  )
})

test('quartiles lie between the values next to them', t => {
  t.deepEqual(quartiles([4, 1, 3, 2]), { median: 2.5, lower: 1.75, upper: 3.25 })
  t.deepEqual(quartiles([7]), { median: 7, lower: 7, upper: 7 })
  t.deepEqual(quartiles([]), { median: NaN, lower: NaN, upper: NaN })
})

test('the table says which median meets its target, and shows what could not be measured', t => {
  const row = (work: string, target: Row['target'], values: number[]): Row => ({
    work,
    unit: 'ms',
    decimals: 1,
    target,
    values,
  })
  const text = targetTable([
    row('low enough', { max: 2 }, [1, 2, 9]),
    row('too low', { min: 2 }, [1, 1, 9]),
    row('not measured', { max: 2 }, []),
    row('without target', null, [1]),
  ])
  const cells = text.split('\n').map(line => line.split('|').map(cell => cell.trim()))
  t.deepEqual(cells.slice(2), [
    ['', 'low enough', '≤ 2 ms', '2.0 (1.5–5.5) ms', 'yes', ''],
    ['', 'too low', '≥ 2 ms', '1.0 (1.0–5.0) ms', 'no', ''],
    ['', 'not measured', '≤ 2 ms', '–', '', ''],
    ['', 'without target', '', '1.0 ms', '', ''],
  ])
})

test('the emulated upstream’s answers are JSON, framed by their length, with one stamp each', t => {
  for (const dialect of dialects) {
    const { whole, first, chunk, last } = answersOf[dialect]('a-model')
    t.notThrows(() => JSON.parse(whole), dialect)
    for (const text of [whole, chunk]) t.is(text.split(emptyStamp).length, 2, dialect)
    for (const frames of [first, chunk, last]) {
      for (let rest = frames; rest !== ''; ) {
        const [, length] = /^([0-9a-f]+)\r\n/.exec(rest) ?? []
        const from = length!.length + 2
        const end = from + Number.parseInt(length!, 16)
        t.is(rest.slice(end, end + 2), '\r\n', dialect)
        const [, data] = /(?:^|\n)data: (.*)\n\n$/.exec(rest.slice(from, end)) ?? []
        if (data !== '[DONE]') t.notThrows(() => JSON.parse(data!), dialect)
        rest = rest.slice(end + 2)
      }
    }
  }
})

test('known to the emulated upstream by the path: dialect, model and stream', t => {
  t.deepEqual(askedBy('/v1/chat/completions'), { dialect: 'openai', slug: null, stream: null })
  t.deepEqual(askedBy('/v1/messages'), { dialect: 'anthropic', slug: null, stream: null })
  t.deepEqual(askedBy('/v1beta/models/m:generateContent'), { dialect: 'gemini', slug: 'm', stream: false })
  t.deepEqual(askedBy('/v1beta/models/m:streamGenerateContent?alt=sse'), { dialect: 'gemini', slug: 'm', stream: true })
  t.is(askedBy('/v1/models'), null)
})

test('a request is as long as asked, an image comes on top', t => {
  t.is(chatBody(plain, false).length, 1_024)
  t.is(chatBody(plain, true, 5_000).length, 5_000)
  const { model, messages } = JSON.parse(
    chatBody(plain, false, 1_024, { model: 'auto', imageUrl: 'https://a.example/b' }),
  )
  t.is(model, 'auto')
  t.deepEqual(messages[1].content[1], { type: 'image_url', image_url: { url: 'https://a.example/b' } })
  t.is(JSON.parse(chatBody(plain, false)).model, slugOf(plain))
})

test('standard: secrets that the benchmark numbers have the form of API keys', t => {
  t.is(secretKind(secretOf(0)), 'standard')
  t.is(secretKind(secretOf(999_999)), 'standard')
  t.not(secretOf(1), secretOf(10))
})

test('docs/scaling.md has the plan of the load model', t => {
  const text = readFileSync(join(import.meta.dirname, '../../docs/scaling.md'), 'utf8')
  const lines = formatPlan(plan(readModel()))
  t.deepEqual(
    lines.filter(line => !text.includes(`${line}\n`)),
    [],
  )
})

test('linear: the load model’s plan for twice the target', t => {
  const model = readModel()
  const twice = (rates: Record<string, number>) =>
    Object.fromEntries(Object.entries(rates).map(([kind, rate]) => [kind, 2 * rate]))
  const { requestsPerSecond, unitsPerDay, realtimeSessions } = model.target
  const target = {
    requestsPerSecond: twice(requestsPerSecond),
    unitsPerDay: twice(unitsPerDay),
    realtimeSessions: 2 * realtimeSessions,
  }
  const [one, two] = [plan(model), plan({ ...model, target })]
  t.is(two.redisCommandsPerSecond, 2 * one.redisCommandsPerSecond)
  t.is(two.storedGbPerDay, 2 * one.storedGbPerDay)
  t.true(Math.abs(two.webProcesses - 2 * one.webProcesses) <= 1)
  t.is(two.webWaitP99Ms, one.webWaitP99Ms)
})
