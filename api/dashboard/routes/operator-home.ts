import { z } from 'zod'
import { usdFromNano } from '../../../shared/base/money.ts'
import { listUnknownNames } from '../../../shared/engine/unknown-names.ts'
import { sumUsage, type UsageSum } from '../../../shared/wallet/usage-query.ts'
import { measures } from '../../../shared/wallet/usage-series.ts'
import type { UsageFilter } from '../../../shared/wallet/usage-source.ts'
import { type Endpoint, endpoint } from '../../endpoint.ts'
import { presentSums } from '../../routes/usage.ts'
import { runSearch } from '../queries/run-search.ts'
import { readSpan, type Span, spanFields } from '../queries/span.ts'
import { usageBound } from '../queries/usage-filter.ts'
import type { ServiceActivity, ServiceSums, TopOrganisations, UnknownNamesAnswer } from '../wire/operator-home.ts'
import type { UsageChart } from '../wire/usage.ts'
import { presentPeriods, zeroUsage } from './activity.ts'
import { readSeries } from './usage.ts'

const base = '/dashboard/api/operator'
const shared = { tag: 'Dashboard', access: 'operator' } as const
const maxPeriods = 1_000
const maxTop = 8

const word = z.string().trim().min(1).max(200).optional()
const fields = {
  ...spanFields,
  environment: z.enum(['live', 'test']).default('live'),
  provider: word,
  model: word,
}
type Fields = z.output<z.ZodObject<typeof fields>>

/** The filter of figures of all organisations. */
function filterOf({ environment, provider, model }: Fields, { from, to }: Span): UsageFilter {
  return { organisationId: null, from, to, environment, provider, model }
}

const activity = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/activity`,
  summary: 'Retrieve the requests, durations, revenue and provider cost of the service over time',
  query: z.strictObject(fields),
  answers: { 200: { description: 'The figures by period, in total and of the time before.' } },
  async handle({ services, query }): Promise<ServiceActivity> {
    const span = readSpan(query, services.clock.now())
    const filter = filterOf(query, span)
    const { step, source, before } = span
    return runSearch(services.db, usageBound, null, async tx => {
      const common = { source, by: [], order: 'time' } as const
      const { rows, total } = await sumUsage(tx, filter, { ...common, step, limit: maxPeriods })
      const earlier = await sumUsage(tx, { ...filter, ...before }, { ...common, step: null, limit: 1 })
      const byStart = new Map(rows.map(sum => [sum.start!.getTime(), sum]))
      const values = span.times.map(time => {
        const sum = byStart.get(time)
        return sum ? presentService(sum) : null
      })
      return {
        ...presentPeriods(span, query.environment),
        values,
        total: presentService(total ?? zeroUsage),
        before: presentService(earlier.total ?? zeroUsage),
      }
    })
  },
})

function presentService(sum: UsageSum): ServiceSums {
  return {
    ...presentSums(sum),
    provider_cost_usd: usdFromNano(sum.providerCostNano),
    known_cost_usd: usdFromNano(sum.knownCostNano),
  }
}

const chart = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/usage`,
  summary: 'Retrieve the usage of the service by period and by model or provider',
  query: z.strictObject({
    ...fields,
    by: z.enum(['model', 'provider', 'outcome']).default('model'),
    measure: z.enum(measures).default('requests'),
  }),
  answers: { 200: { description: 'The largest series, and the sum of all others.' } },
  handle({ services, query }): Promise<UsageChart> {
    const { by, measure, environment } = query
    const span = readSpan(query, services.clock.now())
    return readSeries(services, filterOf(query, span), span, { by, measure, environment, source: span.source })
  },
})

const top = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/top-organisations`,
  summary: 'List the organisations with the most spend or the most errors',
  query: z.strictObject({ ...fields, by: z.enum(['cost', 'errors']).default('cost') }),
  answers: { 200: { description: 'The organisations.' } },
  async handle({ services, query }): Promise<TopOrganisations> {
    const span = readSpan(query, services.clock.now())
    const grouping = {
      ...({ step: null, by: ['organisation'], durations: false, limit: maxTop } as const),
      source: span.source,
      order: query.by,
    }
    const { rows } = await runSearch(services.db, usageBound, null, tx => sumUsage(tx, filterOf(query, span), grouping))
    const ids = rows.map(({ groups }) => groups[0]!)
    const found = await services.db.organisation.findMany({
      where: { id: { in: ids } },
      select: { id: true, name: true },
    })
    const names = new Map(found.map(({ id, name }) => [id, name]))
    const data = rows.map(({ groups: [id = ''], requests, outcomes: { ok, cancelled }, costNano }) => ({
      id,
      name: names.get(id) ?? id,
      requests,
      errors: requests - ok - cancelled,
      cost_usd: usdFromNano(costNano),
    }))
    return { data: query.by === 'errors' ? data.filter(({ errors }) => errors > 0) : data }
  },
})

const unknownNames = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/unknown-names`,
  summary: 'List what requests have that the gateway does not know, the latest first',
  answers: { 200: { description: 'The names.' } },
  async handle({ services }): Promise<UnknownNamesAnswer> {
    const names = await listUnknownNames(services.redis)
    const data = names.map(({ firstMs, lastMs, ...name }) => ({
      ...name,
      first_at: new Date(firstMs).toISOString(),
      last_at: new Date(lastMs).toISOString(),
    }))
    return { data }
  },
})

export const operatorHomeRoutes: Endpoint[] = [activity, chart, top, unknownNames]
