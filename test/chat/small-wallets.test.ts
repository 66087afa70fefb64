// Agents ask for 128,000 output tokens with every call: small wallets and caps serve them, and are never exceeded.

import { tokens } from '../support/chat/agent-calls.ts'
import { chargedNano, dataOf, generationOf, saying, startWorld } from '../support/chat/gateway.ts'
import {
  checkConcurrentCalls,
  dearModels,
  fixedNano,
  nanoPerInput,
  nanoPerOutput,
  StreamingProvider,
} from '../support/chat/small-wallets.ts'
import { type Account, eventually } from '../support/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'
import { testClock } from '../support/wallet/money.ts'

const clock = testClock('2027-03-10T12:00:15Z')
const world = use(test, async () => startWorld(await dearModels(), clock))
test.beforeEach(() => world.openai.reset())

const large = { max_tokens: 128_000 }
const body = saying('dear', 'Say hi', { ...large, stream: true })
const likelyNano = fixedNano(body) + 4_096 * nanoPerOutput
const stretchNano = 4_096 * nanoPerOutput
const usdOf = (nano: number) => (nano / 1e9).toFixed(9)

function ask(account: Account, request: object = body) {
  return world.gateway.fetch('/v1/chat/completions', { key: account.live, body: request })
}

/** A stream at a provider that the test directs. */
function stream(account: Account, request: object = body) {
  const provider = new StreamingProvider()
  world.openai.next(provider.reply)
  return { provider, answer: ask(account, request) }
}

const viewOf = (account: Account) => world.gateway.services.wallets.view(account.organisationId)
const reserves = (account: Account, nano: number) =>
  eventually(async () => (await viewOf(account)).reservedNano === BigInt(nano), `${nano} nano-dollars are reserved`)

test.serial(
  '200 for “Say hi” with 128,000 tokens on a wallet of $1: four streams at once, each at its real price',
  async t => {
    const account = await world.gateway.account({ usd: '1' })
    const streams = []
    for (let i = 0; i < 4; i++) {
      const one = stream(account)
      streams.push(one)
      await one.provider.send('Hi')
      const { status, headers } = await one.answer
      t.is(status, 200)
      const affordable = Math.floor((1e9 - i * likelyNano - fixedNano(body)) / nanoPerOutput)
      t.is(headers.get('x-gateway-max-tokens-clamped'), String(affordable))
      t.is(world.openai.requests[i]!.body.max_completion_tokens, affordable)
      await reserves(account, (i + 1) * likelyNano)
    }
    for (const { provider } of streams) await provider.finish(5, 2)
    for (const { answer } of streams)
      t.is(dataOf(await (await answer).text()).at(-2).usage.cost, (5 * nanoPerInput + 2 * nanoPerOutput) / 1e9)
    t.is(await chargedNano(world, account), 4 * (5 * nanoPerInput + 2 * nanoPerOutput))
  },
)

test.serial('200 for the same without a stream: max_tokens is what the wallet can pay', async t => {
  const account = await world.gateway.account({ usd: '1' })
  const request = saying('dear', 'Say hi', large)
  const answer = await ask(account, request)
  t.is(answer.status, 200)
  const affordable = Math.floor((1e9 - fixedNano(request)) / nanoPerOutput)
  t.is(answer.headers.get('x-gateway-max-tokens-clamped'), String(affordable))
  t.is(world.openai.requests[0]!.body.max_completion_tokens, affordable)
  const { usage } = (await answer.json()) as { usage: { cost: number } }
  t.is(await chargedNano(world, account), Math.round(usage.cost * 1e9))
})

test.serial('200 with all of max_tokens reserved at once when that is a tenth of the wallet', async t => {
  const account = await world.gateway.account({ usd: '100' })
  const { provider, answer } = stream(account)
  await provider.send('Hi')
  t.is((await answer).headers.get('x-gateway-max-tokens-clamped'), null)
  t.is(world.openai.requests[0]!.body.max_completion_tokens, 128_000)
  await reserves(account, fixedNano(body) + 128_000 * nanoPerOutput)
  await provider.finish(5, 2)
  await (await answer).text()
  await chargedNano(world, account)
})

test.serial(
  '402 when the wallet cannot pay 4,096 tokens, and for a smaller limit that it cannot pay in full',
  async t => {
    const large = await world.gateway.account({ usd: usdOf(likelyNano - 1) })
    t.is((await ask(large)).status, 402)
    const small = { ...body, max_tokens: 1_000 }
    const account = await world.gateway.account({ usd: usdOf(fixedNano(small) + 1_000 * nanoPerOutput - 1) })
    t.is((await ask(account, small)).status, 402)
    t.is(world.openai.requests.length, 0)
  },
)

test.serial('the reservation grows with the answer, which is charged in full', async t => {
  const account = await world.gateway.account({ usd: '1' })
  const { provider, answer } = stream(account)
  for (let stretches = 1; stretches <= 3; stretches++) {
    await provider.send(tokens(4_000))
    await reserves(account, likelyNano + stretches * stretchNano)
  }
  await provider.finish(5, 12_000)
  const data = dataOf(await (await answer).text())
  t.is(data.at(-1), '[DONE]')
  t.is(await chargedNano(world, account), 5 * nanoPerInput + 12_000 * nanoPerOutput)
})

const customTool = { type: 'custom', custom: { name: 'sql' } }
const functionTool = { name: 'search', parameters: { type: 'object', properties: { q: { type: 'string' } } } }
/** Calls whose input is streamed to the client, and which its format has whole only. */
const calls = {
  'of a custom tool': {
    path: '/v1/chat/completions',
    body: { ...body, tools: [customTool] },
    begin: { tool_calls: [{ index: 0, id: 'call_1', type: 'custom', custom: { name: 'sql', input: '' } }] },
    more: (input: string) => ({ tool_calls: [{ index: 0, custom: { input } }] }),
  },
  'that is kept back until it is whole': {
    path: '/v1beta/models/dear:streamGenerateContent?alt=sse',
    body: {
      contents: [{ role: 'user', parts: [{ text: 'Say hi' }] }],
      tools: [{ functionDeclarations: [functionTool] }],
      generationConfig: { maxOutputTokens: 128_000 },
    },
    begin: { tool_calls: [{ index: 0, id: 'call_1', type: 'function', function: { name: 'search', arguments: '' } }] },
    more: (text: string) => ({ tool_calls: [{ index: 0, function: { arguments: text } }] }),
  },
}
for (const [which, { path, body, begin, more }] of Object.entries(calls)) {
  const call = async () => {
    const account = await world.gateway.account({ usd: '1' })
    const provider = new StreamingProvider()
    world.openai.next(provider.reply)
    const leaving = new AbortController()
    const answer = world.gateway.fetch(path, { key: account.live, body, signal: leaving.signal })
    await provider.send('Hi')
    await provider.sendDelta(begin)
    return { account, provider, answer, leaving }
  }

  test.serial(`the reservation grows with a call ${which}`, async t => {
    const { account, provider, answer } = await call()
    await answer
    const { reservedNano } = await viewOf(account)
    await provider.sendDelta(more(tokens(4_000)))
    await reserves(account, Number(reservedNano) + stretchNano)
    await provider.finish(5, 4_000)
    await (await answer).text()
    t.is(await chargedNano(world, account), 5 * nanoPerInput + 4_000 * nanoPerOutput)
  })

  test.serial(`a client that leaves in the middle of a call ${which} pays for it`, async t => {
    const { account, provider, answer, leaving } = await call()
    const { headers } = await answer
    const { reservedNano } = await viewOf(account)
    await provider.sendDelta(more(tokens(3_000)))
    // Once more is reserved, all of it has come.
    await reserves(account, Number(reservedNano) + stretchNano)
    leaving.abort()
    const row = await generationOf(world, headers.get('x-generation-id')!)
    t.like(row, { status: 499, estimated: true })
    t.true(row.completionTokens >= 1_000 && row.completionTokens <= 4_000, String(row.completionTokens))
    t.is(await chargedNano(world, account), Number(row.costNano))
  })
}

for (const [code, options] of [
  ['insufficient_credits', { usd: '0.2' }],
  ['monthly_spend_cap_reached', { monthly_spend_cap_usd: 0.2 }],
] as const)
  test.serial(`${code} ends a stream whose money ends in the middle: what it delivered is charged`, async t => {
    const account = await world.gateway.account(options)
    const { provider, answer } = stream(account)
    await provider.send('Hi')
    const other = stream(account)
    await other.provider.send('Hi')
    t.deepEqual([(await answer).status, (await other.answer).status], [200, 200])
    await provider.send(tokens(3_000))
    await provider.send(tokens(1_095))
    await provider.send(tokens(1))
    const data = dataOf(await (await answer).text())
    t.like(data.at(-1), { error: { code, type: 'billing_error' } })
    t.is(data.at(-1).choices[0].finish_reason, 'error')
    t.is(data.map(({ choices }) => choices[0]?.delta.content ?? '').join(''), `Hi${tokens(4_096)}`)
    await world.openai.requests[0]!.aborted
    const row = await generationOf(world, (await answer).headers.get('x-generation-id')!)
    t.like(row, { status: 402, errorCode: code, estimated: true })
    t.true(row.completionTokens > 2_000 && row.completionTokens <= 8_192, String(row.completionTokens))
    t.true(Number(row.costNano) > 2_000 * nanoPerOutput && Number(row.costNano) <= likelyNano, String(row.costNano))
    await other.provider.finish(5, 2)
    await (await other.answer).text()
    t.is(await chargedNano(world, account), Number(row.costNano) + 5 * nanoPerInput + 2 * nanoPerOutput)
    t.true((await viewOf(account)).balanceNano >= 0n)
  })

test.serial(
  'a burst beyond the reservation is charged in full from what is left, else up to the reservation',
  async t => {
    const account = await world.gateway.account({ usd: '0.5' })
    const paid = stream(account)
    await paid.provider.finish(5, 9_000, tokens(9_000))
    t.is(dataOf(await (await paid.answer).text()).at(-1), '[DONE]')
    const paidNano = 5 * nanoPerInput + 9_000 * nanoPerOutput
    t.is(await chargedNano(world, account), paidNano)

    const [first, second, third] = [stream(account), stream(account), stream(account)]
    await Promise.all([first, second, third].map(({ provider }) => provider.send('Hi')))
    t.deepEqual(
      [(await first.answer).status, (await second.answer).status, (await third.answer).status],
      [200, 200, 200],
    )
    await first.provider.finish(5, 9_000, tokens(9_000))
    const data = dataOf(await (await first.answer).text())
    t.is(data.at(-2).usage.cost, likelyNano / 1e9)
    for (const { provider } of [second, third]) await provider.finish(5, 2)
    for (const { answer } of [second, third]) await (await answer).text()
    const others = 2 * (5 * nanoPerInput + 2 * nanoPerOutput)
    t.is(await chargedNano(world, account), paidNano + likelyNano + others)
    const row = await generationOf(world, (await first.answer).headers.get('x-generation-id')!)
    t.like(row, { status: 200, waiver: 'beyond_reservation', completionTokens: 9_000 })
  },
)

test.serial('an excess is only what a provider counts beyond the limit it was given', async t => {
  const account = await world.gateway.account({ usd: '1' })
  const { provider, answer } = stream(account)
  await provider.finish(5, 60_000, 'Hi')
  t.is(dataOf(await (await answer).text()).at(-1), '[DONE]')
  const limit = Number((await answer).headers.get('x-gateway-max-tokens-clamped'))
  t.is(await chargedNano(world, account), 5 * nanoPerInput + 60_000 * nanoPerOutput)
  const where = { organisationId: account.organisationId, kind: 'excess' } as const
  const excess = await world.gateway.services.db.ledgerEntry.findFirstOrThrow({ where })
  const expected = 5 * nanoPerInput + (60_000 - limit) * nanoPerOutput - fixedNano(body)
  t.is(-Number(excess.amountNano), expected)
})

test.serial('the reservation of a model that reasons unseen grows with the time', async t => {
  const account = await world.gateway.account({ usd: '1' })
  const request = { ...body, model: 'dear-thinker' }
  const { provider, answer } = stream(account, request)
  const first = fixedNano(request) + 4_096 * nanoPerOutput
  await provider.asked
  await reserves(account, first)
  clock.advance(5_000)
  await reserves(account, first + stretchNano)
  await provider.finish(5, 3_000, 'Hi')
  t.is(dataOf(await (await answer).text()).at(-1), '[DONE]')
  t.is(await chargedNano(world, account), 5 * nanoPerInput + 3_000 * nanoPerOutput)
})

test.serial(
  '503 without a charge for a model that reasons unseen when no more can be reserved because a store is away',
  async t => {
    const account = await world.gateway.account({ usd: '1' })
    const { admission } = world.gateway.services
    const request = { ...body, model: 'dear-thinker' }
    const { provider, answer } = stream(account, request)
    await provider.asked
    await reserves(account, fixedNano(request) + 4_096 * nanoPerOutput)
    Object.assign(admission, { extend: () => Promise.reject(new Error('the store is away')) })
    t.teardown(() => Reflect.deleteProperty(admission, 'extend'))
    clock.advance(20_000)
    const { status, headers } = await answer
    t.is(status, 503)
    t.like(await generationOf(world, headers.get('x-generation-id')!), {
      errorCode: 'service_unavailable',
      costNano: 0n,
    })
    t.is(await chargedNano(world, account), 0)
  },
)

test.serial('wallets and caps are never exceeded by concurrent calls of any length', async t => {
  const seen = await checkConcurrentCalls(world, { runs: 4, pauseMs: 0, breaks: false })
  t.true(seen.answered > 0 && seen.refused > 0, JSON.stringify(seen))
})
