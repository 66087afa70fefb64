import { histogramValues } from '../../shared/metrics/registry.ts'
import { Count, Histogram, SeriesTree } from '../../shared/metrics/series.ts'
import { test } from '../support/test.ts'

const labels = [{ name: 'model', known: new Set(['a', 'b', '']) }, { name: 'outcome' }]

test('series are found by their labels; unknown values share one', t => {
  const series = SeriesTree.create(labels, () => new Count())
  for (const model of ['a', 'b', 'a', 'x', 'y', '']) series.child(model).child('ok').leaf.value++
  const values = [...series.entries()].map(({ labels, leaf }) => [labels.model, labels.outcome, leaf.value])
  t.deepEqual(values, [
    ['a', 'ok', 2],
    ['b', 'ok', 1],
    ['other', 'ok', 2],
    ['', 'ok', 1],
  ])
})

test('the number of series is bounded, and nothing is lost beyond it', t => {
  const series = SeriesTree.create([{ name: 'model' }, { name: 'outcome' }], () => new Count(), 100)
  for (let i = 0; i < 10_000; i++) series.child(`model-${i % 500}`).child(`outcome-${i % 7}`).leaf.value++
  const entries = [...series.entries()]
  t.true(entries.length <= 101, `${entries.length}`)
  t.is(
    entries.reduce((sum, { leaf }) => sum + leaf.value, 0),
    10_000,
  )
  t.true(entries.some(({ labels }) => labels.model === 'other'))
})

test('a histogram’s buckets are cumulative, with inclusive bounds', t => {
  const histogram = new Histogram([0.1, 1])
  for (const seconds of [0.05, 0.1, 0.5, 1, 30]) histogram.observe(seconds)
  t.deepEqual(
    histogramValues('x', [{ labels: { model: 'a' }, leaf: histogram }]).map(({ metricName, labels, value }) => {
      return [metricName, labels.le, value]
    }),
    [
      ['x_bucket', 0.1, 2],
      ['x_bucket', 1, 4],
      ['x_bucket', '+Inf', 5],
      ['x_sum', undefined, 31.65],
      ['x_count', undefined, 5],
    ],
  )
})
