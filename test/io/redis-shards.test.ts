import { Redis } from 'ioredis'
import { parseRedisUrl } from '../../shared/base/redis-url.ts'
import { hashSlot, slotCount } from '../../shared/io/hash-slot.ts'
import { isSharded, Shards, shardsOf, shardTags, sharedTag } from '../../shared/io/redis-shards.ts'
import { queuePrefix } from '../../shared/queues/queues.ts'
import { test } from '../support/test.ts'

test('a URL names a server, a primary behind sentinels, or a cluster', t => {
  const credentials = { username: 'gateway', password: 'a:b@c' }
  t.like(parseRedisUrl('redis://localhost'), { kind: 'server', isTls: false })
  t.like(parseRedisUrl('rediss://:secret@[::1]:6380/2'), { kind: 'server', isTls: true })
  t.deepEqual(parseRedisUrl('rediss+sentinel://gateway:a%3Ab%40c@one,[::1]:5000/the-primary/3'), {
    kind: 'sentinel',
    name: 'the-primary',
    database: 3,
    hosts: [
      { host: 'one', port: 26_379 },
      { host: '::1', port: 5_000 },
    ],
    isTls: true,
    ...credentials,
  })
  t.deepEqual(parseRedisUrl('redis+cluster://:secret@one,two:7000'), {
    kind: 'cluster',
    hosts: [
      { host: 'one', port: 6_379 },
      { host: 'two', port: 7_000 },
    ],
    isTls: false,
    password: 'secret',
  })
})

for (const url of [
  'http://localhost',
  'localhost:6379',
  'redis+sentinel://one:26379',
  'redis+cluster://one/name',
  'redis+cluster://one,,two',
  'redis+cluster://one:99999',
  'redis+cluster://[one]',
  'redis+cluster://:100%@one',
])
  test(`not a URL of Redis: ${url}`, t => t.is(parseRedisUrl(url), null))

test('outside a cluster, and with a hash tag in the prefix, names are without tags', t => {
  const redis = new Redis({ lazyConnect: true })
  t.deepEqual(shardsOf(redis).all, [{ index: 0, tag: '' }])
  t.is(shardsOf(redis).of('org_1'), shardsOf(redis).only)
  t.is(sharedTag(redis, 'health'), '')
  for (const address of [
    { redisUrl: 'redis://one', redisKeyPrefix: 'gate:' },
    { redisUrl: 'redis+sentinel://one/name', redisKeyPrefix: 'gate:' },
    { redisUrl: 'redis+cluster://one', redisKeyPrefix: '{gate}:' },
  ]) {
    t.false(isSharded(address))
    t.is(queuePrefix('media', address), `${address.redisKeyPrefix}bull`)
  }
  t.is(queuePrefix('media', { redisUrl: 'redis+cluster://one', redisKeyPrefix: 'gate:' }), 'gate:{bull-media}')
})

test('the slot of a tag is that of Redis', t => {
  t.is(hashSlot('123456789'), 0x31c3)
  t.is(hashSlot('user1000'), 3_443)
})

test('shards are evenly spread over any number of nodes', t => {
  for (const count of [1, 3, 16, 64, 128]) {
    const slots = shardTags(count).map(tag => hashSlot(/\{(.+)\}/.exec(tag)![1]!))
    for (const nodes of [1, 2, 3, 5, 8].filter(number => number <= count)) {
      const perNode = Array.from({ length: nodes }, () => 0)
      for (const slot of slots) perNode[Math.floor((slot * nodes) / slotCount)]!++
      t.true(Math.max(...perNode) - Math.min(...perNode) <= 1, `${count} shards on ${nodes} nodes: ${perNode}`)
    }
  }
})

test('organisations stay in their shards for good, of which each has its part', t => {
  const shards = new Shards(shardTags(16))
  t.is(shards.of('org_b').tag, '{h0.78}:')
  t.deepEqual(
    ['org_a', 'org_b', 'org_01kas8f3m0000000000000000'].map(id => shards.of(id).index),
    [9, 0, 8],
  )
  const counts = new Map<number, number>()
  for (let i = 0; i < 16_000; i++) {
    const { index } = shards.of(`org_${i.toString(36).padStart(26, '0')}`)
    counts.set(index, (counts.get(index) ?? 0) + 1)
  }
  t.is(counts.size, 16)
  for (const [index, count] of counts) t.true(count > 800 && count < 1_200, `shard ${index}: ${count}`)
})
