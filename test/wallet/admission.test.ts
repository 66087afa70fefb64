import { Wallets } from '../../shared/wallet/wallets.ts'
import { startOpenAiEmulator } from '../emulators/openai.ts'
import type { Gateway } from '../support/gateway.ts'
import { useRedisTime } from '../support/io/redis-time.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'
import { inputBoundNano, moneyEnvironment, nanoPerOutputToken, operator, testClock } from '../support/wallet/money.ts'

const clock = testClock('2027-03-10T12:00:15Z')
const dayMs = 86_400_000

const upstream = use(test, startOpenAiEmulator)
const gateway = useGateway(test, async () => await moneyEnvironment(upstream.url), { clock })
test.before(() => {
  useRedisTime(gateway.services.redis, clock)
})
test.beforeEach(() => {
  upstream.reset()
  clock.set('2027-03-10T12:00:15Z')
})

type Failure = { error: { code: string; metadata?: Record<string, unknown>; message: string } }

function request(more: Record<string, unknown> = {}) {
  return { model: 'coin', messages: [{ role: 'user', content: 'Hello' }], ...more }
}

async function chat(key: string, more: Record<string, unknown> = {}) {
  const response = await gateway.fetch('/v1/chat/completions', { key, body: request(more) })
  const body = (await response.json()) as Failure & { usage?: { cost: number } }
  return { status: response.status, headers: response.headers, body }
}

async function balance(key: string) {
  const response = await gateway.fetch('/v1/balance', { key })
  return (await response.json()) as Record<string, number | string | null>
}

test.serial('429 beyond rpm: rejected requests do not count, and a retry after retry-after passes', async t => {
  const { test: key } = await gateway.account({ rpm_limit: 3 })
  for (const remaining of ['2', '1', '0']) {
    const { status, headers } = await chat(key)
    t.is(status, 200)
    t.is(headers.get('x-ratelimit-limit-requests'), '3')
    t.is(headers.get('x-ratelimit-remaining-requests'), remaining)
    t.is(headers.get('x-ratelimit-reset-requests'), '60s')
    t.is(headers.get('x-ratelimit-limit-tokens'), null)
  }
  for (let i = 0; i < 5; i++) {
    const { status, headers, body } = await chat(key)
    t.is(status, 429)
    t.is(body.error.code, 'rate_limit_exceeded')
    t.regex(body.error.message, /3 requests per minute/)
    t.is(headers.get('retry-after'), '60')
    t.is(headers.get('x-ratelimit-remaining-requests'), '0')
  }
  clock.advance(59_000)
  t.is((await chat(key)).status, 429)
  clock.advance(1_000)
  t.is((await chat(key)).status, 200)
})

test.serial('429 beyond tpm: estimates count first, then the real usage', async t => {
  const { live } = await gateway.account({ tpm_limit: 1_000 })
  const first = await chat(live, { max_tokens: 900 })
  t.is(first.status, 200)
  t.is(first.headers.get('x-ratelimit-limit-tokens'), '1000')
  await gateway.services.admission.flush()
  // The answer had 5 tokens instead of 900: there is room again.
  const second = await chat(live, { max_tokens: 900 })
  t.is(second.status, 200)
  await gateway.services.admission.flush()
  const left = Number((await chat(live, { max_tokens: 1 })).headers.get('x-ratelimit-remaining-tokens'))
  t.true(left > 900 && left < 1_000, String(left))
  const refused = await chat(live, { max_tokens: 990 })
  t.is(refused.status, 429)
  t.regex(refused.body.error.message, /1000 tokens per minute/)
  clock.advance(Number(refused.headers.get('retry-after')) * 1_000)
  t.is((await chat(live, { max_tokens: 990 })).status, 200)
})

test.serial('200 for a request larger than the whole tpm limit once the window is empty', async t => {
  const { test: key } = await gateway.account({ tpm_limit: 100 })
  t.is((await chat(key, { max_tokens: 5_000 })).status, 200)
})

test.serial('402 when the wallet cannot cover an explicit max_tokens, with the figures', async t => {
  const { live, organisationId } = await gateway.account({ usd: '0.001' })
  const body = request({ max_tokens: 1_000 })
  const { status, body: failure } = await chat(live, { max_tokens: 1_000 })
  t.is(status, 402)
  t.is(failure.error.code, 'insufficient_credits')
  t.deepEqual(failure.error.metadata, {
    required_usd: (inputBoundNano(body) + 1_000 * nanoPerOutputToken) / 1e9,
    available_usd: 0.001,
    held_usd: 0,
    held_release_at: null,
  })
  t.is(upstream.requests.length, 0)
  t.is((await gateway.services.wallets.view(organisationId)).reservedNano, 0n)
})

test.serial('200 with max_tokens clamped near the cap, upstream and in the header', async t => {
  const body = request({ max_tokens: 1_000 })
  const capNano = inputBoundNano(body) + 100 * nanoPerOutputToken + 1_999
  const { live } = await gateway.account({ monthly_spend_cap_usd: capNano / 1e9 })
  const { status, headers } = await chat(live, { max_tokens: 1_000 })
  t.is(status, 200)
  t.is(headers.get('x-gateway-max-tokens-clamped'), '100')
  t.is(upstream.requests[0]!.body.max_completion_tokens, 100)
  t.deepEqual(await gateway.settled(), [])
})

test.serial('402 when not one token fits under the cap, until the month changes', async t => {
  const capNano = inputBoundNano(request({ max_tokens: 1_000 })) + nanoPerOutputToken
  const { live } = await gateway.account({ monthly_spend_cap_usd: capNano / 1e9 })
  const first = await chat(live, { max_tokens: 1_000 })
  t.is(first.status, 200)
  t.is(first.headers.get('x-gateway-max-tokens-clamped'), '1')
  await gateway.services.admission.flush()
  const refused = await chat(live, { max_tokens: 1_000 })
  t.is(refused.status, 402)
  t.is(refused.body.error.code, 'monthly_spend_cap_reached')
  t.deepEqual(refused.body.error.metadata, {
    cap_usd: capNano / 1e9,
    spent_usd: first.body.usage!.cost,
    resets_at: '2027-04-01T00:00:00.000Z',
  })
  t.is(upstream.requests.length, 1)
  clock.set('2027-03-31T23:59:59.999Z')
  t.is((await chat(live, { max_tokens: 1_000 })).status, 402)
  clock.set('2027-04-01T00:00:00Z')
  t.is((await chat(live, { max_tokens: 1_000 })).status, 200)
  t.deepEqual(await gateway.settled(), [])
})

test.serial('402 for every request on a cap of zero', async t => {
  const { live } = await gateway.account({ monthly_spend_cap_usd: 0 })
  t.is((await chat(live)).body.error.code, 'monthly_spend_cap_reached')
})

test.serial('200 without max_tokens takes at most a tenth of what is left, but 4096 tokens where they fit', async t => {
  const grant = async (key: string) => {
    const { status, headers } = await chat(key)
    t.is(status, 200)
    const granted = upstream.requests.at(-1)!.body.max_completion_tokens as number | undefined
    return { granted, header: headers.get('x-gateway-max-tokens-clamped') }
  }
  const account = async (options: Parameters<Gateway['account']>[0]) => (await gateway.account(options)).live
  t.deepEqual(await grant(await account({ usd: '1' })), { granted: 50_000, header: null })
  t.deepEqual(await grant(await account({ usd: '0.02' })), { granted: 4_096, header: null })
  const affordable = Math.floor((4_000_000 - inputBoundNano(request())) / nanoPerOutputToken)
  t.deepEqual(await grant(await account({ usd: '0.004' })), { granted: affordable, header: null })
  t.deepEqual(await grant(await account({ monthly_spend_cap_usd: 1 })), { granted: 50_000, header: '50000' })
  t.deepEqual(await grant(await account({ usd: '25' })), { granted: undefined, header: null })
  t.deepEqual(await gateway.settled(), [])
})

test.serial('200 for a test key without credits: no reservation, no charge, no ledger entry', async t => {
  const { test: key, organisationId } = await gateway.account({ usd: '0', monthly_spend_cap_usd: 0 })
  const { status, body } = await chat(key, { max_tokens: 1_000_000 })
  t.is(status, 200)
  t.is(body.usage!.cost, 0)
  t.deepEqual(await gateway.settled(), [])
  t.is(await gateway.services.db.ledgerEntry.count({ where: { organisationId } }), 0)
  t.is(await gateway.services.db.generation.count({ where: { organisationId, costNano: 0 } }), 1)
  t.is(upstream.requests.length, 0)
})

test.serial('200 for embeddings within their flat bound, 402 one nano below it', async t => {
  const body = { model: 'coin-embedding', input: 'Hello' }
  const boundNano = (Buffer.byteLength(JSON.stringify(body)) + 64) * 1_000
  const enough = await gateway.account({ usd: (boundNano / 1e9).toFixed(9) })
  const short = await gateway.account({ usd: ((boundNano - 1) / 1e9).toFixed(9) })
  const capped = await gateway.account({ monthly_spend_cap_usd: (boundNano - 1) / 1e9 })
  const embed = (key: string) => gateway.fetch('/v1/embeddings', { key, body })
  const answered = await embed(enough.live)
  t.is(answered.status, 200)
  t.is(((await answered.json()) as { usage: { cost: number } }).usage.cost, 2_000 / 1e9)
  t.is(((await (await embed(short.live)).json()) as Failure).error.code, 'insufficient_credits')
  t.is(((await (await embed(capped.live)).json()) as Failure).error.code, 'monthly_spend_cap_reached')
  t.deepEqual(await gateway.settled(), [])
})

// The last one: a hold that time has released is not there again when the clock is set back.
test.serial('200 once an ACH deposit is released by the clock alone', async t => {
  const { live, organisationId } = await gateway.account({ usd: '0' })
  const add = (usd: string, ...more: string[]) =>
    operator(gateway.services, 'credit', 'add', '--org', organisationId, '--usd', usd, ...more)
  await add('10', '--method', 'ach', '--hold-days', '5')
  const releaseAt = new Date(clock.now() + 5 * dayMs).toISOString()
  t.like(await balance(live), {
    object: 'wallet',
    balance_usd: 10,
    available_usd: 0,
    reserved_usd: 0,
    held_usd: 10,
    held_release_at: releaseAt,
  })
  const refused = await chat(live, { max_tokens: 10 })
  t.is(refused.status, 402)
  t.like(refused.body.error.metadata, { available_usd: 0, held_usd: 10, held_release_at: releaseAt })
  await add('3', '--method', 'ach', '--hold-days', '2')
  await add('1')
  t.like(await balance(live), {
    balance_usd: 14,
    available_usd: 1,
    held_usd: 13,
    held_release_at: new Date(clock.now() + 2 * dayMs).toISOString(),
  })
  clock.advance(2 * dayMs)
  t.like(await balance(live), { balance_usd: 14, available_usd: 4, held_usd: 10, held_release_at: releaseAt })
  clock.advance(3 * dayMs - 1)
  t.like(await balance(live), { available_usd: 4, held_usd: 10 })
  clock.advance(1)
  t.like(await balance(live), { balance_usd: 14, available_usd: 14, held_usd: 0, held_release_at: null })
  t.is((await chat(live, { max_tokens: 10 })).status, 200)
  t.deepEqual(await gateway.settled(), [])
})

test.serial('wallets that are loaded in one turn are read by the same statements', async t => {
  const { db, redis, scripts, clock } = gateway.services
  const accounts = await Promise.all(Array.from({ length: 30 }, (_, i) => gateway.account({ usd: String(i + 1) })))
  const ids = accounts.map(({ organisationId }) => organisationId)
  await redis.del(...ids.map(id => `wallet:${id}`))
  let statements = 0
  const counted = new Proxy(db, {
    get(target, name) {
      if (name === '$queryRaw' || name === 'job' || name === 'batch') statements++
      return Reflect.get(target, name)
    },
  })
  const own = new Wallets({ db: counted, redis, scripts, clock })
  await Promise.all(ids.map(id => own.load(id)))
  t.is(statements, 3, 'jobs, batches and wallets')
  const views = await Promise.all(ids.map(id => own.view(id)))
  t.deepEqual(
    views.map(({ balanceNano }) => balanceNano),
    accounts.map((_, i) => BigInt(i + 1) * 1_000_000_000n),
  )
  t.is(statements, 3, 'Redis has them all')
})
