import { setTimeout as sleep } from 'node:timers/promises'
import { handleExcesses } from '../../shared/alerts/excesses.ts'
import { nanoFromUsd } from '../../shared/base/money.ts'
import { hashSecret } from '../../shared/keys/secret.ts'
import { eventually, freshStores } from '../support/gateway.ts'
import {
  byMinute,
  byToken,
  chargeEveryMs,
  chargesOf,
  nothingLeft,
  patchKey,
  Refused,
  reservedNano,
  spentNano,
  startSessions,
  stretchNano,
  talk,
  tokensNano,
  useSessions,
} from '../support/realtime/sessions.ts'
import { test } from '../support/test.ts'
import { useStores } from '../support/use.ts'

const stores = useStores(test)
const world = useSessions(test, stores)

/** A session looks at its money every second. */
const someTicks = () => sleep(1_500)

/** 107,520,000 nano-dollars. */
const tenSeconds = { output: 1_600, audioOut: 1_600 }
/** Ten times what is reserved at first. */
const huge = { output: 40_000, audioOut: 40_000 }

test('402 before the upgrade when the wallet cannot cover a stretch', async t => {
  const w = await world()
  const account = await w.gateway.account({ usd: '0.2' })
  const refused = await t.throwsAsync(talk(w, account.live), { instanceOf: Refused })
  t.like(refused, { status: 402, error: { code: 'insufficient_credits' } })
  t.like(refused.error.metadata, { required_usd: 0.2688, available_usd: 0.2 })
  const capped = await w.gateway.key(account.organisationId, 'live', { monthly_spend_cap_usd: 0.1 })
  const over = await t.throwsAsync(talk(w, capped), { instanceOf: Refused })
  t.like(over, { status: 402, error: { code: 'monthly_spend_cap_reached' } })
  t.is(w.provider.sessions.length, 0)
  t.is(await spentNano(w, account), 0)
})

test('4402 when funds end, once what was reserved is used up; the wallet never falls below nothing', async t => {
  const w = await world()
  const account = await w.gateway.account({ usd: '0.37' })
  const session = await talk(w, account.live)
  await session.use(tenSeconds)
  w.clock.advance(chargeEveryMs)
  await session.use(tenSeconds)
  w.clock.advance(chargeEveryMs)
  await session.use({ output: 700, audioOut: 700 })
  t.is(session.closed, null, '$0.262 of $0.37 are used')
  const short = { output: 100, audioOut: 100 }
  let count = 0
  while (session.closed === null) {
    await session.use(short)
    if (session.closed === null) count++
  }
  t.deepEqual(await session.end(), { code: 4402, error: 'insufficient_credits' })
  const spent = await spentNano(w, account)
  t.true(spent <= nanoFromUsd('0.37') && spent >= nanoFromUsd('0.3'), String(spent))
  const used = tokensNano(tenSeconds, tenSeconds, { output: 700, audioOut: 700 }, ...Array(count).fill(short))
  t.true(spent >= used && spent <= used + tokensNano(short), 'the last one was cut')
  const { finishReason, errorCode } = await w.services.db.generation.findFirstOrThrow({ where: { id: session.id } })
  t.deepEqual({ finishReason, errorCode }, { finishReason: 'gateway_closed', errorCode: 'insufficient_credits' })
})

test('4402 when the minutes are used up that the wallet pays for', async t => {
  const w = await world()
  const account = await w.gateway.account({ usd: '0.1' })
  const session = await talk(w, account.live, byMinute)
  for (let second = 0; second < 60 && !session.closed; second += 15) {
    w.clock.advance(15_000)
    await someTicks()
  }
  t.deepEqual(await session.end(), { code: 4402, error: 'insufficient_credits' })
  t.is(await spentNano(w, account), stretchNano[byMinute])
})

test('101 and on when a deposit comes in time', async t => {
  const w = await world()
  const account = await w.gateway.account({ usd: '0.3' })
  const { organisationId } = account
  const session = await talk(w, account.live)
  await session.use(tenSeconds)
  w.clock.advance(chargeEveryMs)
  await someTicks()
  t.is((await chargesOf(w.services, session, 0)).length, 0, 'a renewal was refused')
  await w.services.wallets.deposit({ organisationId, amountNano: nanoFromUsd('20'), method: 'grant' })
  w.clock.advance(5_000)
  t.is((await chargesOf(w.services, session, 1))[0]!.nano, tokensNano(tenSeconds))
  await session.use(huge)
  w.clock.advance(1_000)
  await chargesOf(w.services, session, 2)
  t.is(session.closed, null)
  t.is(await reservedNano(w.services, account), 2 * tokensNano(huge), 'the next one may be as dear')
  await session.leave()
  t.is(await spentNano(w, account), tokensNano(tenSeconds, huge))
})

test('4402 at the key’s cap, which holds to the nano-dollar', async t => {
  const w = await world()
  const account = await w.gateway.account({ monthly_spend_cap_usd: 0.6 })
  const session = await talk(w, account.live)
  while (!session.closed) {
    await session.use(tenSeconds)
    w.clock.advance(chargeEveryMs)
    await someTicks()
  }
  t.deepEqual(await session.end(), { code: 4402, error: 'monthly_spend_cap_reached' })
  const spent = await spentNano(w, account)
  t.true(spent <= 600_000_000 && spent >= 3 * tokensNano(tenSeconds), String(spent))
})

test('4402: a use that its provider reports far beyond every bound is charged in full, also to a capped key', async t => {
  // The cap is passed by what the provider says, so other tests' checks of theirs must not see it.
  const own = await freshStores()
  const w = await startSessions(own)
  try {
    const account = await w.gateway.account({ usd: '1' })
    const capped = await w.gateway.account({ monthly_spend_cap_usd: 0.3 })
    const sessions = await Promise.all([talk(w, account.live), talk(w, capped.live)])
    for (const session of sessions) await session.use(huge)
    const ends = await Promise.all(sessions.map(session => session.end()))
    t.deepEqual(ends, [
      { code: 4402, error: 'insufficient_credits' },
      { code: 4402, error: 'monthly_spend_cap_reached' },
    ])
    await Promise.all([nothingLeft(w.services, account), nothingLeft(w.services, capped)])
    for (const { organisationId } of [account, capped]) {
      const where = { organisationId, amountNano: { lt: 0n } }
      const paid = async () => {
        const { _sum } = await w.services.db.ledgerEntry.aggregate({ where, _sum: { amountNano: true } })
        return _sum.amountNano === BigInt(-tokensNano(huge))
      }
      await eventually(paid, 'all of it is charged')
    }
    t.pass()
  } finally {
    await w.close()
    await own.drop()
  }
})

test('101 and larger reservations after a session exceeded what could be reserved, and the key goes on', async t => {
  const own = await freshStores()
  const w = await startSessions(own)
  try {
    const account = await w.gateway.account({ monthly_spend_cap_usd: 0.3 })
    const session = await talk(w, account.live)
    const use = { output: 5_000, audioOut: 5_000 }
    await session.use(use)
    t.is((await session.end()).code, 4402)
    t.is(await spentNano(w, account), tokensNano(use))
    await handleExcesses(w.services)
    const { disabled } = await w.services.db.apiKey.findUniqueOrThrow({ where: { hash: hashSecret(account.live) } })
    t.false(disabled)
    const other = await w.gateway.key(account.organisationId, 'live')
    const next = await talk(w, other)
    const factor = tokensNano(use) / stretchNano[byToken]
    t.true(factor > 1.2 && (await reservedNano(w.services, account)) >= tokensNano(use))
    await next.leave()
    // $1 and more at once.
    const dear = await w.gateway.account({ usd: '1' })
    const last = await talk(w, dear.live)
    await last.use({ output: 60_000, audioOut: 60_000 })
    t.is((await last.end()).code, 4402)
    await spentNano(w, dear)
    await handleExcesses(w.services)
    const refused = await t.throwsAsync(talk(w, dear.live), { instanceOf: Refused })
    t.like(refused, { status: 401, error: { code: 'revoked_api_key', metadata: { reason: 'blocked' } } })
  } finally {
    await w.close()
    await own.drop()
  }
})

test('4402 for a silent session before what it has reserved is taken for forgotten, when no more can be', async t => {
  const w = await world()
  const account = await w.gateway.account({ usd: '0.3' })
  const session = await talk(w, account.live)
  w.clock.advance(4 * 60_000)
  await someTicks()
  t.is(session.closed, null)
  w.clock.advance(30_000)
  t.deepEqual(await session.end(), { code: 4402, error: 'insufficient_credits' })
  t.is(await spentNano(w, account), 0)
})

test('101: two sessions share a wallet; neither takes what is reserved for the other', async t => {
  const w = await world()
  const account = await w.gateway.account({ usd: '0.7' })
  const [one, two] = await Promise.all([talk(w, account.live), talk(w, account.live)])
  t.is(await reservedNano(w.services, account), 2 * stretchNano[byToken])
  await t.throwsAsync(talk(w, account.live), { instanceOf: Refused })
  await Promise.all([one.use(tenSeconds), two.use(tenSeconds)])
  w.clock.advance(chargeEveryMs)
  await two.leave()
  w.clock.advance(5_000)
  await chargesOf(w.services, one, 1)
  t.is(one.closed, null, 'what the other one gave back is enough')
  await one.leave()
  t.is(await spentNano(w, account), tokensNano(tenSeconds, tenSeconds))
})

test('4402 when a session has cost as much as one may, 4408 when it has lasted as long', async t => {
  const w = await world({ env: { REALTIME_MAX_USD: '0.3', REALTIME_MAX_MINUTES: '2' } })
  const account = await w.gateway.account()
  const [dear, long] = await Promise.all([talk(w, account.live), talk(w, account.live, byMinute)])
  await dear.use({ output: 4_400, audioOut: 4_400 })
  t.is(dear.closed, null)
  await dear.use(tenSeconds)
  t.deepEqual(await dear.end(), { code: 4402, error: 'session_spend_limit_reached' })
  w.clock.advance(119_000)
  await chargesOf(w.services, long, 1)
  t.is(long.closed, null)
  w.clock.advance(1_000)
  t.deepEqual(await long.end(), { code: 4408, error: 'session_expired' })
  t.is(await spentNano(w, account), tokensNano({ output: 6_000, audioOut: 6_000 }) + 2 * stretchNano[byMinute])
})

test('101 under the cap of its time: one that is set or lowered later is no breach', async t => {
  const w = await world()
  const account = await w.gateway.account()
  const session = await talk(w, account.live)
  await patchKey(w.services, account.live, { monthly_spend_cap_usd: 0.1 })
  await session.use(huge)
  t.deepEqual(await session.end(), { code: 4402, error: 'monthly_spend_cap_reached' })
  t.is(await spentNano(w, account), tokensNano(huge))
})
