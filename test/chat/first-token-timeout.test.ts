import { setTimeout as sleep } from 'node:timers/promises'
import { anthropicReply } from '../emulators/anthropic.ts'
import { json, type Reply } from '../emulators/emulator.ts'
import { chargedNano, saying, startWorld } from '../support/chat/gateway.ts'
import { type Account, eventually } from '../support/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'
import { nanoPerToken, terseCatalog } from '../support/wallet/terse-catalog.ts'

// A caller's own limit to the first token: what the provider had begun is charged, as with a total timeout, or it would be free.

const world = use(test, async () => startWorld({ ...(await terseCatalog(2)), OPENROUTER_API_KEY: '' }))
let account: Account
test.beforeEach(async () => {
  world.openai.reset()
  world.anthropic.reset()
  account = await world.gateway.account({ usd: '10' })
})

const headOf = (stream: boolean) => ({ 'content-type': stream ? 'text/event-stream' : 'application/json' })
/** Works without a word until its caller leaves. `sendsHead`: it answers 200 at once. */
const working =
  (stream: boolean, sendsHead = stream): Reply =>
  async (request, response) => {
    if (sendsHead) {
      response.writeHead(200, headOf(stream))
      response.write(stream ? ': working\n\n' : ' ')
    }
    await Promise.race([sleep(30_000, undefined, { ref: false }), request.aborted])
    response.end()
  }
const long = 'word '.repeat(20_000)
const first_token = 300
const provider = { timeout_ms: { first_token } }
const post = (body: object, headers: Record<string, string> = {}, path = '/v1/chat/completions') =>
  world.gateway.fetch(path, { key: account.live, body, headers })

const forms: [what: string, stream: boolean, body: object, headers: Record<string, string>, sendsHead?: boolean][] = [
  ['of a stream', true, { provider }, {}],
  ['of a whole answer', false, { provider }, {}],
  ['of a whole answer whose head is sent at once', false, { provider }, {}, true],
  ['in the header', false, {}, { 'x-gateway-timeout-ms': `60000; first-token=${first_token}` }],
]
for (const [what, stream, fields, headers, sendsHead] of forms)
  test.serial(`504 and charged for what the provider had begun: the caller’s first-token timeout ${what}`, async t => {
    world.openai.next(working(stream, sendsHead))
    const answer = await post(saying('gpt-5', long, { stream, max_tokens: 20_000, ...fields }), headers)
    t.is(answer.status, 504)
    t.like(await answer.json(), { error: { code: 'upstream_timeout', param: 'provider.timeout_ms' } })
    t.is(world.openai.requests.length, 1)
    // 20,000 tokens at $1.25 a million, and the reasoning of these moments.
    const charged = await chargedNano(world, account)
    t.true(charged > 20_000_000 && charged < 60_000_000, `${charged}`)
    t.deepEqual(await world.gateway.settled(), [])
  })

for (const stream of [true, false])
  test.serial(
    `200 from the next model, and both calls charged, after a first-token timeout; stream ${stream}`,
    async t => {
      world.openai.next(working(stream))
      const models = ['gpt-5', 'claude-haiku-4-5']
      const body = { ...saying('gpt-5', long, { stream, max_tokens: 100, provider }), models }
      const answer = await post({ ...body, ...(stream && { stream_options: { include_usage: true } }) })
      t.is(answer.status, 200)
      const text = await answer.text()
      const shown = Number(/"cost":([\d.e-]+)/.exec(text)![1])
      const charged = await chargedNano(world, account)
      // The same call alone.
      const alone = await world.gateway.account({ usd: '10' })
      const single = await world.gateway.fetch('/v1/chat/completions', {
        key: alone.live,
        body: saying('claude-haiku-4-5', long, { max_tokens: 100 }),
      })
      await single.text()
      const second = await chargedNano(world, alone)
      t.true(charged - second > 20_000_000, `${charged} for both, ${second} for the second`)
      t.is(Math.round(shown * 1e9), charged)
      t.deepEqual(await world.gateway.settled(), [])
    },
  )

test.serial('reserved for each cut call is what it cost, until the request is over', async t => {
  const reserved: number[] = []
  const note = async () => {
    const { reservedNano } = await world.gateway.services.wallets.view(account.organisationId)
    reserved.push(Number(reservedNano))
  }
  const noted =
    (reply: Reply): Reply =>
    async (request, response) => {
      await note()
      await reply(request, response)
    }
  world.openai.next(noted(working(false)), noted(working(false)))
  world.anthropic.next(async (request, response) => {
    await note()
    await anthropicReply()(request, response)
  })
  const models = ['gpt-5', 'gpt-4.1', 'claude-haiku-4-5']
  const answer = await post({ ...saying('gpt-5', long, { max_tokens: 100, provider }), models })
  t.is(answer.status, 200)
  const { usage } = (await answer.json()) as { usage: { cost: number; prompt_tokens: number } }
  const charged = await chargedNano(world, account)
  t.is(Math.round(usage.cost * 1e9), charged)
  const [first, second, third] = reserved as [number, number, number]
  t.true(second > first && third > second, `${reserved}`)
  const alone = await world.gateway.account({ usd: '10' })
  const body = saying('claude-haiku-4-5', long, { max_tokens: 100 })
  await (await world.gateway.fetch('/v1/chat/completions', { key: alone.live, body })).text()
  t.is(third - first, charged - (await chargedNano(world, alone)))
  t.deepEqual(await world.gateway.settled(), [])
})

test.serial('no excess where what a cut call and the answer cost is more than was reserved for the answer', async t => {
  const choices = [{ index: 0, message: { role: 'assistant', content: 'Done' }, finish_reason: 'stop' }]
  const usage = { prompt_tokens: 5, completion_tokens: 20, total_tokens: 25 }
  const answered = json(200, { id: 'c1', object: 'chat.completion', created: 1, model: 'm', choices, usage })
  world.openai.next(working(false), answered)
  const models = ['terse-0', 'terse-1']
  const answer = await post({ ...saying('terse-0', 'Hi', { max_tokens: 20, provider }), models })
  t.is(answer.status, 200)
  const { organisationId } = account
  const charged = await chargedNano(world, account)
  t.true(charged > (20 + 2) * nanoPerToken * 1.05, `${charged} for both`)
  const { ledgerEntry } = world.gateway.services.db
  t.is(await ledgerEntry.count({ where: { organisationId, kind: 'excess' } }), 0)
})

test.serial('402 instead of the next call where the wallet has no more than the cut one', async t => {
  const poor = await world.gateway.account({ usd: '0.22' })
  world.openai.next(working(false))
  const body = { ...saying('gpt-4.1', long, { max_tokens: 100, provider }), models: ['gpt-4.1', 'claude-haiku-4-5'] }
  const answer = await world.gateway.fetch('/v1/chat/completions', { key: poor.live, body })
  t.is(answer.status, 402)
  t.is(world.openai.requests.length, 1)
  t.true((await chargedNano(world, poor)) > 20_000_000)
  t.deepEqual(await world.gateway.settled(), [])
})

test.serial('200 for others, however often one caller’s first-token timeout has passed', async t => {
  for (let round = 0; round < 6; round++) {
    world.openai.next(working(true))
    const answer = await post(saying('gpt-5', 'Hi', { stream: true, max_tokens: 100, provider }))
    t.is(answer.status, 504)
  }
  const other = await world.gateway.account({ usd: '10' })
  const answer = await world.gateway.fetch('/v1/chat/completions', {
    key: other.live,
    body: saying('gpt-5', 'Hi', { max_tokens: 100 }),
  })
  t.is(answer.status, 200)
  await eventually(async () => (await world.gateway.settled()).length === 0, 'all is settled')
})

const media: [path: string, body: object][] = [
  ['/v1/images', { model: 'gpt-image-2', prompt: 'A heron', size: '1024x1024', quality: 'low' }],
  ['/v1/audio/speech', { model: 'tts-1', input: 'A heron stands in the shallow water.', voice: 'alloy' }],
]
for (const [path, body] of media)
  test.serial(`504 and charged for what the provider had begun: a first-token timeout of ${path}`, async t => {
    world.openai.next(working(false))
    const answer = await post({ ...body, provider }, {}, path)
    t.is(answer.status, 504)
    t.like(await answer.json(), { error: { code: 'upstream_timeout', param: 'provider.timeout_ms' } })
    t.is(world.openai.requests.length, 1)
    t.true((await chargedNano(world, account)) > 0)
    t.deepEqual(await world.gateway.settled(), [])
  })
