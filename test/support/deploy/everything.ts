import { setTimeout as sleep } from 'node:timers/promises'
import { SessionEmulator } from '../../emulators/sessions.ts'
import { Load } from '../../prove/load.ts'
import { type Providers, startProviders } from '../../prove/providers.ts'
import { seededRandom } from '../../prove/random.ts'
import { findBreaches, rest, summarise } from '../../prove/verdict.ts'
import { openWorld, type World } from '../../prove/world.ts'
import { createAccount } from '../gateway.ts'
import { providerSettings } from '../realtime/sessions.ts'
import type { PrivateServer } from '../stack.ts'
import type { ExecutionContext } from '../test.ts'
import { Receiver } from '../webhooks/receiver.ts'

const loadMs = 8_000
const restWithinMs = 60_000

/** Two web and two worker processes on a store to be tried, with every capability. */
export type Everything = {
  world: World
  providers: Providers
  sessions: SessionEmulator
  receiver: Receiver
  close(): Promise<void>
}

export async function openEverything(
  env: Record<string, string>,
  startRedis: () => Promise<PrivateServer>,
): Promise<Everything> {
  const [providers, sessions, receiver] = await Promise.all([
    startProviders(seededRandom(1)),
    SessionEmulator.start(() => {}),
    Receiver.start(),
  ])
  const closeOthers = () => Promise.all([providers.close(), sessions.close(), receiver.close()])
  try {
    const all = {
      ...providerSettings(sessions),
      ...providers.env,
      ALLOW_PRIVATE_URLS: 'true',
      SIGNING_SECRET: 'a signing secret of a run with everything, long enough',
      JOB_HOLD_BACK_1H_SECONDS: '0',
      ...env,
    }
    const world = await openWorld(all, { startRedis })
    await world.allUp()
    const close = async () => {
      await world.close()
      await closeOthers()
    }
    return { world, providers, sessions, receiver, close }
  } catch (error) {
    await closeOthers()
    throw error
  }
}

/** Mixed load of two organisations: all of it works, and nothing is left or wrong afterwards. */
export async function runEverything(t: ExecutionContext, { world, providers, receiver }: Everything): Promise<void> {
  const account = await createAccount(world.services, { usd: '5000' })
  const agents = await createAccount(world.services, { usd: '5000' })
  const load = new Load(world.webUrls, { key: account.live, agentKey: agents.live }, receiver.url, seededRandom(2))
  await sleep(loadMs)
  await load.stop()
  const { left } = await rest(world.services, restWithinMs)
  t.deepEqual(left, { jobs: 0, batches: 0, webhooks: 0, reservations: 0, usageEvents: 0, charges: 0 })
  t.log(summarise(load))
  for (const kind of ['chat', 'stream', 'embedding', 'image'])
    t.true(load.directs.filter(direct => direct.kind === kind && direct.outcome === 'whole').length > 0, kind)
  t.deepEqual([...new Set(load.submissions.map(({ kind }) => kind))].sort(), ['batch', 'job', 'video'])
  t.deepEqual(await findBreaches(world, { account, agents }, load, receiver, providers), [])
}
