import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import type { BillingContext } from '../../../shared/wallet/admission.ts'
import { checkLedger, openReservations } from '../../../shared/wallet/check.ts'
import { maintainPartitions } from '../../../shared/wallet/partitions.ts'
import { reconcile } from '../../../shared/wallet/reconcile.ts'
import { spendFigures } from '../../../shared/wallet/wallets.ts'
import type { Test } from '../test.ts'
import { use, useStores } from '../use.ts'
import { fixedNano, picoPerOutputToken, price, spendsOf, type Wanted, World } from './history.ts'
import { spendKinds } from './money.ts'
import { SavedCards } from './saved-cards.ts'

const endOfTime = Date.parse('9999-12-31T00:00:00Z')

let world: World
let cards: SavedCards

const small = fc.nat(1_000)
/** A key; the last is that of the organisation with a saved card. */
const which = fc.nat(4)
const kind = <K extends string>(name: K) => ({ kind: fc.constant(name) })
const hourMs = 3_600_000

/** Explicit limits that are never lowered, those that a small wallet lowers, and what is reserved at first: all, or the likely. */
const wanted = fc
  .record({
    outputTokens: fc.integer({ min: 1, max: 30_000 }),
    explicit: fc.boolean(),
    isLowered: fc.boolean(),
    likelyTokens: fc.constantFrom(0, 1_024, 4_096, 16_384),
  })
  .map(({ outputTokens, explicit, isLowered, likelyTokens }) => {
    const minTokens = explicit ? Math.min(outputTokens, isLowered ? 4_096 : 30_000) : 1
    return { outputTokens, explicit, minTokens, likelyTokens }
  })

const step = fc.oneof(
  { weight: 3, arbitrary: fc.record({ ...kind('deposit'), which, amount: fc.integer({ min: 1, max: 60_000_000 }), holdHours: fc.constantFrom(0, 0, 1, 30) }) },
  { weight: 12, arbitrary: fc.record({ ...kind('admit'), which, process: fc.nat(1), wanted, lost: fc.integer({ min: 0, max: 9 }) }) },
  { weight: 9, arbitrary: fc.record({ ...kind('extend'), which: small, tokens: fc.integer({ min: 1, max: 16_384 }), lost: fc.integer({ min: 0, max: 9 }) }) },
  { weight: 9, arbitrary: fc.record({ ...kind('settle'), which: small, share: fc.integer({ min: 0, max: 120 }), lost: fc.integer({ min: 0, max: 5 }), twice: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ ...kind('release'), which: small }) },
  { weight: 5, arbitrary: fc.record({ ...kind('book'), count: fc.integer({ min: 1, max: 5 }), dies: fc.boolean(), replays: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ ...kind('die'), process: fc.nat(1) }) },
  { weight: 2, arbitrary: fc.record(kind('sweep')) },
  { weight: 1, arbitrary: fc.record(kind('wipe')) },
  { weight: 2, arbitrary: fc.record({ ...kind('advance'), hours: fc.constantFrom(1, 20, 800) }) },
  { weight: 1, arbitrary: fc.record(kind('reconcile')) },
  { weight: 5, arbitrary: fc.record({ ...kind('top up'), fault: fc.constantFrom('none', 'none', 'none', 'lost', 'away', 'declined'), workers: fc.constantFrom(1, 2) }) },
  { weight: 4, arbitrary: fc.record({ ...kind('withdraw'), amount: fc.integer({ min: 1, max: 900_000_000 }) }) },
  { weight: 2, arbitrary: fc.record({ ...kind('tell'), which: fc.nat(9) }) },
  { weight: 1, arbitrary: fc.record(kind('turn on')) },
) // biome-ignore format: one kind of step per line
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never

/** What happened to the stream that Redis' figures may lag behind the truth, always to the safe side. */
let lags = false

async function take(step: Step): Promise<void> {
  const { truth, clock } = world
  switch (step.kind) {
    case 'deposit':
      return world.deposit(world.billingContexts[step.which]!.organisationId, step.amount, step.holdHours * hourMs)
    case 'admit':
      return admit(step)
    case 'extend':
      return extend(step)
    case 'settle': {
      const open = runningAt(step.which)
      if (!open) return
      // A bounded key is never charged beyond its reservation.
      const share = isBounded(open.reservation.billing) ? Math.min(step.share, 100) : step.share
      if (step.lost === 0) open.process.loses = 'settle'
      lags ||= step.lost === 0
      await world.settle(open, Math.floor((truth.reservedFor(open) * share) / 100))
      if (step.twice) open.process.admission.settle(open.reservation, 1_000_000, 0, null)
      return open.process.admission.flush()
    }
    case 'release': {
      const open = runningAt(step.which)
      return open && world.release(open)
    }
    case 'book': {
      const batch = await world.batch(step.count)
      lags ||= step.dies
      await world.book(batch, step.dies)
      return step.replays ? world.book(batch, false) : undefined
    }
    case 'die':
      return world.die(step.process)
    case 'sweep':
      return world.sweep()
    case 'wipe':
      lags = false
      return world.wipe()
    case 'advance':
      clock.advance(step.hours * hourMs)
      cards.pass(step.hours * hourMs)
      return maintainPartitions(world.db, clock.now(), 13)
    case 'reconcile':
      await reconcile(world.db, world.redis, world.scripts, clock.now())
      return
    case 'top up':
      return cards.run(step.fault, step.workers)
    case 'withdraw':
      return withdraw(step.amount)
    case 'tell':
      return cards.tell(step.which)
    case 'turn on':
      return cards.turnOn()
  }
}

/** Takes credits from the organisation with a saved card, also those that requests have reserved. */
async function withdraw(amount: number): Promise<void> {
  const { organisationId } = cards
  world.truth.allowOverdraft(organisationId, amount)
  await world.deposit(organisationId, -amount, 0)
}

/** A running request of a living process. */
function runningAt(index: number) {
  const running = world.truth.open.filter(it => world.processes.includes(it.process) && it.extends === null)
  return running[index % running.length]
}

/** Whether a cap or a budget bounds what a key spends. */
function isBounded({ capNano, budgets }: BillingContext): boolean {
  return capNano !== null || !!budgets
}

/** What a key may reserve: of the wallet, and under its cap and its budgets. */
function roomOf(billing: BillingContext, month = world.month()): { available: number; room: number } {
  const { truth, clock } = world
  const limits = [billing.capNano ?? Infinity, ...(billing.budgets ?? []).map(({ limitNano }) => limitNano)]
  const spends = spendsOf({ billing, month })
  const rooms = limits.map((limit, i) => limit - truth.spent(spends[i]!) - truth.spendReserved(spends[i]!))
  return { available: truth.available(billing.organisationId, clock.now()), room: Math.min(...rooms) }
}

async function admit(step: Extract<Step, { kind: 'admit' }>): Promise<void> {
  const billing = world.billingContexts[step.which]!
  const process = world.processes[step.process]!
  const { available, room } = roomOf(billing)
  const expected = grant(billing, step.wanted, available, room)
  if (step.lost === 0) process.loses = 'admit'
  const answer = await world.admit(process, billing, step.wanted)
  if (typeof answer === 'string') {
    const right = step.lost === 0 ? 'service_unavailable' : expected
    if (answer !== right && !lags) throw new Error(`refused with ${answer} instead of ${right}`)
    return
  }
  if (answer.reservedNano !== price(answer.reservedTokens)) throw new Error('reserved another price')
  if (answer.maxNano !== price(answer.outputTokens)) throw new Error('another price of all its output')
  if (answer.reservedNano > available) throw new Error(`reserved ${answer.reservedNano} of ${available} available`)
  if (answer.reservedNano > room) throw new Error(`reserved ${answer.reservedNano} with ${room} left under the cap`)
  const granted = { tokens: answer.outputTokens, first: answer.reservedTokens }
  if (!lags && !isDeepStrictEqual(granted, expected))
    throw new Error(`granted ${JSON.stringify(granted)} instead of ${JSON.stringify(expected)}`)
}

async function extend({ which, tokens, lost }: Extract<Step, { kind: 'extend' }>): Promise<void> {
  const running = runningAt(which)
  if (!running) return
  const nano = price(tokens) - fixedNano
  const { available, room } = roomOf(running.reservation.billing, running.reservation.month)
  const expected = nano > room ? 'monthly_spend_cap_reached' : nano > available ? 'insufficient_credits' : nano
  if (lost === 0) running.process.loses = 'admit'
  const answer = await world.extend(running, nano)
  const granted = typeof answer === 'string' ? answer : answer.reservedNano
  const right = lost === 0 ? 'service_unavailable' : expected
  if (!lags && granted !== right) throw new Error(`extended by ${granted} instead of ${right}`)
  if (typeof granted === 'number' && granted > Math.min(available, room)) throw new Error('reserved more than is left')
}

/** What may be granted by the rules: the output allowed, and that reserved at first; or the code of a refusal. */
function grant(billing: BillingContext, wanted: Wanted, available: number, room: number) {
  const fits = (amount: number) => Math.floor(((amount - fixedNano) * 1_000) / picoPerOutputToken)
  const { explicit, minTokens, likelyTokens } = wanted
  let tokens = wanted.outputTokens
  const share = Math.max(4_096, fits(fixedNano + Math.floor(Math.min(available, room) / 10)))
  if (!explicit && likelyTokens === 0) tokens = Math.min(tokens, share)
  if (isBounded(billing) && price(tokens) > room) {
    if (fits(room) < 1) return 'monthly_spend_cap_reached'
    tokens = fits(room)
  }
  if (price(tokens) > available) {
    if (fits(available) < Math.min(tokens, minTokens)) return 'insufficient_credits'
    tokens = fits(available)
  }
  return { tokens, first: likelyTokens > 0 && tokens > share ? Math.min(likelyTokens, share) : tokens }
}

async function invariants(): Promise<void> {
  const { truth, clock, db, wallets } = world
  await cards.invariants()
  for (const id of new Set(world.billingContexts.map(billing => billing.organisationId))) {
    const { balanceNano } = await db.wallet.findUniqueOrThrow({ where: { organisationId: id } })
    const { _sum } = await db.ledgerEntry.aggregate({ where: { organisationId: id }, _sum: { amountNano: true } })
    equal('Σ ledger', _sum.amountNano ?? 0n, balanceNano)
    equal('balance', balanceNano, truth.deposited(id) - truth.charged(id, true))
    atMost('overdraft', -Number(balanceNano), truth.overdraft(id))
    const view = await wallets.view(id)
    equal('reserved', view.reservedNano, truth.reserved(id))
    if (lags) atMost('available', Number(view.availableNano), truth.available(id, clock.now()))
    else equal('available', view.availableNano, truth.available(id, clock.now()))
  }
  for (const { keyId, capNano } of world.billingContexts) {
    const rows = await db.keySpend.findMany({ where: { keyId } })
    for (const { month, spentNano } of rows)
      atMost('spend', Number(spentNano), (capNano ?? Infinity) + (truth.slack.get(`${keyId}:${month}`) ?? 0))
  }
  for (const { id, limitNano } of world.billingContexts.flatMap(({ budgets }) => budgets ?? [])) {
    for (const month of new Set([...truth.slack.keys(), `:${world.month()}`].map(spend => spend.split(':')[1]!))) {
      const [figures] = await spendFigures(db, [{ account: id, month }])
      atMost('budget', Number(figures!.spentNano), limitNano + (truth.slack.get(`${id}:${month}`) ?? 0))
    }
  }
  const charges = await db.ledgerEntry.findMany({
    where: {
      organisationId: { in: world.billingContexts.map(it => it.organisationId) },
      kind: { in: [...spendKinds] },
    },
  })
  const booked = [...truth.charges].filter(([, charge]) => charge.booked)
  equal('charges', charges.length, booked.length)
  for (const { cause, amountNano } of charges)
    equal(cause, -amountNano, truth.charges.get(cause.slice('generation:'.length))?.cost ?? 0)
}

function equal(what: string, is: number | bigint, should: number | bigint): void {
  if (BigInt(is) !== BigInt(should)) throw new Error(`${what} is ${is}, should be ${should}`)
}

function atMost(what: string, is: number, max: number): void {
  if (is > max) throw new Error(`${what} is ${is}, more than ${max}`)
}

/** What wiped reservations let through counts as a breach; how much that may be, `invariants` knows. */
const beyondByWipes = [
  'spend stays within the monthly cap',
  'a balance is below zero only by what exceeded its reservation or was taken back',
]

/** Every request ends, every event is booked, what dead processes left is swept. */
async function end(): Promise<void> {
  for (let open = runningAt(0); open; open = runningAt(0)) await world.settle(open, world.truth.reservedFor(open))
  for (let batch = await world.batch(50); batch.length > 0; batch = await world.batch(50))
    await world.book(batch, false)
  lags = false
  await world.sweep()
  await cards.end()
  await invariants()
  const open = await openReservations(world.redis)
  if (open.length > 0) throw new Error(`left open: ${JSON.stringify(open)}`)
  // The clock begins anew with each history: at this moment nothing of an earlier one is held any more.
  const breaches = (await checkLedger(world.db, world.redis, endOfTime))
    .filter(({ name }) => !beyondByWipes.includes(name))
    .flatMap(it => it.breaches)
  if (breaches.length > 0) throw new Error(breaches.join('\n'))
}

/** Declares the test. No history begins later than `enoughMs`: on a slow machine there are fewer of them. */
export function declareMoneyHistories(test: Test, numRuns: number, enoughMs: number): void {
  const stores = useStores(test)
  world = use(test, () => new World(stores))
  cards = use(test, () => SavedCards.open(world, stores))
  test('200 or 402, and every nano-dollar accounted for, in random histories', async t => {
    t.timeout(120_000)
    const startedMs = Date.now()
    const property = fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 70, size: 'max' }), async history => {
      if (Date.now() - startedMs > enoughMs) return
      await world.begin()
      await cards.begin()
      lags = false
      await world.deposit(world.billingContexts[0]!.organisationId, 100_000_000, 0)
      await world.deposit(world.billingContexts[2]!.organisationId, 30_000_000, 0)
      for (const step of history) {
        await take(step)
        await invariants()
      }
      await end()
    })
    await t.notThrowsAsync(fc.assert(property, { numRuns, includeErrorInReport: true }))
  })
}
