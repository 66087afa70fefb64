import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { eventually } from '../support/gateway.ts'
import type { SentinelSetup } from '../support/io/sentinel.ts'
import type { Impairment } from './links.ts'
import { goodMood, type Mood, type Providers } from './providers.ts'
import {
  busyRedis,
  cancellingPostgres,
  disconnectingPostgres,
  disconnectingRedis,
  inaccessiblePostgres,
  lockedPostgres,
  olderRedis,
  pausedRedis,
  refusingRedis,
  replicaPostgres,
} from './troubled-stores.ts'
import type { Store, Supervised, World } from './world.ts'

/** Where faults are injected. */
export type Stage = {
  world: World
  providers: Providers
  /** Null unless Redis is behind sentinels. */
  sentinels: SentinelSetup | null
  random: () => number
  log: (line: string) => void
  /** When a write to Redis that was acknowledged may have been lost: by asynchronous replication, or with an older Redis. */
  lossyMs: number[]
}

type Fault = { name: string; needs?: 'Redis of its own' | 'sentinels' | 'prlimit'; inject(stage: Stage): Promise<void> }

const frozenWorkerMs = 15_000
const frozenWebMs = 8_000
const frozenRedisMs = 4_000
const frozenPostgresMs = 5_000
const impairedMs = 6_000
const moodMs = 6_000
const fullDiskMs = 4_000
const fewDescriptorsMs = 6_000
const olderByMs = 8_000
const noteLossEveryMs = 500
const maxSkewMs = 90_000
const failoverWithinMs = 60_000
/** From one fault to the next; the shortest lets the processes that were killed come back. */
const minPauseMs = 2_000
const maxPauseMs = 6_000

const processFaults: Fault[] = [
  { name: 'web process killed', inject: ({ world: { webs }, random }) => pick(webs, random).kill() },
  { name: 'worker process killed', inject: ({ world: { workers }, random }) => pick(workers, random).kill() },
  {
    name: 'both worker processes killed',
    inject: async ({ world: { workers } }) => {
      await Promise.all(workers.map(worker => worker.kill()))
    },
  },
  { name: 'web process frozen', inject: ({ world: { webs }, random }) => freeze(pick(webs, random), frozenWebMs) },
  {
    name: 'worker process frozen',
    inject: ({ world: { workers }, random }) => freeze(pick(workers, random), frozenWorkerMs),
  },
  { name: 'web process with a wrong clock', inject: ({ world, random }) => skew(pick(world.webs, random), random) },
  {
    name: 'worker process with a wrong clock',
    inject: ({ world, random }) => skew(pick(world.workers, random), random),
  },
  {
    name: 'deploy of all processes, one after the other',
    inject: async ({ world }) => {
      for (const process of [...world.webs, ...world.workers]) {
        await process.drain()
        await world.allUp()
      }
    },
  },
]

const storeFaults: Fault[] = [
  { name: 'PostgreSQL frozen', inject: ({ world }) => freezeStore(world.postgres, frozenPostgresMs) },
  { name: 'PostgreSQL restarted', inject: ({ world }) => world.postgres.restart() },
  { name: 'PostgreSQL killed', inject: ({ world }) => crash(world.postgres) },
  {
    name: 'PostgreSQL with a full disk',
    needs: 'prlimit',
    async inject({ world: { postgres } }) {
      await fillDisk(await postgres.frozen.pids(), 0)
      // It may have ended: its log could not be written.
      await postgres.restart()
    },
  },
  {
    name: 'Redis frozen',
    needs: 'Redis of its own',
    inject: ({ world: { redis } }) => freezeStore(redis, frozenRedisMs),
  },
  { name: 'Redis restarted', needs: 'Redis of its own', inject: ({ world }) => world.redis.restart() },
  { name: 'Redis killed', needs: 'Redis of its own', inject: ({ world }) => crash(world.redis) },
  {
    name: 'Redis fails over to its replica',
    needs: 'sentinels',
    async inject({ sentinels, lossyMs }) {
      const before = await sentinels!.primaryPort()
      lossyMs.push(Date.now())
      await sentinels!.killPrimary()
      const hasMoved = async () => (await sentinels!.primaryPort()) !== before
      await eventually(hasMoved, 'the replica took over', failoverWithinMs)
    },
  },
]

const lockedTables = ['wallets', 'jobs', 'api_keys', 'batches', 'idempotency_keys', 'webhook_deliveries'] as const

const troubledStores: Fault[] = [
  ...['OOM', 'READONLY', 'MISCONF'].map(word => ({
    name: `Redis says ${word}`,
    needs: 'Redis of its own' as const,
    inject: ({ world }: Stage) => refusingRedis(world.redis.url, word),
  })),
  { name: 'Redis busy with a script', needs: 'Redis of its own', inject: ({ world }) => busyRedis(world.redis.url) },
  { name: 'Redis delays writes', needs: 'Redis of its own', inject: ({ world }) => pausedRedis(world.redis.url) },
  {
    name: 'Redis ends its connections',
    needs: 'Redis of its own',
    inject: ({ world }) => disconnectingRedis(world.redis.url),
  },
  {
    name: 'Redis becomes what it was some seconds ago',
    needs: 'Redis of its own',
    inject: async ({ world, lossyMs }) => {
      const note = () => lossyMs.push(Date.now())
      const noting = setInterval(note, noteLossEveryMs)
      note()
      // On a slow machine the snapshot itself takes seconds.
      await olderRedis(world.redis.url, olderByMs).finally(() => clearInterval(noting))
      note()
    },
  },
  { name: 'PostgreSQL ends its connections', inject: ({ world }) => disconnectingPostgres(world.postgres.url) },
  { name: 'PostgreSQL cancels statements', inject: ({ world }) => cancellingPostgres(world.postgres.url) },
  { name: 'PostgreSQL read-only', inject: ({ world }) => replicaPostgres(world.postgres.url) },
  { name: 'PostgreSQL takes no connections', inject: ({ world }) => inaccessiblePostgres(world.postgres.url) },
  {
    name: 'a table of PostgreSQL locked',
    inject: async ({ world, random, log }) => {
      const table = pick(lockedTables, random)
      log(`  ${table}`)
      await lockedPostgres(world.postgres.url, table)
    },
  },
]

const storageFaults: Fault[] = [
  {
    name: 'a process without free file descriptors',
    needs: 'prlimit',
    async inject({ world, random }) {
      const { process } = pick([...world.webs, ...world.workers], random)
      const pid = process?.child.pid
      if (pid === undefined) return
      const before = softLimit(pid)
      setLimit([pid], 'nofile', `${readdirSync(`/proc/${pid}/fd`).length}:`)
      await sleep(fewDescriptorsMs)
      setLimit([pid], 'nofile', `${before}:`)
    },
  },
  {
    name: 'full disk of a process',
    needs: 'prlimit',
    inject: ({ world, random }) => {
      const { process } = pick([...world.webs, ...world.workers], random)
      return fillDisk(process?.child.pid ? [process.child.pid] : [], 1)
    },
  },
]

const servers = ['PostgreSQL', 'Redis', 'OPENAI_BASE_URL', 'GROQ_BASE_URL', 'RUNWAY_BASE_URL'] as const
const impairments: Impairment[] = ['slow', 'stalled', 'refused']

const networkFaults: Fault[] = [
  ...impairments.map(impairment => ({
    name: `connections of a process ${impairment}`,
    async inject({ world, random, log }: Stage) {
      const { process, server, link } = linkOf(world, random)
      log(`  of ${process} to ${server}`)
      link?.impair(impairment)
      await sleep(impairedMs)
      link?.impair('none')
    },
  })),
  {
    name: 'connections of a process reset',
    async inject({ world, random, log }) {
      const { process, server, link } = linkOf(world, random)
      log(`  of ${process} to ${server}`)
      link?.reset()
    },
  },
  {
    name: 'connections of all processes reset',
    async inject({ world }) {
      for (const { links } of [...world.webs, ...world.workers]) for (const link of links.values()) link.reset()
    },
  },
]

const shares: Record<keyof Mood, number> = { truncates: 0.4, hangs: 0.3, refuses: 0.6, lies: 0.5 }

const providerFaults: Fault[] = (Object.keys(shares) as (keyof Mood)[]).map(way => ({
  name: `provider ${way}`,
  async inject({ providers }: Stage) {
    providers.setMood({ [way]: shares[way] })
    await sleep(moodMs)
    providers.setMood(goodMood)
  },
}))

/** Every fault that can be injected. */
export const faults: readonly Fault[] = [
  ...processFaults,
  ...storeFaults,
  ...troubledStores,
  ...storageFaults,
  ...networkFaults,
  ...providerFaults,
]

/**
 * Injects faults one after the other, in an order drawn from the seed, until `untilMs`; each once before any comes twice. `only`: those
 * whose names have this text.
 */
export async function injectFaults(stage: Stage, untilMs: number, only = ''): Promise<string[]> {
  const { random, sentinels, log } = stage
  const possible = faults.filter(({ name, needs }) => {
    if (!name.includes(only)) return false
    if (needs === 'prlimit') return hasPrlimit()
    return needs === undefined || (needs === 'sentinels') === (sentinels !== null)
  })
  const injected: string[] = []
  for (let left: Fault[] = []; Date.now() < untilMs; ) {
    if (left.length === 0) left = shuffled(possible, random)
    const { name, needs, inject } = left.pop()!
    // The replica of a replica that took over would be a machine more.
    if (needs === 'sentinels' && injected.includes(name)) continue
    await sleep(minPauseMs + random() * (maxPauseMs - minPauseMs))
    log(name)
    await inject(stage)
    injected.push(name)
  }
  await sleep(maxPauseMs)
  return injected
}

async function freeze(target: Supervised, forMs: number): Promise<void> {
  target.freeze()
  await sleep(forMs)
  target.thaw()
}

/** Its next process has a wrong clock, until that is replaced. */
async function skew(target: Supervised, random: () => number): Promise<void> {
  target.skewMs = Math.round((2 * random() - 1) * maxSkewMs)
  await target.kill()
}

async function freezeStore({ frozen }: Store, forMs: number): Promise<void> {
  await frozen.begin()
  await sleep(forMs)
  await frozen.end()
}

async function crash(store: Store): Promise<void> {
  await store.kill()
  await store.restart()
}

/** No file of these processes can grow beyond `maxBytes`: their writes fail as on a full disk. */
async function fillDisk(pids: readonly number[], maxBytes: number): Promise<void> {
  setFileSizes(pids, `${maxBytes}:unlimited`)
  await sleep(fullDiskMs)
  setFileSizes(pids, 'unlimited:unlimited')
}

function setFileSizes(pids: readonly number[], limit: string): void {
  setLimit(pids, 'fsize', limit)
}

function setLimit(pids: readonly number[], resource: 'fsize' | 'nofile', limit: string): void {
  for (const pid of pids) {
    try {
      execFileSync('prlimit', ['--pid', String(pid), `--${resource}=${limit}`], { stdio: 'ignore' })
    } catch {
      // It has ended.
    }
  }
}

function softLimit(pid: number): string {
  return /Max open files\s+(\d+)/.exec(readFileSync(`/proc/${pid}/limits`, 'utf8'))![1]!
}

function hasPrlimit(): boolean {
  try {
    execFileSync('prlimit', ['--version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

function linkOf({ webs, workers }: World, random: () => number) {
  const process = pick([...webs, ...workers], random)
  const server = pick(
    servers.filter(name => process.links.has(name)),
    random,
  )
  const place = webs.includes(process) ? `web ${webs.indexOf(process)}` : `worker ${workers.indexOf(process)}`
  return { process: place, server, link: process.links.get(server) }
}

function pick<T>(from: readonly T[], random: () => number): T {
  return from[Math.floor(random() * from.length)]!
}

function shuffled<T>(all: readonly T[], random: () => number): T[] {
  const left = [...all]
  return all.map(() => left.splice(Math.floor(random() * left.length), 1)[0]!)
}
