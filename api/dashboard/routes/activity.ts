import { z } from 'zod'
import { type Percentiles, sumUsage, type UsageSum } from '../../../shared/wallet/usage-query.ts'
import { endpoint } from '../../endpoint.ts'
import { presentSums } from '../../routes/usage.ts'
import { runSearch } from '../queries/run-search.ts'
import { readSpan, type Span } from '../queries/span.ts'
import { readUsageFilter, usageBound, usageFields } from '../queries/usage-filter.ts'
import type { Activity, Periods, UsageEnvironment } from '../wire/usage.ts'

const base = '/dashboard/api/organisations/{organisation}'
const shared = { tag: 'Dashboard', access: { permission: 'use' } } as const
const maxPeriods = 1_000

const activity = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/activity`,
  summary: 'Retrieve requests by outcome, durations, tokens and cost over time',
  query: z.strictObject(usageFields),
  answers: { 200: { description: 'The figures by period, in total and of the time before.' } },
  errors: ['not_found'],
  async handle({ services, organisationId, query }): Promise<Activity> {
    const span = readSpan(query, services.clock.now())
    const { filter, environment } = await readUsageFilter(services, organisationId, query, span)
    const { step, source, before, since } = span
    const exact = since && { from: since, isExact: true }
    return runSearch(services.db, usageBound, organisationId, async tx => {
      const shared = { source, by: [], order: 'time' } as const
      const { rows, total } = await sumUsage(tx, { ...filter, ...exact }, { ...shared, step, limit: maxPeriods })
      const earlier = await sumUsage(tx, { ...filter, ...before }, { ...shared, step: null, limit: 1 })
      const byStart = new Map(rows.map(sum => [sum.start!.getTime(), sum]))
      const values = span.times.map(time => {
        const sum = byStart.get(time)
        return sum ? presentSums(sum) : null
      })
      return {
        ...presentPeriods({ ...span, from: since ?? span.from }, environment),
        values,
        total: presentSums(total ?? zeroUsage),
        before: presentSums(earlier.total ?? zeroUsage),
      }
    })
  },
})

export function presentPeriods({ from, to, times, stepMs }: Span, environment: UsageEnvironment): Periods {
  return {
    from: from.toISOString(),
    to: to.toISOString(),
    times: times.map(time => new Date(time).toISOString()),
    step_ms: stepMs,
    environment,
  }
}

export const noPercentiles: Percentiles = { p50Ms: null, p95Ms: null }
/** The sum of no requests. */
export const zeroUsage: UsageSum = {
  start: null,
  groups: [],
  requests: 0,
  latency: noPercentiles,
  firstToken: noPercentiles,
  costNano: 0n,
  providerCostNano: 0n,
  knownCostNano: 0n,
  outcomes: { ok: 0, cancelled: 0, rate_limited: 0, refused: 0, invalid: 0, failed: 0 },
  promptTokens: 0,
  completionTokens: 0,
  cachedTokens: 0,
  reasoningTokens: 0,
  cacheDiscountNano: 0n,
}

export const activityRoutes = [activity]
