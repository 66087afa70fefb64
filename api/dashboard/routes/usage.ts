import { z } from 'zod'
import { usdFromNano } from '../../../shared/base/money.ts'
import { dayMs } from '../../../shared/base/time.ts'
import { Prisma } from '../../../shared/generated/prisma/client.ts'
import type { Services } from '../../../shared/services.ts'
import { endpoint } from '../../endpoint.ts'
import { presentWallet } from '../../routes/account.ts'
import { readWorkKeys } from '../present/work.ts'
import type { Overview, UsageBy, UsageChart, UsageFigures, UsageMeasure, UsageSeries } from '../wire/usage.ts'

const base = '/dashboard/api/organisations/{organisation}'
const shared = { tag: 'Dashboard', access: { role: 'member' } } as const
const environment = z.enum(['live', 'test']).default('live').describe('The environment whose requests are counted.')
const maxSeries = 8

const overview = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/overview`,
  summary: 'Retrieve the wallet, and usage of today and this month',
  query: z.strictObject({ environment }),
  answers: { 200: { description: 'The figures.' } },
  async handle({ services, organisationId, person, query }): Promise<Overview> {
    const { db, accounts } = services
    const where = { organisationId }
    const [view, figures, organisation, key, usage, booked] = await Promise.all([
      accounts.view(organisationId),
      figuresOf(services, organisationId, query.environment),
      db.organisation.findUniqueOrThrow({ where: { id: organisationId }, select: { lowBalanceNano: true } }),
      db.apiKey.findFirst({ where, select: { id: true } }),
      db.usageDay.findFirst({ where, select: { day: true } }),
      db.wallet.findUnique({ where, select: { version: true } }),
    ])
    const { object: _, ...wallet } = presentWallet(view)
    const { lowBalanceNano } = organisation
    // The first ledger entry is always a deposit; searching for one would scan all charges.
    const hadMoney = booked !== null && booked.version > 0n
    const isLow = hadMoney && lowBalanceNano !== null && view.balanceNano - view.heldNano < lowBalanceNano
    return {
      wallet,
      low_balance: { threshold_usd: lowBalanceNano === null ? null : usdFromNano(lowBalanceNano), is_low: isLow },
      ...figures,
      first_steps: {
        email_verified: person.emailVerified,
        key_created: key !== null,
        request_made: usage !== null,
        credits_added: hadMoney,
      },
    }
  },
})

type Sums = { requests: bigint; errors: bigint; cost: bigint; tokens: bigint }

/** Usage of the current UTC day and UTC month. */
async function figuresOf({ db, clock }: Services, organisationId: string, environment: 'live' | 'test') {
  const today = dayOf(clock.now())
  const rows = await db.$queryRaw<(Sums & { today: boolean })[]>`
    SELECT day = ${today}::date AS today, sum(requests)::bigint AS requests, sum(errors)::bigint AS errors,
      sum(cost_nano)::bigint AS cost, sum(prompt_tokens + completion_tokens)::bigint AS tokens
    FROM usage_days
    WHERE organisation_id = ${organisationId} AND day BETWEEN date_trunc('month', ${today}::date)::date AND ${today}::date
      AND environment = ${environment}::environment
    GROUP BY 1`
  return { today: sumOf(rows.filter(row => row.today)), month: sumOf(rows) }
}

function sumOf(rows: readonly Sums[]): UsageFigures {
  const sum = (name: keyof Sums) => rows.reduce((total, row) => total + row[name], 0n)
  const [requests, errors, tokens] = [sum('requests'), sum('errors'), sum('tokens')].map(Number) as [
    number,
    number,
    number,
  ]
  return { spend_usd: usdFromNano(sum('cost')), requests, errors, tokens }
}

const chartQuery = z.strictObject({
  environment,
  days: z.coerce
    .number()
    .pipe(z.literal([7, 30, 90]))
    .default(30)
    .describe('Number of days up to today.'),
  by: z.enum(['model', 'key', 'type']).default('model'),
  measure: z.enum(['cost', 'requests', 'tokens']).default('cost'),
})

const chart = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/usage`,
  summary: 'Retrieve usage by day and by model, key or type',
  query: chartQuery,
  answers: { 200: { description: 'The largest series, and the sum of all others.' } },
  async handle({ services, organisationId, query }): Promise<UsageChart> {
    const { by, measure } = query
    const untilMs = services.clock.now()
    const days = Array.from({ length: query.days }, (_, i) => dayOf(untilMs - (query.days - 1 - i) * dayMs))
    const rows = await sumsByDay(services, organisationId, { ...query, from: days[0]!, to: days.at(-1)! })
    const shown = measure === 'cost' ? usdFromNano : Number
    const bySeries = Map.groupBy(rows, ({ id }) => id)
    const names =
      by === 'key'
        ? await readWorkKeys(
            services,
            [...bySeries.keys()].flatMap(id => (id ? { keyId: id } : [])),
          )
        : null
    const totals = new Map([...bySeries].map(([id, own]) => [id, own.reduce((sum, { amount }) => sum + amount, 0n)]))
    const series = [...bySeries].map(([id, own]): UsageSeries => {
      const amounts = new Map(own.map(({ day, amount }) => [day, amount]))
      const name = id === null ? 'Other' : (names?.get(id)?.name ?? id)
      return { id, name, values: days.map(day => shown(amounts.get(day) ?? 0n)), total: shown(totals.get(id)!) }
    })
    series.sort((a, b) => Number(a.id === null) - Number(b.id === null) || b.total - a.total)
    return { days, series, total: shown([...totals.values()].reduce((sum, total) => sum + total, 0n)) }
  },
})

const columns: Record<UsageBy, Prisma.Sql> = {
  model: Prisma.sql`model`,
  key: Prisma.sql`key_id`,
  type: Prisma.sql`kind`,
}
const measures: Record<UsageMeasure, Prisma.Sql> = {
  cost: Prisma.sql`cost_nano`,
  requests: Prisma.sql`requests`,
  tokens: Prisma.sql`(prompt_tokens + completion_tokens)`,
}
type Amount = { day: string; id: string | null; amount: bigint }
type Span = Pick<z.output<typeof chartQuery>, 'environment' | 'by' | 'measure'> & { from: string; to: string }

/** Sums by day and series; those beyond the largest series have no id. Days without usage are omitted. */
function sumsByDay(
  { db }: Services,
  organisationId: string,
  { environment, by, measure, from, to }: Span,
): Promise<Amount[]> {
  return db.$queryRaw<Amount[]>`
    WITH used AS (
      SELECT day, ${columns[by]} AS id, sum(${measures[measure]}) AS amount FROM usage_days
      WHERE organisation_id = ${organisationId} AND day BETWEEN ${from}::date AND ${to}::date
        AND environment = ${environment}::environment
      GROUP BY 1, 2
    ), largest AS (
      SELECT id FROM used GROUP BY id HAVING sum(amount) <> 0 ORDER BY sum(amount) DESC, id LIMIT ${maxSeries}
    )
    SELECT day::text, largest.id, sum(amount)::bigint AS amount FROM used LEFT JOIN largest USING (id)
    GROUP BY 1, 2 HAVING sum(amount) <> 0`
}

function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10)
}

export const usageRoutes = [overview, chart]
