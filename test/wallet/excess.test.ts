// Providers that count more than a request may use: charged, learned from, and only what is too much blocks a key.
import { randomUUID } from 'node:crypto'
import { handleExcesses, watchReservations } from '../../shared/alerts/excesses.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import { blockKey } from '../../shared/keys/cost-control.ts'
import { hashSecret } from '../../shared/keys/secret.ts'
import { hourlyRules, pruneAll } from '../../shared/retention/rules.ts'
import { json, type Reply } from '../emulators/emulator.ts'
import { chargedNano, saying, startWorld } from '../support/chat/gateway.ts'
import { type Account, eventually } from '../support/gateway.ts'
import { answerOf } from '../support/jobs/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'
import { testClock } from '../support/wallet/money.ts'
import { nanoPerToken, terseCatalog } from '../support/wallet/terse-catalog.ts'

const minuteMs = 60_000
const dayMs = 1_440 * minuteMs
const clock = testClock('2027-03-10T12:00:15Z')
/** A model for each test, so that what one teaches does not change the others. */
let model: string
let tests = 0

/** The limit, and two tokens for the chat template. */
const reservedNano = (20 + 2) * nanoPerToken

const world = use(test, async () => startWorld({ ...(await terseCatalog(20)), SERVICE_MARGIN_PERCENT: '0' }, clock))
test.beforeEach(() => {
  world.openai.reset()
  model = `terse-${tests++}`
  clock.advance(2 * dayMs)
})

const services = () => world.gateway.services
const body = (more: object = {}) => saying(model, 'Hi', { max_tokens: 20, ...more })

/** An answer for which the provider counts this many tokens. */
function counting(completion_tokens: number): Reply {
  const choices = [{ index: 0, message: { role: 'assistant', content: 'Done' }, finish_reason: 'stop' }]
  const usage = { prompt_tokens: 5, completion_tokens, total_tokens: 5 + completion_tokens }
  return json(200, { id: 'c1', object: 'chat.completion', created: 1, model: 'm', choices, usage })
}

/** Waits until the requests before are settled: an answer arrives a little earlier. */
function nothingReserved(organisationId: string): Promise<void> {
  const isSettled = async () => (await services().wallets.view(organisationId)).reservedNano === 0n
  return eventually(isSettled, 'nothing is reserved')
}

/** A request for which the provider counts `tokens`: its status, and what was reserved for it while it ran. */
async function ask({ live, organisationId }: Account, tokens: number, more: object = {}) {
  await nothingReserved(organisationId)
  let reserved = 0
  world.openai.next(async (request, response) => {
    reserved = Number((await services().wallets.view(organisationId)).reservedNano)
    await counting(tokens)(request, response)
  })
  const answer = await world.gateway.fetch('/v1/chat/completions', { key: live, body: body(more) })
  if (!answer.ok) world.openai.reset()
  return { status: answer.status, reserved, error: answer.ok ? null : (await answerOf(answer)).error }
}

/** Exceeds the reservation of a request by `nano`, whatever it reserves. */
async function exceed(account: Account, nano: number): Promise<number> {
  await nothingReserved(account.organisationId)
  world.openai.next(async (request, response) => {
    const { reservedNano } = await services().wallets.view(account.organisationId)
    await counting((Number(reservedNano) + nano) / nanoPerToken)(request, response)
  })
  const { status } = await world.gateway.fetch('/v1/chat/completions', { key: account.live, body: body() })
  await handled()
  return status
}

/** Waits until everything is booked and handled; throws where a money invariant is broken. */
async function handled(): Promise<void> {
  const breaches = await world.gateway.settled()
  if (breaches.length > 0) throw new Error(breaches.join('\n'))
  await handleExcesses(services())
  await services().reservationFactors.refresh()
}

async function excessesOf({ organisationId }: Account): Promise<number[]> {
  const where = { organisationId, kind: 'excess' } as const
  const rows = await services().db.ledgerEntry.findMany({ where, orderBy: { id: 'asc' } })
  return rows.map(({ amountNano }) => -Number(amountNano))
}

async function alertsOf({ organisationId }: Account) {
  const where = { organisationId, type: 'key.blocked' }
  const alerts = await services().db.alert.findMany({ where, orderBy: { createdAt: 'asc' } })
  return alerts.map(({ data }) => data as { reason: string; excess_usd: number; key: { hash: string } })
}

async function incidents() {
  await watchReservations(services())
  const rows = await services().db.incident.findMany({ where: { kind: 'reservations', model } })
  return rows.map(({ message, provider, closedAt }) => ({ message, provider, isOpen: closedAt === null }))
}

const keyOf = ({ live }: Account) => services().db.apiKey.findUniqueOrThrow({ where: { hash: hashSecret(live) } })
const enable = ({ organisationId, live }: Account) =>
  services().keys.patch(organisationId, hashSecret(live), { disabled: false }, operatorActor)
/** Another key of the same organisation. */
const siblingOf = async ({ organisationId, test }: Account): Promise<Account> => {
  return { organisationId, test, live: await world.gateway.key(organisationId, 'live') }
}

test.serial(
  '200 from a provider that writes 30 tokens at max_tokens 20: charged, learned, and the key goes on',
  async t => {
    const account = await world.gateway.account()
    t.like(await ask(account, 30), { status: 200, reserved: reservedNano })
    t.is(await chargedNano(world, account), 30 * nanoPerToken)
    t.deepEqual(await excessesOf(account), [8 * nanoPerToken])
    await handled()
    t.deepEqual(await alertsOf(account), [])
    const second = await ask(account, 30)
    t.is(second.status, 200)
    // 30 / 22, rounded up to a hundredth; then the amounts are rounded up.
    t.true(
      second.reserved >= reservedNano * 1.37 && second.reserved < reservedNano * 1.37 + 10,
      String(second.reserved),
    )
    t.is(await chargedNano(world, account), 60 * nanoPerToken)
    t.is((await excessesOf(account)).length, 1, 'the next one is covered')
    const message = `Reservations of ${model} at openai are exceeded (once, worst × 1.37).`
    t.deepEqual(await incidents(), [{ message, provider: 'openai', isOpen: true }])
  },
)

test.serial('one incident counts what exceeds, and ends with the factor after a day without', async t => {
  const account = await world.gateway.account()
  for (const tokens of [30, 40, 50]) t.is((await ask(account, tokens)).status, 200)
  await handled()
  t.is(await world.gateway.settled().then(breaches => breaches.length), 0)
  const [open] = await incidents()
  t.regex(open!.message!, /^Reservations of terse-\d+ at openai are exceeded \(\d times, worst × \d\.\d\d\)\.$/)
  const factor = () => services().reservationFactors.of(account.organisationId, [targetOf(model)])
  t.true(factor() > 1.3)
  clock.advance(dayMs - minuteMs)
  await handled()
  t.true(factor() > 1.3)
  t.true((await incidents())[0]!.isOpen)
  clock.advance(2 * minuteMs)
  await handled()
  t.is(factor(), 1)
  t.deepEqual(
    (await incidents()).map(({ isOpen }) => isOpen),
    [false],
  )
  t.like(await ask(account, 5), { status: 200, reserved: reservedNano })
  await handled()
  await pruneAll(services(), hourlyRules)
  t.is(await services().db.reservationFactor.count({ where: { model } }), 0)
})

function targetOf(id: string) {
  const { catalog, upstreams } = services()
  return upstreams.targets(catalog.find(id)!, 'live')[0]!
}

test.serial('a request that exceeds its enlarged reservation multiplies the factor, up to ten', async t => {
  const account = await world.gateway.account({ usd: '100' })
  const factor = () => services().reservationFactors.of(account.organisationId, [targetOf(model)])
  await ask(account, 33)
  await handled()
  t.is(factor(), 1.5)
  // It may have started before the factor was known to its process.
  await ask(account, 44)
  await handled()
  t.is(factor(), 1.5)
  clock.advance(2 * minuteMs)
  t.like(await ask(account, 66), { reserved: reservedNano * 1.5 })
  await handled()
  t.is(factor(), 3)
  await ask(account, 20_000)
  await handled()
  t.is(factor(), 10)
  t.like(await ask(account, 5), { status: 200, reserved: reservedNano * 10 })
})

test.serial('another organisation’s excess enlarges a reservation by two at the most', async t => {
  const [one, other] = [await world.gateway.account({ usd: '100' }), await world.gateway.account()]
  await ask(one, 20_000)
  await handled()
  t.like(await ask(one, 5), { reserved: reservedNano * 10 })
  t.like(await ask(other, 5), { reserved: reservedNano * 2 })
  // What is too little for it is learned from its own requests.
  clock.advance(2 * minuteMs)
  await ask(other, 66)
  await handled()
  t.like(await ask(other, 66), { reserved: reservedNano * 3 })
  t.is((await excessesOf(other)).length, 1)
})

test.serial('x-gateway-max-tokens-clamped under a cap is what fits with the factor', async t => {
  const account = await world.gateway.account()
  await ask(account, 33)
  await handled()
  const capUsd = (22 * nanoPerToken) / 1e9
  const live = await world.gateway.key(account.organisationId, 'live', { monthly_spend_cap_usd: capUsd })
  const request = { key: live, body: body() }
  world.openai.next(counting(5))
  const answer = await world.gateway.fetch('/v1/chat/completions', request)
  // 22 tokens are left: 3 of them for the template, and 1.5 for each of the answer's.
  t.is(answer.headers.get('x-gateway-max-tokens-clamped'), '12')
  t.is(world.openai.requests.at(-1)!.body.max_completion_tokens, 12)
})

test.serial('401 once an hour’s excess is more than $1, and not before', async t => {
  const account = await world.gateway.account()
  const other = await siblingOf(account)
  t.is(await exceed(account, 0.6e9), 200)
  clock.advance(59 * minuteMs)
  t.is(await exceed(account, 0.4e9), 200)
  t.is((await ask(account, 5)).status, 200, '$1 exactly')
  // The first is more than an hour ago.
  clock.advance(2 * minuteMs)
  t.is(await exceed(account, 0.5e9), 200)
  t.is((await ask(account, 5)).status, 200)
  t.is(await exceed(account, 0.10002e9), 200)
  const { status, error } = await ask(account, 5)
  t.is(status, 401)
  t.like(error, { code: 'revoked_api_key', metadata: { reason: 'blocked' } })
  t.regex(error.message, /is blocked: .* cost more .* can look at them and enable it again/)
  t.is((await ask(other, 5)).status, 200, 'a key without excess')
  const [alert, ...more] = await alertsOf(account)
  t.like(alert, { reason: 'hourly_limit', excess_usd: 1.00002, key: { hash: hashSecret(account.live) } })
  t.deepEqual(more, [])
  // What a process of the previous release reads.
  t.like(await keyOf(account), { disabled: true, blockedReason: 'excess' })
  const audited = { organisationId: account.organisationId, action: 'key.updated' }
  const { actorName, changes } = await services().db.auditEvent.findFirstOrThrow({ where: audited })
  t.deepEqual([actorName, changes], ['cost control', { disabled: [false, true], blocked_reason: [null, 'excess'] }])
  t.is(await handleExcesses(services()), 0)
  t.deepEqual(await world.gateway.settled(), [])
})

test.serial('an hour counts by the time of the requests, in whatever order they are booked', async t => {
  const account = await world.gateway.account()
  const { id: keyId } = await keyOf(account)
  const { db } = services()
  const nowMs = clock.now()
  const book = async (minutes: number, usd: number) => {
    const [reference, at] = [randomUUID(), new Date(nowMs - minutes * minuteMs)]
    await db.excess.create({
      data: {
        cause: `excess:${reference}`,
        organisationId: account.organisationId,
        keyId,
        amountNano: BigInt(usd * 1e9),
        createdAt: at,
      },
    })
    await handleExcesses(services())
    return (await keyOf(account)).disabled
  }
  t.false(await book(600, 0.6))
  t.false(await book(10, 0.6))
  t.false(await book(200, 0.6))
  t.true(await book(560, 0.6))
})

test.serial('many requests at once: each is charged, and together they block the key once', async t => {
  const account = await world.gateway.account()
  const tokens = 22 + 0.1e9 / nanoPerToken
  world.openai.next(...Array.from({ length: 12 }, () => counting(tokens)))
  const request = { key: account.live, body: body() }
  await Promise.all(Array.from({ length: 12 }, () => world.gateway.fetch('/v1/chat/completions', request)))
  await Promise.all([handled(), handled(), handled()])
  t.is(await chargedNano(world, account), 12 * tokens * nanoPerToken)
  t.is((await ask(account, 5)).status, 401)
  t.is((await alertsOf(account)).length, 1)
  const audited = { organisationId: account.organisationId, action: 'key.updated' }
  t.is(await services().db.auditEvent.count({ where: audited }), 1)
})

test.serial('200 with a key that was enabled again, until the next excess beyond the limit', async t => {
  const account = await world.gateway.account()
  await exceed(account, 1.1e9)
  t.is((await ask(account, 5)).status, 401)
  clock.advance(minuteMs)
  const decided = await keyOf(account)
  await enable(account)
  t.is(await blockKey(services(), decided, async () => 'blocked'), null, 'what was decided before the review')
  t.like(await keyOf(account), { disabled: false, blockedReason: null })
  clock.advance(minuteMs)
  t.is(await exceed(account, 0.5e9), 200)
  // To enable what is enabled is no review.
  await enable(account)
  t.is((await ask(account, 5)).status, 200)
  t.is(await exceed(account, 0.6e9), 200)
  t.is((await ask(account, 5)).status, 401)
  t.is((await alertsOf(account)).length, 2)
})

test.serial('401 after an excess that drives the balance below zero, however small', async t => {
  const account = await world.gateway.account({ usd: '0.001' })
  const other = await siblingOf(account)
  t.is(await exceed(account, 40 * nanoPerToken), 200)
  t.true((await services().wallets.view(account.organisationId)).balanceNano < 0n)
  t.like(await ask(account, 5), { status: 401, error: { metadata: { reason: 'blocked' } } })
  t.like(await alertsOf(account), [{ reason: 'negative_balance' }])
  t.is((await ask(other, 5)).status, 402, 'a key without excess')
  clock.advance(minuteMs)
  await enable(account)
  await handled()
  t.is((await ask(account, 5)).status, 402, 'enabled, and without money')
})

test.serial('401 where the balance falls below zero only when other requests are charged', async t => {
  const account = await world.gateway.account({ usd: '0.001' })
  const other = await siblingOf(account)
  // The other one's 22 tokens are reserved meanwhile.
  let finish = () => {}
  const finished = new Promise<void>(resolve => (finish = resolve))
  const asked = new Promise<void>(resolve => {
    world.openai.next(async (request, response) => {
      resolve()
      await finished
      await counting(22)(request, response)
    })
  })
  const request = { key: other.live, body: body() }
  const running = world.gateway.fetch('/v1/chat/completions', request)
  await asked
  world.openai.next(counting(35))
  await world.gateway.fetch('/v1/chat/completions', { ...request, key: account.live })
  await handled()
  t.deepEqual(await alertsOf(account), [])
  finish()
  t.is((await running).status, 200)
  await handled()
  t.like(await alertsOf(account), [{ reason: 'negative_balance', key: { hash: hashSecret(account.live) } }])
  t.false((await keyOf(other)).disabled)
})

test.serial('a balance that is below zero for another reason blocks no key', async t => {
  const account = await world.gateway.account()
  await exceed(account, 10 * nanoPerToken)
  const { organisationId } = account
  await services().wallets.deposit({ organisationId, amountNano: -30_000_000_000n, method: 'grant' })
  await handled()
  t.false((await keyOf(account)).disabled)
})

test.serial('401 for all keys of an organisation that exceed by $5 within an hour together', async t => {
  const first = await world.gateway.account({ usd: '100' })
  const others = await Promise.all(Array.from({ length: 5 }, () => siblingOf(first)))
  const idle = await siblingOf(first)
  for (const account of [first, ...others.slice(0, 4)]) t.is(await exceed(account, 0.99e9), 200)
  t.is((await alertsOf(first)).length, 0)
  t.is(await exceed(others[4]!, 0.1e9), 200)
  for (const account of [first, ...others]) t.is((await ask(account, 5)).status, 401)
  t.is((await ask(idle, 5)).status, 200)
  const alerts = await alertsOf(first)
  t.is(alerts.length, 6)
  t.true(alerts.every(({ reason }) => reason === 'organisation_limit'))
  // A new key does not begin at zero.
  t.is(await exceed(idle, nanoPerToken), 200)
  t.is((await ask(idle, 5)).status, 401)
})

test.serial(
  'a key that the previous release blocked is refused as disabled, and not blocked a second time',
  async t => {
    const account = await world.gateway.account()
    const { db, keys } = services()
    await exceed(account, 0.2e9)
    const actor = { ...operatorActor, name: 'cost control' }
    await keys.patch(null, hashSecret(account.live), { disabled: true }, actor)
    await db.apiKey.update({ where: { hash: hashSecret(account.live) }, data: { excessCountsFrom: null } })
    await handled()
    t.like(await ask(account, 5), { status: 401, error: { metadata: { reason: 'disabled' } } })
    await enable(account)
    await handled()
    t.is((await ask(account, 5)).status, 200)
    t.deepEqual(await alertsOf(account), [])
  },
)
