import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { dieWithParent } from '../../../dev/daemon.ts'
import { migrate } from '../../../dev/migrate.ts'
import { readDatabaseMs, readRedisMs } from '../../../shared/io/clock-skew.ts'
import type { Services } from '../../../shared/open-services.ts'
import { observe } from '../chaos.ts'
import { eventually, type Process, startProcess } from '../gateway.ts'
import { privatePostgres, privateRedis } from '../stack.ts'
import { WallClock } from './wall-clock.ts'

/** The processes that have a wall clock of their own. */
export const roles = ['web', 'worker', 'postgres', 'redis'] as const
export type Role = (typeof roles)[number]

/** A header of HTTP says whole seconds, which Node computes once a second. */
const maxDateErrorMs = 2_500

/** PostgreSQL, Redis, a web and a worker process, each with a wall clock to be set, and an observer with the real time. */
export class ClockedStack {
  readonly clocks: Record<Role, WallClock>
  readonly web: Process
  readonly worker: Process
  /** Opened on the same stores in this process, to create accounts and to look. */
  readonly services: Services
  readonly #closings: (() => Promise<unknown>)[]

  private constructor(
    clocks: Record<Role, WallClock>,
    { web, worker }: { web: Process; worker: Process },
    services: Services,
    closings: (() => Promise<unknown>)[],
  ) {
    this.clocks = clocks
    this.web = web
    this.worker = worker
    this.services = services
    this.#closings = closings
  }

  /** Starts everything with the right time, and waits until it serves. `env` is the configuration beside the stores. */
  static async start(env: Record<string, string>): Promise<ClockedStack> {
    const folder = await mkdtemp(join(tmpdir(), 'headgate-clocks-'))
    const closings: (() => Promise<unknown>)[] = [() => rm(folder, { recursive: true, force: true })]
    try {
      const [web, worker, postgres, redis] = await Promise.all(roles.map(() => WallClock.create(folder)))
      const clocks = { web: web!, worker: worker!, postgres: postgres!, redis: redis! }
      const database = await privatePostgres(clocks.postgres.env)
      closings.push(() => database.stop())
      const memory = await privateRedis([], clocks.redis.env)
      closings.push(() => memory.stop())
      await migrate(database.url)
      const stores = { databaseUrl: database.url, redisUrl: memory.url }
      const all = { ...env, STORAGE_URL: `file:${join(folder, 'storage')}`, DATABASE_POOL: '8' }
      const services = await observe(stores, all)
      closings.push(() => services.close())
      const start = async (role: 'web' | 'worker') => {
        const started = await startProcess(role, stores, { ...all, ...clocks[role].env })
        dieWithParent(started.child, 'SIGKILL')
        closings.push(() => started.kill('SIGTERM'))
        return started
      }
      const processes = { web: await start('web'), worker: await start('worker') }
      return new ClockedStack(clocks, processes, services, closings)
    } catch (error) {
      await closeAll(closings)
      throw error
    }
  }

  get url(): string {
    return this.web.url
  }

  /** Sets the clock of a role, and waits until the role says so itself: a clock that did not move would prove nothing. */
  async set(role: Role, offsetMs: number): Promise<void> {
    await this.clocks[role].set(offsetMs)
    const isSet = async () => Math.abs((await this.#read(role)) - this.clocks[role].now()) < maxDateErrorMs
    await eventually(isSet, `the clock of ${role} is ${offsetMs} ms ahead`)
  }

  /** The time by the clock of a role, as others are told it. A worker tells nobody. */
  async #read(role: Role): Promise<number> {
    if (role === 'postgres') return readDatabaseMs(this.services.db)
    if (role === 'redis') return readRedisMs(this.services.redis)
    if (role === 'worker') return this.clocks.worker.now()
    const { headers } = await fetch(`${this.url}/healthz`)
    return Date.parse(headers.get('date')!) + 500
  }

  async close(): Promise<void> {
    await closeAll(this.#closings)
  }
}

async function closeAll(closings: (() => Promise<unknown>)[]): Promise<void> {
  for (const closing of closings.splice(0).reverse()) await closing()
}
