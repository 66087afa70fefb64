import { requestDeadlineMs } from '../../shared/base/deadlines.ts'
import { StripeEmulator, type StripeEvent } from '../emulators/stripe.ts'
import { createAccount } from '../support/gateway.ts'
import { startSentinels } from '../support/io/sentinel.ts'
import { paymentEnvironment } from '../support/wallet/payments.ts'
import { Receiver, status } from '../support/webhooks/receiver.ts'
import { injectFaults } from './faults.ts'
import { historyOf } from './history.ts'
import { type Direct, Load } from './load.ts'
import { Payments } from './payments.ts'
import { goodMood, type Providers, startProviders } from './providers.ts'
import { seededRandom } from './random.ts'
import { SavedCard } from './saved-card.ts'
import {
  type Accounts,
  fewRequestsPerMinute,
  figuresOf,
  findBreaches,
  findLeftovers,
  rest,
  smallUsd,
  summarise,
} from './verdict.ts'
import { type DirectKind, directWorks, type SlowKind, slowWorks } from './works.ts'
import { openWorld, type World } from './world.ts'

/** What a run under one seed did and found. */
export type SeedResult = {
  seed: number
  seconds: number
  /** How many ended how, by kind and outcome. */
  requests: Record<string, number>
  submissions: number
  payments: number
  /** Of a saved card, by automatic top-ups. */
  charges: number
  webhooks: number
  faults: string[]
  breaches: string[]
}

/** So little that the whole output an agent asks for cannot be reserved. */
const agentsUsd = '3'
const restWithinMs = 120_000
const sweptWithinMs = 30_000
/** The receiver refuses the first attempt of this share of the webhooks. */
const refusedShare = 0.1
/** In every run by this number, Redis is behind sentinels and fails over. */
const sentinelEvery = 4
/** Replication is asynchronous: what the primary acknowledged last may be lost with it. */
const unreplicatedMs = 1_500

/** So that calls of providers that hang end within the run, whole answers too, and idle connections of clients before its end. */
const shortTimeouts = {
  KEEP_ALIVE_TIMEOUT_MS: '5000',
  UPSTREAM_FIRST_BYTE_TIMEOUT_MS: '8000',
  UPSTREAM_FIRST_TOKEN_TIMEOUT_MS: '8000',
  UPSTREAM_IDLE_TIMEOUT_MS: '8000',
  UPSTREAM_TOTAL_TIMEOUT_MS: '30000',
  UPSTREAM_RETRY_BUDGET_MS: '20000',
}

type SeedOptions = {
  /** How long load and faults last. */
  loadMs: number
  /** A text that the names of the faults have; by default all faults are injected. */
  only?: string
  /** The code that the processes run; by default this tree. */
  codeFolder?: string
  log: (line: string) => void
}

/** Runs every kind of work under the faults of a seed, and checks everything at rest. */
export async function runSeed(seed: number, { loadMs, only = '', codeFolder, log }: SeedOptions): Promise<SeedResult> {
  const random = seededRandom(seed)
  const startedMs = Date.now()
  const closings: (() => Promise<unknown>)[] = []
  const opened = async <T>(opening: Promise<T>, close: (it: T) => Promise<unknown>): Promise<T> => {
    const it = await opening
    closings.push(() => close(it))
    return it
  }
  try {
    const providers = await opened(startProviders(random, { every: true }), it => it.close())
    const stripe = await opened(StripeEmulator.start(), it => it.close())
    const receiver = await opened(Receiver.start(), it => it.close())
    refuseSome(receiver, random)
    const sentinels = seed % sentinelEvery === 0 ? await startSentinels() : null
    const env = {
      ...providers.env,
      ...paymentEnvironment(stripe),
      ...(sentinels && { REDIS_SENTINEL_PASSWORD: sentinels.sentinelPassword }),
      ALLOW_PRIVATE_URLS: 'true',
      SIGNING_SECRET: 'a signing secret of the proof, long enough',
      JOB_HOLD_BACK_1H_SECONDS: '0',
      ...shortTimeouts,
    }
    const world = await opened(
      openWorld(env, {
        linked: true,
        ...(sentinels && { startRedis: async () => ({ ...sentinels, kill: async () => {}, restart: async () => {} }) }),
        ...(codeFolder !== undefined && { codeFolder: () => codeFolder }),
      }),
      it => it.close(),
    )
    const result = await proveWorld({ world, providers, stripe, receiver, random, sentinels, loadMs, only, log })
    for (const breach of result.breaches) {
      log(`BREACH ${breach}`)
      for (const line of await historyOf(world, breach)) log(`  ${line}`)
    }
    return { seed, seconds: Math.round((Date.now() - startedMs) / 1_000), ...result }
  } finally {
    for (const close of closings.reverse()) await close()
  }
}

type Proof = {
  world: World
  providers: Providers
  stripe: StripeEmulator
  receiver: Receiver
  random: () => number
  sentinels: Awaited<ReturnType<typeof startSentinels>> | null
  loadMs: number
  only: string
  log: (line: string) => void
}

async function proveWorld(proof: Proof): Promise<Omit<SeedResult, 'seed' | 'seconds'>> {
  const { world, providers, stripe, receiver, random, sentinels, loadMs, only, log } = proof
  const accounts = await openAccounts(world)
  await world.allUp()
  const atStart = [...world.webs, ...world.workers].map(figuresOf)
  const keys = { key: accounts.account.live, agentKey: accounts.agents.live }
  const kinds = { kinds: Object.keys(directWorks) as DirectKind[], slowKinds: Object.keys(slowWorks) as SlowKind[] }
  const load = new Load(world.webUrls, keys, receiver.url, random, kinds)
  for (const name of ['small wallet', 'small cap', 'few requests'] as const)
    load.addClients(name, accounts[name]!.live, 4)
  const payments = new Payments(world, stripe, random)
  const tell = (event: StripeEvent) => payments.tell(event)
  const card = await SavedCard.open({ world, stripe, random, tell })
  load.addClients('saved card', card.live, 2, ['image', 'chat'])
  const allAccounts = { ...accounts, 'saved card': card }
  const lossyMs: number[] = []
  const stage = { world, providers, sentinels, random, log, lossyMs }
  const faults = await injectFaults(stage, Date.now() + loadMs, only)
  providers.setMood(goodMood)
  await world.allUp()
  card.heal()
  await Promise.all([load.stop(), payments.stop()])
  // What an older Redis has reserved for requests that were over is released at their deadline.
  const releasedByMs = Math.max(...lossyMs) + requestDeadlineMs(world.services.config) + sweptWithinMs
  const withinMs = Math.max(restWithinMs, releasedByMs - Date.now())
  const { tookMs, left } = await rest(world.services, withinMs)
  await card.stop()
  const isAtRest = Object.values(left).every(count => count === 0)
  log(`${isAtRest ? 'at rest' : `not at rest: ${JSON.stringify(left)}`} after ${(tookMs / 1_000).toFixed(1)} s`)
  const isExcused = ({ endedMs }: Direct) => lossyMs.some(atMs => Math.abs(endedMs - atMs) < unreplicatedMs)
  const breaches = [
    ...(isAtRest ? [] : [`not at rest after ${withinMs} ms: ${JSON.stringify(left)}`]),
    ...(await findBreaches(world, allAccounts, load, receiver, providers, isExcused)),
    ...(await payments.findBreaches()),
    ...(await card.findBreaches()),
    ...(await findLeftovers(world, atStart)),
  ]
  return {
    requests: summarise(load),
    submissions: load.submissions.length,
    payments: payments.count,
    charges: card.count,
    webhooks: receiver.received.length,
    faults,
    breaches,
  }
}

async function openAccounts({ services }: World): Promise<Accounts> {
  const account = await createAccount(services, { usd: '5000' })
  const where = { id: account.organisationId }
  await services.db.organisation.update({ where, data: { keepResponses: true } })
  return {
    account,
    agents: await createAccount(services, { usd: agentsUsd }),
    'small wallet': await createAccount(services, { usd: String(smallUsd) }),
    'small cap': await createAccount(services, { usd: '100', monthly_spend_cap_usd: smallUsd }),
    'few requests': await createAccount(services, { usd: '100', rpm_limit: fewRequestsPerMinute }),
  }
}

function refuseSome(receiver: Receiver, random: () => number): void {
  const seen = new Set<unknown>()
  receiver.always = (request, response) => {
    const id = request.headers['webhook-id']
    const isRefused = !seen.has(id) && random() < refusedShare
    seen.add(id)
    status(isRefused ? 500 : 200)(request, response)
  }
}
