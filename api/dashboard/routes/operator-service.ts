import type { Queue } from 'bullmq'
import type { ProviderRow } from '../../../shared/catalog/schema.ts'
import type { Target } from '../../../shared/providers/contract.ts'
import type { Services } from '../../../shared/services.ts'
import { deadStream, usageStream } from '../../../shared/wallet/ledger.ts'
import { type Endpoint, endpoint } from '../../endpoint.ts'
import type { Deployment, ProviderHealth, ProvidersAnswer, QueueState, SystemAnswer } from '../wire/operator.ts'

const shared = { tag: 'Dashboard', access: 'operator' } as const
/** A process that has not said for so long that it lives is gone; what it reserved is given back by others. */
const aliveMs = 60_000
const mostInstances = 200

const providers = endpoint({
  ...shared,
  method: 'get',
  path: '/dashboard/api/operator/providers',
  summary: 'How each provider fares, as all processes see it',
  answers: { 200: { description: 'The providers.' } },
  handle({ services }): ProvidersAnswer {
    const { catalog, upstreams } = services
    const models = [...catalog.models.values()].filter(({ disabled }) => !disabled)
    const targets = Map.groupBy(
      models.flatMap(model => upstreams.targets(model, 'test')),
      ({ provider }) => provider.name,
    )
    const data = [...catalog.providers.values()].map(row => presentProvider(services, row, targets.get(row.name) ?? []))
    return { data: data.sort((a, b) => Number(isOff(a)) - Number(isOff(b)) || a.name.localeCompare(b.name)) }
  },
})

const isOff = ({ state }: ProviderHealth) => state === 'not_configured'

function presentProvider(services: Services, row: ProviderRow, targets: readonly Target[]): ProviderHealth {
  const { upstreams } = services
  const isConfigured = upstreams.configured(row.name, 'live')
  const all = isConfigured ? targets.map(target => presentDeployment(services, target)) : []
  const deployments = all.filter(({ calls, rest_ms, circuit }) => calls > 0 || rest_ms > 0 || circuit !== 'closed')
  const keys = targets.flatMap(target => upstreams.apiKeys(target))
  const count = (of: (deployment: Deployment) => number) => deployments.reduce((sum, one) => sum + of(one), 0)
  return {
    name: row.name,
    protocol: row.protocol,
    state: isConfigured ? stateOf(deployments) : 'not_configured',
    credentials: new Set(keys.map(({ id }) => id)).size,
    resting_credentials: new Set(keys.flatMap(({ id, restMs }) => (restMs > 0 ? id : []))).size,
    models: targets.length,
    calls: count(({ calls }) => calls),
    failed_calls: count(({ failed_calls }) => failed_calls),
    deployments,
  }
}

function stateOf(deployments: readonly Deployment[]): ProviderHealth['state'] {
  const troubled = deployments.filter(({ rest_ms, circuit }) => rest_ms > 0 || circuit !== 'closed')
  if (troubled.length === 0) return 'available'
  return deployments.every(({ rest_ms }) => rest_ms > 0) ? 'resting' : 'degraded'
}

function presentDeployment({ upstreams, health }: Services, target: Target): Deployment {
  const { circuit, restMs, firstByteMs, tokensPerSecond } = upstreams.figures(target)
  const { good, bad } = health.calls(target)
  return {
    model: target.model.id,
    circuit,
    rest_ms: Math.round(restMs),
    calls: rounded(good + bad),
    failed_calls: rounded(bad),
    first_byte_ms: firstByteMs === null ? null : Math.round(firstByteMs),
    tokens_per_second: tokensPerSecond === null ? null : rounded(tokensPerSecond),
  }
}

const rounded = (value: number) => Math.round(value * 10) / 10

const system = endpoint({
  ...shared,
  method: 'get',
  path: '/dashboard/api/operator/system',
  summary: 'Queues, ledger and processes as they are now',
  answers: { 200: { description: 'The figures.' } },
  async handle({ services }): Promise<SystemAnswer> {
    const { db, queues } = services
    const [states, ledger, instances, jobs, batches] = await Promise.all([
      Promise.all(Object.values(queues).map(stateOfQueue)),
      ledgerLag(services),
      liveInstances(services),
      db.job.groupBy({
        by: ['status'],
        where: { stage: { in: ['waiting', 'starting', 'running'] } },
        _count: true,
      }),
      db.batch.count({ where: { status: { in: ['validating', 'in_progress', 'finalizing', 'cancelling'] } } }),
    ])
    const jobsOf = (wanted: string) => jobs.find(({ status }) => status === wanted)?._count ?? 0
    return {
      queues: states,
      ledger,
      instances,
      jobs: { queued: jobsOf('queued'), in_progress: jobsOf('in_progress') },
      batches,
    }
  },
})

async function stateOfQueue(queue: Queue): Promise<QueueState> {
  const [counts, paused, workers] = await Promise.all([
    queue.getJobCounts('waiting', 'prioritized', 'active', 'delayed', 'failed'),
    queue.isPaused(),
    queue.getWorkersCount(),
  ])
  const { waiting = 0, prioritized = 0, active = 0, delayed = 0, failed = 0 } = counts
  return { name: queue.name, waiting: waiting + prioritized, active, delayed, failed, paused, workers }
}

/** How much usage is not in the ledger yet, and since when the first of it waits: entries of a stream begin with their time. */
async function ledgerLag({ redis }: Services): Promise<SystemAnswer['ledger']> {
  const [waiting, first, refused] = await Promise.all([
    redis.xlen(usageStream),
    redis.xrange(usageStream, '-', '+', 'COUNT', 1),
    redis.xlen(deadStream),
  ])
  const oldestMs = first[0] && Number(first[0][0].split('-')[0])
  return { waiting, oldest_at: oldestMs ? new Date(oldestMs).toISOString() : null, refused }
}

async function liveInstances({ redis }: Services): Promise<SystemAnswer['instances']> {
  // Heartbeats are in Redis' own time.
  const [seconds] = await redis.time()
  const range = [Number(seconds) * 1_000 - aliveMs, '+inf'] as const
  const found = await redis.zrangebyscore('instances', ...range, 'WITHSCORES', 'LIMIT', 0, mostInstances)
  return Array.from({ length: found.length / 2 }, (_, i) => ({
    id: found[2 * i]!,
    seen_at: new Date(Number(found[2 * i + 1])).toISOString(),
  }))
}

export const operatorServiceRoutes: Endpoint[] = [providers, system]
