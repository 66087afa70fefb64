import type { Recorded } from '../emulators/emulator.ts'
import { rateLimited, serverError, startOpenAiEmulator } from '../emulators/openai.ts'
import { answersError } from '../support/api/edge.ts'
import { type OpenApi, operationsIn } from '../support/api/openapi.ts'
import { saying } from '../support/chat/gateway.ts'
import { eventually, type Gateway, startGateway } from '../support/gateway.ts'
import { test } from '../support/test.ts'
import { use, useStores } from '../support/use.ts'

/** Two gateways on the same stores, with three API keys of one provider and two of another. */
let gateways: Gateway[]

const stores = useStores(test)
const openai = use(test, startOpenAiEmulator)
const openrouter = use(test, startOpenAiEmulator)
test.before(async () => {
  const env = {
    OPENAI_API_KEY: 'first,second,third',
    OPENAI_BASE_URL: `${openai.url}/v1`,
    OPENROUTER_API_KEY: 'fourth,fifth',
    OPENROUTER_BASE_URL: `${openrouter.url}/v1`,
  }
  gateways = await Promise.all([startGateway(stores, env), startGateway(stores, env)])
})
const account = use(test, () => gateways[0]!.account({ usd: '100' }))
test.after.always(async () => {
  await Promise.all((gateways ?? []).map(gateway => gateway.close()))
})
test.beforeEach(() => {
  openai.reset()
  openrouter.reset()
})

type Place = { model: string | null; provider: string | null; key: string }

/** Sends a request through one of the gateways; where it was served at last. */
async function ask(body: object, { session, via = 0, key = account.live, ...more }: Asking = {}): Promise<Place> {
  const headers = { ...(session !== undefined && { 'x-session-id': session }), ...more.headers }
  const response = await gateways[via]!.fetch('/v1/chat/completions', { key, body, headers })
  const text = await response.text()
  if (response.status !== 200) throw new Error(`${response.status} ${text}`)
  const provider = response.headers.get('x-gateway-provider')
  const last: Recorded | undefined = (provider === 'openai' ? openai : openrouter).requests.at(-1)
  const place = { model: response.headers.get('x-gateway-model'), provider, key: '' }
  return key === account.test ? place : { ...place, key: String(last?.headers.authorization) }
}
type Asking = { session?: string; via?: number; key?: string; headers?: Record<string, string> }

/**
 * Waits until a session is at a place. It is written after the answer, but on the connection that the same gateway reads it
 * from: once that gateway knows, the other one does, too.
 */
async function settled(session: string, body: object, place: Partial<Place>): Promise<void> {
  await eventually(
    async () => {
      const last = await ask(body, { session })
      return Object.entries(place).every(([field, value]) => last[field as keyof Place] === value)
    },
    `the session is at ${JSON.stringify(place)}`,
  )
}

/** Where many requests go, through both gateways in turn. */
async function placesOf(bodies: object[], session?: string): Promise<Set<string>> {
  const places = new Set<string>()
  for (const [index, body] of bodies.entries()) {
    places.add(JSON.stringify(await ask(body, { via: index % 2, ...(session && { session }) })))
  }
  return places
}

const chatter = ['Hi', 'How are you?', 'What is the capital of Norway?', 'And of Peru?', 'Thanks!', 'Bye']
const thrice = [...chatter, ...chatter, ...chatter]

for (const [title, model] of [
  ['a pinned model with two providers', 'gpt-5'],
  ['auto', 'auto'],
] as const) {
  test.serial(`200 at the same model, provider and API key for a whole session: ${title}`, async t => {
    const bodies = thrice.map(text => saying(model, text))
    t.true((await placesOf(bodies)).size >= 2, 'without a session the keys take turns')
    const first = await ask(bodies[0]!, { session: `header ${model}` })
    await settled(`header ${model}`, bodies[0]!, first)
    t.is((await placesOf(bodies, `header ${model}`)).size, 1)
    const named = bodies.map(body => ({ ...body, prompt_cache_key: `body ${model}` }))
    const begun = await ask(named[0]!)
    t.deepEqual(await ask(named[1]!), begun)
    t.is((await placesOf(named)).size, 1)
  })
}

test.serial('200 for the rest of a session at the provider that took over when the first one failed', async t => {
  const body = saying('gpt-5-mini')
  t.is((await ask(body, { session: 'failed over' })).provider, 'openai')
  openai.next(serverError)
  await settled('failed over', body, { provider: 'openrouter' })
  t.is((await placesOf(Array(8).fill(body), 'failed over')).size, 1)
  t.is((await ask(body)).provider, 'openai', 'other sessions do not move')
})

test.serial('200 for the rest of a session with the API key that took over when the first one was limited', async t => {
  const body = saying('gpt-4.1')
  const { key } = await ask(body, { session: 'limited' })
  await settled('limited', body, { key })
  openai.next(rateLimited('30'))
  const next = await ask(body, { session: 'limited' })
  t.is(next.provider, 'openai')
  t.not(next.key, key)
  await settled('limited', body, next)
  t.is((await placesOf(Array(8).fill(body), 'limited')).size, 1)
})

const hard = `Prove step by step, with all the details, that there are infinitely many primes p ≡ 3 (mod 4), then derive the
asymptotic density by analytic number theory: evaluate ∑ 1/p over p ≤ x, bound the error term, and analyze the complexity
of the algorithm that lists them. ${'Justify every inequality and every exchange of a limit and an integral. '.repeat(30)}`

test.serial('200 from a much better model when the conversation gets hard, and from then on', async t => {
  const { catalog } = gateways[0]!.services
  const qualityOf = (place: Place) => catalog.find(place.model!)!.quality!
  let moved = 0
  for (const mode of ['cost', 'balanced', 'quality']) {
    const [easy, difficult] = [saying('auto', 'Hi', { mode }), saying('auto', hard, { mode })]
    const [usual, strong] = [await ask(easy), await ask(difficult)]
    if (qualityOf(strong) < qualityOf(usual) + 10) continue
    moved++
    const session = `rising ${mode}`
    await ask(easy, { session })
    await settled(session, easy, { model: usual.model })
    await settled(session, difficult, { model: strong.model })
    await settled(session, easy, { model: strong.model })
    t.is((await ask(easy, { session, via: 1 })).model, strong.model, 'never back down')
  }
  t.true(moved > 0, 'some mode tells hard from easy')
})

test.serial('200 at the usual target for others: organisations, test keys and modes share no session', async t => {
  const [gateway] = gateways
  const body = saying('gpt-5-nano')
  const elsewhere = { ...body, provider: { order: ['openrouter'] } }
  await ask(elsewhere, { session: 'mine' })
  await settled('mine', body, { provider: 'openrouter' })
  const other = await gateway!.account()
  const second = await gateway!.key(account.organisationId, 'live')
  t.is((await ask(body, { session: 'mine', key: second })).provider, 'openrouter', 'another key of the organisation')
  for (const asking of [{ key: other.live }, { key: account.test }]) {
    t.is((await ask(body, { session: 'mine', ...asking })).provider, 'openai')
  }
  t.is((await ask(body, { session: 'yours' })).provider, 'openai')
  t.is((await ask({ ...body, mode: 'quality' }, { session: 'mine' })).provider, 'openai')
})

test.serial('200 where the request itself says, whatever its session: provider.order, :floor and :nitro', async t => {
  const { redis } = gateways[0]!.services
  const toOpenrouter = { provider: { order: ['openrouter'] } }
  await ask(saying('gpt-5', 'Hi', toOpenrouter), { session: 'told' })
  await settled('told', saying('gpt-5'), { provider: 'openrouter' })
  const ordered = saying('gpt-5', 'Hi', { provider: { order: ['openai', 'openrouter'] } })
  t.is((await ask(ordered, { session: 'told' })).provider, 'openai')
  for (const model of ['gpt-5:floor', 'gpt-5:nitro']) {
    const { provider } = await ask(saying(model))
    const known = (await redis.keys('session:*')).length
    await ask(saying(model, 'Hi', toOpenrouter), { session: 'told' })
    await eventually(async () => (await redis.keys('session:*')).length > known, 'the session is written')
    t.is(provider, 'openai')
    t.is((await ask(saying(model), { session: 'told' })).provider, provider)
  }
})

const claudeCode = (session_id: string) => JSON.stringify({ device_id: 'd'.repeat(64), account_uuid: '', session_id })

/** How coding agents name their sessions, the strongest name first. */
const namings: [name: string, headers: Record<string, string>, fields?: object][] = [
  ['x-session-id', { 'x-session-id': 'agent-1' }],
  ['prompt_cache_key', {}, { prompt_cache_key: 'agent-2' }],
  ['x-claude-code-session-id', { 'x-claude-code-session-id': 'agent-3' }],
  ['session-id', { 'session-id': 'agent-4' }],
  ['x-opencode-session', { 'x-opencode-session': 'agent-5' }],
  ['x-session-affinity', { 'x-session-affinity': 'agent-8' }],
  ['metadata.user_id of Claude Code', {}, { metadata: { user_id: claudeCode('agent-6') } }],
  ['metadata.user_id of older versions', {}, { metadata: { user_id: 'user_0a_account__session_agent-7' } }],
]

for (const [name, headers, fields] of namings)
  test.serial(`200 at the same provider for a whole session: ${name}`, async t => {
    const body = { ...saying('gpt-5-mini'), ...fields }
    await ask({ ...body, provider: { order: ['openrouter'] } }, { headers })
    await eventually(async () => (await ask(body, { headers })).provider === 'openrouter', 'the session is known')
    t.is((await ask(saying('gpt-5-mini'))).provider, 'openai')
  })

test.serial('200 in the session of the first of several names', async t => {
  const named = namings.slice(0, 7).map(([, headers, fields]) => ({ headers, fields }))
  const elsewhere = { provider: { order: ['openrouter'] } }
  for (const [index, { headers, fields }] of named.entries()) {
    // The weaker names are those of sessions at the usual provider.
    const weaker = named.slice(index + 1)
    const mixed = Object.assign(saying('gpt-5-nano'), ...weaker.map(one => one.fields), fields)
    const all = Object.assign({}, ...weaker.map(one => one.headers), headers)
    const own = { ...saying('gpt-5-nano'), ...fields }
    await ask({ ...own, ...elsewhere }, { headers })
    await eventually(async () => (await ask(own, { headers })).provider === 'openrouter', 'the session is known')
    t.is((await ask(mixed, { headers: all })).provider, 'openrouter', namings[index]![0])
  }
})

test.serial('200 at the usual provider when metadata.user_id names a person or is broken', async t => {
  const body = saying('gpt-5-mini')
  const elsewhere = { ...body, provider: { order: ['openrouter'] } }
  const userIds = ['u-4711', '{"session_id":', '{"session_id":7}', claudeCode('x'.repeat(1_000)), '']
  for (const user_id of userIds) await ask({ ...elsewhere, metadata: { user_id } })
  // Sessions are written in the order of their requests.
  await ask(elsewhere, { session: 'after the others' })
  await settled('after the others', body, { provider: 'openrouter' })
  for (const user_id of userIds) t.is((await ask({ ...body, metadata: { user_id } })).provider, 'openai', user_id)
})

test.serial('400 naming the field when a session’s name is too long', async t => {
  const fetch = (name: string, more: object = {}) =>
    gateways[0]!.fetch('/v1/chat/completions', {
      key: account.live,
      body: { ...saying('gpt-4o'), ...more },
      headers: { 'x-session-id': name },
    })
  t.is((await fetch('n'.repeat(256))).status, 200)
  const refused = await fetch('n'.repeat(257))
  t.is(refused.status, 400)
  const { error } = (await refused.json()) as { error: { param: string; code: string } }
  t.like(error, { code: 'invalid_request', param: 'x-session-id' })
  for (const name of ['x-claude-code-session-id', 'session-id', 'x-opencode-session', 'x-session-affinity']) {
    const headers = { [name]: 'n'.repeat(257) }
    const response = await gateways[0]!.fetch('/v1/route', { key: account.live, body: saying('gpt-4o'), headers })
    await answersError(t, response, 'invalid_request', name)
  }
  const long = await fetch('', { prompt_cache_key: 'n'.repeat(1_001) })
  t.is(long.status, 400)
  t.is(((await long.json()) as { error: { param: string } }).error.param, 'prompt_cache_key')
})

test.serial('sticky targets have a hash of the session’s name, and are forgotten after an hour', async t => {
  const { redis } = gateways[0]!.services
  await ask(saying('gpt-4o'), { session: 'patient-4711' })
  await ask(saying('gpt-4o', 'Hi', { prompt_cache_key: 'patient-4712' }))
  await settled('patient-4711', saying('gpt-4o'), {})
  await eventually(async () => (await redis.keys('session:*')).length >= 2, 'both sessions are written')
  for (const key of await redis.keys('session:*')) {
    t.notRegex(`${key} ${await redis.get(key)}`, /patient/)
    const ttlS = await redis.ttl(key)
    t.true(ttlS > 0 && ttlS <= 3_600)
  }
})

test.serial('200 also when the sessions are lost', async t => {
  const { redis } = gateways[0]!.services
  const body = saying('gpt-5')
  await ask({ ...body, provider: { order: ['openrouter'] } }, { session: 'lost' })
  await settled('lost', body, { provider: 'openrouter' })
  await redis.del(...(await redis.keys('session:*')))
  t.is((await ask(body, { session: 'lost' })).provider, 'openai')
})

test.serial('200 with the headers in the documentation, and open to pages of other origins', async t => {
  const [gateway] = gateways
  const document = (await (await gateway!.fetch('/openapi.json')).json()) as OpenApi
  for (const path of ['/v1/chat/completions', '/v1/completions', '/v1/route']) {
    const { parameters } = operationsIn(document).find(one => one.path === path)!.operation
    for (const name of ['x-session-id', 'x-claude-code-session-id', 'session-id', 'x-opencode-session'])
      t.like(
        parameters.find(one => one.name === name),
        { in: 'header', required: false, schema: { type: 'string', maxLength: 256 } },
        name,
      )
  }
  const preflight = await gateway!.fetch('/v1/chat/completions', { method: 'OPTIONS' })
  t.true(preflight.headers.get('access-control-allow-headers')!.includes('x-session-id'))
})
