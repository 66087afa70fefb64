import { type Clock, dayMs } from '../base/time.ts'
import { takeUnknown, type UnknownKind } from '../base/unknown-names.ts'
import type { Logger } from '../io/log.ts'
import { defineScript } from '../io/lua-script.ts'
import type { Redis } from '../io/redis.ts'

const namesKey = 'unknown-names'
const flushIntervalMs = 30_000
/** The newest names are kept: callers can invent any number of them. */
const maxNames = 300
const maxLogged = 300
const ttlMs = 30 * dayMs

const addNames = defineScript({
  name: 'add-unknown-names',
  // A value is the count, and when the name was first and last seen.
  lua: `
    for _, found in ipairs(found_names) do
      local known = redis.call('HGET', names_key, found.id)
      local count, first = 0, now_ms
      if known then count, first = known:match('^(%d+) (%d+)') end
      redis.call('HSET', names_key, found.id, string.format('%d %d %d', count + found.count, first, now_ms))
    end
    local all = redis.call('HGETALL', names_key)
    local names = {}
    for i = 1, #all, 2 do names[#names + 1] = { id = all[i], last = tonumber(all[i + 1]:match('(%d+)$')) } end
    table.sort(names, function(a, b) return a.last > b.last end)
    for i, name in ipairs(names) do
      if i > max_names or name.last < now_ms - ttl_ms then redis.call('HDEL', names_key, name.id) end
    end
    redis.call('PEXPIRE', names_key, ttl_ms)`,
  fixedKeys: { namesKey },
  args: { foundNames: { id: 'text', count: 'number' }, nowMs: 'number', maxNames: 'number', ttlMs: 'number' },
})

/** A name that requests have and the gateway does not know. */
export type SeenName = { kind: UnknownKind; name: string; count: number; firstMs: number; lastMs: number }

/**
 * The names of `base/unknown-names.ts` of all processes, in Redis: the latest 300, each for 30 days after it was last
 * seen. A process adds its own every half minute, and logs each name once.
 */
export class UnknownNames {
  readonly #redis: Redis
  readonly #clock: Clock
  readonly #log: Logger
  readonly #logged = new Set<string>()
  #timer: NodeJS.Timeout | null = null

  constructor({ redis, clock, log }: { redis: Redis; clock: Clock; log: Logger }) {
    this.#redis = redis
    this.#clock = clock
    this.#log = log
  }

  start(): this {
    this.#timer = setInterval(() => void this.flush(), flushIntervalMs)
    this.#timer.unref()
    return this
  }

  async close(): Promise<void> {
    if (this.#timer) clearInterval(this.#timer)
    await this.flush()
  }

  /** Stores and logs what the process has found. Never rejects: the names of a failed write are met again. */
  async flush(): Promise<void> {
    const found = takeUnknown()
    if (found.length === 0) return
    for (const { kind, name } of found) this.#logOnce(kind, name)
    const foundNames = found.map(({ kind, name, count }) => ({ id: `${kind} ${name}`, count }))
    await addNames(this.#redis, { foundNames, nowMs: this.#clock.now(), maxNames, ttlMs }).catch(error =>
      this.#log.warn({ err: error }, 'names that requests have and the gateway does not know are not stored'),
    )
  }

  #logOnce(kind: UnknownKind, name: string): void {
    const id = `${kind} ${name}`
    if (this.#logged.has(id) || this.#logged.size >= maxLogged) return
    this.#logged.add(id)
    this.#log.info({ kind, name }, 'a request has a name that the gateway does not know')
  }
}

/** The names that all processes have stored, the latest first. Throws what Redis throws. */
export async function listUnknownNames(redis: Redis): Promise<SeenName[]> {
  const values = await redis.hgetall(namesKey)
  const names = Object.entries(values).map(([id, value]): SeenName => {
    const [kind, name] = id.split(' ') as [UnknownKind, string]
    const [count, firstMs, lastMs] = value.split(' ').map(Number) as [number, number, number]
    return { kind, name, count, firstMs, lastMs }
  })
  return names.sort((a, b) => b.lastMs - a.lastMs || b.count - a.count)
}
