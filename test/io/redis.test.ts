import { getHeapSpaceStatistics } from 'node:v8'
import { openRequestRedis } from '../../shared/io/redis.ts'
import { eventually } from '../support/gateway.ts'
import { test } from '../support/test.ts'
import { use, useStores } from '../support/use.ts'

const commands = 2_000
const argumentCharacters = 20_000

const stores = useStores(test)
const redis = use(
  test,
  () => openRequestRedis({ redisUrl: stores.redisUrl, redisTls: {}, redisTlsVerify: true }),
  it => it.disconnect(),
)

/** Another text each time, of characters that take a byte. */
async function sendTexts(): Promise<void> {
  for (let i = 0; i < commands; i++) await redis.set('test', `${i}`.padEnd(argumentCharacters, 'x'))
}

function oldBytes(): number {
  return getHeapSpaceStatistics().find(({ space_name: name }) => name === 'old_space')!.space_used_size
}

test.serial('the arguments of answered commands do not reach the old generation of the heap', async t => {
  await eventually(async () => redis.status === 'ready', 'it is connected')
  await sendTexts()
  const beforeBytes = oldBytes()
  await sendTexts()
  const kept = (oldBytes() - beforeBytes) / (commands * argumentCharacters)
  t.true(kept < 0.25, `${(kept * 100).toFixed(0)} % of them is in the old generation`)
})
