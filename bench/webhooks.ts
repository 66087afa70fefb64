// Webhook deliveries of worker processes to a local receiver: `node bench/webhooks.ts [options]`, see README.md. Linux only.
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { loadConfig } from '../shared/base/config.ts'
import { newId } from '../shared/base/ids.ts'
import { createLog } from '../shared/io/log.ts'
import { openServices, type Services } from '../shared/open-services.ts'
import { readOptions } from './lib/options.ts'
import { keepResults, withOwnStores } from './lib/own-stores.ts'
import { cpuSeconds, residentKib } from './lib/proc.ts'
import { commandOf, root, start } from './lib/processes.ts'
import { spread } from './lib/statistics.ts'

const { values: options } = readOptions({
  rounds: 5,
  deliveries: 10_000,
  workers: 1,
  prof: false,
  'worker-cpus': '0',
  'load-cpus': '1',
})
const roundWithinMs = 120_000
const warmUp = 2_000

type Round = { perSecond: number; cpuMsPerDelivery: number; residentMb: number }

/** Counts what arrives by event; answers 204. */
async function startReceiver(): Promise<{ url: string; seen: Map<string, number>; server: Server }> {
  const seen = new Map<string, number>()
  const server = createServer((request, response) => {
    const id = String(request.headers['webhook-id'])
    seen.set(id, (seen.get(id) ?? 0) + 1)
    request.resume()
    response.writeHead(204).end()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`, seen, server }
}

/** Finished jobs of one organisation, each with a file, and their deliveries. Gives the deliveries' ids. */
async function fill({ db }: Services, organisationId: string, url: string, count: number): Promise<string[]> {
  const now = new Date()
  const jobIds = Array.from({ length: count }, () => newId('job'))
  const output = {
    role: 'video',
    fileId: 'file-1',
    storageKey: 'results/job/0.mp4',
    contentType: 'video/mp4',
    bytes: 1,
  }
  const common = {
    organisationId,
    keyId: 'key_bench',
    kind: 'video',
    model: 'a-model',
    provider: 'bench',
    month: '2026-11',
  }
  await db.job.createMany({
    data: jobIds.map(id => ({
      ...common,
      id,
      requestId: `req_${id}`,
      environment: 'live' as const,
      status: 'completed' as const,
      stage: 'over' as const,
      input: {},
      result: { outputs: [{ ...output, durationS: 5 }] },
      webhookUrl: url,
      progress: 100,
      startedAt: now,
      completedAt: now,
      deadlineAt: now,
      expiresAt: new Date(now.getTime() + 86_400_000),
    })),
  })
  const rows = jobIds.map(jobId => ({
    id: newId('evt'),
    organisationId,
    jobId,
    type: 'job.completed',
    url,
    nextAttemptAt: now,
  }))
  await db.webhookDelivery.createMany({ data: rows })
  return rows.map(({ id }) => id)
}

async function round(services: Services, ids: string[], seen: Map<string, number>, pids: number[]): Promise<Round> {
  const goal = seen.size + ids.length
  const cpuBefore = cpuSeconds(pids)
  const startedMs = performance.now()
  await services.webhooks.enqueue(ids)
  while (seen.size < goal) {
    if (performance.now() - startedMs > roundWithinMs) throw new Error(`only ${seen.size} of ${goal} arrived`)
    await sleep(5)
  }
  const seconds = (performance.now() - startedMs) / 1_000
  const pending = { where: { id: { in: ids }, status: { not: 'delivered' as const } } }
  while ((await services.db.webhookDelivery.count(pending)) > 0) await sleep(20)
  return {
    perSecond: ids.length / seconds,
    cpuMsPerDelivery: ((cpuSeconds(pids) - cpuBefore) / ids.length) * 1_000,
    residentMb: residentKib(pids) / pids.length / 1_024,
  }
}

async function measure(folder: string, databaseUrl: string, redisUrl: string): Promise<Round[]> {
  const given = { DATABASE_URL: databaseUrl, REDIS_URL: redisUrl, ALLOW_PRIVATE_URLS: 'true', DATA_DIR: folder }
  const env = { ...given, PATH: process.env.PATH, HOME: process.env.HOME, NODE_ENV: 'production', LOG_LEVEL: 'warn' }
  const [services, receiver] = await Promise.all([
    openServices(loadConfig(given), createLog('silent')),
    startReceiver(),
  ])
  const profiles = options.prof ? join(root, 'bench/results/webhooks') : null
  const command = await commandOf('start:worker', profiles)
  const workers = Array.from({ length: options.workers }, (_, i) =>
    start(command, { logFile: join(folder, `worker-${i}.log`), env, processors: options['worker-cpus'] }),
  )
  try {
    const organisationId = newId('org')
    await services.db.organisation.create({ data: { id: organisationId, name: 'Benchmark', wallet: { create: {} } } })
    const run = async (count: number) =>
      round(
        services,
        await fill(services, organisationId, receiver.url, count),
        receiver.seen,
        workers.map(({ child }) => child.pid!),
      )
    await run(warmUp)
    const rounds: Round[] = []
    for (let i = 0; i < options.rounds; i++) rounds.push(await run(options.deliveries))
    const duplicates = [...receiver.seen.values()].filter(count => count > 1).length
    if (duplicates > 0) throw new Error(`${duplicates} events arrived more than once`)
    return rounds
  } finally {
    await Promise.all(workers.map(worker => worker.stop()))
    receiver.server.closeAllConnections()
    receiver.server.close()
    await services.close()
  }
}

await withOwnStores(options['load-cpus'], async ({ folder, databaseUrl, redisUrl }) => {
  const rounds = await measure(folder, databaseUrl, redisUrl)
  const middle = (of: (round: Round) => number) => spread(rounds.map(of)).median
  console.log(`deliveries/s       ${middle(round => round.perSecond).toFixed(0)}`)
  console.log(`worker CPU each    ${middle(round => round.cpuMsPerDelivery).toFixed(3)} ms`)
  console.log(`worker memory      ${middle(round => round.residentMb).toFixed(0)} MB`)
  keepResults('webhooks', { options, rounds })
})
