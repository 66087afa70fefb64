import { type Redis, scanKeys } from './redis.ts'
import { type Shard, shardsOf } from './redis-shards.ts'

/**
 * Iterates over the keys of shards that match a pattern, in pages, each without the shard's tag and the connection's key
 * prefix. A key may come twice.
 */
export async function* scanShards(redis: Redis, pattern: string): AsyncGenerator<[shard: Shard, keys: string[]]> {
  const shards = shardsOf(redis)
  if (!shards.isTagged) {
    for await (const keys of scanKeys(redis, pattern)) yield [shards.only, keys]
    return
  }
  const byTag = new Map(shards.all.map(shard => [shard.tag, shard]))
  // One scan of each node for all of its shards. A key ends up under no shard if it is another program's.
  for await (const keys of scanKeys(redis, `{h*}:${pattern}`)) {
    const tagOf = (key: string) => key.slice(0, key.indexOf('}:') + 2)
    for (const [tag, own] of Map.groupBy(keys, tagOf)) {
      const shard = byTag.get(tag)
      if (shard) yield [shard, own.map(key => key.slice(tag.length))]
    }
  }
}
