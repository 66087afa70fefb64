// Media jobs in flight on one worker process: `node bench/polls.ts [options]`, see README.md. Linux only.

import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
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
import { root, start } from './lib/processes.ts'
import { quantile } from './lib/statistics.ts'

const { values: options } = readOptions({
  jobs: 12_000,
  seconds: 30,
  prof: false,
  'worker-cpus': '0',
  'load-cpus': '1',
})
/** Jobs of this provider and age are polled every six seconds: 12,000 of them make 2,000 polls a second. */
const pollEveryMs = 6_000
const sampleEveryMs = 20
const settleMs = 12_000

/** A provider of the kind that is polled: every task runs for ever. Counts the polls. */
async function startProvider(): Promise<{ url: string; polls: () => number; server: Server }> {
  let polls = 0
  const server = createServer((request, response) => {
    polls++
    const id = request.url!.slice(request.url!.lastIndexOf('/') + 1)
    const task = { id, status: 'RUNNING', createdAt: '2026-11-20T00:00:00.000Z', progress: (polls % 90) / 100 }
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(task))
  })
  server.keepAliveTimeout = 60_000
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, polls: () => polls, server }
}

/** Running jobs of one organisation, spread evenly over one interval. */
async function fill({ db, pollSchedule }: Services, count: number): Promise<void> {
  const organisationId = newId('org')
  await db.organisation.create({ data: { id: organisationId, name: 'Benchmark', wallet: { create: {} } } })
  const now = Date.now()
  const ids = Array.from({ length: count }, () => newId('job'))
  const common = { organisationId, keyId: 'key_bench', environment: 'live', kind: 'video', month: '2026-11' } as const
  const work = { model: 'runway-gen4.5', provider: 'runway', status: 'in_progress', stage: 'running' } as const
  const times = { startedAt: new Date(now), deadlineAt: new Date(now + 3_600_000) }
  const input = { input: { mode: 'text', prompt: 'A lighthouse at dusk', seconds: 5 }, references: {} }
  await db.job.createMany({
    data: ids.map(id => ({
      ...common,
      ...work,
      ...times,
      id,
      requestId: `req_${id}`,
      input,
      operation: { id: `task-${id}` },
    })),
  })
  for (const [i, id] of ids.entries()) await pollSchedule.add([id], now + Math.floor((i / count) * pollEveryMs))
}

/** How late the latest job is at a moment, in milliseconds; 0 = none is late. */
async function latest({ redis }: Services): Promise<number> {
  const [, due] = await redis.zrange('jobs:watch', '0', '0', 'WITHSCORES')
  return Math.max(0, Date.now() - Number(due ?? Date.now()))
}

async function commands({ redis }: Services): Promise<number> {
  return Number(/total_commands_processed:(\d+)/.exec(await redis.info('stats'))?.[1])
}

async function measure(folder: string, databaseUrl: string, redisUrl: string, redisPid: number) {
  const provider = await startProvider()
  const given = {
    DATABASE_URL: databaseUrl,
    REDIS_URL: redisUrl,
    DATA_DIR: folder,
    RUNWAY_API_KEY: 'key_bench',
    RUNWAY_BASE_URL: `${provider.url}/v1`,
  }
  const env = { ...given, PATH: process.env.PATH, HOME: process.env.HOME, NODE_ENV: 'production', LOG_LEVEL: 'warn' }
  const services = await openServices(loadConfig(given), createLog('silent'))
  await fill(services, options.jobs)
  const profile = options.prof ? ['--cpu-prof', `--cpu-prof-dir=${join(root, 'bench/results/polls')}`] : []
  const logFile = join(folder, 'worker.log')
  // As `npm run start:worker` has it.
  const worker = start([process.execPath, '--max-semi-space-size=8', ...profile, 'workers/main.ts'], {
    logFile,
    env,
    processors: options['worker-cpus'],
  })
  try {
    await sleep(settleMs)
    const pids = [worker.child.pid!]
    const lateMs: number[] = []
    const before = {
      polls: provider.polls(),
      cpu: cpuSeconds(pids),
      redis: cpuSeconds([redisPid]),
      commands: await commands(services),
    }
    const startedMs = performance.now()
    while (performance.now() - startedMs < options.seconds * 1_000) {
      lateMs.push(await latest(services))
      await sleep(sampleEveryMs)
    }
    const seconds = (performance.now() - startedMs) / 1_000
    const sorted = lateMs.sort((a, b) => a - b)
    return {
      pollsPerSecond: (provider.polls() - before.polls) / seconds,
      lateP50Ms: quantile(sorted, 0.5),
      lateP99Ms: quantile(sorted, 0.99),
      lateMostMs: sorted.at(-1)!,
      workerCores: (cpuSeconds(pids) - before.cpu) / seconds,
      redisCores: (cpuSeconds([redisPid]) - before.redis) / seconds,
      // Less those of the measurement itself.
      redisCommandsPerSecond: ((await commands(services)) - before.commands - lateMs.length) / seconds,
      residentMb: residentKib(pids) / 1_024,
    }
  } finally {
    await worker.stop()
    provider.server.closeAllConnections()
    provider.server.close()
    await services.close()
  }
}

await withOwnStores(options['load-cpus'], async ({ folder, databaseUrl, redisUrl }) => {
  const { pid } = JSON.parse(await readFile(join(folder, 'redis.json'), 'utf8'))
  const figures = await measure(folder, databaseUrl, redisUrl, pid)
  for (const [name, value] of Object.entries(figures)) console.log(`${name.padEnd(24)} ${value.toFixed(2)}`)
  keepResults('polls', { options, figures })
})
