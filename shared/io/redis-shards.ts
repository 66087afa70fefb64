import type { Cluster, Redis } from 'ioredis'
import type { RedisAddress } from '../base/redis-settings.ts'
import { parseRedisUrl } from '../base/redis-url.ts'

type Connection = Redis | Cluster

/**
 * A part of the keys: in a Redis Cluster those of one hash slot, which therefore one script can use; elsewhere all keys.
 * A node has the shards whose slots it has.
 */
export type Shard = {
  readonly index: number
  /** Put before the names of its keys; '' where there is one shard with all keys. */
  readonly tag: string
}

/** The shards of an installation. An organisation's keys are all in one of them, for good. */
export class Shards {
  readonly all: readonly Shard[]

  constructor(tags: readonly string[]) {
    this.all = tags.map((tag, index) => ({ index, tag }))
  }

  /** Whether keys need a hash tag to be used together. */
  get isTagged(): boolean {
    return this.all[0]!.tag !== ''
  }

  /** The shard where there is only one. Throws a TypeError otherwise. */
  get only(): Shard {
    if (this.all.length > 1) throw new TypeError('there are several shards: name one')
    return this.all[0]!
  }

  /** The shard of an organisation. */
  of(organisationId: string): Shard {
    return this.all.length === 1 ? this.all[0]! : this.all[hash(organisationId) % this.all.length]!
  }

  /** What belongs to organisations, by their shards. */
  group<T>(items: readonly T[], organisationOf: (item: T) => string): Map<Shard, T[]> {
    return Map.groupBy(items, item => this.of(organisationOf(item)))
  }
}

/** Joins what is added for a shard in one turn of the event loop into one call, or into several of at most `maxItems`. */
export class ShardBatches<Item> {
  readonly #shards: Shards
  readonly #maxItems: number
  readonly #run: (shard: Shard, items: Item[]) => Promise<void>
  /** By the shard. */
  readonly #pending: Item[][]

  /** `run` must not reject. */
  constructor(shards: Shards, maxItems: number, run: (shard: Shard, items: Item[]) => Promise<void>) {
    this.#shards = shards
    this.#maxItems = maxItems
    this.#run = run
    this.#pending = shards.all.map(() => [])
  }

  /** Adds an item to the batch of its organisation's shard. */
  add(organisationId: string, item: Item): void {
    const shard = this.#shards.of(organisationId)
    if (this.#pending[shard.index]!.push(item) === 1) setImmediate(() => this.#flush(shard))
  }

  #flush(shard: Shard): void {
    const pending = this.#pending[shard.index]!
    const items = pending.splice(0, this.#maxItems)
    if (pending.length > 0) setImmediate(() => this.#flush(shard))
    void this.#run(shard, items)
  }
}

const oneShard = new Shards([''])
const shardsOfConnections = new WeakMap<Connection, Shards>()

/** The shards of a connection's installation. */
export function shardsOf(redis: Connection): Shards {
  return shardsOfConnections.get(redis) ?? oneShard
}

/** Remembers the shards that an address implies for a connection to it. */
export function assignShards(redis: Connection, address: RedisAddress): void {
  if (isSharded(address)) shardsOfConnections.set(redis, new Shards(shardTags(address.redisShards ?? 1)))
}

/** Whether keys are spread over the slots of a Redis Cluster: a hash tag in the key prefix puts all of them in one. */
export function isSharded({ redisUrl = '', redisKeyPrefix = '' }: Partial<RedisAddress>): boolean {
  return parseRedisUrl(redisUrl)?.kind === 'cluster' && !redisKeyPrefix.includes('{')
}

/** The tag of keys that scripts use together and that belong to no organisation. '' where none is needed. */
export function sharedTag(redis: Connection, name: string): string {
  return shardsOf(redis).isTagged ? `{${name}}:` : ''
}

const tagsByCount = new Map<number, string[]>()

/**
 * The tags of a number of shards. Their slots are evenly spaced, so that nodes with equal parts of the slots have equally many
 * shards: each is in the middle half of its part.
 */
export function shardTags(count: number): readonly string[] {
  let tags = tagsByCount.get(count)
  if (!tags) {
    tags = Array.from({ length: count }, (_, index) =>
      tagBetween(index, (index + 0.25) / count, (index + 0.75) / count),
    )
    tagsByCount.set(count, tags)
  }
  return tags
}

function tagBetween(index: number, from: number, to: number): string {
  for (let number = 0; ; number++) {
    const name = `h${index}.${number}`
    const position = hashSlot(name) / slotCount
    if (position >= from && position < to) return `{${name}}:`
  }
}

/** FNV-1a. Never change it: it decides where the keys of existing organisations are. */
function hash(text: string): number {
  let value = 0x811c9dc5
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 0x01000193)
  return value >>> 0
}

/** The number of hash slots of a Redis Cluster. */
export const slotCount = 16_384

const polynomial = 0x1021

/** The slot of a hash tag: CRC16 (XMODEM), as Redis Cluster defines it. */
export function hashSlot(tag: string): number {
  let crc = 0
  for (const byte of Buffer.from(tag)) {
    crc ^= byte << 8
    for (let bit = 0; bit < 8; bit++) crc = ((crc & 0x8000 ? (crc << 1) ^ polynomial : crc << 1) & 0xffff) >>> 0
  }
  return crc % slotCount
}
