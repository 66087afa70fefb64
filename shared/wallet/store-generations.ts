import type { Database } from '../io/db.ts'
import type { Shard } from '../io/redis-shards.ts'
import type { Scripts } from './scripts.ts'

/** A store that was restored from a longer time ago is noticed. */
const advanceAfterMs = 2_000
const never = Number.MAX_SAFE_INTEGER

/** What a process knows of a shard's number. */
type StoreGeneration = {
  /** A number that PostgreSQL has, so that Redis must have it. */
  atLeast: number
  /** The number since which the wallets, spends and key versions in Redis count. */
  validSince: number
}

type State = { number: number; noted: number; validSince: number; change: 'none' | 'advanced' | 'behind' }

/**
 * A number for each shard that both stores have and that only grows, by which a Redis or a PostgreSQL that was restored from a
 * backup is noticed: a store without a number that the other one has is older. What Redis has copied from PostgreSQL is then read
 * again before the next admission (docs/decisions/redis-wipe.md). Redis counts first, then PostgreSQL notes the number.
 */
export class StoreGenerations {
  readonly #db: Database
  readonly #scripts: Scripts
  readonly #onRestored: () => void
  readonly #known: StoreGeneration[]
  /** What this process knows, by the index of the shard; Redis compares it with each admission. */
  readonly known: readonly Readonly<StoreGeneration>[]
  readonly #comparing = new Map<Shard, Promise<void>>()

  /** `onRestored`: called when this process is the one to notice it. */
  constructor(options: { db: Database; scripts: Scripts; onRestored: () => void }) {
    this.#db = options.db
    this.#scripts = options.scripts
    this.#onRestored = options.onRestored
    // No Redis has this number: nothing is admitted before the stores were compared.
    this.#known = options.scripts.shards.all.map(() => ({ atLeast: never, validSince: 0 }))
    this.known = this.#known
  }

  /** Compares the stores, once for all concurrent calls. Throws what they throw. */
  compare(shard: Shard): Promise<void> {
    let comparing = this.#comparing.get(shard)
    if (!comparing) {
      comparing = this.#compare(shard).finally(() => this.#comparing.delete(shard))
      this.#comparing.set(shard, comparing)
    }
    return comparing
  }

  /** Compares the stores and counts on, in all shards. Call it regularly. Throws what the stores throw. */
  async advance(): Promise<void> {
    await Promise.all(this.#scripts.shards.all.map(shard => this.compare(shard)))
  }

  async #compare(shard: Shard): Promise<void> {
    const known = this.#known[shard.index]!
    const isFirst = known.atLeast === never
    let state = await this.#count(shard, { atLeast: isFirst ? 0 : known.atLeast, advanceAfterMs })
    const isKnown = !isFirst && state.validSince === known.validSince
    // Another process has counted on lately, and compared the stores.
    if (isKnown && state.change === 'none') return this.#learn(shard, state, state.noted)
    const before = await this.#note(shard, state.number, state.noted)
    if (before < state.noted) {
      // PostgreSQL is older: it does not have what it had noted.
      state = await this.#count(shard, { atLeast: state.number + 1 })
      // Another process has counted on meanwhile, and finds the same.
      if (state.change === 'none') return
    } else if (before > state.number) state = await this.#count(shard, { atLeast: before })
    if (state.change === 'behind') await this.#note(shard, state.number, 0)
    await this.#count(shard, { noted: state.number })
    this.#learn(shard, state, state.number)
  }

  #learn({ index }: Shard, { validSince }: State, atLeast: number): void {
    const known = this.#known[index]!.atLeast
    this.#known[index] = { validSince, atLeast: known === never ? atLeast : Math.max(known, atLeast) }
  }

  async #count(
    shard: Shard,
    { atLeast = 0, noted = 0, advanceAfterMs = never }: { atLeast?: number; noted?: number; advanceAfterMs?: number },
  ): Promise<State> {
    const reply = (await this.#scripts.generation({ atLeast, noted, advanceAfterMs }, shard)) as number[]
    const [number, highest, validSince, change] = reply as [number, number, number, 0 | 1 | 2]
    if (change === 2) this.#onRestored()
    return { number, noted: highest, validSince, change: (['none', 'advanced', 'behind'] as const)[change] }
  }

  /** Notes a number in PostgreSQL, unless PostgreSQL does not have `expected`. Returns the number that it had; 0 = none. */
  async #note({ index }: Shard, number: number, expected: number): Promise<number> {
    const name = `store_generation:${index}`
    const [row] = await this.#db.$queryRaw<[{ before: number }]>`
      WITH found AS (
        SELECT coalesce((SELECT value::bigint FROM settings WHERE name = ${name}), 0) AS number
      ), noted AS (
        INSERT INTO settings (name, value)
        SELECT ${name}, ${String(number)} FROM found WHERE found.number >= ${expected}::bigint
        ON CONFLICT (name) DO UPDATE SET value = greatest(settings.value::bigint, excluded.value::bigint)::text
      )
      SELECT number::float8 AS before FROM found`
    return row.before
  }
}
