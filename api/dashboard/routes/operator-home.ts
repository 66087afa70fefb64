import { z } from 'zod'
import { GatewayError } from '../../../shared/base/errors.ts'
import { usdFromNano } from '../../../shared/base/money.ts'
import type { Incident as IncidentRow } from '../../../shared/generated/prisma/client.ts'
import type { Platform } from '../../../shared/platform.ts'
import { sumUsage, type UsageSum } from '../../../shared/wallet/usage-query.ts'
import { measures } from '../../../shared/wallet/usage-series.ts'
import type { UsageFilter } from '../../../shared/wallet/usage-source.ts'
import { type Endpoint, endpoint } from '../../endpoint.ts'
import { paging } from '../../routes/paging.ts'
import { presentSums } from '../../routes/usage.ts'
import { runSearch } from '../queries/run-search.ts'
import { readSpan, type Span, spanFields } from '../queries/span.ts'
import { usageBound } from '../queries/usage-filter.ts'
import type {
  Incident,
  IncidentKind,
  IncidentsPage,
  ServiceActivity,
  ServiceSums,
  TopOrganisations,
  UnknownNamesAnswer,
} from '../wire/operator-home.ts'
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
    return runSearch(services.db, usageBound, async tx => {
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
    const { rows } = await runSearch(services.db, usageBound, tx => sumUsage(tx, filterOf(query, span), grouping))
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

const incidents = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/incidents`,
  summary: 'List incidents: those that last, then the others, newest first',
  query: z.strictObject({ limit: paging.limit, after: paging.after, provider: word }),
  answers: { 200: { description: 'A page of incidents.' } },
  errors: ['not_found'],
  async handle({ services, query: { limit, after, provider } }): Promise<IncidentsPage> {
    const last = after === undefined ? null : await incidentOf(services, after)
    // Those that last come first, as one group; a cursor among them continues with the rest of both groups.
    const rows = await services.db.$queryRaw<IncidentRow[]>`
      SELECT id, kind, subject, provider, model, message, opened_at AS "openedAt", closed_at AS "closedAt" FROM incidents
      WHERE (${provider ?? null}::text IS NULL OR provider = ${provider ?? null})
        AND (${last?.id ?? null}::text IS NULL OR (closed_at IS NULL, opened_at, id)
          < (${last?.closedAt === null}, ${last?.openedAt ?? null}::timestamptz, ${last?.id ?? null}))
      ORDER BY closed_at IS NULL DESC, opened_at DESC, id DESC LIMIT ${limit + 1}`
    const data = rows.slice(0, limit).map(presentIncident)
    return { data, has_more: rows.length > limit, last_id: data.at(-1)?.id ?? null }
  },
})

async function incidentOf({ db }: Platform, id: string): Promise<IncidentRow> {
  const row = await db.incident.findUnique({ where: { id } })
  if (!row) throw new GatewayError('not_found', 'No such incident.')
  return row
}

function presentIncident({ id, kind, subject, provider, model, message, openedAt, closedAt }: IncidentRow): Incident {
  return {
    id,
    kind: kind as IncidentKind,
    subject,
    provider,
    model,
    message,
    opened_at: openedAt.toISOString(),
    closed_at: closedAt?.toISOString() ?? null,
  }
}

const unknownNames = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/unknown-names`,
  summary: 'List what requests have that the gateway does not know, the latest first',
  answers: { 200: { description: 'The names.' } },
  async handle({ services }): Promise<UnknownNamesAnswer> {
    const names = await services.unknownNames.list()
    const data = names.map(({ firstMs, lastMs, ...name }) => ({
      ...name,
      first_at: new Date(firstMs).toISOString(),
      last_at: new Date(lastMs).toISOString(),
    }))
    return { data }
  },
})

export const operatorHomeRoutes: Endpoint[] = [activity, chart, top, incidents, unknownNames]
