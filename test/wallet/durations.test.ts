import fc from 'fast-check'
import { Prisma } from '../../shared/generated/prisma/client.ts'
import { percentilesOf } from '../../shared/wallet/durations.ts'
import { observe } from '../support/chaos.ts'
import { test } from '../support/test.ts'
import { use, useStores } from '../support/use.ts'

/** The sketches of durations that the database keeps. */

const stores = useStores(test)
const services = use(test, () => observe(stores))
const maxMs = 2 ** 31 - 1

/** Of all magnitudes alike. */
const duration = fc
  .tuple(fc.double({ min: 0, max: 1, noNaN: true }), fc.constantFrom(10, 500, 60_000, maxMs))
  .map(([at, upToMs]) => Math.min(maxMs, Math.floor((upToMs + 1) ** at - 1)))
const durations = fc.array(duration, { minLength: 1, maxLength: 200 })

const sketchOf = (all: readonly number[]) => Prisma.sql`sketch_of(${[...all]}::int[])`
const bucketsOf = (all: readonly number[]) =>
  Prisma.sql`SELECT 1 AS one, 'latency' AS measure, b.* FROM buckets_of(${sketchOf(all)}) b`

type Percentiles = { counted: number; p50: number; p95: number }
async function read(...parts: (readonly number[])[]): Promise<Percentiles | undefined> {
  const buckets = Prisma.join(parts.map(bucketsOf), ' UNION ALL ')
  const [percentiles] = await services.db.$queryRaw<Percentiles[]>`
    SELECT counted, p50, p95 FROM (${percentilesOf(buckets, Prisma.sql`one`)}) p`
  return percentiles
}

/** By nearest rank. */
function exactly(sorted: readonly number[], percent: number): number {
  return sorted[Math.ceil((percent * sorted.length) / 100) - 1]!
}

test('percentiles are within 2 %, and never outside of what was seen', async t => {
  await fc.assert(
    fc.asyncProperty(durations, async all => {
      const percentiles = await read(all)
      const sorted = [...all].sort((a, b) => a - b)
      t.is(percentiles!.counted, all.length)
      for (const [percent, ms] of [
        [50, percentiles!.p50],
        [95, percentiles!.p95],
      ] as const) {
        t.true(ms >= sorted[0]! && ms <= sorted.at(-1)!, `p${percent} ${ms} of ${sorted[0]} to ${sorted.at(-1)}`)
        const exact = exactly(sorted, percent)
        t.true(Math.abs(ms - exact) <= 0.02 * exact, `p${percent} ${ms} instead of ${exact}`)
      }
    }),
    { numRuns: 60 },
  )
})

test('sketches of parts add up to that of all', async t => {
  await fc.assert(
    fc.asyncProperty(fc.array(durations, { minLength: 1, maxLength: 5 }), async parts => {
      t.deepEqual(await read(...parts), await read(parts.flat()))
    }),
    { numRuns: 30 },
  )
})

test('undefined percentiles without any duration', async t => {
  t.is(await read([]), undefined)
  t.like(await read([], [7]), { counted: 1, p50: 7, p95: 7 })
})
