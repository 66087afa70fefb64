import { z } from 'zod'
import { GatewayError } from '../../../shared/base/errors.ts'
import { usdFromNano } from '../../../shared/base/money.ts'
import type { Services } from '../../../shared/services.ts'
import {
  type Dimension,
  dimensions,
  sumUsage,
  type UsageFilter,
  type UsageSource,
} from '../../../shared/wallet/usage-query.ts'
import { type Measure, measures, sumSeries } from '../../../shared/wallet/usage-series.ts'
import { endpoint } from '../../endpoint.ts'
import { presentWallet } from '../../routes/account.ts'
import { presentSums, usageCsv } from '../../routes/usage.ts'
import { runSearch } from '../present/run-search.ts'
import { readSpan, type Span } from '../present/span.ts'
import { readUsageFilter, sourceOf, usageBound, usageFields } from '../present/usage-filter.ts'
import { readWorkKeys } from '../present/work.ts'
import type { Overview, UsageChart, UsageEnvironment, UsageFigures, UsageGroups, UsageSeries } from '../wire/usage.ts'
import { nothing, presentPeriods } from './activity.ts'

const base = '/dashboard/api/organisations/{organisation}'
const shared = { tag: 'Dashboard', access: { role: 'member' } } as const
const environment = z.enum(['live', 'test']).default('live').describe('The environment whose requests are counted.')
const maxSeries = 8
const maxGroups = 200
const maxExported = 10_000

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

const chart = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/usage`,
  summary: 'Retrieve usage by period and by model, key, member, provider or type',
  query: z.strictObject({
    ...usageFields,
    by: z.enum(dimensions).default('model'),
    measure: z.enum(measures).default('cost'),
  }),
  answers: { 200: { description: 'The largest series, and the sum of all others.' } },
  errors: ['not_found'],
  async handle({ services, organisationId, query }): Promise<UsageChart> {
    const { by, measure } = query
    const span = readSpan(query, services.clock.now())
    const { filter, environment } = await readUsageFilter(services, organisationId, query, span)
    const source = sourceOf([by], span, query.tag, span.source)
    return readSeries(services, filter, span, { by, measure, environment, source })
  },
})

/** The largest series of a measure by period, and the sum of all others. */
export async function readSeries(
  services: Services,
  filter: UsageFilter,
  span: Span,
  shown: { by: Dimension; measure: Measure; environment: UsageEnvironment; source: UsageSource },
): Promise<UsageChart> {
  const { by, measure, environment, source } = shown
  const wanted = { step: span.step, source, by, measure, maxSeries }
  const rows = await runSearch(services.db, usageBound, tx => sumSeries(tx, filter, wanted))
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

const groupsQuery = z.strictObject({
  ...usageFields,
  by: z.enum(dimensions).default('key'),
  then_by: z.enum(dimensions).optional(),
})

const groups = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/usage/groups`,
  summary: 'Retrieve usage by up to two properties',
  query: groupsQuery,
  answers: { 200: { description: 'One row per group, the most expensive first.' } },
  errors: ['not_found'],
  async handle({ services, organisationId, query }): Promise<UsageGroups> {
    const { span, environment, rows, total } = await readGroups(services, organisationId, query, maxGroups)
    const { from, to } = presentPeriods(span, environment)
    return { from, to, environment, rows: rows.slice(0, maxGroups), total, has_more: rows.length > maxGroups }
  },
})

const groupsFile = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/usage/groups.csv`,
  summary: 'Export usage by up to two properties as CSV',
  query: groupsQuery,
  answers: { 200: { description: 'One line per group, the most expensive first.', contentType: 'text/csv' } },
  errors: ['not_found'],
  async handle({ services, organisationId, query, ctx }) {
    const { by, then_by } = query
    const { rows } = await readGroups(services, organisationId, query, maxExported)
    const names = then_by === undefined ? [by] : [by, then_by]
    const lines = rows.map(({ groups, ...sums }) => ({
      start: null,
      ...Object.fromEntries(names.map((name, i) => [name, groups[i]!.name])),
      ...sums,
    }))
    ctx.set({ 'content-type': 'text/csv; charset=utf-8', 'content-disposition': 'attachment; filename="usage.csv"' })
    ctx.body = usageCsv(lines, names)
  },
})

/** Reads the groups of a query, one more than `max` if there are more, and their total. Throws 400, 404. */
async function readGroups(
  services: Services,
  organisationId: string,
  query: z.output<typeof groupsQuery>,
  max: number,
): Promise<{ span: Span } & Pick<UsageGroups, 'environment' | 'rows' | 'total'>> {
  const { by, then_by: thenBy } = query
  if (by === thenBy) throw new GatewayError('invalid_request', '`then_by` must differ from `by`.', { param: 'then_by' })
  const span = readSpan(query, services.clock.now())
  const { filter, environment } = await readUsageFilter(services, organisationId, query, span)
  const dimensions = thenBy === undefined ? [by] : [by, thenBy]
  const source = sourceOf(dimensions, span, query.tag, span.source)
  const grouping = { step: null, source, by: dimensions, order: 'cost', limit: max + 1 } as const
  const { rows: sums, total } = await runSearch(services.db, usageBound, tx => sumUsage(tx, filter, grouping))
  const names = await Promise.all(
    dimensions.map((dimension, i) => namesOf(services, dimension, [...new Set(sums.map(({ groups }) => groups[i]!))])),
  )
  const rows = sums.map(sum => ({
    groups: sum.groups.map((id, i) => ({ id, name: names[i]!(id) })),
    ...presentSums(sum),
  }))
  return { span, environment, rows, total: presentSums(total ?? nothing) }
}

/** What pages show for a group without a value. */
const unnamed: Partial<Record<Dimension, string>> = {
  member: 'API or operator',
  provider: 'No provider',
  model: 'No known model',
  end_user: 'No end user',
  tag: 'Without this tag',
}

/** The display names of groups. */
async function namesOf(
  services: Services,
  by: Dimension,
  ids: readonly (string | null)[],
): Promise<(id: string) => string> {
  const known = ids.filter(id => id !== null && id !== '') as string[]
  const names = new Map<string, string>()
  if (by === 'key') {
    for (const [id, { name }] of await readWorkKeys(
      services,
      known.map(keyId => ({ keyId })),
    ))
      names.set(id, name)
  } else if (by === 'member') {
    const people = await services.db.user.findMany({ where: { id: { in: known } }, select: { id: true, name: true } })
    for (const { id, name } of people) names.set(id, name)
  }
  return id => names.get(id) ?? (id === '' ? (unnamed[by] ?? 'None') : id)
}

function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10)
}

export const usageRoutes = [overview, chart, groups, groupsFile]
