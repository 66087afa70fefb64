import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type Providers, startProviders } from '../../prove/providers.ts'
import { seededRandom } from '../../prove/random.ts'
import { openWorld, type World } from '../../prove/world.ts'
import { DeployUnderLoad, deployEnv } from '../../support/deploys.ts'
import { checkOutPreviousRelease } from '../../support/previous-release.ts'
import { type ExecutionContext, test } from '../../support/test.ts'
import { Receiver } from '../../support/webhooks/receiver.ts'

const current = join(import.meta.dirname, '../../..')
/** Null in a shallow clone, which lacks the previous release. */
let previous: string | null

test.before(async t => {
  t.timeout(300_000)
  previous = await checkOutPreviousRelease()
})
test.after.always(async () => {
  if (previous) await rm(previous, { recursive: true, force: true })
})

type Roles = readonly ['workers' | 'webs', 'workers' | 'webs']

/** Runs the previous release on the newest schema under load, then replaces its processes in the given order. */
async function upgrade(t: ExecutionContext, previousFolder: string, order: Roles): Promise<void> {
  t.timeout(600_000)
  const providers: Providers = await startProviders(seededRandom(1))
  const receiver = await Receiver.start()
  let world: World | null = null
  let folder = previousFolder
  try {
    world = await openWorld({ ...deployEnv, ...providers.env }, { codeFolder: () => folder })
    const deploy = await DeployUnderLoad.start(world, receiver)
    await deploy.more(60)
    folder = current
    for (const role of order) await deploy.replace(t, world[role])
    await deploy.more()
    await deploy.verify(t, receiver, providers)
  } finally {
    await world?.close()
    await Promise.all([providers.close(), receiver.close()])
  }
}

for (const order of [
  ['workers', 'webs'],
  ['webs', 'workers'],
] as const)
  test.serial(`200s only, each charged once, from the previous release to this one: first the ${order[0]}`, async t => {
    if (previous) return upgrade(t, previous, order)
    t.log('not run: this clone is shallow and lacks the previous release')
    t.pass()
  })
