import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { migrate } from '../../dev/migrate.ts'
import { freePort } from '../../dev/ports.ts'
import type { Services } from '../../shared/open-services.ts'
import { observe } from '../support/chaos.ts'
import { eventually, type Process, startProcess } from '../support/gateway.ts'
import { type FrozenStore, frozenPostgres, frozenRedis } from '../support/io/store-faults.ts'
import { type PrivateServer, privatePostgres, privateRedis } from '../support/stack.ts'
import { Link } from './links.ts'

const upWithinMs = 120_000
const repository = join(import.meta.dirname, '../..')

/** A store of the run: to be frozen, restarted or killed. Its address stays the same. */
export type Store = PrivateServer & { frozen: FrozenStore }

/** A process of the gateway under a supervisor: started again whenever it has ended, as a platform would. */
export class Supervised {
  /** Unexpected exits, with the last output of the process. */
  readonly ownEnds: string[] = []
  /** The last output of its processes that have ended. */
  readonly outputs: string[] = []
  /** When its processes were killed, and when they were frozen. */
  readonly killedMs: number[] = []
  readonly frozenMs: number[] = []
  /** How wrong the wall clock of its next process is, in milliseconds. */
  skewMs = 0
  process: Process | null = null
  /** Between its processes and each server that they connect to, by the server's name; empty without links. */
  readonly links: ReadonlyMap<string, Link>
  readonly #what: 'web' | 'worker'
  readonly #start: (env: Record<string, string>) => Promise<Process>
  #isStopping = false
  #isExpected = false
  #running: Promise<void>

  constructor(
    what: 'web' | 'worker',
    start: (env: Record<string, string>) => Promise<Process>,
    links: ReadonlyMap<string, Link> = new Map(),
  ) {
    this.#what = what
    this.#start = start
    this.links = links
    this.#running = this.#supervise()
  }

  /** Ends the process at once; the supervisor starts the next one. */
  async kill(): Promise<void> {
    this.#isExpected = true
    this.killedMs.push(Date.now())
    await this.process?.kill('SIGKILL')
  }

  freeze(): void {
    this.frozenMs.push(Date.now())
    this.process?.child.kill('SIGSTOP')
  }

  thaw(): void {
    this.process?.child.kill('SIGCONT')
  }

  /** Ends the process as a deploy does; the supervisor starts the next one. Gives its exit code. */
  async drain(): Promise<number | null> {
    const { process } = this
    this.#isExpected = true
    this.process = null
    await process?.kill('SIGTERM')
    return process?.child.exitCode ?? null
  }

  async close(): Promise<void> {
    this.#isStopping = true
    await this.process?.kill('SIGTERM')
    await this.#running
  }

  async #supervise(): Promise<void> {
    while (!this.#isStopping) {
      const clock = clockEnv(this.skewMs)
      this.skewMs = 0
      const started = await this.#start(clock).catch((error: Error) => error)
      if (started instanceof Error) {
        this.ownEnds.push(`${this.#what} did not start: ${started.message.slice(-1_000)}`)
        continue
      }
      // `close` was called during the start.
      if (this.#isStopping) return started.kill('SIGTERM')
      this.process = started
      this.#isExpected = false
      const { child } = started
      if (child.exitCode === null && child.signalCode === null) await new Promise(done => child.once('exit', done))
      this.process = null
      this.outputs.push(started.output())
      if (this.#isStopping || this.#isExpected) continue
      this.ownEnds.push(
        `${this.#what} ended with ${child.exitCode ?? child.signalCode}: ${started.output().slice(-1_000)}`,
      )
    }
  }
}

function clockEnv(skewMs: number): Record<string, string> {
  if (skewMs === 0) return {}
  const preload = join(import.meta.dirname, 'skewed-clock.mjs')
  return { NODE_OPTIONS: `--import=${preload}`, HEADGATE_CLOCK_SKEW_MS: String(skewMs) }
}

/** Both stores, two web and two worker processes, and an observer's view of the stores. */
export type World = {
  postgres: Store
  redis: Store
  webs: Supervised[]
  workers: Supervised[]
  webUrls: string[]
  services: Services
  /** The configuration of its processes beside the stores. */
  env: Record<string, string>
  /** The folder of stored files. */
  storage: string
  /** Waits until every process is up. */
  allUp(): Promise<void>
  close(): Promise<void>
}

type WorldOptions = {
  startRedis?: () => Promise<PrivateServer>
  /** Starts a pooler in front of PostgreSQL, which the processes connect to. */
  startPooler?: (databaseUrl: string) => Promise<{ url: string; stop(): Promise<void> }>
  /** The folder of the code that a process runs which starts now. */
  codeFolder?: () => string
  /** Puts a TCP proxy between each process and each server, to impair. */
  linked?: boolean
}

type StoreUrls = { databaseUrl: string; redisUrl: string }
const postgresLink = 'PostgreSQL'
const redisLink = 'Redis'

/** A link to each store and to each emulated provider of a process. Sentinels tell the address of Redis: it has none then. */
async function openLinks(
  { databaseUrl, redisUrl }: StoreUrls,
  env: Record<string, string>,
): Promise<Map<string, Link>> {
  const links = new Map([[postgresLink, await Link.open(databaseUrl)]])
  if (redisUrl.startsWith('redis:')) links.set(redisLink, await Link.open(redisUrl))
  for (const [name, value] of Object.entries(env)) if (isProvider(name)) links.set(name, await Link.open(value))
  return links
}

/** Whether a link is to a provider, whose connections are kept for a while after their last use. */
export function isProvider(link: string): boolean {
  return link.endsWith('_BASE_URL')
}

function throughLinks(
  links: ReadonlyMap<string, Link>,
  { databaseUrl, redisUrl }: StoreUrls,
  env: Record<string, string>,
): StoreUrls & { env: Record<string, string> } {
  const replaced = Object.entries(env).map(([name, value]) => [name, links.get(name)?.url ?? value])
  return {
    databaseUrl: links.get(postgresLink)?.url ?? databaseUrl,
    redisUrl: links.get(redisLink)?.url ?? redisUrl,
    env: Object.fromEntries(replaced),
  }
}

/** Starts everything and waits until it serves. `env` is the gateway's configuration beside the stores. */
export async function openWorld(
  env: Record<string, string>,
  { startRedis = () => privateRedis(), startPooler, codeFolder = () => repository, linked = false }: WorldOptions = {},
): Promise<World> {
  const storage = await mkdtemp(join(tmpdir(), 'headgate-chaos-'))
  const closings: (() => Promise<unknown>)[] = [() => rm(storage, { recursive: true, force: true })]
  const close = async () => {
    for (const closing of closings.splice(0).reverse()) await closing()
  }
  try {
    const postgres = await privatePostgres()
    closings.push(() => postgres.stop())
    const redis = await startRedis()
    closings.push(() => redis.stop())
    await migrate(postgres.url)
    const stores = { databaseUrl: postgres.url, redisUrl: redis.url }
    const services = await observe(stores, env)
    closings.push(() => services.close())
    const all = { ...env, STORAGE_URL: `file:${storage}`, DATABASE_POOL: '10' }
    const ports = [await freePort(), await freePort()]
    const webUrls = ports.map(port => `http://127.0.0.1:${port}`)
    const pooler = await startPooler?.(postgres.url)
    if (pooler) closings.push(() => pooler.stop())
    const own = {
      ...all,
      PUBLIC_URL: webUrls[0]!,
      ...(pooler && { DATABASE_URL: pooler.url, DATABASE_POOLER: 'true' }),
    }
    const supervise = async (what: 'web' | 'worker', more = {}) => {
      const links = linked ? await openLinks(stores, own) : new Map<string, Link>()
      closings.push(() => Promise.all([...links.values()].map(link => link.close())))
      const { databaseUrl, redisUrl, env: ownEnv } = throughLinks(links, stores, own)
      const start = (clock: Record<string, string>) =>
        startProcess(what, { databaseUrl, redisUrl }, { ...ownEnv, ...more, ...clock }, { folder: codeFolder() })
      return new Supervised(what, start, links)
    }
    const webs = await Promise.all(ports.map(port => supervise('web', { PORT: String(port) })))
    const workers = await Promise.all([supervise('worker'), supervise('worker')])
    closings.push(() => Promise.all([...webs, ...workers].map(it => it.close())))
    const allUp = () =>
      eventually(() => [...webs, ...workers].every(it => it.process !== null), 'every process is up', upWithinMs)
    return {
      postgres: { ...postgres, frozen: frozenPostgres(postgres.url) },
      redis: { ...redis, frozen: frozenRedis(redis.url) },
      webs,
      workers,
      webUrls,
      services,
      env,
      storage,
      allUp,
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}
