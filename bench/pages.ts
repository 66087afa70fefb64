// The dashboard over a month of requests: `node bench/pages.ts [options]`, see README.md. Linux only.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import pg from 'pg'
import { freePort } from '../dev/ports.ts'
import { systemClock, systemMonotonic } from '../shared/base/time.ts'
import { type Database, openDatabase } from '../shared/io/db.ts'
import { maintainPartitions } from '../shared/wallet/partitions.ts'
import { sumDurations } from '../shared/wallet/sketches.ts'
import { BrowserSession } from './lib/browser-session.ts'
import { fillMonth } from './lib/month.ts'
import { readOptions } from './lib/options.ts'
import { keepResults, type OwnStores, withOwnStores } from './lib/own-stores.ts'
import { type Ids, pageCalls } from './lib/page-calls.ts'
import { openPages } from './lib/page-opens.ts'
import { cpuUse, tree } from './lib/proc.ts'
import { answersOk, commandOf, start, untilReady } from './lib/processes.ts'
import { spread } from './lib/statistics.ts'

const { values: options } = readOptions({
  requests: 1_000_000,
  calls: 7,
  keep: '',
  only: '',
  opens: 0,
  cpus: '0-1',
  'max-ms': 150,
})
const dayMs = 86_400_000
const retentionMonths = 12
const person = { name: 'Ada', email: 'ada@example.com', password: 'correct horse battery' }

/**
 * `cpu`: milliseconds of processor time of the web process and PostgreSQL, the mean of all calls but the first; NaN if a connection's
 * process ended meanwhile, which takes its time with it.
 */
type Route = { call: string; status: number; kB: number; cpu: number; min: number; median: number; max: number }

await withOwnStores(
  options.cpus,
  async stores => {
    const url = `http://127.0.0.1:${await freePort()}`
    const logFile = join(stores.folder, 'web.log')
    const env = {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      NODE_ENV: 'production',
      HOST: '127.0.0.1',
      PORT: new URL(url).port,
      PUBLIC_URL: url,
      DATABASE_URL: stores.databaseUrl,
      REDIS_URL: stores.redisUrl,
      DATA_DIR: stores.folder,
      LOG_LEVEL: 'warn',
    }
    const web = start(await commandOf('start', null), { logFile, env, processors: null })
    try {
      await untilReady(web, logFile, () => answersOk(`${url}/healthz`))
      const session = new BrowserSession(url)
      const ids = await openMonth(stores, session)
      const routes = await measureRoutes(session, pageCalls(ids), () => [
        ...tree(web.child.pid!),
        ...tree(Number(readFileSync(join(stores.folder, 'postgres/postmaster.pid'), 'utf8').split('\n')[0])),
      ])
      const opened = options.opens > 0 ? await openPages(session, pagesOf(ids), options.opens) : []
      for (const { page, cold, usableMs, dataMs, longTasksMs, kB } of opened) {
        const [usable, data, tasks] = [usableMs, dataMs, longTasksMs].map(ms => ms.toFixed(0).padStart(5))
        const temperature = cold ? 'cold' : 'warm'
        console.log(
          `usable${usable} ms, data${data} ms, long tasks${tasks} ms ${kB.toFixed(0).padStart(4)} kB ${temperature} ${page}`,
        )
      }
      keepResults('pages', { options, routes, opened })
    } finally {
      await web.stop()
    }
  },
  options.keep === '' ? undefined : resolve(options.keep),
)

/** The pages that are opened in a browser. */
function pagesOf({ organisation, request }: Ids): string[] {
  const own = [
    '',
    '/requests',
    `/requests/${request}`,
    '/usage',
    '/keys',
    '/models',
    '/billing',
    '/jobs',
    '/webhooks',
    '/audit',
  ]
  return [
    ...own.map(page => `/dashboard/${organisation}${page}`),
    '/dashboard/operator',
    '/dashboard/operator/providers',
  ]
}

/** The ids of a seeded month, after signing in. The month is made where the stores are new. */
async function openMonth({ folder, databaseUrl }: OwnStores, session: BrowserSession): Promise<Ids> {
  const file = join(folder, 'month.json')
  if (existsSync(file)) {
    await session.json('/dashboard/api/auth/sign-in/email', { email: person.email, password: person.password })
    return JSON.parse(readFileSync(file, 'utf8'))
  }
  await session.json('/dashboard/api/auth/sign-up/email', person)
  const { id: organisation } = await session.json<{ id: string }>('/dashboard/api/auth/organization/create', {
    name: 'Benchmark',
    slug: 'benchmark',
  })
  const nowMs = Date.now()
  const prisma = openDatabase(databaseUrl, { connections: 2, statementTimeoutMs: 60_000 })
  // The partitions of the month that has ended, too.
  for (const at of [nowMs - 31 * dayMs, nowMs]) await maintainPartitions(prisma, at, retentionMonths)
  const db = new pg.Client({ connectionString: databaseUrl })
  await db.connect()
  try {
    const { rows: people } = await db.query('UPDATE users SET operator = true, email_verified = true RETURNING id')
    await fillMonth(db, organisation, people[0].id, options.requests, nowMs)
    await sumDurationsOfMonth(prisma)
    const { rows } = await db.query(
      `SELECT id AS request, request_id AS "requestId", upstream_id AS "upstreamId",
         (SELECT hash FROM api_keys WHERE id = 'key_month0') AS "keyHash",
         (SELECT to_char(created_at, 'YYYY-MM') FROM ledger_entries GROUP BY 1 ORDER BY count(*) DESC LIMIT 1) AS month
       FROM generations WHERE organisation_id = $1 AND status >= 500 AND created_at > now() - interval '10 days' ORDER BY created_at LIMIT 1`,
      [organisation],
    )
    const ids: Ids = { organisation, ...rows[0] }
    writeFileSync(file, JSON.stringify(ids))
    return ids
  } finally {
    await db.end()
    await prisma.$disconnect()
  }
}

/** Sums up the durations of hours and days that are over, as workers do within minutes of their ends; a run has a bounded time. */
async function sumDurationsOfMonth(db: Database): Promise<void> {
  for (let before = -1, left = await countOpen(db); left !== before; left = await countOpen(db)) {
    before = left
    await sumDurations({ db, clock: systemClock, monotonic: systemMonotonic })
  }
}

async function countOpen(db: Database): Promise<number> {
  const [row] = await db.$queryRaw<{ open: bigint }[]>`
    SELECT (SELECT count(*) FROM usage_hours WHERE latency_sketch IS NULL AND outcome = 'ok')
      + (SELECT count(*) FROM usage_day_details WHERE latency_sketch IS NULL AND outcome = 'ok') AS open`
  return Number(row!.open)
}

/** Calls each route several times in a row. */
async function measureRoutes(session: BrowserSession, calls: string[], processes: () => number[]): Promise<Route[]> {
  const routes: Route[] = []
  for (const call of calls.filter(path => path.includes(options.only))) {
    const times: number[] = []
    let status = 0
    let bytes = 0
    let cpuBefore = 0
    for (let i = 0; i < options.calls; i++) {
      if (i === 1) cpuBefore = cpuUse(processes()).seconds
      const startedMs = performance.now()
      const answer = await session.fetch(call)
      bytes = (await answer.arrayBuffer()).byteLength
      times.push(performance.now() - startedMs)
      status = answer.status
      if (status >= 500) throw new Error(`${call} answered ${status}`)
    }
    const cpuSeconds = cpuUse(processes()).seconds - cpuBefore
    const cpu = cpuSeconds < 0 ? NaN : (cpuSeconds / (options.calls - 1)) * 1_000
    const route = { call, status, kB: bytes / 1_000, cpu, ...spread(times) }
    routes.push(route)
    const { min, median, max } = route
    const slow = median > options['max-ms'] ? ' !' : ''
    console.log(
      `${[min, median, max, cpu].map(ms => ms.toFixed(0).padStart(5)).join(' ')} ms ${route.kB.toFixed(0).padStart(6)} kB ${status} ${call}${slow}`,
    )
  }
  return routes
}
