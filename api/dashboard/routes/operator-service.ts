import type { Queue } from 'bullmq'
import type { ProviderRow } from '../../../shared/catalog/schema.ts'
import type { Target } from '../../../shared/providers/contract.ts'
import type { Services } from '../../../shared/services.ts'
import { deadStream, usageStream } from '../../../shared/wallet/ledger.ts'
import { type Endpoint, endpoint } from '../../endpoint.ts'
import type { Deployment, ProviderHealth, ProvidersAnswer, QueueState, SystemAnswer } from '../wire/operator.ts'

const shared = { tag: 'Dashboard', access: 'operator' } as const
/** A process is dead if its heartbeat is older than this; other processes then release its reservations. */
const aliveMs = 60_000
const maxInstances = 200

const providers = endpoint({
  ...shared,
  method: 'get',
  path: '/dashboard/api/operator/providers',
  summary: 'List providers with their health',
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
  const isConfigured = upstreams.isConfigured(row.name, 'live')
  const all = isConfigured ? targets.map(target => presentDeployment(services, target)) : []
  const deployments = all.filter(
    ({ calls, cooldown_ms, circuit }) => calls > 0 || cooldown_ms > 0 || circuit !== 'closed',
  )
  const keys = targets.flatMap(target => upstreams.apiKeys(target))
  const count = (of: (deployment: Deployment) => number) => deployments.reduce((sum, one) => sum + of(one), 0)
  return {
    name: row.name,
    protocol: row.protocol,
    state: isConfigured ? stateOf(deployments) : 'not_configured',
    credentials: new Set(keys.map(({ id }) => id)).size,
    credentials_in_cooldown: new Set(keys.flatMap(({ id, cooldownMs }) => (cooldownMs > 0 ? id : []))).size,
    models: targets.length,
    calls: count(({ calls }) => calls),
    failed_calls: count(({ failed_calls }) => failed_calls),
    deployments,
  }
}

function stateOf(deployments: readonly Deployment[]): ProviderHealth['state'] {
  const troubled = deployments.filter(({ cooldown_ms, circuit }) => cooldown_ms > 0 || circuit !== 'closed')
  if (troubled.length === 0) return 'available'
  return deployments.every(({ cooldown_ms }) => cooldown_ms > 0) ? 'in_cooldown' : 'degraded'
}

function presentDeployment({ upstreams, health }: Services, target: Target): Deployment {
  const { circuit, cooldownMs, firstByteMs, tokensPerSecond } = upstreams.figures(target)
  const { successes, failures } = health.callCounts(target)
  return {
    model: target.model.id,
    circuit,
    cooldown_ms: Math.round(cooldownMs),
    calls: roundToTenth(successes + failures),
    failed_calls: roundToTenth(failures),
    first_byte_ms: firstByteMs === null ? null : Math.round(firstByteMs),
    tokens_per_second: tokensPerSecond === null ? null : roundToTenth(tokensPerSecond),
  }
}

const roundToTenth = (value: number) => Math.round(value * 10) / 10

const system = endpoint({
  ...shared,
  method: 'get',
  path: '/dashboard/api/operator/system',
  summary: 'Retrieve the state of queues, ledger and processes',
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

/** Number of usage events not yet in the ledger, and the time of the oldest: stream entry ids begin with their time. */
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
  // Heartbeats use the Redis server's clock.
  const [seconds] = await redis.time()
  const range = [Number(seconds) * 1_000 - aliveMs, '+inf'] as const
  const found = await redis.zrangebyscore('instances', ...range, 'WITHSCORES', 'LIMIT', 0, maxInstances)
  return Array.from({ length: found.length / 2 }, (_, i) => ({
    id: found[2 * i]!,
    seen_at: new Date(Number(found[2 * i + 1])).toISOString(),
  }))
}

export const operatorServiceRoutes: Endpoint[] = [providers, system]
