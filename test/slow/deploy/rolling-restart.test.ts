import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { scanKeys } from '../../../shared/io/redis.ts'
import { startProviders } from '../../prove/providers.ts'
import { seededRandom } from '../../prove/random.ts'
import { openWorld } from '../../prove/world.ts'
import { DeployUnderLoad, deployEnv } from '../../support/deploys.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'
import { Receiver } from '../../support/webhooks/receiver.ts'

const providers = use(test, () => startProviders(seededRandom(1)))
const receiver = use(test, () => Receiver.start())
const world = use(test, () => openWorld({ ...deployEnv, ...providers.env }))

test.serial('200s only, each charged once, while two web and two worker processes are restarted', async t => {
  t.timeout(600_000)
  const deploy = await DeployUnderLoad.start(world, receiver)
  const [[firstWeb, secondWeb], [firstWorker, secondWorker]] = [world.webs, world.workers]
  await deploy.replace(t, [firstWorker!, firstWeb!, secondWeb!, secondWorker!])
  await deploy.more()
  await deploy.verify(t, receiver, providers)
  for (const count of deploy.proxy.forwarded) t.true(count > 0)
})

test.serial('docs/retention.md lists every family of keys that this left in Redis', async t => {
  const text = readFileSync(join(import.meta.dirname, '../../../docs/retention.md'), 'utf8')
  const section = text.slice(text.indexOf('\n## Redis\n'))
  const families = [...section.matchAll(/^\| (.+?) \|/gm)].flatMap(([, cell]) =>
    [...cell!.matchAll(/`([^`]+)`/g)].map(([, family]) => new RegExp(`^${family!.replaceAll(/<\w+>/g, '.+')}$`)),
  )
  t.true(families.length > 20)
  const unknown: string[] = []
  for await (const keys of scanKeys(world.services.redis, '*'))
    unknown.push(...keys.filter(key => !families.some(family => family.test(key))))
  t.deepEqual(unknown, [])
})
