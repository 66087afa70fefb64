import { dayMs } from '../base/time.ts'
import { Prisma } from '../generated/prisma/client.ts'
import type { Connection } from '../io/db.ts'
import type { Counters, CountersByModel } from './offsets.ts'

/** After this time a score weighs half. */
const halfLifeMs = 30 * dayMs
/** Counters that were not updated for this long weigh less than a fiftieth, and are deleted. */
export const counterRetentionMs = 6 * halfLifeMs

/** What is added to the counters of a key and a model, and to those of its organisation. */
export type CounterAddition = Counters & {
  organisationId: string
  keyId: string
  environment: 'live' | 'test'
  model: string
}

/** The key whose counters are read. */
export type CountedKey = { keyId: string; organisationId: string; environment: 'live' | 'test' }

/** The share of its weight that a score has kept after some time. */
export function keptShare(ageMs: number): number {
  return 2 ** (-Math.max(0, ageMs) / halfLifeMs)
}

/** Adds to counters in one statement, which locks them in one order. */
export async function addToCounters(
  db: Connection,
  additions: readonly CounterAddition[],
  nowMs: number,
): Promise<void> {
  if (additions.length === 0) return
  await db.$executeRaw`
    INSERT INTO quality_counters AS c
      (organisation_id, scope, model, explicit_sum, explicit_count, implicit_sum, implicit_count, updated_at)
    SELECT "organisationId", scope, model, sum("explicitSum"), sum("explicitCount"), sum("implicitSum"), sum("implicitCount"),
      ${new Date(nowMs)}
    FROM jsonb_to_recordset(${JSON.stringify(additions)}::jsonb) AS a("organisationId" text, "keyId" text, environment text,
      model text, "explicitSum" float8, "explicitCount" float8, "implicitSum" float8, "implicitCount" float8),
      LATERAL (VALUES ("keyId"), (environment)) AS s(scope)
    GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (organisation_id, scope, model) DO UPDATE SET
      explicit_sum = c.explicit_sum * ${keptSince} + excluded.explicit_sum,
      explicit_count = greatest(0, c.explicit_count * ${keptSince} + excluded.explicit_count),
      implicit_sum = c.implicit_sum * ${keptSince} + excluded.implicit_sum,
      implicit_count = greatest(0, c.implicit_count * ${keptSince} + excluded.implicit_count),
      updated_at = greatest(c.updated_at, excluded.updated_at)`
}

/** The share of their weight that counters have kept since they were updated. */
const keptSince = Prisma.sql`power(2, -greatest(0, extract(epoch FROM excluded.updated_at - c.updated_at)) * 1000 / ${halfLifeMs}::float8)`

type CounterRow = Counters & { organisationId: string; scope: string; model: string; updatedAt: Date }

/** Reads the counters of keys, and of their organisations, as they weigh now. */
export async function readCounters(
  db: Connection,
  keys: readonly CountedKey[],
  nowMs: number,
): Promise<Map<string, { own: CountersByModel; shared: CountersByModel }>> {
  const owners = keys.flatMap(({ organisationId, keyId, environment }) => [
    { organisationId, scope: keyId },
    { organisationId, scope: environment },
  ])
  const rows = await db.$queryRaw<CounterRow[]>`
    SELECT organisation_id AS "organisationId", scope, model, explicit_sum AS "explicitSum", explicit_count AS "explicitCount",
      implicit_sum AS "implicitSum", implicit_count AS "implicitCount", updated_at AS "updatedAt"
    FROM quality_counters JOIN (
      SELECT DISTINCT * FROM unnest(${owners.map(one => one.organisationId)}::text[], ${owners.map(one => one.scope)}::text[])
    ) AS w(organisation_id, scope) USING (organisation_id, scope)`
  const found = new Map<string, Map<string, Counters>>()
  for (const { organisationId, scope, model, updatedAt, ...counters } of rows) {
    const owner = `${organisationId} ${scope}`
    const models = found.get(owner) ?? new Map<string, Counters>()
    found.set(owner, models.set(model, decayed(counters, keptShare(nowMs - updatedAt.getTime()))))
  }
  return new Map(
    keys.map(({ keyId, organisationId, environment }) => {
      const of = (scope: string) => found.get(`${organisationId} ${scope}`) ?? new Map<string, Counters>()
      return [keyId, { own: of(keyId), shared: of(environment) }]
    }),
  )
}

function decayed({ explicitSum, explicitCount, implicitSum, implicitCount }: Counters, kept: number): Counters {
  return {
    explicitSum: explicitSum * kept,
    explicitCount: explicitCount * kept,
    implicitSum: implicitSum * kept,
    implicitCount: implicitCount * kept,
  }
}
