import { GoogleGenAI, ServiceTier as GoogleTier } from '@google/genai'
import type OpenAI from 'openai'
import { errorAnswer } from '../../api/schemas/core.ts'
import type { ServiceTier } from '../../shared/base/service-tier.ts'
import { loadCatalog } from '../../shared/catalog/catalog.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import { chatReply, failure, reply } from '../emulators/openai.ts'
import { chargedNano, dataOf, generationOf, saying, startWorld } from '../support/chat/gateway.ts'
import { type ExecutionContext, test } from '../support/test.ts'
import { use } from '../support/use.ts'

const world = use(test, startWorld)
test.beforeEach(() => {
  for (const emulator of [world.openai, world.anthropic, world.gemini, world.openrouter]) emulator.reset()
})

/** Priced at both tiers by openai; openrouter serves it at the standard one. */
const model = 'gpt-5'
const catalog = loadCatalog()

/** What a call costs at a tier, computed apart from the product. */
function nanoAt(tier: ServiceTier | null, slug: string, [prompt, completion]: [number, number]): number {
  const { price } = catalog.find(slug)!.providers[0]!
  if (price.unit !== 'token') throw new Error('not priced by the token')
  const { input, output } = tier ? price.tiers![tier]! : price
  return Math.round((prompt * Number(input) + completion * Number(output)) * 1_000 * 1.05)
}

async function ask(key: string, body: object, path = '/v1/chat/completions') {
  const response = await world.gateway.fetch(path, { key, body })
  const text = await response.text()
  const id = response.headers.get('x-generation-id')!
  return { status: response.status, headers: response.headers, text, json: () => JSON.parse(text), id }
}

const dropped = (answer: { headers: Headers }) => answer.headers.get('x-gateway-dropped')

async function logged(t: ExecutionContext, id: string, tier: ServiceTier | null, costNano: number) {
  const row = await generationOf(world, id)
  t.is(row.serviceTier, tier)
  t.is(Number(row.costNano), costNano)
}

for (const [asked, served] of [
  ['flex', 'flex'],
  ['priority', 'priority'],
  ['fast', 'priority'],
] as const)
  test.serial(`200 at the tier ${asked}: sent, billed and logged as ${served}`, async t => {
    const account = await world.gateway.account()
    const sdk = world.sdk(account.live)
    const body = saying(model, 'Hello', { service_tier: asked }) as OpenAI.ChatCompletionCreateParamsNonStreaming
    const { data, response } = await sdk.chat.completions.create(body).withResponse()
    t.is(world.openai.requests.at(-1)!.body.service_tier, served)
    t.is(dropped(response), null)
    t.is(data.service_tier, served)
    t.is((data.usage as { service_tier?: string }).service_tier, served)
    const { prompt_tokens, completion_tokens } = data.usage!
    const nano = nanoAt(served, model, [prompt_tokens, completion_tokens])
    await logged(t, response.headers.get('x-generation-id')!, served, nano)
    t.is(await chargedNano(world, account), nano)
  })

test.serial('200 of a stream and of Responses at a tier: the same price as of a whole chat', async t => {
  const { live } = await world.gateway.account()
  const tier = { service_tier: 'flex' }
  const streamed = await ask(
    live,
    saying(model, 'Hello', { ...tier, stream: true, stream_options: { include_usage: true } }),
  )
  const { usage } = dataOf(streamed.text).at(-2)
  t.is(usage.service_tier, 'flex')
  await logged(t, streamed.id, 'flex', nanoAt('flex', model, [usage.prompt_tokens, usage.completion_tokens]))

  const response = await ask(live, { model, input: 'Hello', ...tier, store: false }, '/v1/responses')
  t.is(world.openai.requests.at(-1)!.body.service_tier, 'flex')
  t.is(response.json().service_tier, 'flex')
  t.is(dropped(response), null)
  const { input_tokens, output_tokens } = response.json().usage
  await logged(t, response.id, 'flex', nanoAt('flex', model, [input_tokens, output_tokens]))
})

test.serial('200 served at the standard tier: billed at the standard price, and the log has no tier', async t => {
  const { live } = await world.gateway.account()
  world.openai.next(chatReply({ tier: 'default' }))
  const answer = await ask(live, saying(model, 'Hello', { service_tier: 'priority' }))
  const { usage, service_tier } = answer.json()
  t.is(service_tier, 'default')
  t.is(usage.service_tier, undefined)
  await logged(t, answer.id, null, nanoAt(null, model, [usage.prompt_tokens, usage.completion_tokens]))
})

test.serial('200 of a tier that nobody asked for: billed at the standard price', async t => {
  const { live } = await world.gateway.account()
  world.openai.next(chatReply({ tier: 'priority' }))
  const answer = await ask(live, saying(model, 'Hello'))
  const { usage } = answer.json()
  t.is(usage.service_tier, undefined)
  await logged(t, answer.id, null, nanoAt(null, model, [usage.prompt_tokens, usage.completion_tokens]))
})

test.serial('200 without a tier that no target has a price for: it is named as dropped', async t => {
  const { live } = await world.gateway.account()
  for (const [slug, service_tier] of [
    ['gpt-5-nano', 'priority'],
    ['claude-haiku-4-5', 'flex'],
    [model, 'scale'],
    [model, 'ultrafast'],
  ] as const) {
    const answer = await ask(live, saying(slug, 'Hello', { service_tier }))
    t.is(answer.status, 200)
    t.is(dropped(answer), 'service_tier', slug)
  }
  t.deepEqual(
    world.openai.requests.map(({ body }) => body.service_tier),
    ['default', 'default', 'default'],
  )
})

test.serial('400 where a client demands every parameter, and no provider has the tier', async t => {
  const { live } = await world.gateway.account()
  const demanding = { provider: { require_parameters: true } }
  const answer = await ask(live, saying('gpt-5-nano', 'Hello', { ...demanding, service_tier: 'priority' }))
  t.is(answer.status, 400)
  const { error } = errorAnswer.parse(answer.json())
  t.is(error.param, 'provider')
  t.regex(error.message, /service_tier/)
  t.is((await ask(live, saying(model, 'Hello', { ...demanding, service_tier: 'priority' }))).status, 200)
})

test.serial(
  '502 without capacity for the cheap tier: not moved to another tier, and no harm to other requests',
  async t => {
    const { live } = await world.gateway.account()
    // https://developers.openai.com/api/docs/guides/flex-processing
    const unavailable = failure(429, 'Resource Unavailable', 'requests', 'resource_unavailable')
    world.openai.next(unavailable, unavailable, unavailable, unavailable)
    const refused = await ask(live, saying(model, 'Hello', { service_tier: 'flex' }))
    t.is(refused.status, 502)
    t.is(world.openrouter.requests.length, 0)
    t.true(world.openai.requests.every(({ body }) => body.service_tier === 'flex'))
    world.openai.reset()
    const usual = await ask(live, saying(model, 'Hello'))
    t.is(usual.headers.get('x-gateway-provider'), 'openai')
    t.is(usual.status, 200)
  },
)

test.serial('402 where the wallet covers the standard tier only', async t => {
  const account = await world.gateway.account({ usd: '0.02' })
  const body = saying(model, 'Hello', { max_tokens: 1_500 })
  t.is((await ask(account.live, { ...body, service_tier: 'priority' })).status, 402)
  t.is((await ask(account.live, { ...body, service_tier: 'flex' })).status, 200, 'no more is reserved than usually')
})

test.serial(
  'reserved for flex is the price of the standard tier, at which a provider may serve it instead',
  async t => {
    const account = await world.gateway.account()
    const reservedAt = async (tier: object) => {
      let reserved = 0n
      world.openai.next(async (request, response) => {
        reserved = (await world.gateway.services.wallets.view(account.organisationId)).reservedNano
        await reply(request, response)
      })
      const { status } = await ask(
        account.live,
        saying(model, 'Hello', { provider: { only: ['openai'] }, max_tokens: 500, ...tier }),
      )
      t.is(status, 200)
      await world.gateway.settled()
      return reserved
    }
    const standard = await reservedAt({})
    const flex = await reservedAt({ service_tier: 'flex' })
    // The field itself is some bytes of the prompt.
    t.true(
      standard > 0n && flex >= standard && flex < standard + standard / 10n,
      `${standard} usually, ${flex} at flex`,
    )
  },
)

test.serial('403 at a tier that the key may not use', async t => {
  const { organisationId } = await world.gateway.account()
  const { secret } = await world.gateway.services.keys.createProvisioning(organisationId, operatorActor)
  const created = await world.gateway.fetch('/api/v1/keys', {
    key: secret,
    body: { denied_service_tiers: ['priority', 'priority'] },
  })
  const { key, data } = (await created.json()) as { key: string; data: { denied_service_tiers: string[] } }
  t.deepEqual(data.denied_service_tiers, ['priority'])
  for (const service_tier of ['priority', 'fast']) {
    const refused = await ask(key, saying(model, 'Hello', { service_tier }))
    t.is(refused.status, 403)
    const { error } = errorAnswer.parse(refused.json())
    t.deepEqual([error.code, error.param], ['service_tier_not_allowed', 'service_tier'])
    t.is((await ask(key, saying(model, 'Hello', { service_tier }), '/v1/route')).status, 403)
  }
  t.is((await ask(key, saying(model, 'Hello', { service_tier: 'flex' }))).status, 200)
  const patched = await world.gateway.fetch('/api/v1/keys', { key: secret, body: { denied_service_tiers: ['scale'] } })
  t.is(patched.status, 400)
})

test.serial('200 of auto and of fallback models: those with the tier', async t => {
  const { live } = await world.gateway.account()
  const auto = await ask(live, saying('auto', 'Hello', { service_tier: 'priority' }))
  t.is(auto.status, 200)
  t.is(dropped(auto), null)
  const chosen = auto.headers.get('x-gateway-model')!
  const { price } = catalog
    .find(chosen)!
    .providers.find(({ provider }) => provider === auto.headers.get('x-gateway-provider'))!
  t.true(price.unit === 'token' && price.tiers?.priority !== undefined)
  const models = await ask(live, saying('claude-haiku-4-5', 'Hello', { models: [model], service_tier: 'flex' }))
  t.is(models.headers.get('x-gateway-model'), model)
})

test.serial('200 of a routing decision that names who has no price for the tier', async t => {
  const { live } = await world.gateway.account()
  const decision = (await ask(live, saying(model, 'Hello', { service_tier: 'flex' }), '/v1/route')).json()
  t.is(decision.provider, 'openai')
  const other = decision.candidates.find(({ provider }: { provider: string }) => provider === 'openrouter')
  t.is(other.excluded, 'provider has no price for the service tier flex')
  t.deepEqual(decision.fallbacks, [])
})

test.serial('200 at Gemini: by its own libraries, and translated', async t => {
  const { live } = await world.gateway.account()
  const slug = 'gemini-3.6-flash'
  const google = new GoogleGenAI({ apiKey: live, httpOptions: { baseUrl: world.gateway.url } })
  const own = await google.models.generateContent({
    model: slug,
    contents: 'Hello',
    config: { serviceTier: GoogleTier.FLEX },
  })
  t.is(world.gemini.requests.at(-1)!.body.serviceTier, 'flex')
  t.is(own.sdkHttpResponse?.headers?.['x-gateway-dropped'], undefined)

  for (const [body, path] of [
    [saying(slug, 'Hello', { service_tier: 'priority' }), '/v1/chat/completions'],
    [{ model: slug, input: 'Hello', service_tier: 'priority' }, '/v1/responses'],
    [
      { contents: [{ role: 'user', parts: [{ text: 'Hello' }] }], service_tier: 'priority' },
      `/v1beta/models/${slug}:generateContent`,
    ],
  ] as const) {
    const answer = await ask(live, body, path)
    t.is(answer.status, 200, answer.text)
    t.is(dropped(answer), null, path)
    t.is(world.gemini.requests.at(-1)!.body.serviceTier, 'priority')
    const row = await generationOf(world, answer.id)
    const tokens: [number, number] = [row.promptTokens, row.completionTokens]
    await logged(t, answer.id, 'priority', nanoAt('priority', slug, tokens))
  }
})

test.serial('200 with a test key: the tier is logged, and nothing is charged', async t => {
  const account = await world.gateway.account()
  const answer = await ask(account.test, saying(model, 'Hello', { service_tier: 'flex' }))
  t.is(answer.status, 200)
  t.is(dropped(answer), null)
  await logged(t, answer.id, 'flex', 0)
})

test.serial('200 of the model lists with the prices of tiers', async t => {
  const { live } = await world.gateway.account()
  const list = await world.gateway.fetch(`/v1/models/${model}`, { key: live })
  const { pricing } = (await list.json()) as { pricing: Record<string, string> }
  t.is(Number(pricing.prompt_flex), Number(pricing.prompt) / 2)
  t.is(Number(pricing.completion_priority), Number(pricing.completion) * 2)
})
