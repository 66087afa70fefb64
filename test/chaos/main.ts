// A chaos run: mixed load on two web and two worker processes while processes are killed and frozen, both stores are
// frozen, restarted and killed, and the provider truncates answers. Afterwards everything must come to rest, and the books
// must say what the clients were told: `npm run test:chaos -- --seeds 1,2,3`.
import { parseArgs } from 'node:util'
import { createAccount } from '../support/gateway.ts'
import { Receiver, status } from '../support/webhooks/receiver.ts'
import { injectFaults } from './faults.ts'
import { Load } from './load.ts'
import { type Providers, startProviders } from './providers.ts'
import { seededRandom } from './random.ts'
import { findBreaches, rest, summarise } from './verdict.ts'
import { openWorld, type World } from './world.ts'

/** So little that the whole output an agent asks for cannot be reserved. */
const agentsUsd = '3'
const restWithinMs = 60_000
/** The receiver refuses the first attempt of this share of the webhooks. */
const refusedShare = 0.1

const { values } = parseArgs({ options: { seeds: { type: 'string', default: '1' } } })
let failures = 0
for (const seed of values.seeds.split(',').map(Number)) {
  const breaches = await run(seed)
  for (const breach of breaches) console.log(`  BREACH ${breach}`)
  console.log(`seed ${seed}: ${breaches.length === 0 ? 'passed' : `failed with ${breaches.length} breaches`}`)
  failures += Math.min(1, breaches.length)
}
process.exit(Math.min(1, failures))

async function run(seed: number): Promise<string[]> {
  const random = seededRandom(seed)
  const providers = await startProviders(random)
  const receiver = await Receiver.start()
  const seen = new Set<unknown>()
  receiver.always = (request, response) => {
    const id = request.headers['webhook-id']
    const isRefused = !seen.has(id) && random() < refusedShare
    seen.add(id)
    status(isRefused ? 500 : 200)(request, response)
  }
  let world: World | null = null
  try {
    world = await openWorld({
      ...providers.env,
      ALLOW_PRIVATE_URLS: 'true',
      SIGNING_SECRET: 'a signing secret of the chaos run, long enough',
      JOB_HOLD_BACK_1H_SECONDS: '0',
    })
    return await storm(world, providers, receiver, random)
  } finally {
    await world?.close()
    await receiver.close()
    await providers.close()
  }
}

async function storm(world: World, providers: Providers, receiver: Receiver, random: () => number): Promise<string[]> {
  const account = await createAccount(world.services, { usd: '5000' })
  const agents = await createAccount(world.services, { usd: agentsUsd })
  await world.allUp()
  const load = new Load(world.webUrls, { key: account.live, agentKey: agents.live }, receiver.url, random)
  const startedMs = Date.now()
  const log = (line: string) => console.log(`  ${((Date.now() - startedMs) / 1000).toFixed(1)} s  ${line}`)
  await injectFaults(world, providers, random, log)
  await world.allUp()
  await load.stop()
  log('load stopped')
  const { tookMs, left } = await rest(world.services, restWithinMs)
  const isAtRest = Object.values(left).every(count => count === 0)
  log(`${isAtRest ? 'at rest' : `not at rest: ${JSON.stringify(left)}`} after ${(tookMs / 1000).toFixed(1)} s`)
  for (const line of summarise(load)) console.log(`  ${line}`)
  const breaches = await findBreaches(world, { account, agents }, load, receiver, providers)
  return isAtRest ? breaches : [`not at rest after ${restWithinMs} ms: ${JSON.stringify(left)}`, ...breaches]
}
