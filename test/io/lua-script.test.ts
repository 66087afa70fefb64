import { getHeapSpaceStatistics } from 'node:v8'
import { Redis } from 'ioredis'
import { defineScript } from '../../shared/io/lua-script.ts'
import { test } from '../support/test.ts'
import { use, useStores } from '../support/use.ts'

const stores = useStores(test)
const redis = use(
  test,
  () => new Redis(stores.redisUrl),
  it => it.disconnect(),
)

const addPoints = defineScript({
  name: 'test:add-points',
  lua: `
    for _, player in ipairs(players) do
      redis.call('ZINCRBY', score_key, player.extra_points + bonus_points, player.name)
      redis.call('SET', player_prefix .. player.name, label)
    end
    return { redis.call('HINCRBY', total_key, 'calls', 1), type(bonus_points), type(label), #players }`,
  keys: ['scoreKey'],
  fixedKeys: { totalKey: 'test:total' },
  keyPrefixes: { playerPrefix: 'test:player:' },
  args: { bonusPoints: 'number', label: 'text', players: { name: 'text', extraPoints: 'number' } },
})
const values = { scoreKey: 'test:score', bonusPoints: 2, label: '7' }

test.serial('keys, prefixes, arguments and fields of records have their names in the script', async t => {
  const players = [
    { name: 'ada', extraPoints: 1 },
    { name: '', extraPoints: 10n },
  ]
  t.deepEqual(await addPoints(redis, { ...values, players }), [1, 'number', 'string', 2])
  t.deepEqual(await redis.zrange('test:score', '0', '-1', 'WITHSCORES'), ['ada', '3', '', '12'])
  t.is(await redis.get('test:player:ada'), '7')
  t.deepEqual(await addPoints(redis, { ...values, players: [] }), [2, 'number', 'string', 0])
})

test.serial('under a tag, fixed and derived keys begin with it; named ones are as given', async t => {
  const players = [{ name: 'ada', extraPoints: 1 }]
  const prefixed = redis.duplicate({ keyPrefix: 'gate:' })
  t.teardown(() => prefixed.disconnect())
  await addPoints(prefixed, { ...values, scoreKey: '{one}:score', players }, '{one}:')
  t.deepEqual((await redis.keys('gate:*')).sort(), [
    'gate:{one}:score',
    'gate:{one}:test:player:ada',
    'gate:{one}:test:total',
  ])
})

test.serial('TypeError for a name that is missing or unknown, in types and at run time', async t => {
  const players = [{ name: 'ada', extraPoints: 1 }]
  const throws = (run: Promise<unknown>, message: RegExp) => t.throwsAsync(run, { instanceOf: TypeError, message })
  // @ts-expect-error: no scoreKey
  await throws(addPoints(redis, { bonusPoints: 2, label: '7', players }), /needs the argument scoreKey/)
  // @ts-expect-error: no bonusPoints
  await throws(addPoints(redis, { scoreKey: 'test:score', label: '7', players }), /needs the argument bonusPoints/)
  // @ts-expect-error: no players
  await throws(addPoints(redis, values), /needs the list players/)
  // @ts-expect-error: unknown argument
  await throws(addPoints(redis, { ...values, players, points: 1 }), /has no argument points/)
  // @ts-expect-error: no extraPoints
  await throws(addPoints(redis, { ...values, players: [{ name: 'ada' }] }), /needs the field extraPoints in players/)
  // @ts-expect-error: a text for a number
  await addPoints(redis, { ...values, bonusPoints: '2', players: [] })
})

test.serial('TypeError for a field with the separator of fields', async t => {
  const players = [{ name: 'a\x1f99', extraPoints: 1 }]
  await t.throwsAsync(addPoints(redis, { ...values, players }), { instanceOf: TypeError, message: /contains U\+001F/ })
})

test.serial('runs after Redis lost its scripts, and on another connection', async t => {
  await addPoints(redis, { ...values, players: [] })
  await redis.script('FLUSH')
  const [calls] = (await addPoints(redis, { ...values, players: [] })) as number[]
  const other = redis.duplicate()
  t.deepEqual(await addPoints(other, { ...values, players: [] }), [calls! + 1, 'number', 'string', 0])
  other.disconnect()
})

/** Another text each time, of characters that take a byte. */
async function sendTexts({ calls, characters }: { calls: number; characters: number }): Promise<void> {
  for (let i = 0; i < calls; i++) {
    const name = `${i % 2}`.padEnd(characters, 'x')
    await addPoints(redis, { ...values, players: [{ name, extraPoints: i }] })
  }
}

function oldBytes(): number {
  return getHeapSpaceStatistics().find(({ space_name: name }) => name === 'old_space')!.space_used_size
}

test.serial('the arguments of answered calls do not reach the old generation of the heap', async t => {
  const sent = { calls: 2_000, characters: 20_000 }
  await sendTexts(sent)
  const parts: number[] = []
  // In a round, other garbage of the process may be moved there, or all of it be collected. Arguments that are kept are moved in each.
  for (let round = 0; round < 3; round++) {
    const beforeBytes = oldBytes()
    await sendTexts(sent)
    parts.push((oldBytes() - beforeBytes) / (sent.calls * sent.characters))
  }
  const isLittle = (part: number) => Math.abs(part) < 0.25
  t.true(parts.some(isLittle), `${parts.map(part => (part * 100).toFixed(0))} % of them are in the old generation`)
})
