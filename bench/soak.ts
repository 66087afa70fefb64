// A long run: `node bench/soak.ts --minutes 60`. Two web and two worker processes under every kind of work without faults. What a
// process or a store holds is sampled; it must not grow once the run is warm, and the books must be right at the end. Linux only.

import { Redis } from 'ioredis'
import pg from 'pg'
import { Load } from '../test/prove/load.ts'
import { startProviders } from '../test/prove/providers.ts'
import { seededRandom } from '../test/prove/random.ts'
import { type Accounts, figuresOf, findBreaches, rest, summarise } from '../test/prove/verdict.ts'
import { type DirectKind, directWorks, type SlowKind, slowWorks } from '../test/prove/works.ts'
import { openWorld, type World } from '../test/prove/world.ts'
import { createAccount } from '../test/support/gateway.ts'
import { Receiver } from '../test/support/webhooks/receiver.ts'
import { readOptions } from './lib/options.ts'
import { keepResults } from './lib/own-stores.ts'
import { spread } from './lib/statistics.ts'

/** What the processes and the stores hold at one time. */
type Sample = {
  minute: number
  requests: number
  /** Of each process: the web processes, then the workers. */
  memoryMb: number[]
  handles: number[]
  redisMb: number
  /** Keys that never expire, by the words that they begin with. */
  redisKeys: Record<string, number>
  /** Dead rows beside those that live, by table; its bytes with indexes. */
  bloat: Record<string, { deadRows: number; liveRows: number; bytes: number }>
}

const { values: options } = readOptions({ minutes: 60, 'sample-seconds': 60, pace: 2, seed: 1 })
/** Pools, caches and code are filled by then. */
const warmShare = 1 / 4
/** Growth from the first to the last third of the samples after that. */
const maxGrowth = { memory: 1.1, handles: 1.1, keys: 1.1 }
const minGrowth = { memoryMb: 10, handles: 10, keys: 50 }
const maxDeadShare = 0.5
const minDeadRows = 5_000
const restWithinMs = 180_000

process.exitCode = await soak()
process.exit()

async function soak(): Promise<number> {
  const random = seededRandom(options.seed)
  const providers = await startProviders(random, { every: true })
  const receiver = await Receiver.start()
  const world = await openWorld({
    ...providers.env,
    ALLOW_PRIVATE_URLS: 'true',
    SIGNING_SECRET: 'a signing secret of the long run, long enough',
    JOB_HOLD_BACK_1H_SECONDS: '0',
  })
  try {
    await world.allUp()
    const accounts: Accounts = {
      account: await createAccount(world.services, { usd: '100000' }),
      agents: await createAccount(world.services, { usd: '100000' }),
    }
    const where = { id: accounts.account.organisationId }
    await world.services.db.organisation.update({ where, data: { keepResponses: true } })
    const load = new Load(
      world.webUrls,
      { key: accounts.account.live, agentKey: accounts.agents.live },
      receiver.url,
      random,
      {
        pace: options.pace,
        kinds: Object.keys(directWorks) as DirectKind[],
        slowKinds: Object.keys(slowWorks) as SlowKind[],
      },
    )
    const samples = await sampled(world, load)
    await load.stop()
    const { tookMs, left } = await rest(world.services, restWithinMs)
    console.log(`at rest after ${(tookMs / 1e3).toFixed(1)} s: ${JSON.stringify(left)}`)
    const faults = [...growthOf(samples), ...(await findBreaches(world, accounts, load, receiver, providers))]
    const outcomes = summarise(load)
    keepResults('soak', { options, samples, outcomes, faults })
    console.log(tableOf(samples))
    console.log(JSON.stringify(outcomes))
    for (const fault of faults) console.log(`FAULT ${fault}`)
    console.log(`${load.directs.length} requests, ${load.submissions.length} jobs and batches, ${faults.length} faults`)
    return Math.min(1, faults.length)
  } finally {
    await world.close()
    await receiver.close()
    await providers.close()
  }
}

/** Samples until the time is over. */
async function sampled(world: World, load: Load): Promise<Sample[]> {
  const db = new pg.Pool({ connectionString: world.postgres.url, max: 1 })
  const redis = new Redis(world.redis.url)
  const samples: Sample[] = []
  try {
    for (let atS = options['sample-seconds']; atS <= options.minutes * 60; atS += options['sample-seconds']) {
      await new Promise(done => setTimeout(done, options['sample-seconds'] * 1_000))
      const sample = await sampleOf(world, load, db, redis, Math.round(atS / 6) / 10)
      samples.push(sample)
      console.log(
        `${sample.minute} min: ${sample.requests} requests, ${sample.memoryMb} MB, ${sample.handles} handles, Redis ${sample.redisMb} MB`,
      )
    }
    return samples
  } finally {
    redis.disconnect()
    await db.end()
  }
}

async function sampleOf(world: World, load: Load, db: pg.Pool, redis: Redis, minute: number): Promise<Sample> {
  const figures = [...world.webs, ...world.workers].map(figuresOf)
  const memory = await redis.info('memory')
  return {
    minute,
    requests: load.directs.length,
    memoryMb: figures.map(({ memoryMb }) => memoryMb),
    handles: figures.map(({ handles }) => handles),
    redisMb: Math.round(Number(/used_memory:(\d+)/.exec(memory)![1]) / 1e5) / 10,
    redisKeys: await countLastingKeys(redis),
    bloat: await bloatOf(db),
  }
}

/** Counts the keys without an expiry. */
async function countLastingKeys(redis: Redis): Promise<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (let cursor = '0', isFirst = true; isFirst || cursor !== '0'; isFirst = false) {
    const [next, keys] = await redis.scan(cursor, 'COUNT', 1_000)
    cursor = next
    const pipeline = redis.pipeline()
    for (const key of keys) pipeline.ttl(key)
    const expiries = (await pipeline.exec()) ?? []
    keys.forEach((key, i) => {
      if (expiries[i]![1] !== -1) return
      const kind = key.replace(/[:{](?=[^:]*\d).*$/, '')
      counts[kind] = (counts[kind] ?? 0) + 1
    })
  }
  return counts
}

async function bloatOf(db: pg.Pool): Promise<Sample['bloat']> {
  const { rows } = await db.query(
    `SELECT relname, n_dead_tup::int AS dead, n_live_tup::int AS live, pg_total_relation_size(relid)::float8 AS bytes
     FROM pg_stat_user_tables WHERE n_tup_upd + n_tup_del > 0`,
  )
  return Object.fromEntries(
    rows.map(({ relname, dead, live, bytes }) => [relname, { deadRows: dead, liveRows: live, bytes }]),
  )
}

/** What grew although the load did not, one line each. */
function growthOf(samples: readonly Sample[]): string[] {
  const warm = samples.slice(Math.ceil(samples.length * warmShare))
  const third = Math.max(1, Math.floor(warm.length / 3))
  const [early, late] = [warm.slice(0, third), warm.slice(-third)]
  const change = (of: (sample: Sample) => number) =>
    [early, late].map(part => spread(part.map(of)).median) as [number, number]
  const grows = (of: (sample: Sample) => number, share: number, least: number) => {
    const [before, after] = change(of)
    return after > before * share && after - before > least ? `from ${before} to ${after}` : null
  }
  const faults: string[] = []
  const note = (what: string, growth: string | null) => growth && faults.push(`${what} grew ${growth}`)
  for (const at of samples[0]!.memoryMb.keys()) {
    note(
      `memory of process ${at} (MB)`,
      grows(s => s.memoryMb[at]!, maxGrowth.memory, minGrowth.memoryMb),
    )
    note(
      `handles of process ${at}`,
      grows(s => s.handles[at]!, maxGrowth.handles, minGrowth.handles),
    )
  }
  const kinds = new Set(samples.flatMap(({ redisKeys }) => Object.keys(redisKeys)))
  for (const kind of kinds)
    note(
      `keys ${kind} without an expiry`,
      grows(s => s.redisKeys[kind] ?? 0, maxGrowth.keys, minGrowth.keys),
    )
  for (const [table, { deadRows, liveRows }] of Object.entries(samples.at(-1)!.bloat))
    if (deadRows > minDeadRows && deadRows > liveRows * maxDeadShare)
      faults.push(`table ${table} has ${deadRows} dead rows beside ${liveRows}`)
  return faults
}

function tableOf(samples: readonly Sample[]): string {
  const every = Math.max(1, Math.floor(samples.length / 12))
  const shown = samples.filter((_, i) => i % every === 0 || i === samples.length - 1)
  const lines = shown.map(({ minute, requests, memoryMb, handles, redisMb, redisKeys }) => {
    const keys = Object.values(redisKeys).reduce((sum, count) => sum + count, 0)
    return `| ${minute} | ${requests} | ${memoryMb.join(', ')} | ${handles.join(', ')} | ${redisMb} | ${keys} |`
  })
  return ['| minute | requests | MB | handles | Redis MB | lasting keys |', '|---|---|---|---|---|---|', ...lines].join(
    '\n',
  )
}
