import { Prisma } from '../generated/prisma/client.ts'
import type { Connection } from '../io/db.ts'
import {
  columnOf,
  type Dimension,
  type Step,
  starts,
  tableOf,
  type UsageFilter,
  type UsageSource,
  whereOf,
  withMembers,
} from './usage-source.ts'

/** The series of a chart of usage. */

export const measures = ['cost', 'requests', 'errors', 'tokens'] as const
export type Measure = (typeof measures)[number]

const amounts: Record<Measure, Prisma.Sql> = {
  cost: Prisma.sql`u.cost_nano`,
  requests: Prisma.sql`u.requests`,
  errors: Prisma.sql`CASE WHEN u.outcome IN ('ok', 'cancelled') THEN 0 ELSE u.requests END`,
  tokens: Prisma.sql`u.prompt_tokens + u.completion_tokens`,
}

/** An amount of one period and series; those of all but the largest series have no id. */
type SeriesAmount = { start: Date; id: string | null; amount: bigint }

/** Sums one measure by period for the largest values of a dimension, and for all others together. Periods without usage are omitted. */
export function sumSeries(
  db: Connection,
  filter: UsageFilter,
  wanted: { step: Step; source: UsageSource; by: Dimension; measure: Measure; maxSeries: number },
): Promise<SeriesAmount[]> {
  const { step, source, by, measure, maxSeries } = wanted
  const start = starts[step]
  return db.$queryRaw<SeriesAmount[]>`
    WITH used AS (
      SELECT ${start} AS start, coalesce(${columnOf(by, filter)}, '') AS id, sum(${amounts[measure]}) AS amount
      FROM ${withMembers(tableOf(source, filter, step), [by])}
      WHERE ${whereOf(filter, start)}
      GROUP BY 1, 2
    ), largest AS (
      SELECT id FROM used GROUP BY id HAVING sum(amount) <> 0 ORDER BY sum(amount) DESC, id LIMIT ${maxSeries}
    )
    SELECT start, largest.id, sum(amount)::bigint AS amount FROM used LEFT JOIN largest USING (id)
    GROUP BY 1, 2 HAVING sum(amount) <> 0`
}
