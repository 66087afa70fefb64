import { chargedNano, saying, startWorld } from '../support/chat/gateway.ts'
import { png } from '../support/media/png.ts'
import { failure, targetOf } from '../support/routing/health.ts'
import { type ExecutionContext, test } from '../support/test.ts'
import { use } from '../support/use.ts'
import { testClock } from '../support/wallet/money.ts'

/** At a time when none of the models is retired. */
const clock = testClock('2026-11-20T12:00:00Z')
const world = use(test, () => startWorld({}, clock))
const account = use(test, () => world.gateway.account({ usd: '100' }))

type Candidate = {
  model: string
  provider: string | null
  score: number | null
  quality: number | null
  estimated_cost_usd: number | null
  latency_ms: number | null
  excluded: string | null
}
type Routing = Candidate & {
  object: string
  mode: string
  reason: string
  estimated_cost_usd: number
  candidates: Candidate[]
  fallbacks: string[]
  error: { code: string; param: string | null }
}
type Asking = { key?: string; headers?: Record<string, string> }

async function routed(body: object, { key = account.live, headers = {} }: Asking = {}) {
  const response = await world.gateway.fetch('/v1/route', { key, body, headers })
  return { status: response.status, headers: response.headers, json: (await response.json()) as Routing }
}

async function decisionOn(body: object, asking: Asking = {}): Promise<Routing> {
  const { status, json } = await routed(body, asking)
  if (status !== 200) throw new Error(JSON.stringify(json))
  return json
}

/** The decision on a request is what the same request then takes, streamed or not, with a live and a test key. */
async function agrees(t: ExecutionContext, body: object, headers: Record<string, string> = {}): Promise<void> {
  for (const key of [account.live, account.test]) {
    for (const stream of [false, true]) {
      const request = { ...body, stream }
      // What the calls so far tell of the providers is known to both questions.
      await world.gateway.services.health.sync()
      const decision = await decisionOn(request, { key, headers })
      const response = await world.gateway.fetch('/v1/chat/completions', { key, body: request, headers })
      t.is(response.status, 200, await response.text())
      t.is(response.headers.get('x-gateway-model'), decision.model)
      t.is(response.headers.get('x-gateway-provider'), decision.provider)
      t.is(response.headers.get('x-gateway-mode'), decision.mode)
      t.is(response.headers.get('x-gateway-attempts'), '1')
    }
  }
}

const url = `data:image/png;base64,${png(1).toString('base64')}`
const picture = [
  { type: 'text', text: 'What is this?' },
  { type: 'image_url', image_url: { url } },
]
const tools = [{ type: 'function', function: { name: 'look', parameters: { type: 'object', properties: {} } } }]
const schema = { type: 'object', properties: { a: { type: 'string' } }, required: ['a'], additionalProperties: false }
const json = { type: 'json_schema', json_schema: { name: 's', schema } }

test.serial('200 with the documented fields, and no others', async t => {
  const { headers, json: decision } = await routed(saying('auto'))
  t.deepEqual(Object.keys(decision), [
    'object',
    'model',
    'provider',
    'mode',
    'reason',
    'estimated_cost_usd',
    'candidates',
    'fallbacks',
  ])
  t.like(decision, { object: 'routing.decision', mode: 'balanced' })
  const fields = ['model', 'provider', 'score', 'quality', 'learned', 'estimated_cost_usd', 'latency_ms', 'excluded']
  for (const candidate of decision.candidates) t.deepEqual(Object.keys(candidate), fields)
  t.is(headers.get('x-gateway-model'), decision.model)
  t.is(headers.get('x-gateway-provider'), decision.provider)
  t.is(headers.get('x-gateway-mode'), 'balanced')
  const [first] = decision.candidates
  t.like(first, { model: decision.model, provider: decision.provider!, excluded: null })
  t.is(first!.estimated_cost_usd, decision.estimated_cost_usd)
  t.true(decision.estimated_cost_usd > 0 && decision.estimated_cost_usd < 1)
  t.true(decision.fallbacks.length >= 2)
  for (const name of decision.fallbacks)
    t.is(decision.candidates.find(({ model, provider }) => `${model}@${provider}` === name)!.excluded, null)
})

test.serial('200 with a reason that a person understands', async t => {
  const reasonOf = async (body: object) => (await decisionOn(body)).reason
  const usd = String.raw`about \$[\d.e-]+`
  t.regex(
    await reasonOf(saying('auto', 'Hi', { mode: 'cost' })),
    new RegExp(
      `^auto, mode cost: \\S+ at \\w+ is the best trade-off of quality, price and live figures of \\d+ candidates \\(quality \\d+, ${usd}; estimated difficulty 0\\.\\d\\d of 1, set point 0\\.\\d+\\)\\.$`,
    ),
  )
  t.regex(await reasonOf(saying('auto:floor')), /^auto, .* is the cheapest of \d+ candidates/)
  t.regex(
    await reasonOf(saying('gpt-5:nitro')),
    /^pinned: the request names gpt-5:nitro; openai is the best guess, as no speed is known yet, of its providers/,
  )
  const ordered = saying('gpt-5', 'Hi', { provider: { order: ['openrouter'] } })
  t.regex(await reasonOf(ordered), /openrouter is the first provider of the request’s order/)
  const nobody = saying('grok-4.5', 'Hi', { models: ['gpt-4o'] })
  t.regex(
    await reasonOf(nobody),
    /^fallback, as no provider can serve grok-4.5 now; pinned: the request names gpt-4o; openai is/,
  )
})

test.serial('200 with the reason for each excluded target', async t => {
  const excludedOf = ({ candidates }: Routing, model: string, provider: string | null = null) =>
    candidates.find(one => one.model === model && one.provider === provider)!.excluded!
  const decision = await decisionOn(
    saying('auto', picture, { tools, max_tokens: 60_000, provider: { ignore: ['gemini'] } }),
  )
  t.is(excludedOf(decision, 'deepseek-v3.2'), 'takes no images')
  t.is(excludedOf(decision, 'gemini-3-pro-image'), 'takes no tools')
  t.is(excludedOf(decision, 'gpt-4o'), 'gives at most 16384 tokens')
  t.is(excludedOf(decision, 'grok-4.5', 'xai'), 'provider is not configured')
  t.is(excludedOf(decision, 'gemini-3.8-flash', 'gemini'), 'excluded by the request’s provider preferences')
  const limited = await world.gateway.account({ model_allowlist: ['gpt-4o', 'claude-sonnet-5'] })
  const narrow = await decisionOn(saying('auto', 'Hi', { n: 2, mode: 'quality' }), { key: limited.live })
  t.is(narrow.model, 'gpt-4o')
  t.is(excludedOf(narrow, 'gpt-4.1'), 'not in the key’s allowlist')
  t.regex(excludedOf(narrow, 'claude-sonnet-5', 'anthropic'), /one answer/)
  const long = await decisionOn(saying('auto', 'long '.repeat(120_000)))
  t.regex(excludedOf(long, 'gpt-4o'), /^takes 128000 tokens, and this input has about 150\d\d\d$/)
})

const bodies: [title: string, body: object][] = [
  ['a pinned model', saying('gpt-5')],
  ['a model by vendor and id', saying('openai/gpt-5')],
  ['a long answer', saying('auto', 'Write a novel.', { max_tokens: 60_000 })],
  ['tools', saying('auto', 'Look', { tools })],
  ['a JSON schema', saying('auto', 'Describe', { response_format: json })],
  ['an image', saying('auto', picture)],
  ['the cheapest', saying('auto:floor')],
  ['the fastest', saying('auto:nitro')],
  ['the cheapest of a model', saying('gpt-oss-20b:floor')],
  ['fallback models', saying('grok-4.5', 'Hi', { models: ['nope', 'claude-haiku-4-5', 'auto'] })],
  ['an order of providers', saying('claude-opus-4-7', 'Hi', { provider: { order: ['openrouter', 'anthropic'] } })],
  ['one provider only', saying('auto', 'Hi', { provider: { only: ['gemini'], allow_fallbacks: false } })],
  ['two answers, of which one provider gives but one', saying('claude-opus-4-7', 'Hi', { n: 2 })],
  [
    'two answers and no second provider',
    saying('claude-opus-4-6', 'Hi', { n: 2, provider: { allow_fallbacks: false } }),
  ],
]
for (const [title, body] of bodies) {
  test.serial(`200 where the same request then goes: ${title}`, async t => {
    for (const mode of ['cost', 'quality']) await agrees(t, { ...body, mode })
  })
}

test.serial('200 where the same request then goes: a session, that another provider serves', async t => {
  const headers = { 'x-session-id': 'a session' }
  const ordered = saying('gpt-5-mini', 'Hi', { provider: { order: ['openrouter'] } })
  for (const key of [account.live, account.test]) {
    await (await world.gateway.fetch('/v1/chat/completions', { key, body: ordered, headers })).text()
  }
  await agrees(t, saying('gpt-5-mini'), headers)
  const { provider, reason } = await decisionOn(saying('gpt-5-mini'), { headers })
  t.is(provider, 'openrouter')
  t.regex(reason, /^the session stays with gpt-5-mini at openrouter, where its prompt may be cached/)
  const long = await routed(saying('gpt-5-mini'), { headers: { 'x-session-id': 'n'.repeat(257) } })
  t.is(long.status, 400)
  t.is(long.json.error.param, 'x-session-id')
})

const minuteMs = 60_000
async function fails(name: string, retryAfterMs?: number): Promise<void> {
  const { health } = world.gateway.services
  const key = { id: 'any', alone: true }
  for (let i = 0; i < 3; i++) health.recordFailure(targetOf(name), failure('overloaded', retryAfterMs), minuteMs, key)
  await health.sync()
}

test.serial(
  '200 where the same request then goes: while a circuit is open, and while a provider wants to be left alone',
  async t => {
    const { model, provider } = await decisionOn(saying('auto'))
    await fails(`${model}@${provider}`)
    const now = await decisionOn(saying('auto'))
    t.notDeepEqual([now.model, now.provider], [model, provider])
    const left = now.candidates.find(one => one.model === model && one.provider === provider)!
    t.regex(left.excluded!, /^its circuit is open after repeated failures; available in (60|5\d)\.\d s$/)
    await agrees(t, saying('auto'))
    await fails('gpt-5@openai')
    t.is((await decisionOn(saying('gpt-5'))).provider, 'openrouter')
    await agrees(t, saying('gpt-5'))
    const { health } = world.gateway.services
    health.recordFailure(targetOf('gpt-5-nano@openai'), failure('overloaded', 90_000), 5, { id: 'any', alone: true })
    const paused = await decisionOn(saying('gpt-5-nano'))
    t.is(paused.provider, 'openrouter')
    t.regex(
      paused.candidates.find(one => one.provider === 'openai')!.excluded!,
      /^the provider requested a pause; available in (90|8\d)\.\d s$/,
    )
    await agrees(t, saying('gpt-5-nano'))
  },
)

test.serial(
  '503 with retry-after, from both, while no provider is available; the sandbox serves test keys',
  async t => {
    await fails('gpt-4.1@openai')
    const body = saying('gpt-4.1')
    const refused = await routed(body)
    const chat = await world.gateway.fetch('/v1/chat/completions', { key: account.live, body })
    t.deepEqual([refused.status, chat.status], [503, 503])
    t.is(refused.json.error.code, 'no_provider_available')
    for (const { headers } of [refused, chat]) t.regex(headers.get('retry-after')!, /^(60|5\d)$/)
    const test = await decisionOn(body, { key: account.test })
    t.regex(test.reason, /Every provider is in cooldown; gpt-4.1 at openai is available first, in \d+\.\d s\.$/)
    const served = await world.gateway.fetch('/v1/chat/completions', { key: account.test, body })
    t.is(served.status, 200)
  },
)

test.serial('the same refusal as the request itself would get', async t => {
  const limited = await world.gateway.account({ model_allowlist: ['gpt-4o'] })
  const cases: [object, string, number][] = [
    [saying('nope'), 'model_not_found', 404],
    [saying('gpt-4.1-mini'), 'model_not_allowed', 403],
    [saying('gpt-4o', 'long '.repeat(120_000)), 'context_length_exceeded', 400],
    [saying('gpt-4o', 'Hi', { modalities: ['image', 'text'] }), 'unsupported_capability', 400],
    [saying('gpt-4o', 'Hi', { provider: { only: ['xai'] } }), 'invalid_request', 400],
    [saying('gpt-4o', 'Hi', { provider: { order: 1 } }), 'invalid_request', 400],
  ]
  for (const [body, code, status] of cases) {
    for (const path of ['/v1/route', '/v1/chat/completions']) {
      const response = await world.gateway.fetch(path, { key: limited.live, body })
      t.is(response.status, status, code)
      t.is(((await response.json()) as Routing).error.code, code)
    }
  }
})

test.serial('200 free of charge and without a call, but counted as a request', async t => {
  const emulators = [world.openai, world.anthropic, world.gemini, world.openrouter]
  for (const emulator of emulators) emulator.reset()
  const poor = await world.gateway.account({ usd: '0', rpm_limit: 2 })
  for (const left of ['1', '0']) {
    const { status, headers } = await routed(saying('auto'), { key: poor.live })
    t.is(status, 200)
    t.is(headers.get('x-ratelimit-remaining-requests'), left)
  }
  const third = await routed(saying('auto'), { key: poor.live })
  t.is(third.status, 429)
  t.is(third.json.error.code, 'rate_limit_exceeded')
  t.is(await chargedNano(world, poor), 0)
  for (const emulator of emulators) t.is(emulator.requests.length, 0)
  t.is((await routed(saying('auto'), { key: account.test })).headers.get('x-sandbox'), 'true')
})

// LiteLLM's prefix, which some of its clients keep (OpenHands), and the name of OpenRouter's own router
// (openrouter.ai/docs/guides/routing/routers/auto-router).
test.serial('200 by names with the prefix `openrouter/`: the router, a model, and one with its vendor', async t => {
  for (const [name, model] of [
    ['openrouter/auto', null],
    ['openrouter/auto:floor', null],
    ['openrouter/gpt-4o-mini', 'gpt-4o-mini'],
    ['OpenRouter/openai/gpt-4o-mini', 'gpt-4o-mini'],
    ['openrouter/gpt-4o-mini:nitro', 'gpt-4o-mini'],
    ['openrouter/anthropic/claude-haiku-4.5', 'claude-haiku-4-5'],
  ] as const) {
    const decision = await decisionOn(saying(name))
    if (model) t.is(decision.model, model, name)
    else t.is(decision.model, (await decisionOn(saying(name.slice('openrouter/'.length)))).model, name)
    await agrees(t, saying(name))
  }
  const { live } = await world.gateway.account({ model_allowlist: ['gpt-4o-mini'] })
  t.is((await decisionOn(saying('openrouter/auto'), { key: live })).model, 'gpt-4o-mini')
  const refused = await routed(saying('openrouter/claude-haiku-4-5'), { key: live })
  t.like(refused, { status: 403, json: { error: { code: 'model_not_allowed' } } })
  t.is((await routed(saying('openrouter/openrouter/gpt-4o-mini'))).status, 404)
  t.is((await routed(saying('openrouter/'))).status, 404)
})
