import { setTimeout as sleep } from 'node:timers/promises'
import { newId } from '../../shared/base/ids.ts'
import { bookUsage } from '../../shared/wallet/booking.ts'
import { sweepReservations } from '../../shared/wallet/reconcile.ts'
import type { UsageEvent } from '../../shared/wallet/usage-event.ts'
import { refuse } from '../emulators/sessions.ts'
import { breaches } from '../support/chaos.ts'
import { eventually } from '../support/gateway.ts'
import {
  byMinute,
  byToken,
  chargeEveryMs,
  chargesOf,
  dial,
  reservedNano,
  spentNano,
  stretchNano,
  type Tokens,
  talk,
  tokensNano,
  useSessions,
} from '../support/realtime/sessions.ts'
import { test } from '../support/test.ts'
import { useStores } from '../support/use.ts'
import { passForSweeper } from '../support/wallet/ageing.ts'
import { usageEventOf } from '../support/wallet/usage-event.ts'

const stores = useStores(test)
/** Of the process whose clock is ahead: to its sweeper all others would be long gone. */
const ownStores = useStores(test)
const world = useSessions(test, stores)

const uses: Tokens[] = [
  { input: 1_203, audioIn: 900, output: 333, audioOut: 301 },
  { input: 1_777, cached: 1_024, audioIn: 1_500, cachedAudio: 897, output: 1 },
  { input: 19, output: 7 },
]

test('101: a stretch is reserved at once, what is used is charged every 15 s and at the end, to the nano-dollar', async t => {
  const w = await world()
  const account = await w.gateway.account()
  const session = await talk(w, account.live)
  t.is(await reservedNano(w.services, account), stretchNano[byToken])
  for (const [part, tokens] of uses.entries()) {
    await session.use(tokens)
    t.is(await reservedNano(w.services, account), stretchNano[byToken], 'one reservation follows the other')
    if (part === uses.length - 1) break
    w.clock.advance(chargeEveryMs)
    const charges = await chargesOf(w.services, session, part + 1)
    t.is(charges.at(-1)!.nano, tokensNano(tokens))
    const response = await w.gateway.fetch(`/v1/generation?id=${session.id}`, { key: account.live })
    const row = (await response.json()) as { cost_usd: number; duration_ms: number }
    t.like(row, {
      status: 101,
      finish_reason: null,
      cost_usd: tokensNano(...uses.slice(0, part + 1)) / 1e9,
      duration_ms: (part + 1) * chargeEveryMs,
      usage: {
        prompt_tokens: uses.slice(0, part + 1).reduce((sum, { input = 0 }) => sum + input, 0),
        completion_tokens: uses.slice(0, part + 1).reduce((sum, { output = 0 }) => sum + output, 0),
      },
    })
    t.deepEqual(await breaches(w.services), [], 'also while it runs')
  }
  w.clock.advance(4_000)
  await session.leave()
  t.is(await spentNano(w, account), tokensNano(...uses))
  const charges = await chargesOf(w.services, session, 3)
  t.deepEqual(
    charges.map(({ cause }) => cause),
    [`generation:${session.id}`, `generation:${session.id}:1`, `generation:${session.id}:2`],
  )
  const rows = await w.services.db.generation.findMany({ where: { organisationId: account.organisationId } })
  t.is(rows.length, 1)
  t.like(rows[0], {
    id: session.id,
    kind: 'realtime',
    status: 101,
    finishReason: 'client_closed',
    costNano: BigInt(tokensNano(...uses)),
    cachedTokens: 1_024,
    durationMs: 34_000,
  })
  const [spend] = await w.services.db.keySpend.findMany({ where: { keyId: rows[0]!.keyId } })
  t.like(spend, { requests: 1n, spentNano: BigInt(tokensNano(...uses)) })
})

test('101: a usage that the provider reports twice is charged once, in whichever part of the session', async t => {
  const w = await world()
  const account = await w.gateway.account()
  const session = await talk(w, account.live)
  const end = await session.begin()
  await end(uses[0]!)
  await end(uses[0]!)
  w.clock.advance(chargeEveryMs)
  t.is((await chargesOf(w.services, session, 1))[0]!.nano, tokensNano(uses[0]!))
  await end(uses[0]!)
  await session.use(uses[1]!)
  await session.leave()
  t.is(await spentNano(w, account), tokensNano(uses[0]!, uses[1]!))
})

test('101: paid by the minute, from the provider’s open to the end, to the millisecond', async t => {
  const w = await world()
  const account = await w.gateway.account()
  const session = await talk(w, account.live, byMinute)
  t.is(await reservedNano(w.services, account), stretchNano[byMinute])
  await session.use({ input: 5_000, output: 5_000 })
  w.clock.advance(chargeEveryMs)
  t.is((await chargesOf(w.services, session, 1))[0]!.nano, 21_000_000)
  w.clock.advance(60_001)
  // 0.08 USD a minute, and 5 %: 84 million nano-dollars for 60,000 ms. The provider's price is rounded up to a pico-dollar.
  // A minute was reserved; what it lasted longer is reserved before it is charged.
  const [, minute, longer] = await chargesOf(w.services, session, 3)
  t.deepEqual([minute!.nano, longer!.nano], [84_000_000, 1_400])
  w.clock.advance(1)
  await session.leave()
  t.is(await spentNano(w, account), Math.round((84_000_000 * 75_002) / 60_000))
})

test('1011: nothing is charged for a session that no provider opened, nor for one of a test key', async t => {
  const w = await world()
  const account = await w.gateway.account()
  w.provider.next(refuse(400, { error: { message: 'no' } }))
  const refused = dial(w.gateway, account.live)
  t.deepEqual(await refused.end(), { code: 1011, error: 'invalid_request' })
  const sandbox = dial(w.gateway, account.test)
  await eventually(() => sandbox.events.some(({ type }) => type === 'session.created'), 'the sandbox is open')
  sandbox.socket.close(1000)
  await sandbox.end()
  t.is(await spentNano(w, account), 0)
  t.is(w.provider.sessions.length, 0)
  const where = { organisationId: account.organisationId }
  await eventually(async () => (await w.services.db.generation.count({ where })) === 2, 'both are in the request log')
  const rows = await w.services.db.generation.findMany({ where })
  t.deepEqual(rows.map(({ environment, status, costNano }) => `${environment} ${status} ${costNano}`).sort(), [
    'live 400 0',
    'test 101 0',
  ])
})

test('101: one month’s use is that month’s, and the next month’s the next one’s', async t => {
  const w = await world({ at: '2027-03-31T23:59:50Z' })
  const account = await w.gateway.account()
  const session = await talk(w, account.live)
  await session.use(uses[0]!)
  w.clock.advance(chargeEveryMs)
  await chargesOf(w.services, session, 1)
  await session.use(uses[1]!)
  w.clock.advance(chargeEveryMs)
  await chargesOf(w.services, session, 2)
  await session.leave()
  t.is(await spentNano(w, account), tokensNano(uses[0]!, uses[1]!))
  const { keyId } = await w.services.db.generation.findFirstOrThrow({ where: { id: session.id } })
  const months = await w.services.db.keySpend.findMany({ where: { keyId }, orderBy: { month: 'asc' } })
  t.deepEqual(
    months.map(({ month, spentNano, requests }) => [month, Number(spentNano), Number(requests)]),
    [
      ['2027-03', tokensNano(uses[0]!), 1],
      ['2027-04', tokensNano(uses[1]!), 0],
    ],
  )
  const entries = await w.services.db.ledgerEntry.findMany({ where: { keyId }, orderBy: { id: 'asc' } })
  t.deepEqual(
    entries.map(({ createdAt, amountNano }) => [createdAt.toISOString().slice(0, 7), 0 - Number(amountNano)]),
    months.map(({ month, spentNano }) => [month, Number(spentNano)]),
    'the ledger dates each part in the month whose cap it counts against',
  )
})

test('101 for an hour of silence: the reservation is renewed in time, is never counted twice, and is given back', async t => {
  const w = await world({ on: ownStores })
  const account = await w.gateway.account()
  const session = await talk(w, account.live)
  const { redis, scripts } = w.services
  const member = async () => (await redis.zrange(`reservations:${w.services.admission.instance}`, '0', '-1')).join()
  for (let minutes = 0; minutes < 24; minutes += 4) {
    const before = await member()
    w.clock.advance(4 * 60_000)
    await eventually(async () => ![before, ''].includes(await member()), 'it is renewed')
    await passForSweeper(redis, 4 * 60_000)
    await scripts.beat({ instance: w.services.admission.instance, alive: 1 })
    t.is(await sweepReservations(scripts), 0, 'not forgotten')
    await eventually(async () => (await reservedNano(w.services, account)) === stretchNano[byToken], 'one is left')
  }
  await session.leave()
  t.is(await spentNano(w, account), 0)
})

test('101: charged in full at whatever moment of a renewal a session ends', async t => {
  const w = await world()
  const account = await w.gateway.account()
  const sessions = await Promise.all(Array.from({ length: 15 }, () => talk(w, account.live)))
  await Promise.all(sessions.map(session => session.use(uses[0]!)))
  w.clock.advance(chargeEveryMs)
  await Promise.all(
    sessions.map(async (session, i) => {
      await sleep(i * 80)
      if (i % 2) await session.leave()
      else session.provider.connection.resetAndDestroy()
      await session.end()
    }),
  )
  t.is(await spentNano(w, account), 15 * tokensNano(uses[0]!))
})

test('101 and charged when the clock is set back by an hour', async t => {
  const w = await world()
  const account = await w.gateway.account()
  const [talking, timed] = await Promise.all([talk(w, account.live), talk(w, account.live, byMinute)])
  w.clock.advance(chargeEveryMs)
  await chargesOf(w.services, timed, 1)
  w.setClock(-3_600_000)
  await talking.use(uses[0]!)
  w.clock.advance(chargeEveryMs)
  await chargesOf(w.services, talking, 1)
  await Promise.all([talking.leave(), timed.leave()])
  t.is(await spentNano(w, account), tokensNano(uses[0]!) + 2 * 21_000_000, 'what was charged stays, and nothing twice')
})

type Part = { part: number; cost: number; chargedAt: number; prompt: number; finishReason?: string }

/** A part of one session's use, as it travels to the ledger. */
function partOf(
  session: { id: string; org: string; key: string },
  { part, cost, chargedAt, prompt, finishReason }: Part,
): UsageEvent {
  return usageEventOf({
    ...session,
    at: Date.parse('2027-03-10T12:00:00Z'),
    month: '2027-03',
    requestId: 'req_parts',
    kind: 'realtime',
    model: byToken,
    status: 101,
    streamed: true,
    finishReason: finishReason ?? null,
    part,
    cost,
    chargedAt,
    promptTokens: prompt,
    completionTokens: prompt,
    durationMs: part * 15_000,
  })
}

test('booked once each, whatever order the parts of a session come in, how often, and in how many batches', async t => {
  const w = await world()
  const { db, rawPool } = w.services
  const startedMs = Date.parse('2027-03-10T12:00:00Z')
  const costs = [700, 0, 1_300, 11]
  const orders = [
    [[0, 1, 2, 3]],
    [
      [3, 2],
      [1, 0],
    ],
    [[2, 2, 0], [0, 2], [3], [1, 3, 0]],
    [[1], [0], [3], [2], [0, 1, 2, 3]],
  ]
  for (const batches of orders) {
    const account = await w.gateway.account()
    const { id: key } = await db.apiKey.findFirstOrThrow({ where: { organisationId: account.organisationId } })
    const session = { id: newId('rt'), org: account.organisationId, key }
    const parts = costs.map((cost, part) =>
      partOf(session, {
        part,
        cost,
        chargedAt: startedMs + part * 15_000,
        prompt: 10 * (part + 1),
        ...(part === 3 && { finishReason: 'client_closed' }),
      }),
    )
    for (const batch of batches) {
      await rawPool.transaction(run =>
        bookUsage(
          run,
          batch.map(part => parts[part]!),
          Date.now(),
        ),
      )
      const logged = await db.generation.findFirstOrThrow({ where: { id: session.id } })
      const { _sum } = await db.ledgerEntry.aggregate({
        where: { cause: { startsWith: `generation:${session.id}` } },
        _sum: { amountNano: true },
      })
      t.is(logged.costNano, 0n - (_sum.amountNano ?? 0n), 'the request costs what was charged for it, at any time')
    }
    const rows = await db.generation.findMany({ where: { id: session.id } })
    t.is(rows.length, 1)
    t.like(rows[0], { costNano: 2_011n, promptTokens: 40, durationMs: 45_000, finishReason: 'client_closed', part: 3 })
    const { balanceNano } = await db.wallet.findUniqueOrThrow({ where: { organisationId: account.organisationId } })
    t.is(balanceNano, 25_000_000_000n - 2_011n)
    t.like(await db.keySpend.findFirst({ where: { keyId: key } }), { spentNano: 2_011n, requests: 1n })
  }
})
