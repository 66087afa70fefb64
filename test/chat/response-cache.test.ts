import Anthropic from '@anthropic-ai/sdk'
import { clearAnswers } from '../../shared/chat/response-cache.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import { json } from '../emulators/emulator.ts'
import { chargedNano, dataOf, generationOf, saying, startWorld, type World } from '../support/chat/gateway.ts'
import { eventually } from '../support/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'
import { testClock } from '../support/wallet/money.ts'

// biome-ignore lint/suspicious/noExplicitAny: bodies of every shape
type Any = any
type Sent = { headers?: Record<string, string>; path?: string }

const clock = testClock('2027-03-10T12:00:15Z')
const world = use(test, () =>
  startWorld(
    { ENCRYPTION_KEY: 'a-secret-of-enough-characters-0123456789', RESPONSE_CACHE_ORGANISATION_MB: '1' },
    clock,
  ),
)
test.beforeEach(() => {
  for (const emulator of [world.openai, world.anthropic, world.gemini, world.openrouter]) emulator.reset()
})

const cache = { ttl_s: 600 }
const gpt = 'gpt-4o-mini'

async function post(key: string, body: object, { headers = {}, path = '/v1/chat/completions' }: Sent = {}) {
  const response = await world.gateway.fetch(path, { key, body, headers })
  const text = await response.text()
  return { status: response.status, headers: response.headers, text, cache: response.headers.get('x-gateway-cache') }
}

const called = () =>
  [world.openai, world.anthropic, world.gemini, world.openrouter].reduce(
    (sum, { requests }) => sum + requests.length,
    0,
  )

/** Entries are stored in the background. */
async function stored(organisationId: string, count = 1, at: World = world) {
  const { redis } = at.gateway.services
  await eventually(
    async () => (await redis.zcard(`cache:lru:${organisationId}`)) === count,
    `${count} answers are stored`,
  )
}

const dialects: [name: string, path: string, body: Any][] = [
  ['chat completions', '/v1/chat/completions', saying(gpt)],
  ['messages at their provider', '/v1/messages', { ...saying('claude-sonnet-4-5'), max_tokens: 100 }],
  ['messages translated', '/v1/messages', { ...saying(gpt), max_tokens: 100 }],
  ['responses', '/v1/responses', { model: gpt, input: 'Hello gateway', store: false }],
]
for (const [name, path, body] of dialects)
  for (const stream of [false, true])
    test.serial(`200 from the cache, free: ${name}${stream ? ', streamed' : ''}`, async t => {
      const account = await world.gateway.account({ cache })
      const asked = { ...body, ...(stream && { stream }) }
      const first = await post(account.live, asked, { path })
      t.is(first.status, 200, first.text)
      t.is(first.cache, 'miss')
      await stored(account.organisationId)
      const charged = await chargedNano(world, account)
      t.true(charged > 0)
      const calls = called()
      clock.advance(30_000)
      const second = await post(account.live, asked, { path })
      t.is(second.status, 200, second.text)
      t.is(second.cache, 'hit')
      t.is(second.headers.get('age'), '30')
      t.is(called(), calls)
      t.is(second.headers.get('content-type'), first.headers.get('content-type'))
      const [firstId, secondId] = [first, second].map(({ headers }) => headers.get('x-generation-id')!) as [
        string,
        string,
      ]
      t.not(secondId, firstId)
      t.deepEqual(
        withoutCost(second.text.replaceAll(secondId, firstId)),
        withoutCost(first.text),
        'the same answer, chunk by chunk',
      )
      t.is(await chargedNano(world, account), charged)
      const row = await generationOf(world, secondId)
      t.true(row.cached)
      t.is(row.costNano, 0n)
      const original = await generationOf(world, firstId)
      t.is(original.cached, null)
      t.deepEqual(
        [row.promptTokens, row.completionTokens, row.model, row.provider, row.finishReason],
        [original.promptTokens, original.completionTokens, original.model, original.provider, original.finishReason],
      )
    })

function withoutCost(text: string): string {
  return text.replace(/"cost":[\d.e-]+/g, '"cost":0')
}

test.serial('200 from the cache for the Gemini format and for embeddings', async t => {
  const account = await world.gateway.account({ cache })
  const paths: [string, Any][] = [
    [`/v1beta/models/${gpt}:generateContent`, { contents: [{ role: 'user', parts: [{ text: 'Hello' }] }] }],
    [
      `/v1beta/models/${gpt}:streamGenerateContent?alt=sse`,
      { contents: [{ role: 'user', parts: [{ text: 'Hello' }] }] },
    ],
    ['/v1/embeddings', { model: 'text-embedding-3-small', input: 'Hello' }],
  ]
  for (const [i, [path, body]] of paths.entries()) {
    const first = await post(account.live, body, { path })
    t.is(first.cache, 'miss', first.text)
    await stored(account.organisationId, i + 1)
    const calls = called()
    const second = await post(account.live, body, { path })
    t.is(second.cache, 'hit', path)
    t.is(called(), calls)
    t.is(second.status, 200)
  }
})

test.serial('usage of a hit has the tokens of the original and costs nothing', async t => {
  const account = await world.gateway.account({ cache })
  const first = JSON.parse((await post(account.live, saying(gpt))).text)
  await stored(account.organisationId)
  const hit = await post(account.live, saying(gpt))
  const { usage, id } = JSON.parse(hit.text)
  t.is(usage.prompt_tokens, first.usage.prompt_tokens)
  t.true(first.usage.cost > 0)
  t.is(usage.cost, 0)
  t.is(hit.headers.get('x-gateway-cost-usd'), '0')
  t.is(id, first.id, 'the id that the provider gave')
  const streamed = { ...saying(gpt), stream: true, stream_options: { include_usage: true } }
  await post(account.live, streamed)
  await stored(account.organisationId, 2)
  const replayed = await post(account.live, streamed)
  t.is(replayed.cache, 'hit')
  const chunks = dataOf(replayed.text)
  t.is(chunks.at(-1), '[DONE]')
  t.is(chunks.at(-2).usage.cost, 0)
  t.true(chunks.at(-2).usage.prompt_tokens > 0)
})

for (const [name, model] of [
  ['at its provider', gpt],
  ['translated', 'claude-sonnet-4-5'],
])
  for (const stream of [false, true])
    test.serial(
      `200 from the cache with the request’s own metadata${stream ? ', streamed' : ''}: Responses ${name}`,
      async t => {
        const account = await world.gateway.account({ cache })
        const other = await world.gateway.key(account.organisationId, 'live', { cache })
        const of = (who: string) => {
          const attribution = { metadata: { customer: who }, user: who, safety_identifier: who, prompt_cache_key: who }
          return { model, input: 'Hello gateway', store: false, stream, ...attribution }
        }
        const first = await post(account.live, of('anna'), { path: '/v1/responses' })
        t.is(first.cache, 'miss', first.text)
        t.true(first.text.includes('anna'))
        await stored(account.organisationId)
        const second = await post(other, of('bert'), { path: '/v1/responses' })
        t.is(second.cache, 'hit')
        t.false(second.text.includes('anna'), 'nothing of the request that was answered first')
        const objects = stream
          ? dataOf(second.text).flatMap(({ response }) => response ?? [])
          : [JSON.parse(second.text)]
        t.true(objects.length > 0)
        for (const { metadata } of objects) t.deepEqual(metadata, { customer: 'bert' })
      },
    )

test.serial('official SDKs read hits', async t => {
  const account = await world.gateway.account({ cache })
  const openai = world.sdk(account.live)
  const anthropic = new Anthropic({ apiKey: account.live, baseURL: world.gateway.url, maxRetries: 0 })
  const texts: unknown[] = []
  for (let i = 0; i < 2; i++) {
    const stream = openai.chat.completions.stream({ model: gpt, messages: [{ role: 'user', content: 'Hello' }] })
    texts.push((await stream.finalChatCompletion()).choices[0]!.message.content)
    const messages = [{ role: 'user' as const, content: 'Hello' }]
    texts.push((await anthropic.messages.stream({ model: gpt, max_tokens: 100, messages }).finalMessage()).content)
    await stored(account.organisationId, 2)
  }
  t.deepEqual(texts.slice(2), texts.slice(0, 2))
  t.is(called(), 2)
})

test.serial('miss for another organisation, environment, dialect member, namespace or access', async t => {
  const account = await world.gateway.account({ cache })
  const { organisationId } = account
  t.is((await post(account.live, saying(gpt))).cache, 'miss')
  await stored(organisationId)
  const other = await world.gateway.account({ cache })
  t.is((await post(other.live, saying(gpt))).cache, 'miss')
  t.is((await post(account.test, saying(gpt))).cache, 'miss')
  t.is((await post(account.live, saying(gpt, 'Hello gateway', { temperature: 0.5 }))).cache, 'miss')
  t.is((await post(account.live, saying(gpt), { headers: { 'x-gateway-cache': 'on; namespace=v2' } })).cache, 'miss')
  const narrow = await world.gateway.key(organisationId, 'live', { cache, model_allowlist: [gpt] })
  t.is((await post(narrow, saying(gpt))).cache, 'miss')
  const same = await world.gateway.key(organisationId, 'live', { cache })
  t.is((await post(same, saying(gpt, 'Hello gateway', { user: 'anna' }))).cache, 'hit', 'labels do not matter')
})

test.serial(
  'no cache without the policy; off, refresh and a shorter ttl by the header; 400 for another value',
  async t => {
    const account = await world.gateway.account()
    for (let i = 0; i < 2; i++) t.is((await post(account.live, saying(gpt))).cache, null)
    t.is(called(), 2)
    const live = await world.gateway.key(account.organisationId, 'live', { cache })
    const send = (value: string) => post(live, saying(gpt), { headers: { 'x-gateway-cache': value } })
    t.is((await send('off')).cache, 'bypass')
    t.is((await send('on')).cache, 'miss')
    await stored(account.organisationId)
    t.is((await send('on')).cache, 'hit')
    t.is((await send('off')).cache, 'bypass')
    clock.advance(20_000)
    t.is((await send('on; ttl=30')).cache, 'hit')
    t.is((await send('on; ttl=20')).cache, 'miss')
    t.is((await send('refresh')).cache, 'miss')
    const refused = await send('on; ttl=0')
    t.is(refused.status, 400)
    t.is(JSON.parse(refused.text).error.param, 'x-gateway-cache')
  },
)

test.serial('a truncated answer is not stored; several choices bypass', async t => {
  const account = await world.gateway.account({ cache })
  const short = saying(gpt, 'A question of more than four characters', { max_tokens: 1 })
  for (let i = 0; i < 2; i++) t.is((await post(account.live, short)).cache, 'miss')
  t.is(called(), 2)
  t.is((await post(account.live, saying(gpt, 'Hello', { n: 2 }))).cache, 'bypass')
})

test.serial('429 when hits exceed rpm_limit; 401 and 403 as without a cache', async t => {
  const account = await world.gateway.account({ cache, rpm_limit: 2 })
  await post(account.live, saying(gpt))
  await stored(account.organisationId)
  t.is((await post(account.live, saying(gpt))).cache, 'hit')
  t.is((await post(account.live, saying(gpt))).status, 429)
  const scoped = await world.gateway.key(account.organisationId, 'live', { cache, scopes: 'embeddings' })
  t.is((await post(scoped, saying(gpt))).status, 403)
})

test.serial('200 for hits and for routes without tokens while the tokens of the minute exceed tpm_limit', async t => {
  const account = await world.gateway.account({ cache, tpm_limit: 1_000 })
  const choices = [{ index: 0, message: { role: 'assistant', content: 'Done' }, finish_reason: 'stop' }]
  const usage = { prompt_tokens: 5, completion_tokens: 5_000, total_tokens: 5_005 }
  world.openai.next(json(200, { id: 'c1', object: 'chat.completion', created: 1, model: gpt, choices, usage }))
  t.is((await post(account.live, saying(gpt))).status, 200)
  await stored(account.organisationId)
  await world.gateway.settled()
  t.is((await post(account.live, saying(gpt, 'Another question'))).status, 429)
  t.is((await post(account.live, saying(gpt))).cache, 'hit')
  const balance = await world.gateway.fetch('/v1/balance', { key: account.live })
  t.is(balance.status, 200)
  t.is(balance.headers.get('x-ratelimit-remaining-tokens'), '0')
})

test.serial('a change of the policy applies to the next request', async t => {
  const account = await world.gateway.account({ cache })
  const { organisationId } = account
  const { keys } = world.gateway.services
  await post(account.live, saying(gpt))
  await stored(organisationId)
  t.is((await post(account.live, saying(gpt))).cache, 'hit')
  const [key] = (await keys.list(organisationId, { limit: 9 })).filter(({ environment }) => environment === 'live')
  await keys.patch(null, key!.hash, { model_allowlist: ['claude-sonnet-4-5'] }, operatorActor)
  t.is((await post(account.live, saying(gpt))).status, 403)
  await keys.patch(null, key!.hash, { model_allowlist: null, cache: null }, operatorActor)
  t.is((await post(account.live, saying(gpt))).cache, null)
})

test.serial('what Redis holds is encrypted, bounded for an organisation, and can be cleared', async t => {
  const account = await world.gateway.account({ cache })
  const { organisationId } = account
  const { redis } = world.gateway.services
  for (let i = 0; i < 12; i++) {
    const { status, text } = await post(account.live, saying(gpt, `${i} ${'secret words '.repeat(6_000)}`))
    t.is(status, 200, text)
    await stored(organisationId, Math.min(i + 1, 9))
  }
  await eventually(async () => Number(await redis.zcard(`cache:lru:${organisationId}`)) > 0, 'answers are stored')
  const bytes = Number(await redis.hget('cache:sizes', `#${organisationId}`))
  t.true(bytes <= 1024 * 1024, `${bytes}`)
  for (const member of await redis.zrange(`cache:lru:${organisationId}`, '0', '-1')) {
    const text = (await redis.get(`cache:entry:${member}`))!
    t.true(text.startsWith('sealed:1:'))
    t.false(text.includes('secret words'))
  }
  t.true((await clearAnswers(world.gateway.services, organisationId, operatorActor)) > 0)
  t.is(await redis.zcard(`cache:lru:${organisationId}`), 0)
  t.is(await redis.hget('cache:sizes', `#${organisationId}`), null)
})

test.serial('200 from the provider when the cache cannot be read', async t => {
  const account = await world.gateway.account({ cache })
  const { redis } = world.gateway.services
  await post(account.live, saying(gpt))
  await stored(account.organisationId)
  const [member] = await redis.zrange(`cache:lru:${account.organisationId}`, '0', '0')
  await redis.set(`cache:entry:${member}`, 'sealed:1:00000000:AAAA')
  t.is((await post(account.live, saying(gpt))).cache, 'miss')
})

test.serial('200 when a provisioning key clears the cache of its organisation', async t => {
  const account = await world.gateway.account({ cache })
  await post(account.live, saying(gpt))
  await stored(account.organisationId)
  const { secret } = await world.gateway.services.keys.createProvisioning(account.organisationId, operatorActor)
  const response = await world.gateway.fetch('/api/v1/response-cache', { key: secret, method: 'DELETE' })
  t.deepEqual(await response.json(), { data: { cleared: 1 } })
  t.is((await post(account.live, saying(gpt))).cache, 'miss')
})
