import fc from 'fast-check'
import { type Counters, maxOffset, offsetsOf } from '../../shared/feedback/offsets.ts'
import { test } from '../support/test.ts'

const scores = (sum: number, count: number): Counters => ({
  explicitSum: sum,
  explicitCount: count,
  implicitSum: 0,
  implicitCount: 0,
})
const signals = (sum: number, count: number): Counters => ({
  explicitSum: 0,
  explicitCount: 0,
  implicitSum: sum,
  implicitCount: count,
})
const offsetOf = (own: Counters | null, shared: Counters) =>
  offsetsOf(new Map(own ? [['m', own]] : []), new Map([['m', shared]])).get('m') ?? 0

test('few bad scores move little, many come near the bound, and none nothing', t => {
  t.is(offsetOf(null, scores(0, 0)), 0)
  const [one, ten, thousand] = [1, 10, 1_000].map(count => offsetOf(scores(-count, count), scores(-count, count)))
  t.true(one! < -0.4 && one! > -1.5, String(one))
  t.true(ten! < one! && ten! > -5)
  t.true(thousand! < -5.8 && thousand! >= -maxOffset)
})

test('good scores count as far as they are better than usual', t => {
  t.true(offsetOf(scores(1_000, 1_000), scores(1_000, 1_000)) < 0.1, 'there is nothing to compare with')
  const both = new Map([
    ['m', scores(90, 100)],
    ['other', scores(30, 100)],
  ])
  const offsets = offsetsOf(both, both)
  t.true(offsets.get('m')! > 1 && offsets.get('other')! < -1)
  t.true(Math.abs(offsets.get('m')! + offsets.get('other')!) < 0.5)
})

test('a key without scores has half of its organisation’s mistrust; its own scores prevail', t => {
  t.true(offsetOf(null, scores(-10, 10)) < 0)
  t.true(offsetOf(null, scores(-10, 10)) > offsetOf(scores(-10, 10), scores(-10, 10)))
  t.true(offsetOf(scores(-40, 40), scores(60, 140)) < 0)
})

test('signals count relative to the usual rate of the organisation, and one point at most', t => {
  const of = (bad: number) => {
    const shared = new Map([
      ['m', signals(-bad, 2_000)],
      ['other', signals(-200, 2_000)],
    ])
    return offsetsOf(shared, shared).get('m') ?? 0
  }
  t.is(of(200), 0)
  t.true(of(300) < 0 && of(100) > 0)
  t.is(of(2_000), -1)
})

test('no counters give an offset beyond the bound', t => {
  const count = fc.double({ min: 0, max: 1e9, noNaN: true })
  const part = fc.double({ min: -1, max: 1, noNaN: true })
  const any = fc.record({ n: count, s: part, m: count, r: part }).map(({ n, s, m, r }) => ({
    explicitSum: n * s,
    explicitCount: n,
    implicitSum: m * r,
    implicitCount: m,
  }))
  fc.assert(fc.property(any, any, (own, shared) => t.true(Math.abs(offsetOf(own, shared)) <= maxOffset)))
})
