import { z } from 'zod'
import { usdFromNano } from '../../../shared/base/money.ts'
import { utcDateOf } from '../../../shared/base/time.ts'
import type { Platform } from '../../../shared/platform.ts'
import { type Measure, measures, sumSeries } from '../../../shared/wallet/usage-series.ts'
import { type Dimension, dimensions, type UsageFilter, type UsageSource } from '../../../shared/wallet/usage-source.ts'
import { endpoint } from '../../endpoint.ts'
import { presentWallet } from '../../routes/account.ts'
import { runSearch } from '../queries/run-search.ts'
import { granularity, inPeriods, readSpan, type Span } from '../queries/span.ts'
import { readUsageFilter, sourceOf, usageBound, usageFields } from '../queries/usage-filter.ts'
import { namesOf } from '../queries/usage-names.ts'
import type { Overview, UsageChart, UsageEnvironment, UsageFigures, UsageSeries } from '../wire/usage.ts'
import { presentPeriods } from './activity.ts'

const base = '/dashboard/api/organisations/{organisation}'
const shared = { tag: 'Dashboard', access: { permission: 'view_money' } } as const
const environment = z.enum(['live', 'test']).default('live').describe('The environment whose requests are counted.')
const maxSeries = 8

const overview = endpoint({
  ...shared,
  access: { permission: 'use' },
  method: 'get',
  path: `${base}/overview`,
  summary: 'Retrieve the wallet, and usage of today and this month',
  query: z.strictObject({ environment }),
  answers: { 200: { description: 'The figures.' } },
  async handle({ services, organisationId, person, query }): Promise<Overview> {
    const { db, wallets } = services
    const where = { organisationId }
    const [view, figures, organisation, key, usage, booked] = await Promise.all([
      wallets.view(organisationId),
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
async function figuresOf({ db, clock }: Platform, organisationId: string, environment: 'live' | 'test') {
  const today = utcDateOf(clock.now())
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

const chart = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/usage`,
  summary: 'Retrieve usage by period and by model, key, member, provider or type',
  query: z.strictObject({
    ...usageFields,
    by: z.enum(dimensions).default('model'),
    measure: z.enum(measures).default('cost'),
    granularity,
  }),
  answers: { 200: { description: 'The largest series, and the sum of all others.' } },
  errors: ['not_found'],
  async handle({ services, organisationId, query }): Promise<UsageChart> {
    const { by, measure } = query
    const span = inPeriods(readSpan(query, services.clock.now()), query.granularity)
    const { filter, environment } = await readUsageFilter(services, organisationId, query, span)
    const source = sourceOf([by], span, query.tag, span.source)
    return readSeries(services, filter, span, { by, measure, environment, source })
  },
})

/** The largest series of a measure by period, and the sum of all others. */
export async function readSeries(
  services: Platform,
  filter: UsageFilter,
  span: Span,
  shown: { by: Dimension; measure: Measure; environment: UsageEnvironment; source: UsageSource },
): Promise<UsageChart> {
  const { by, measure, environment, source } = shown
  const wanted = { step: span.step, source, by, measure, maxSeries }
  const rows = await runSearch(services.db, usageBound, filter.organisationId, tx => sumSeries(tx, filter, wanted))
  const present = measure === 'cost' ? usdFromNano : Number
  const bySeries = Map.groupBy(rows, ({ id }) => id)
  const nameOf = await namesOf(services, by, [...bySeries.keys()])
  const totals = new Map([...bySeries].map(([id, own]) => [id, own.reduce((sum, { amount }) => sum + amount, 0n)]))
  const series = [...bySeries].map(([id, own]): UsageSeries => {
    const amounts = new Map(own.map(({ start, amount }) => [start.getTime(), amount]))
    const values = span.times.map(time => present(amounts.get(time) ?? 0n))
    return { id, name: id === null ? 'Other' : nameOf(id), values, total: present(totals.get(id)!) }
  })
  series.sort(
    (a, b) => Number(a.id === null) - Number(b.id === null) || b.total - a.total || a.name.localeCompare(b.name),
  )
  const total = present([...totals.values()].reduce((sum, total) => sum + total, 0n))
  return { ...presentPeriods(span, environment), series, total }
}

export const usageRoutes = [overview, chart]
