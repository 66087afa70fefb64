import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import fc from 'fast-check'
import { nanoFromUsd } from '../shared/base/money.ts'
import { operatorActor } from '../shared/keys/audit.ts'
import { hashSecret } from '../shared/keys/secret.ts'
import { type Account, freshStores, type Stores } from './support/gateway.ts'
import {
  byMinute,
  byToken,
  nothingLeft,
  patchKey,
  Refused,
  type SessionWorld,
  startSessions,
  type Talk,
  type Tokens,
  talk,
  tokensNano,
} from './support/sessions.ts'

/** So many histories run at a time, each in a world of its own: most of their time they wait for the sessions' next look. */
const atATime = 5

let stores: Stores[] = []
let worlds: SessionWorld[] = []

test.before(async () => {
  stores = await Promise.all(Array.from({ length: atATime }, freshStores))
  worlds = await Promise.all(stores.map(it => startSessions(it)))
})
test.after.always(async () => {
  await Promise.all(worlds.map(it => it.close()))
  await Promise.all(stores.map(it => it.drop()))
})

const which = fc.nat(9)
const kind = <K extends string>(name: K) => ({ kind: fc.constant(name) })
const tokens = fc.integer({ min: 1, max: 9_000 })

const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ ...kind('open'), capped: fc.boolean(), timed: fc.boolean() }) },
  { weight: 8, arbitrary: fc.record({ ...kind('use'), which, output: tokens, input: tokens }) },
  { weight: 5, arbitrary: fc.record({ ...kind('advance'), seconds: fc.constantFrom(1, 5, 15, 16, 61, 200) }) },
  { weight: 1, arbitrary: fc.record({ ...kind('back'), seconds: fc.constantFrom(1, 30, 3_600) }) },
  { weight: 2, arbitrary: fc.record({ ...kind('deposit'), cents: fc.integer({ min: 1, max: 100 }) }) },
  { weight: 1, arbitrary: fc.record({ ...kind('cap'), cents: fc.constantFrom(null, 30, 60, 200) }) },
  { weight: 1, arbitrary: fc.record(kind('revoke')) },
  { weight: 1, arbitrary: fc.record(kind('flush')) },
  { weight: 2, arbitrary: fc.record({ ...kind('leave'), which }) },
  { weight: 1, arbitrary: fc.record({ ...kind('break'), which, side: fc.constantFrom('client', 'provider') }) },
) // biome-ignore format: one kind of step per line
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never

/** One session of a history, and what its provider said before it was closed. */
type Known = { session: Talk; uses: Tokens[]; capped: boolean; timed: boolean }

/** One history: an organisation with a key that is capped now and then and one that never is. */
class History {
  readonly world: SessionWorld
  readonly account: Account
  readonly capped: string
  readonly sessions: Known[] = []

  constructor(world: SessionWorld, account: Account, capped: string) {
    this.world = world
    this.account = account
    this.capped = capped
  }

  async take(step: Step): Promise<void> {
    const { clock, services } = this.world
    switch (step.kind) {
      case 'open':
        return this.#open(step)
      case 'use':
        return this.#act(step.which, known => this.#use(known, step))
      case 'advance':
        return clock.advance(step.seconds * 1_000)
      case 'back':
        return clock.advance(-step.seconds * 1_000)
      case 'deposit': {
        const { organisationId } = this.account
        const amountNano = nanoFromUsd(step.cents / 100)
        return services.accounts.deposit({ organisationId, amountNano, method: 'grant' })
      }
      case 'cap': {
        const cap = step.cents === null ? null : step.cents / 100
        return void (await patchKey(services, this.capped, { monthly_spend_cap_usd: cap }).catch(() => {}))
      }
      case 'revoke':
        return void (await services.keys.revoke(null, hashSecret(this.capped), operatorActor))
      case 'flush':
        // What waits on the stream would be lost for good.
        await this.world.gateway.settled()
        return void (await services.redis.flushdb())
      case 'leave':
        return this.#act(step.which, ({ session }) => session.leave())
      case 'break':
        return this.#act(step.which, async ({ session }) => {
          if (step.side === 'client') session.socket.terminate()
          else session.provider.connection.resetAndDestroy()
          await session.end()
        })
    }
  }

  /** Everything ends; then the money is counted. */
  async end(): Promise<void> {
    const { services, gateway } = this.world
    await Promise.all(this.sessions.filter(({ session }) => !session.closed).map(({ session }) => session.leave()))
    await nothingLeft(services, this.account)
    const breaches = await gateway.settled()
    if (breaches.length > 0) throw new Error(breaches.join('\n'))
    const view = await services.accounts.view(this.account.organisationId)
    if (view.reservedNano !== 0n) throw new Error(`${view.reservedNano} are still reserved`)
    for (const known of this.sessions) await this.#compare(known)
  }

  async #open({ capped, timed }: Extract<Step, { kind: 'open' }>): Promise<void> {
    if (this.sessions.length === 6) return
    const key = capped ? this.capped : this.account.live
    try {
      const session = await talk(this.world, key, timed ? byMinute : byToken)
      this.sessions.push({ session, uses: [], capped, timed })
    } catch (error) {
      if (!(error instanceof Refused) || ![401, 402].includes(error.status)) throw error
    }
  }

  async #use(known: Known, { input, output }: { input: number; output: number }): Promise<void> {
    const use = { input, output, audioOut: Math.floor(output / 2) }
    await known.session.use(use)
    const heard = known.session.events.filter(({ type }) => type === 'response.done').length
    if (heard > known.uses.length) known.uses.push(use)
  }

  async #act(index: number, act: (known: Known) => Promise<void>): Promise<void> {
    const open = this.sessions.filter(({ session }) => session.closed === null)
    const known = open[index % open.length]
    if (known) await act(known)
  }

  /** Whether a session was charged what it used; of a key that was capped perhaps less, and never more. */
  async #compare({ session, uses, capped, timed }: Known): Promise<void> {
    const { db } = this.world.services
    const cause = {
      OR: [{ cause: `generation:${session.id}` }, { cause: { startsWith: `generation:${session.id}:` } }],
    }
    const { _sum } = await db.ledgerEntry.aggregate({ where: cause, _sum: { amountNano: true } })
    const charged = 0 - Number(_sum.amountNano ?? 0n)
    const { costNano, durationMs } = await db.generation.findFirstOrThrow({ where: { id: session.id } })
    if (Number(costNano) !== charged) throw new Error(`${session.id} says ${costNano}, was charged ${charged}`)
    if (timed) {
      // The clock may have been set back: what was charged by then stays.
      const least = Math.floor((84_000_000 * Math.max(0, durationMs)) / 60_000)
      if (!capped && charged < least) throw new Error(`${session.id}: ${charged} of ${least} for ${durationMs} ms`)
      return
    }
    const used = tokensNano(...uses)
    const right = capped ? charged <= used : charged === used
    if (!right) throw new Error(`${session.id} used ${used}, was charged ${charged}`)
  }
}

/** No history begins later than this: on a slow machine there are fewer of them. */
const enoughMs = Number(process.env.HISTORIES_MS ?? 10_000)

async function histories(world: SessionWorld): Promise<number> {
  const startedMs = Date.now()
  let lived = 0
  const steps = fc.array(step, { minLength: 8, maxLength: 30, size: 'max' })
  const property = fc.asyncProperty(steps, async history => {
    if (Date.now() - startedMs > enoughMs) return
    lived++
    const account = await world.gateway.account({ usd: '1.5' })
    const capped = await world.gateway.key(account.organisationId, 'live', { monthly_spend_cap_usd: 0.8 })
    const run = new History(world, account, capped)
    for (const it of history) {
      await run.take(it)
      // The sessions look at their money every second.
      if (it.kind === 'advance') await sleep(1_050)
    }
    await run.end()
  })
  await fc.assert(property, { numRuns: 1_000, includeErrorInReport: true })
  return lived
}

test('101 or 402, and every session pays what it used, in random histories', async t => {
  t.timeout(enoughMs + 90_000)
  const lived = await Promise.all(worlds.map(histories))
  t.log(`${lived.reduce((sum, count) => sum + count, 0)} histories`)
  t.true(lived.every(count => count > 0))
})
