import { setTimeout as sleep } from 'node:timers/promises'
import type { Providers } from './providers.ts'
import type { Store, Supervised, World } from './world.ts'

type Fault = { name: string; inject(world: World, providers: Providers, random: () => number): Promise<void> }

const frozenWorkerMs = 15_000
const frozenWebMs = 8_000
const frozenRedisMs = 4_000
const frozenPostgresMs = 5_000
const truncatingMs = 6_000
const truncatedShare = 0.4
/** From one fault to the next; the shortest lets the processes that were killed come back. */
const minPauseMs = 2_000
const maxPauseMs = 6_000

/** Every fault of a run. Each run has all of them, in the order of its seed. */
const faults: Fault[] = [
  { name: 'web process killed', inject: ({ webs }, _, random) => pick(webs, random).kill() },
  { name: 'worker process killed', inject: ({ workers }, _, random) => pick(workers, random).kill() },
  {
    name: 'both worker processes killed',
    inject: async ({ workers }) => {
      await Promise.all(workers.map(worker => worker.kill()))
    },
  },
  { name: 'web process frozen', inject: ({ webs }, _, random) => freeze(pick(webs, random), frozenWebMs) },
  { name: 'worker process frozen', inject: ({ workers }, _, random) => freeze(pick(workers, random), frozenWorkerMs) },
  { name: 'Redis frozen', inject: ({ redis }) => freezeStore(redis, frozenRedisMs) },
  { name: 'PostgreSQL frozen', inject: ({ postgres }) => freezeStore(postgres, frozenPostgresMs) },
  { name: 'Redis restarted', inject: ({ redis }) => redis.restart() },
  { name: 'Redis killed', inject: ({ redis }) => crash(redis) },
  { name: 'PostgreSQL restarted', inject: ({ postgres }) => postgres.restart() },
  { name: 'PostgreSQL killed', inject: ({ postgres }) => crash(postgres) },
  {
    name: 'provider truncates answers',
    inject: async (_, providers) => {
      providers.truncate(truncatedShare)
      await sleep(truncatingMs)
      providers.truncate(0)
    },
  },
]

/** Injects every fault once, one after the other, in an order drawn from `random`. */
export async function injectFaults(
  world: World,
  providers: Providers,
  random: () => number,
  log: (line: string) => void,
): Promise<void> {
  for (const { name, inject } of shuffled(faults, random)) {
    await sleep(minPauseMs + random() * (maxPauseMs - minPauseMs))
    log(name)
    await inject(world, providers, random)
  }
  await sleep(maxPauseMs)
}

async function freeze(target: Supervised, forMs: number): Promise<void> {
  target.freeze()
  await sleep(forMs)
  target.thaw()
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

function pick<T>(from: readonly T[], random: () => number): T {
  return from[Math.floor(random() * from.length)]!
}

function shuffled<T>(all: readonly T[], random: () => number): T[] {
  const left = [...all]
  return all.map(() => left.splice(Math.floor(random() * left.length), 1)[0]!)
}
