// What each kind of work costs the stores, counted rather than timed: commands of Redis, rows and write-ahead log of PostgreSQL,
// and bytes that stay. `node bench/counts.ts` writes bench/results/counts.json, which bench/capacity.ts reads.
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import pg from 'pg'
import { SessionEmulator } from '../test/emulators/sessions.ts'
import { startProviders } from '../test/prove/providers.ts'
import { seededRandom } from '../test/prove/random.ts'
import { rest } from '../test/prove/verdict.ts'
import { observe } from '../test/support/chaos.ts'
import { call, createAccount, startProcess } from '../test/support/gateway.ts'
import { byMinute, providerSettings, talk } from '../test/support/realtime/sessions.ts'
import { readOptions } from './lib/options.ts'
import { keepResults, withOwnStores } from './lib/own-stores.ts'

const { values: options } = readOptions({ requests: 1_000, concurrency: 32, 'load-cpus': '0,1' })
const restWithinMs = 600_000
const idleMs = 60_000
/** An idle connection of PostgreSQL reports its counts after ten seconds. */
const reportedWithinMs = 11_000
const sessionMs = 60_000
const sessions = 10
const maxTries = 60
/** Delayed jobs, videos and images are fewer: their figures do not depend on the number. */
const shareOfSlow = 0.2

/** Per unit of work, less what the idle processes do in the same time. */
export type Counts = {
  /** Calls of scripts; one serves all requests of an event-loop turn. */
  redisScripts: number
  /** Commands that Redis executes, those inside of scripts included. */
  redisCommands: number
  transactions: number
  rowsInserted: number
  rowsUpdated: number
  rowsDeleted: number
  walBytes: number
  /** Bytes of tables and indexes that stay. */
  storedBytes: number
}
const names = [
  ...(['redisScripts', 'redisCommands', 'transactions', 'rowsInserted', 'rowsUpdated', 'rowsDeleted'] as const),
  ...(['walBytes', 'storedBytes'] as const),
]

await withOwnStores(options['load-cpus'], async ({ databaseUrl, redisUrl, folder }) => {
  const stores = { databaseUrl, redisUrl }
  const [providers, speaking] = await Promise.all([startProviders(seededRandom(1)), SessionEmulator.start(() => {})])
  const { OPENAI_API_KEY: _key, OPENAI_BASE_URL: _url, ...spoken } = providerSettings(speaking)
  const env = {
    ...providers.env,
    ...spoken,
    ALLOW_PRIVATE_URLS: 'true',
    STORAGE_URL: `file:${folder}/storage`,
    SIGNING_SECRET: 'a signing secret of the counted gateway',
    LOG_LEVEL: 'warn',
  }
  const [web, services] = await Promise.all([startProcess('web', stores, env), observe(stores, env)])
  // It tells that it works at level info.
  const worker = await startProcess('worker', stores, { ...env, LOG_LEVEL: 'info' })
  const redis = new Redis(redisUrl)
  const sql = new pg.Client({ connectionString: databaseUrl })
  await sql.connect()
  try {
    const { live: key } = await createAccount(services, { usd: '5000' })
    const post = async (path: string, body: object) => {
      for (let tries = 1; ; tries++) {
        const response = await call(web.url, path, { key, body })
        const text = await response.text()
        if (response.ok) return
        // A store that stalls on a busy machine.
        if (response.status !== 503 || tries === maxTries) throw new Error(`${path}: ${response.status} ${text}`)
        await sleep(1_000)
      }
    }
    const many = (count: number, path: string, body: (i: number) => object) => times(count, i => post(path, body(i)))
    const atRest = async () => {
      const { left } = await rest(services, restWithinMs)
      if (Object.values(left).some(Boolean)) throw new Error(`not at rest: ${JSON.stringify(left)}`)
    }
    const chat = (i: number) => ({
      model: 'gpt-oss-120b',
      max_tokens: 50,
      messages: [{ role: 'user', content: `mark=${i}` }],
    })
    const few = Math.ceil(options.requests * shareOfSlow)
    const lines = options.requests
    const work: Record<string, [units: number, run: () => Promise<unknown>]> = {
      chat: [options.requests, () => many(options.requests, '/v1/chat/completions', chat)],
      'chat, streamed': [
        options.requests,
        () => many(options.requests, '/v1/chat/completions', i => ({ ...chat(i), stream: true })),
      ],
      image: [few, () => many(few, '/v1/images', i => ({ model: 'gpt-image-2', prompt: `mark=${i}` }))],
      'delayed job': [few, () => many(few, '/v1/jobs', i => ({ body: chat(i), completion_window: '1h' }))],
      'media job': [
        few,
        () => many(few, '/v1/videos', i => ({ model: 'runway-gen4.5', prompt: `mark=${i}`, seconds: 2 })),
      ],
      'batch line': [
        lines,
        () => {
          const requests = Array.from({ length: lines }, (_, i) => ({
            custom_id: `line-${i}`,
            method: 'POST',
            url: '/v1/chat/completions',
            body: chat(i),
          }))
          return post('/v1/batches', { requests, batch_routing: 'gateway' })
        },
      ],
      'realtime minute': [
        sessions,
        async () => {
          const talks = await Promise.all(
            Array.from({ length: sessions }, () => talk({ gateway: web, provider: speaking }, key, byMinute)),
          )
          await sleep(sessionMs)
          await Promise.all(talks.map(one => one.leave()))
        },
      ],
    }
    await many(100, '/v1/chat/completions', chat)
    await atRest()
    const idle = await measure(redis, sql, () => sleep(idleMs))
    const results: Record<string, Counts> = {}
    for (const [name, [units, run]] of Object.entries(work)) {
      const { deltas, tookMs } = await measure(redis, sql, async () => {
        await run()
        await atRest()
      })
      results[name] = countsOf(deltas.map((delta, i) => (delta - (idle.deltas[i]! * tookMs) / idle.tookMs) / units))
      console.error(name, results[name])
    }
    keepResults('counts', { concurrency: options.concurrency, units: options.requests, work: results })
    print(results)
  } finally {
    await Promise.all([web.kill(), worker.kill()])
    redis.disconnect()
    await Promise.all([sql.end(), services.close(), providers.close(), speaking.close()])
  }
})

/** Runs `options.concurrency` of them at once. */
async function times(count: number, run: (i: number) => Promise<void>): Promise<void> {
  let next = 0
  const lane = async () => {
    while (next < count) await run(next++)
  }
  await Promise.all(Array.from({ length: options.concurrency }, lane))
}

async function measure(redis: Redis, sql: pg.Client, run: () => Promise<unknown>) {
  const before = await readCounters(redis, sql)
  const startedMs = Date.now()
  await run()
  await sleep(reportedWithinMs)
  const after = await readCounters(redis, sql)
  return { deltas: after.map((count, i) => count - before[i]!), tookMs: Date.now() - startedMs }
}

/** In the order of `names`. */
async function readCounters(redis: Redis, sql: pg.Client): Promise<number[]> {
  const stats = await redis.info('commandstats')
  const calls = new Map(
    [...stats.matchAll(/^cmdstat_(\S+):calls=(\d+)/gm)].map(([, name, count]) => [name!, Number(count)]),
  )
  const commands = [...calls.values()].reduce((sum, count) => sum + count, 0)
  const { rows } = await sql.query(`
    SELECT (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()) AS transactions,
      sum(n_tup_ins) AS inserted, sum(n_tup_upd) AS updated, sum(n_tup_del) AS deleted,
      (SELECT wal_bytes FROM pg_stat_wal) AS wal, sum(pg_total_relation_size(relid)) AS stored
    FROM pg_stat_user_tables`)
  const { transactions, inserted, updated, deleted, wal, stored } = rows[0]
  return [calls.get('evalsha') ?? 0, commands, transactions, inserted, updated, deleted, wal, stored].map(Number)
}

function countsOf(values: readonly number[]): Counts {
  const rounded = values.map(value => Number(Math.max(0, value).toPrecision(3)))
  return Object.fromEntries(names.map((name, i) => [name, rounded[i]!])) as Counts
}

function print(results: Record<string, Counts>): void {
  console.log(`| per unit | ${names.join(' | ')} |`)
  console.log(`|---|${names.map(() => '---').join('|')}|`)
  for (const [name, counts] of Object.entries(results))
    console.log(`| ${name} | ${names.map(column => counts[column]).join(' | ')} |`)
}
