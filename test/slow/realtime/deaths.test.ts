import { migrate } from '../../../dev/migrate.ts'
import { SessionSlots } from '../../../shared/realtime/session-slots.ts'
import { sweepReservations } from '../../../shared/wallet/reconcile.ts'
import { eventually, type Process, startProcess } from '../../support/gateway.ts'
import {
  byMinute,
  chargeEveryMs,
  chargesOf,
  dial,
  providerSettings,
  spentNano,
  talk,
  tokensNano,
  useSessions,
} from '../../support/realtime/sessions.ts'
import { privatePostgres, privateRedis } from '../../support/stack.ts'
import { test } from '../../support/test.ts'
import { use, useStores } from '../../support/use.ts'
import { passForSweeper } from '../../support/wallet/ageing.ts'

const processes: Process[] = []

const stores = useStores(test)
const postgres = use(test, privatePostgres)
const redis = use(test, privateRedis)
const world = useSessions(test, stores)
test.before(async () => {
  await migrate(postgres.url)
})
test.after.always(async () => {
  await Promise.all(processes.map(({ kill }) => kill()))
})

const tokens = { input: 1_000, output: 500 }
/** More than a stretch: it is charged at once. */
const dear = { output: 6_000, audioOut: 6_000 }
const cancelled = ({ events }: { events: { type: string }[] }) => events.some(({ type }) => type === 'response.cancel')

test('1011 with an error event when the provider breaks off; what it had reported is charged, and the prompt of what it had begun', async t => {
  const w = await world()
  const account = await w.gateway.account()
  const session = await talk(w, account.live)
  await session.use(tokens)
  await session.begin()
  session.provider.connection.resetAndDestroy()
  t.deepEqual(await session.end(), { code: 1011, error: 'upstream_error' })
  t.is(await spentNano(w, account), tokensNano(tokens, { input: tokens.input + tokens.output }))
  const row = await w.services.db.generation.findFirstOrThrow({ where: { id: session.id } })
  t.like(row, { status: 502, errorCode: 'upstream_error', finishReason: 'provider_closed' })
})

test('101: a client that breaks off pays for what the provider reports within ten seconds, else for what passed', async t => {
  const w = await world()
  const account = await w.gateway.account()
  const [told, untold, idle] = await Promise.all([1, 2, 3].map(() => talk(w, account.live)))
  const end = await told!.begin()
  await untold!.begin()
  await untold!.tell({ type: 'response.output_text.delta', delta: 'x'.repeat(400) })
  for (const session of [told, untold, idle]) session!.socket.terminate()
  await eventually(() => cancelled(told!.provider) && cancelled(untold!.provider), 'the providers are asked')
  await eventually(() => idle!.provider.closed !== null, 'who owes nothing is left at once')
  t.false(cancelled(idle!.provider))
  w.clock.advance(9_000)
  await end(tokens)
  await eventually(() => told!.provider.closed !== null, 'the provider has said all')
  t.is(untold!.provider.closed, null)
  w.clock.advance(1_000)
  await eventually(() => untold!.provider.closed !== null, 'the wait is bounded')
  t.is(await spentNano(w, account), tokensNano(tokens, { output: 100 }), 'what passed is charged by an estimate')
  t.deepEqual(
    w.provider.sessions.map(({ closed }) => closed?.code),
    [1011, 1011, 1011],
  )
})

test('1013 when the gateway restarts, after a warning, and all is charged', async t => {
  const w = await world()
  const account = await w.gateway.account()
  const [talking, timed] = await Promise.all([talk(w, account.live), talk(w, account.live, byMinute)])
  const end = await talking.begin()
  w.clock.advance(7_500)
  const drained = w.gateway.door.drain(500)
  await eventually(() => talking.error !== undefined && timed.error !== undefined, 'clients are warned')
  t.is(talking.closed, null)
  t.deepEqual(await talking.end(), { code: 1013, error: 'service_unavailable' })
  t.deepEqual(await timed.end(), { code: 1013, error: 'service_unavailable' })
  await end(tokens)
  await drained
  t.is(await spentNano(w, account), tokensNano(tokens) + 84_000_000 / 8)
  const late = dial(w.gateway, account.live)
  t.is((await late.end()).code, 1006)
})

test('charged to what was reported when the process is killed: nothing stays reserved, no socket, no seat', async t => {
  t.timeout(60_000)
  const w = await world({ at: new Date().toISOString() })
  const { redis, scripts } = w.services
  const account = await w.gateway.account()
  const web = await startProcess('web', stores, providerSettings(w.provider))
  processes.push(web)
  const session = await talk({ gateway: web, provider: w.provider }, account.live)
  await session.use(dear)
  await chargesOf(w.services, session, 1)
  await session.begin()
  await web.kill()
  t.is((await session.end()).code, 1006)
  await eventually(() => session.provider.closed !== null, 'the provider is left')
  const killedMs = Date.now()
  const { organisationId } = account
  const slot = { organisationId, id: 'rt_next' }
  t.false(await new SessionSlots(redis, { now: () => killedMs }, 'realtime', 1).acquire(slot))
  t.true(await new SessionSlots(redis, { now: () => killedMs + 31_000 }, 'realtime', 1).acquire(slot))
  await redis.zrem(`realtime:${organisationId}`, 'rt_next')
  for (let afterMs = 0; afterMs <= 40_000; afterMs += 10_000) {
    await scripts.beat({ instance: w.services.admission.instance, alive: 1 })
    await sweepReservations(scripts)
    await passForSweeper(redis, 10_000)
  }
  t.is(await spentNano(w, account), tokensNano(dear))
})

test('settled to the last token when the process is told to end', async t => {
  t.timeout(60_000)
  const w = await world()
  const account = await w.gateway.account()
  const web = await startProcess('web', stores, providerSettings(w.provider))
  processes.push(web)
  const session = await talk({ gateway: web, provider: w.provider }, account.live)
  await session.use(tokens)
  const killed = web.kill('SIGTERM')
  await eventually(() => session.error?.code === 'service_unavailable', 'the client is warned')
  await session.use(tokens)
  await session.leave()
  await killed
  t.is(await spentNano(w, account), tokensNano(tokens, tokens))
  t.is(session.closed!.code, 1000)
})

test('101 through a wipe of Redis and the absence of either store; 1013 only when what was reserved is used up', async t => {
  t.timeout(90_000)
  const own = { databaseUrl: postgres.url, redisUrl: redis.url, drop: async () => {} }
  const w = await world({ on: own })
  const account = await w.gateway.account()
  const restartRedis = async () => {
    await redis.restart()
    const answers = () => w.services.wallets.view(account.organisationId).then(Boolean, () => false)
    await eventually(answers, 'the gateway is connected to Redis again')
  }
  const session = await talk(w, account.live)
  await session.use(tokens)
  w.clock.advance(chargeEveryMs)
  await chargesOf(w.services, session, 1)

  await w.services.redis.flushdb()
  await session.use(tokens)
  w.clock.advance(chargeEveryMs)
  await chargesOf(w.services, session, 2)
  const seats = () => w.services.redis.zcard(`realtime:${account.organisationId}`)
  await eventually(async () => (await seats()) === 1, 'its seat is back')

  await postgres.kill()
  await session.use(tokens)
  w.clock.advance(chargeEveryMs)
  const unposted = () => w.services.redis.xlen('usage')
  await eventually(async () => (await unposted()) === 1, 'it is charged without Postgres')
  await postgres.restart()
  await chargesOf(w.services, session, 3)

  await redis.kill()
  await session.use(tokens)
  w.clock.advance(chargeEveryMs)
  await session.use(tokens)
  await restartRedis()
  w.clock.advance(5_000)
  await chargesOf(w.services, session, 4)
  t.is(session.closed, null)

  await redis.kill()
  await session.use(dear)
  t.deepEqual(await session.end(), { code: 1013, error: 'service_unavailable' })
  await restartRedis()
  const all = tokensNano(tokens, tokens, tokens, tokens, tokens, dear)
  await chargesOf(w.services, session, 5)
  await passForSweeper(w.services.redis, 20 * 60_000)
  await sweepReservations(w.services.scripts)
  w.clock.advance(31_000)
  await w.services.redis.del(`realtime:${account.organisationId}`)
  t.is(await spentNano(w, account), all)
})

test('101 and on when the provider reports an implausible usage: it is not charged', async t => {
  const w = await world()
  const account = await w.gateway.account()
  const session = await talk(w, account.live)
  for (const usage of [{ input: -5 }, { input: Number.NaN, output: -1 }, { output: 1e300 }]) await session.use(usage)
  await session.tell({ type: 'response.done', response: { usage: { input_tokens: [], output_tokens: '7' } } })
  await session.use(tokens)
  w.clock.advance(chargeEveryMs)
  await chargesOf(w.services, session, 1)
  t.is(session.closed, null)
  await session.leave()
  t.is(await spentNano(w, account), tokensNano(tokens))
})
