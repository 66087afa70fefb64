import { Load } from '../prove/load.ts'
import type { Providers } from '../prove/providers.ts'
import { seededRandom } from '../prove/random.ts'
import { type Account, findBreaches, rest, summarise } from '../prove/verdict.ts'
import type { Supervised, World } from '../prove/world.ts'
import { createAccount, eventually } from './gateway.ts'
import { type ReadinessProxy, startReadinessProxy } from './io/readiness-proxy.ts'
import type { ExecutionContext } from './test.ts'
import type { Receiver } from './webhooks/receiver.ts'

const restWithinMs = 90_000
/** Answers between two steps of a deploy. */
const answersBetween = 20
const answersWithinMs = 60_000
/** A deploy is to be tested, not what a busy machine does when its stores do not answer. */
const pace = 8
/** Longer than the gateway waits for a provider that does not answer, before it calls another. */
const answerWithinMs = 150_000

/** What deploys are tested with: web and worker processes with the time to drain that a proxy needs to see it. */
export const deployEnv = {
  ALLOW_PRIVATE_URLS: 'true',
  SIGNING_SECRET: 'a signing secret of the deploys, long enough',
  JOB_HOLD_BACK_1H_SECONDS: '0',
  SHUTDOWN_DRAIN_MS: '5000',
  SHUTDOWN_GRACE_MS: '150000',
}

/** Mixed load through a proxy that honours readiness, while processes are replaced. */
export class DeployUnderLoad {
  readonly load: Load
  readonly proxy: ReadinessProxy
  readonly #world: World
  readonly #accounts: { account: Account; agents: Account }

  private constructor(
    world: World,
    proxy: ReadinessProxy,
    accounts: { account: Account; agents: Account },
    hook: string,
  ) {
    this.#world = world
    this.proxy = proxy
    this.#accounts = accounts
    const keys = { key: accounts.account.live, agentKey: accounts.agents.live }
    this.load = new Load([proxy.url], keys, hook, seededRandom(2), { pace, answerWithinMs })
  }

  static async start(world: World, receiver: Receiver): Promise<DeployUnderLoad> {
    await world.allUp()
    const account = await createAccount(world.services, { usd: '5000' })
    const agents = await createAccount(world.services, { usd: '5000' })
    const proxy = await startReadinessProxy(world.webUrls)
    return new DeployUnderLoad(world, proxy, { account, agents }, receiver.url)
  }

  /** Waits until more requests were answered. */
  async more(count = answersBetween): Promise<void> {
    const goal = this.load.directs.length + count
    await eventually(() => this.load.directs.length >= goal, `${count} more answers`, answersWithinMs)
  }

  /** Replaces processes one after another, each under load, and waits until each is back. */
  async replace(t: ExecutionContext, processes: readonly Supervised[]): Promise<void> {
    for (const process of processes) {
      await this.more()
      t.is(await process.drain(), 0)
      await this.#world.allUp()
    }
  }

  /** Stops the load and asserts that no request failed, and that everything was done and charged once. */
  async verify(t: ExecutionContext, receiver: Receiver, providers: Providers): Promise<void> {
    await this.load.stop()
    await this.proxy.close()
    const { left } = await rest(this.#world.services, restWithinMs)
    t.deepEqual(left, { jobs: 0, batches: 0, webhooks: 0, reservations: 0, usageEvents: 0, charges: 0 })
    t.log(summarise(this.load))
    const { directs, submissions } = this.load
    t.deepEqual(
      directs.filter(({ outcome }) => outcome !== 'whole' && outcome !== 'cancelled'),
      [],
      `of ${directs.length} requests`,
    )
    t.deepEqual(
      submissions.filter(({ answers }) => answers.length !== 1),
      [],
    )
    for (const kind of ['chat', 'stream', 'embedding', 'image', 'messages'])
      t.true(
        directs.some(direct => direct.kind === kind && direct.outcome === 'whole'),
        kind,
      )
    t.deepEqual([...new Set(submissions.map(({ kind }) => kind))].sort(), ['batch', 'job', 'video'])
    t.deepEqual(await findBreaches(this.#world, this.#accounts, this.load, receiver, providers), [])
  }
}
