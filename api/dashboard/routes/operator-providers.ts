import { z } from 'zod'
import { GatewayError } from '../../../shared/base/errors.ts'
import { dayMs, elapsedMs } from '../../../shared/base/time.ts'
import type { ProviderRow } from '../../../shared/catalog/schema.ts'
import { audit, type Changes } from '../../../shared/io/audit.ts'
import type { Platform } from '../../../shared/platform.ts'
import type { Target } from '../../../shared/providers/contract.ts'
import { checkCredentials } from '../../../shared/providers/credential-check.ts'
import { type ReportedHealth, readHealth } from '../../../shared/providers/health-report.ts'
import type { ProviderPause } from '../../../shared/providers/provider-pauses.ts'
import { sumUsage, type UsageSum } from '../../../shared/wallet/usage-query.ts'
import { type Endpoint, endpoint } from '../../endpoint.ts'
import { addProviderKey, listProviderKeys, newProviderKey, removeProviderKey } from '../../operator/provider-keys.ts'
import { compareProviders, deploymentState, keyOf, presentError, providerState } from '../present/provider-state.ts'
import { runSearch } from '../queries/run-search.ts'
import { readSpan, type Span } from '../queries/span.ts'
import { usageBound } from '../queries/usage-filter.ts'
import type { Deployment, Provider, ProviderDay, ProvidersAnswer, ProviderTest } from '../wire/operator-home.ts'

const base = '/dashboard/api/operator/providers'
const shared = { tag: 'Dashboard', access: 'operator' } as const
const maxRows = 10_000
const maxPauseMs = 90 * dayMs
const maxNamedModels = 50

/** What is known of all providers. */
type Known = {
  /** Whether one provider alone is read. */
  isOne: boolean
  nowMs: number
  /** By how much the clock of the reports is ahead. */
  offsetMs: number
  reports: readonly ReportedHealth[]
  pauses: ReadonlyMap<string, ProviderPause>
  span: Span
  days: readonly UsageSum[]
  hours: readonly UsageSum[]
  targets: ReadonlyMap<string, readonly Target[]>
}

const list = endpoint({
  ...shared,
  method: 'get',
  path: base,
  summary: 'List providers with their state, worst first',
  answers: { 200: { description: 'The providers.' } },
  async handle({ services }): Promise<ProvidersAnswer> {
    const known = await readKnown(services)
    const data = [...services.catalog.providers.values()].map(row => present(services, known, row))
    return { data: data.sort(compareProviders) }
  },
})

const readOne = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/{provider}`,
  summary: 'Retrieve a provider with its state',
  answers: { 200: { description: 'The provider.' } },
  errors: ['not_found'],
  handle: ({ services, params }): Promise<Provider> => readProvider(services, params.provider!),
})

const pause = endpoint({
  ...shared,
  method: 'post',
  path: `${base}/{provider}/pause`,
  summary: 'Pause a provider: it gets no new calls, and what is under way finishes',
  body: z.strictObject({
    reason: z.string().trim().max(200).optional(),
    /** When it resumes by itself; absent = when an operator does. */
    until: z.iso.datetime().optional(),
  }),
  answers: { 200: { description: 'The provider.' } },
  errors: ['not_found'],
  async handle({ services, params, body, person, actor }): Promise<Provider> {
    const { name } = providerOf(services, params.provider!)
    const reason = body.reason || null
    const until = pauseEnd(body.until, services.clock.now())
    const target = { id: name, name }
    const event = { organisationId: null, actor, action: 'provider.paused', target }
    const changes: Changes = { reason: [null, reason], ...(until && { until: [null, until.toISOString()] }) }
    await services.providerPauses.pause(name, { reason, by: person.email, until }, tx =>
      audit(tx, { ...event, changes }),
    )
    return readProvider(services, name)
  },
})

const resume = endpoint({
  ...shared,
  method: 'post',
  path: `${base}/{provider}/resume`,
  summary: 'Resume a paused provider',
  answers: { 200: { description: 'The provider.' } },
  errors: ['not_found'],
  async handle({ services, params, actor }): Promise<Provider> {
    const { name } = providerOf(services, params.provider!)
    const target = { id: name, name }
    const event = { organisationId: null, actor, action: 'provider.resumed', target }
    await services.providerPauses.resume(name, tx => audit(tx, event))
    return readProvider(services, name)
  },
})

const test = endpoint({
  ...shared,
  method: 'post',
  path: `${base}/{provider}/test`,
  summary: 'Ask a provider whether it accepts each API key, by a request that costs nothing',
  answers: { 200: { description: 'What it answered.' } },
  errors: ['not_found'],
  async handle({ services, params, actor }): Promise<ProviderTest> {
    const { db, catalog, catalogOverrides, config, clock, monotonic, upstreams } = services
    const { name } = providerOf(services, params.provider!)
    if (!upstreams.isConfigured(name, 'live')) throw new GatewayError('not_found', 'This provider is not configured.')
    const startedMs = monotonic.now()
    const reports = await checkCredentials(catalog, config, clock, { only: name, keys: catalogOverrides.keys })
    const target = { id: name, name }
    const changes = Object.fromEntries(reports.map(({ label, outcome }) => [label, [null, outcome]] as const))
    await audit(db, {
      organisationId: null,
      actor,
      action: 'provider.tested',
      target,
      changes: changes as Changes,
    })
    const data = reports.map(({ label, outcome, reason }) => ({ key: label, outcome, reason }))
    return { duration_ms: elapsedMs(startedMs, monotonic.now()), data }
  },
})

const addKey = endpoint({
  ...shared,
  method: 'post',
  path: `${base}/{provider}/keys`,
  summary: 'Add an API key of a provider, or replace one, after the provider has accepted it',
  body: newProviderKey,
  answers: { 200: { description: 'The provider.' } },
  errors: ['not_found', 'quota_exceeded'],
  async handle({ services, params, body, actor }): Promise<Provider> {
    const { name } = providerOf(services, params.provider!)
    await addProviderKey(services, name, body, actor)
    return readProvider(services, name)
  },
})

const removeKey = endpoint({
  ...shared,
  method: 'delete',
  path: `${base}/{provider}/keys/{id}`,
  summary: 'Remove an API key of a provider that was added',
  answers: { 200: { description: 'The provider.' } },
  errors: ['not_found'],
  async handle({ services, params, actor }): Promise<Provider> {
    const { name } = providerOf(services, params.provider!)
    await removeProviderKey(services, name, params.id!, actor)
    return readProvider(services, name)
  },
})

/** Throws 400 for a time that is over, or more than 90 days ahead. */
function pauseEnd(until: string | undefined, nowMs: number): Date | null {
  if (until === undefined) return null
  const end = new Date(until)
  if (end.getTime() > nowMs && end.getTime() <= nowMs + maxPauseMs) return end
  const message = 'The end of a pause is a time within the next 90 days.'
  throw new GatewayError('invalid_request', message, { param: 'until' })
}

/** Throws 404. */
function providerOf({ catalog }: Platform, name: string): ProviderRow {
  const row = catalog.providers.get(name)
  if (!row) throw new GatewayError('not_found', 'No such provider.')
  return row
}

async function readProvider(services: Platform, name: string): Promise<Provider> {
  const row = providerOf(services, name)
  return present(services, await readKnown(services, name), row)
}

async function readKnown(services: Platform, provider?: string): Promise<Known> {
  const { db, clock, catalog, upstreams, redis, providerPauses } = services
  const span = readSpan({ span: '24h' }, clock.now())
  const filter = { organisationId: null, from: span.from, to: span.to, environment: 'live', provider } as const
  const grouping = { source: 'hours', by: ['provider'], order: 'time', limit: maxRows } as const
  const [{ nowMs, reports }, pauses, days, hours] = await Promise.all([
    readHealth(redis),
    providerPauses.list(),
    runSearch(db, usageBound, null, tx => sumUsage(tx, filter, { ...grouping, step: null })),
    runSearch(db, usageBound, null, tx => sumUsage(tx, filter, { ...grouping, step: 'hour', durations: false })),
  ])
  const models = [...catalog.models.values()].filter(({ disabled }) => !disabled)
  return {
    isOne: provider !== undefined,
    nowMs,
    offsetMs: nowMs - clock.now(),
    reports,
    span,
    days: days.rows,
    hours: hours.rows,
    pauses: new Map(pauses.map(row => [row.provider, row])),
    targets: Map.groupBy(
      models.flatMap(model => upstreams.targets(model, 'test')),
      ({ provider: { name } }) => name,
    ),
  }
}

function present(services: Platform, known: Known, { name, protocol, base_url: baseUrl }: ProviderRow): Provider {
  const { catalogOverrides, upstreams } = services
  const { nowMs, offsetMs, pauses } = known
  const targets = known.targets.get(name) ?? []
  const pause = pauses.get(name)
  const isConfigured = upstreams.isConfigured(name, 'live')
  const reports = isConfigured ? known.reports.filter(({ provider }) => provider === name) : []
  const apiKeys = isConfigured && targets[0] ? upstreams.apiKeys(targets[0]) : []
  const keys = apiKeys.map(key => keyOf(name, key, reports, nowMs))
  const deployments = targets.flatMap(target => {
    const report = reports.find(({ model, key }) => model === target.model.id && key === null)
    return report ? presentDeployment(upstreams.figures(target), report, known) : []
  })
  const day = dayOf(name, known)
  const lastReport = reports
    .filter(({ lastError }) => lastError !== null)
    .sort((a, b) => b.lastError!.atMs - a.lastError!.atMs)[0]
  const only = isConfigured && known.isOne ? onlyProvidedBy(name, upstreams, targets) : []
  const succeeded = day !== null && day.requests > day.failed
  return {
    name,
    protocol,
    keys,
    added_keys: listProviderKeys(services, name),
    takes_keys:
      !baseUrl.includes('{') &&
      !catalogOverrides.current.overrides.some(one => one.kind === 'server' && one.name === name),
    models: targets.length,
    deployments,
    day,
    state: !isConfigured ? 'not_configured' : pause ? 'paused' : providerState({ keys, deployments }, succeeded),
    only_provider_of: only.slice(0, maxNamedModels),
    only_provider_count: only.length,
    pause: pause
      ? {
          by: pause.pausedBy,
          at: pause.pausedAt.toISOString(),
          reason: pause.reason,
          until: pause.pausedUntil?.toISOString() ?? null,
        }
      : null,
    last_error: lastReport ? { ...presentError(lastReport.lastError!, offsetMs), model: lastReport.model } : null,
  }
}

/** The models that no other provider serves now, because there is none, or none that is configured and not paused. */
function onlyProvidedBy(name: string, upstreams: Platform['upstreams'], targets: readonly Target[]): string[] {
  return targets
    .map(({ model }) => model)
    .filter(
      model =>
        !upstreams
          .targets(model, 'live')
          .some(other => isOther(name, other) && !upstreams.isPaused(other.provider.name)),
    )
    .map(({ id }) => id)
}

const isOther = (name: string, { provider }: Target) => provider.name !== name && !provider.name.startsWith(`${name}/`)

function presentDeployment(
  { firstByteMs, tokensPerSecond }: { firstByteMs: number | null; tokensPerSecond: number | null },
  report: ReportedHealth,
  { nowMs, offsetMs }: Known,
): Deployment {
  const { model, circuit, cooldownMs, lastError } = report
  return {
    model: model!,
    circuit,
    state: deploymentState(report, nowMs),
    cooldown_ms: Math.round(cooldownMs),
    first_byte_ms: firstByteMs === null ? null : Math.round(firstByteMs),
    tokens_per_second: tokensPerSecond === null ? null : Math.round(tokensPerSecond * 10) / 10,
    last_error: lastError && presentError(lastError, offsetMs),
  }
}

function dayOf(name: string, { days, hours, span }: Known): ProviderDay | null {
  const sum = days.find(({ groups }) => groups[0] === name)
  if (!sum) return null
  const byStart = new Map(hours.filter(({ groups }) => groups[0] === name).map(hour => [hour.start!.getTime(), hour]))
  const success = span.times.map(time => {
    const hour = byStart.get(time)
    return hour && hour.requests > 0 ? 1 - hour.outcomes.failed / hour.requests : null
  })
  const { requests, outcomes, latency } = sum
  return {
    requests,
    failed: outcomes.failed,
    rate_limited: outcomes.rate_limited,
    success,
    latency_p50_ms: latency.p50Ms,
    latency_p95_ms: latency.p95Ms,
  }
}

export const operatorProviderRoutes: Endpoint[] = [list, readOne, pause, resume, test, addKey, removeKey]
