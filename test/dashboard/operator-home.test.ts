import type {
  Affected,
  EntriesChanged,
  IncidentDetail,
  IncidentsPage,
  Provider,
  ProvidersAnswer,
  ProviderTest,
  QueueEntries,
  QueueState,
  QueuesAnswer,
  ServiceActivity,
  SystemAnswer,
  TopOrganisations,
} from '../../api/dashboard/wire/operator-home.ts'
import type { UsageChart } from '../../api/dashboard/wire/usage.ts'
import { queues as queueRows } from '../../shared/queues/queues.ts'
import { runMaintenance } from '../../workers/maintenance.ts'
import { failure, serverError } from '../emulators/openai.ts'
import { expectedNano, generationOf, saying, startWorld, upstreamSecret } from '../support/chat/gateway.ts'
import { errorCode, signUp } from '../support/dashboard/dashboard.ts'
import { eventually, type Gateway, startGateway } from '../support/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'
import { startWorkers } from '../support/workers.ts'

/** The operator area's Home, Providers and Queues pages. */

const base = '/dashboard/api/operator'

const world = use(test, () => startWorld({ SERVICE_MARGIN_PERCENT: '10', REDIS_KEY_PREFIX: 'home:' }))
/** Another web process of the same service. */
const other = use(test, join)
use(test, () => startWorkers(world.gateway.services))
const operator = use(test, () => signUp(world.gateway, { name: 'Op' }))
test.before(async () => {
  await world.gateway.services.db.user.update({ where: { id: operator.userId }, data: { operator: true } })
})
const account = use(test, () => world.gateway.account({ usd: '100' }))

const get = <T>(path: string) => operator.visitor.json<T>(base + path)
const post = <T>(path: string, body: object = {}) => operator.visitor.json<T>(base + path, { body })
const look = () => runMaintenance('incidents', null, world.gateway.services)
const provider = (name: string) => get<Provider>(`/providers/${name}`)
const incidentsOf = async (name: string) => (await get<IncidentsPage>(`/incidents?provider=${name}`)).data

/** Starts another web process of the service. */
function join(): Promise<Gateway> {
  const { databaseUrl, redisUrl } = world.gateway.services.config
  const env = { OPENAI_API_KEY: upstreamSecret, OPENAI_BASE_URL: `${world.openai.url}/v1`, REDIS_KEY_PREFIX: 'home:' }
  return startGateway({ databaseUrl, redisUrl, drop: async () => {} }, env)
}

/** A chat at one provider. */
function chat(name: string, model = 'gpt-5-mini', gateway = world.gateway) {
  const body = saying(model, 'Hello', { provider: { only: [name] } })
  return gateway.fetch('/v1/chat/completions', { key: account.live, body })
}

test.serial('revenue, the provider’s part of it, and the organisations that bring it', async t => {
  const response = await chat('openai')
  const answer = (await response.json()) as { usage: Parameters<typeof expectedNano>[1] }
  const row = await generationOf(world, response.headers.get('x-generation-id')!)
  t.is(row.marginPpm, 100_000)
  const paidNano = expectedNano('gpt-5-mini', answer.usage, { provider: 'openai', percent: 10 })
  const costNano = expectedNano('gpt-5-mini', answer.usage, { provider: 'openai', percent: 0 })
  for (const span of ['1h', '24h', '30d']) {
    const { total, values } = await get<ServiceActivity>(`/activity?span=${span}`)
    t.like(total, { requests: 1, ok: 1, cost_usd: paidNano / 1e9, known_cost_usd: paidNano / 1e9 }, span)
    t.true(Math.abs(total.provider_cost_usd * 1e9 - costNano) <= 1, span)
    t.is(values.filter(value => value !== null).length, 1)
  }
  const video = await world.gateway.fetch('/v1/videos', { key: account.test, body: { prompt: 'A boat' } })
  t.is(video.status, 202)
  t.is((await get<ServiceActivity>('/activity?provider=anthropic')).total.requests, 0)
  t.is((await get<ServiceActivity>('/activity?environment=test')).total.provider_cost_usd, 0)
  const { data } = await get<TopOrganisations>('/top-organisations')
  t.like(data, [{ id: account.organisationId, requests: 1, errors: 0, cost_usd: paidNano / 1e9 }])
  t.deepEqual((await get<TopOrganisations>('/top-organisations?by=errors')).data, [])
  const { series } = await get<UsageChart>('/usage?by=model&measure=requests&provider=openai')
  t.like(series, [{ id: 'gpt-5-mini', total: 1 }])
  t.deepEqual(await world.gateway.settled(), [])
})

test.serial(
  'an outage: its incident with the last error, down while it lasts, recovering before the probe',
  async t => {
    const { redis, health } = world.gateway.services
    world.openrouter.next(serverError, serverError, serverError, serverError)
    t.is((await chat('openrouter')).status, 502)
    await health.sync()
    await look()
    const [open] = await incidentsOf('openrouter')
    t.like(open, {
      title: 'gpt-5-mini fails at openrouter',
      kinds: ['circuit'],
      models: ['gpt-5-mini'],
      closed_at: null,
    })
    t.regex(open!.message!, /^HTTP 500: The server had an error/)
    await look()
    t.is((await incidentsOf('openrouter')).length, 1, 'one incident, however often it is seen')
    const { affected } = await get<IncidentDetail>(`/incidents/${open!.id}`)
    t.like(affected, { failed: 1, organisations: [{ id: account.organisationId, failed: 1, share: 1 }] })
    t.is(affected!.keys[0]!.organisation_id, account.organisationId)
    t.is((await get<Affected>('/affected?provider=openrouter&span=1h')).failed, 1)
    t.like((await get<SystemAnswer>('/system')).first_incident, { id: open!.id, title: open!.title })
    const failed = await provider('openrouter')
    t.is(failed.state, 'down', 'no call has succeeded')
    t.like(failed.last_error, { model: 'gpt-5-mini', status: 500, reason: 'server_error' })
    t.truthy(failed.last_error!.failing_since)
    t.is((await get<ProvidersAnswer>('/providers')).data[0]!.name, 'openrouter', 'worst first')
    t.true((await get<SystemAnswer>('/system')).open_incidents > 0)

    // Traffic stops: the record expires, and what is known of the failure does not.
    await redis.hdel('health', 'openrouter|gpt-5-mini')
    t.is((await provider('openrouter')).state, 'down')

    await eventually(async () => (await chat('openrouter')).status === 200, 'the provider is probed')
    await health.sync()
    const back = await provider('openrouter')
    t.is(back.last_error?.failing_since, null)
    t.is(back.state, 'healthy')
    await eventually(async () => {
      await look()
      return (await incidentsOf('openrouter'))[0]?.closed_at !== null
    }, 'the incident is closed')
  },
)

test.serial('a refused key is an incident, without the key', async t => {
  const { health } = world.gateway.services
  const refusal = failure(
    401,
    `Incorrect API key provided: ${upstreamSecret}.`,
    'invalid_request_error',
    'invalid_api_key',
  )
  world.gemini.next(refusal, refusal, refusal)
  t.is((await chat('gemini', 'gemini-2.5-flash')).status, 502)
  await health.sync()
  await look()
  const shown = await provider('gemini')
  t.is(shown.state, 'down')
  t.like(shown.keys, [{ state: 'refused' }])
  const incident = (await incidentsOf('gemini')).find(({ kinds }) => kinds.includes('key'))
  t.regex(incident!.message!, /^HTTP 401/)
  t.false(JSON.stringify([shown, incident]).includes(upstreamSecret))
  const tried = await post<ProviderTest>('/providers/openai/test')
  t.like(tried.data, [{ key: (await provider('openai')).keys[0]!.label }])
  t.not(tried.data[0]!.outcome, 'unknown')
  const { key, outcome } = tried.data[0]!
  t.deepEqual(
    await world.gateway.services.db.auditEvent.findMany({
      where: { action: 'provider.tested' },
      select: { organisationId: true, actorName: true, targetId: true, changes: true },
    }),
    [
      {
        organisationId: null,
        actorName: operator.visitor.email,
        targetId: 'openai',
        changes: { [key]: [null, outcome] },
      },
    ],
  )
  t.is((await operator.visitor.fetch(`${base}/providers/nobody/test`, { body: {} })).status, 404)
})

test.serial('many failures within minutes are an incident of the provider', async t => {
  const { db } = world.gateway.services
  const row = await db.generation.findFirstOrThrow({ where: { kind: 'chat', status: 200 } })
  const now = new Date()
  const failed = { ...row, provider: 'groq', status: 502, costNano: 0n, createdAt: now }
  const data = Array.from({ length: 6 }, (_, i) => ({ ...failed, id: `chatcmpl-burst${i}` }))
  const { routing: _, parameters: __, metadata: ___, ...plain } = data[0]!
  await db.generation.createMany({ data: data.map(({ id }) => ({ ...plain, id })) })
  await runMaintenance('failures', null, world.gateway.services)
  t.like((await incidentsOf('groq'))[0], { kinds: ['failing'], message: '6 of 6 requests failed within five minutes.' })
  const { data: worst } = await get<TopOrganisations>('/top-organisations?by=errors')
  t.true(worst[0]!.errors >= 6)
})

test.serial('a webhook endpoint whose attempts keep failing is an incident, until a delivery succeeds', async t => {
  const { db } = world.gateway.services
  const { organisationId } = await world.gateway.account()
  const url = 'https://hooks.example.com/in/s3cret'
  const made = { createdAt: new Date(0), updatedAt: new Date(0) }
  const { id: endpointId } = await db.webhookEndpoint.create({
    data: { id: 'whe_failing', organisationId, url, events: ['job.completed'], enabledAt: new Date(0), ...made },
  })
  const deliver = (id: string, attempts: number, deliveredAt: Date | null = null) =>
    db.webhookDelivery.create({
      data: {
        id,
        organisationId,
        endpointId,
        url,
        attempts,
        deliveredAt,
        type: 'job.completed',
        data: {},
        status: deliveredAt ? 'delivered' : 'pending',
        nextAttemptAt: new Date(Date.now() + 3_600_000),
      },
    })
  const look = async () => {
    await runMaintenance('failures', null, world.gateway.services)
    const { data } = await get<IncidentsPage>('/incidents')
    const found = data.find(({ kinds }) => kinds.includes('webhook'))
    if (found)
      t.is((await get<IncidentDetail>(`/incidents/${found.id}`)).records[0]!.subject, `${organisationId}|${endpointId}`)
    return found
  }
  await deliver('whd_1', 3)
  await deliver('whd_2', 1)
  t.is(await look(), undefined)
  await deliver('whd_3', 1)
  const incident = await look()
  t.like(incident, { kinds: ['webhook'], provider: null, closed_at: null })
  t.regex(incident!.message!, /^5 attempts at hooks\.example\.com failed and none succeeded since .* \(.+\)\.$/)
  t.false(JSON.stringify(incident).includes('s3cret'))
  await deliver('whd_4', 1, new Date())
  t.truthy((await look())!.closed_at)
})

test.serial('paused: no process calls the provider, until it is resumed; both are audited', async t => {
  const { db, catalog, upstreams } = world.gateway.services
  const calls = () => world.openai.requests.length
  const paused = await post<Provider>('/providers/openai/pause', { reason: 'maintenance' })
  t.like(paused, { state: 'paused', pause: { by: operator.visitor.email, reason: 'maintenance' } })
  await eventually(async () => other.services.upstreams.isPaused('openai'), 'the other process knows')
  const before = calls()
  for (const gateway of [world.gateway, other]) {
    const refused = await chat('openai', 'gpt-5-mini', gateway)
    t.is(await errorCode(refused), 'no_provider_available')
    t.is(refused.headers.get('retry-after'), '60')
  }
  // Routing takes another provider, and says why.
  const served = await world.gateway.fetch('/v1/chat/completions', { key: account.live, body: saying('gpt-5-mini') })
  t.is(served.headers.get('x-gateway-provider'), 'openrouter')
  const route = await world.gateway.fetch('/v1/route', { key: account.live, body: saying('gpt-5-mini') })
  const { candidates } = (await route.json()) as { candidates: { provider: string; excluded: string | null }[] }
  t.is(candidates.find(one => one.provider === 'openai')?.excluded, 'an operator has paused the provider')
  t.is(calls(), before)
  await look()
  t.like((await incidentsOf('openai'))[0], { kinds: ['paused'], closed_at: null })

  // A process that starts now knows it, too.
  const third = await join()
  t.true(third.services.upstreams.isPaused('openai'))
  await third.close()

  t.is((await post<Provider>('/providers/openai/resume')).pause, null)
  await eventually(async () => !other.services.upstreams.isPaused('openai'), 'the other process knows')
  t.is((await chat('openai')).status, 200)
  const target = upstreams.targets(catalog.find('gpt-5-mini')!, 'live').find(one => one.provider.name === 'openai')!
  t.is(upstreams.figures(target).cooldownMs, 0)
  const where = { organisationId: null, action: { in: ['provider.paused', 'provider.resumed'] } }
  const events = await db.auditEvent.findMany({ where, orderBy: { createdAt: 'asc' } })
  t.deepEqual(
    events.map(({ action, actorName, targetId }) => [action, actorName, targetId]),
    ['paused', 'resumed'].map(what => [`provider.${what}`, operator.visitor.email, 'openai']),
  )
  t.is((await operator.visitor.fetch(`${base}/providers/nobody/pause`, { body: {} })).status, 404)
})

test.serial('a pause with an end is over by itself; the models that lose their only provider are named', async t => {
  const { db } = world.gateway.services
  for (const until of ['yesterday', '2020-01-01T00:00:00Z', '2999-01-01T00:00:00Z']) {
    const refused = await operator.visitor.fetch(`${base}/providers/anthropic/pause`, { body: { until } })
    t.is(refused.status, 400, until)
  }
  const { only_provider_of: only, only_provider_count: count } = await provider('anthropic')
  t.is(count > 0, only.length > 0)
  t.true((await provider('openai')).only_provider_count > 0)
  const until = new Date(Date.now() + 3_600_000).toISOString()
  const paused = await post<Provider>('/providers/anthropic/pause', { until })
  t.like(paused, { state: 'paused', pause: { until } })
  t.true(world.gateway.services.upstreams.isPaused('anthropic'))
  // Its time comes.
  await db.providerPause.updateMany({ data: { pausedUntil: new Date(Date.now() - 1) } })
  await world.gateway.services.providerPauses.refresh()
  t.false(world.gateway.services.upstreams.isPaused('anthropic'))
  t.is((await provider('anthropic')).pause, null)
  t.like(await post<Provider>('/providers/anthropic/pause', { reason: 'again' }), { pause: { until: null } })
  await post<Provider>('/providers/anthropic/resume')
  await db.providerPause.create({
    data: { provider: 'anthropic', pausedBy: 'x', pausedAt: new Date(0), pausedUntil: new Date(1) },
  })
  await look()
  t.is(await db.providerPause.count(), 0, 'a worker removes it')
})

test.serial('queues: backlog, failed entries with their reason, retried, removed and paused', async t => {
  const { queues } = world.gateway.services
  const { data } = await get<QueuesAnswer>('/queues')
  t.deepEqual(data.map(({ name }) => name).sort(), Object.keys(queueRows).sort())
  const { maintenance } = queues
  await maintenance.add('first', null, { jobId: 'entry-1' })
  await maintenance.add('second', null, { jobId: 'entry-2', delay: 60_000 })
  const state = async () => (await get<QueuesAnswer>('/queues')).data.find(({ name }) => name === 'maintenance')!
  t.like(await state(), { waiting: 1, delayed: 1, failed: 0, paused: false })
  t.truthy((await state()).oldest_at)

  const paused = await operator.visitor.json<QueueState>(`${base}/queues/maintenance`, {
    method: 'PATCH',
    body: { paused: true },
  })
  t.true(paused.paused)
  t.true(await maintenance.isPaused())
  t.is((await state()).waiting, 1)
  await operator.visitor.json(`${base}/queues/maintenance`, { method: 'PATCH', body: { paused: false } })

  // A worker takes it, and it fails.
  const { Worker } = await import('bullmq')
  const connection = maintenance.opts.connection as never
  const worker = new Worker(maintenance.name, null, { connection, prefix: maintenance.opts.prefix!, autorun: false })
  t.teardown(() => worker.close())
  const job = (await worker.getNextJob('token'))!
  await job.moveToFailed(new Error('the store is away'), 'token')
  const failed = await get<QueueEntries>('/queues/maintenance/entries?state=failed')
  t.is(failed.total, 1)
  t.like(failed.data, [{ id: 'entry-1', task: 'first', reason: 'the store is away', due_at: null }])
  t.truthy((await get<QueueEntries>('/queues/maintenance/entries?state=delayed')).data[0]!.due_at)

  t.deepEqual(await post<EntriesChanged>('/queues/maintenance/retry'), { changed: 1, skipped: 0 })
  t.is(await maintenance.getJobState('entry-1'), 'waiting')
  const promoted = await post<EntriesChanged>('/queues/maintenance/retry', { ids: ['entry-2', 'gone'] })
  t.deepEqual(promoted, { changed: 1, skipped: 1 })
  t.deepEqual(await post<EntriesChanged>('/queues/maintenance/remove', { ids: ['entry-1', 'entry-2'] }), {
    changed: 2,
    skipped: 0,
  })
  t.like(await state(), { waiting: 0, delayed: 0, failed: 0 })
  t.is((await operator.visitor.fetch(`${base}/queues/toString/entries`)).status, 404)
})

test.serial('the system: version, migrations, backlog, instances; gaps without a worker are remembered', async t => {
  const { redis } = world.gateway.services
  const shown = await get<SystemAnswer>('/system')
  t.like(shown, { pending_migrations: [], ledger: { waiting: 0, oldest_at: null, refused: 0 } })
  t.regex(shown.version, /^\d+\.\d+\.\d+/)
  t.true(shown.instances.length >= 2)
  const atMs = Date.now()
  await redis.set('incidents:looked', String(atMs - 120_000))
  await redis.zadd('instances', atMs - 12_000, 'lost')
  await redis.xadd('usage:dead', '*', 'event', '{}')
  await look()
  const { data } = await get<IncidentsPage>('/incidents?limit=100')
  const kinds = data.map(({ kinds: [kind], closed_at }) => [kind, closed_at === null])
  for (const [kind, isOpen] of [
    ['no_worker', false],
    ['instance', true],
    ['refused_events', true],
  ] as const)
    t.true(
      kinds.some(one => one[0] === kind && one[1] === isOpen),
      kind,
    )
  const first = await get<IncidentsPage>('/incidents?limit=1')
  const second = await get<IncidentsPage>(`/incidents?limit=1&after=${first.last_id}`)
  t.deepEqual(
    [...first.data, ...second.data].map(({ id }) => id),
    data.slice(0, 2).map(({ id }) => id),
  )
})
