import { Agent, request } from 'node:http'
import type { ErrorBody } from '../../shared/base/errors.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import type { Services } from '../../shared/open-services.ts'
import { startOpenAiEmulator } from '../emulators/openai.ts'
import type { KeyOptions } from '../support/gateway.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

/** What the gateway's clock is ahead of the real one. */
let aheadMs = 0
const clock = { now: () => Date.now() + aheadMs }

const model = 'gpt-4o-mini'
const messages = [{ role: 'user', content: 'Hello' }]
const chat = { model, messages }
const dayMs = 86_400_000

const upstream = use(test, startOpenAiEmulator)
const gateway = useGateway(test, () => ({ OPENAI_API_KEY: 'sk-upstream', OPENAI_BASE_URL: `${upstream.url}/v1` }), {
  clock,
})
test.afterEach.always(() => {
  aheadMs = 0
})

async function errorOf(response: Response): Promise<ErrorBody['error'] & { status: number }> {
  return { status: response.status, ...((await response.json()) as ErrorBody).error }
}

async function testKey(options: KeyOptions = {}): Promise<string> {
  const { organisationId } = await gateway.account({ usd: '0' })
  return gateway.key(organisationId, 'test', options)
}

function post(path: string, key: string, body: unknown = chat): Promise<Response> {
  return gateway.fetch(path, { key, body })
}

async function modelsOf(key: string): Promise<{ id: string; type: string }[]> {
  const response = await gateway.fetch('/v1/models', { key })
  return ((await response.json()) as { data: { id: string; type: string }[] }).data
}

test.serial('200 in the key’s mode, and in the body’s mode where it names one', async t => {
  for (const mode of ['cost', 'balanced', 'quality'] as const) {
    const key = await testKey({ mode })
    const own = await post('/v1/chat/completions', key, { model: 'auto', messages })
    t.is(own.status, 200, await own.text())
    t.is(own.headers.get('x-gateway-mode'), mode)
    const other = mode === 'quality' ? 'cost' : 'quality'
    const asked = await post('/v1/chat/completions', key, { model: 'auto', messages, mode: other })
    t.is(asked.headers.get('x-gateway-mode'), other)
    const decision = (await (await post('/v1/route', key, { model: 'auto', messages })).json()) as { mode: string }
    t.is(decision.mode, mode)
  }
})

test.serial('200 with rate-limit headers for the limits a key has, and for no others', async t => {
  const limits = { rpm_limit: 50, tpm_limit: 100_000 }
  for (const path of ['/v1/chat/completions', '/v1/route']) {
    for (const [options, expected] of [
      [{}, []],
      [{ rpm_limit: 0, tpm_limit: 0 }, []],
      [{ rpm_limit: limits.rpm_limit }, ['requests']],
      [{ tpm_limit: limits.tpm_limit }, ['tokens']],
      [limits, ['requests', 'tokens']],
    ] as const) {
      const response = await post(path, await testKey(options))
      const names = [...response.headers.keys()].filter(name => name.startsWith('x-ratelimit-'))
      const wanted = expected.flatMap(what =>
        ['limit', 'remaining', 'reset'].map(which => `x-ratelimit-${which}-${what}`),
      )
      t.deepEqual(names.sort(), wanted.sort(), JSON.stringify(options))
      if ('rpm_limit' in options && options.rpm_limit)
        t.is(response.headers.get('x-ratelimit-remaining-requests'), '49')
      for (const name of wanted.filter(name => name.includes('reset')))
        t.regex(response.headers.get(name)!, /^\d+(\.\d+)?(ms|s)$/)
    }
  }
})

test.serial('429 at the request that exceeds rpm, on free and on billed routes alike', async t => {
  const key = await testKey({ rpm_limit: 3 })
  t.is((await gateway.fetch('/v1/models', { key })).status, 200)
  t.is((await post('/v1/route', key)).status, 200)
  t.is((await post('/v1/chat/completions', key)).status, 200)
  for (const response of [await post('/v1/chat/completions', key), await gateway.fetch('/v1/balance', { key })]) {
    t.is(response.headers.get('x-ratelimit-remaining-requests'), '0')
    t.true(Number(response.headers.get('retry-after')) >= 1)
    t.like(await errorOf(response), { status: 429, type: 'rate_limit_error', code: 'rate_limit_exceeded' })
  }
})

test.serial('403 model_not_allowed outside the allowlist; auto and the model list stay within it', async t => {
  const model_allowlist = ['gpt-4o-mini', 'gpt-5-nano']
  const key = await testKey({ model_allowlist })
  t.is((await post('/v1/chat/completions', key)).status, 200)
  for (const path of ['/v1/chat/completions', '/v1/route']) {
    const refused = await errorOf(await post(path, key, { model: 'gpt-4o', messages }))
    t.like(refused, { status: 403, type: 'permission_error', code: 'model_not_allowed', param: 'model' })
  }
  t.like(await errorOf(await post('/v1/embeddings', key, { model: 'text-embedding-3-small', input: 'a' })), {
    status: 403,
    code: 'model_not_allowed',
  })
  for (const mode of ['cost', 'quality']) {
    const response = await post('/v1/chat/completions', key, { model: 'auto', messages, mode })
    t.true(model_allowlist.includes(response.headers.get('x-gateway-model')!))
  }
  const ids = (await modelsOf(key)).map(({ id }) => id)
  t.deepEqual(ids.sort(), ['auto', ...model_allowlist].sort())
  const all = (await modelsOf(await testKey())).map(({ id }) => id)
  t.true(all.length > 80 && all.includes('gpt-4o'))
})

test.serial('403 insufficient_scope on every route outside the key’s scopes', async t => {
  const routes = {
    chat: [
      ['/v1/chat/completions', chat],
      ['/v1/route', chat],
    ],
    embeddings: [['/v1/embeddings', { model: 'text-embedding-3-small', input: 'a' }]],
    completions: [['/v1/completions', { model, prompt: 'a' }]],
    '*': [['/v1/generation', undefined]],
  } as const
  for (const scopes of ['chat', 'embeddings', 'completions', 'chat, embeddings', '*', 'chat,*']) {
    const key = await testKey({ scopes })
    for (const [needed, calls] of Object.entries(routes)) {
      for (const [path, body] of calls) {
        const response = await gateway.fetch(path, { key, body })
        if (scopes.includes('*') || scopes.includes(needed)) t.not(response.status, 403, `${scopes}: ${path}`)
        else
          t.like(await errorOf(response), { status: 403, type: 'permission_error', code: 'insufficient_scope' }, path)
      }
    }
    for (const path of ['/v1/models', '/v1/balance']) t.is((await gateway.fetch(path, { key })).status, 200, path)
  }
})

test.serial('401 expired_api_key from the moment of expiry, also in a process that remembers the key', async t => {
  const key = await testKey({ expires_in_days: 2 })
  aheadMs = 2 * dayMs - 60_000
  t.is((await post('/v1/chat/completions', key)).status, 200)
  aheadMs = 2 * dayMs + 60_000
  for (const response of [await post('/v1/chat/completions', key), await gateway.fetch('/v1/models', { key })]) {
    t.is(response.headers.get('www-authenticate'), 'Bearer')
    t.like(await errorOf(response), { status: 401, type: 'authentication_error', code: 'expired_api_key' })
  }
})

test.serial('401 with WWW-Authenticate for a key that is missing, malformed, unknown or revoked', async t => {
  const key = await testKey()
  await revoke(gateway.services, key)
  const unknown = `svc_sk_live_${'a'.repeat(40)}`
  for (const [authorization, code] of [
    [undefined, 'missing_api_key'],
    ['Basic dTpw', 'invalid_api_key'],
    ['Bearer', 'invalid_api_key'],
    ['Bearer a b', 'invalid_api_key'],
    ['Bearer sk-other', 'invalid_api_key'],
    [`Bearer ${unknown.slice(0, 30)}`, 'invalid_api_key'],
    [`Bearer ${unknown}`, 'invalid_api_key'],
    [`Bearer ${unknown}${'a'.repeat(5_000)}`, 'invalid_api_key'],
    [`Bearer ${key}`, 'revoked_api_key'],
  ] as const) {
    for (const path of ['/v1/models', '/v1/balance']) {
      const response = await gateway.fetch(path, { headers: authorization === undefined ? {} : { authorization } })
      t.is(response.headers.get('www-authenticate'), 'Bearer')
      t.like(await errorOf(response), { status: 401, type: 'authentication_error', code }, String(authorization))
    }
  }
})

test.serial('401 before anything is said about the body', async t => {
  const key = await testKey()
  t.is((await post('/v1/chat/completions', key)).status, 200)
  await revoke(gateway.services, key)
  for (const body of ['{', { model: 'no-such-model', messages }, { messages: 'none' }]) {
    t.like(await errorOf(await post('/v1/chat/completions', key, body)), { status: 401, code: 'revoked_api_key' })
  }
})

test.serial('403 wrong_key_type for a provisioning key on /v1 and a standard key on /api/v1', async t => {
  const { organisationId, live, test: sandboxed } = await gateway.account()
  const { secret } = await gateway.services.keys.createProvisioning(organisationId, operatorActor)
  for (const path of ['/v1/models', '/v1/balance', '/v1/generation?id=a'])
    t.like(await errorOf(await gateway.fetch(path, { key: secret })), { status: 403, code: 'wrong_key_type' })
  t.like(await errorOf(await post('/v1/chat/completions', secret)), { status: 403, code: 'wrong_key_type' })
  for (const key of [live, sandboxed]) {
    t.like(await errorOf(await gateway.fetch('/api/v1/keys', { key })), { status: 403, code: 'wrong_key_type' })
    t.like(await errorOf(await post('/api/v1/keys', key, {})), { status: 403, code: 'wrong_key_type' })
  }
})

test.serial(
  '200 from the sandbox for a test key, from the provider for a live one; a test key sees every model',
  async t => {
    const { live, test: sandboxed } = await gateway.account()
    upstream.reset()
    const echoed = await post('/v1/chat/completions', sandboxed)
    t.is(echoed.headers.get('x-sandbox'), 'true')
    t.is(upstream.requests.length, 0)
    const answered = await post('/v1/chat/completions', live)
    t.is(answered.headers.get('x-sandbox'), null)
    t.is(upstream.requests.length, 1)
    const [few, all] = [await modelsOf(live), await modelsOf(sandboxed)]
    t.true(few.length > 1 && few.length < all.length)
    t.false(few.some(({ id }) => id.startsWith('claude')))
  },
)

async function revoke({ keys, db }: Services, secret: string): Promise<void> {
  const row = await db.apiKey.findFirstOrThrow({ where: { last4: secret.slice(-4), prefix: secret.slice(0, 16) } })
  await keys.revoke(null, row.hash, operatorActor)
}

/** Sends a request over a connection of the agent; resolves with its status, or the code of its error. */
function ask(agent: Agent, headers: Record<string, string>): Promise<string | number> {
  return new Promise((resolve, reject) => {
    const sent = request(`${gateway.url}/v1/chat/completions`, { method: 'POST', agent, headers }, async response => {
      const body = JSON.parse(Buffer.concat(await response.toArray()).toString())
      resolve(body.error?.code ?? response.statusCode)
    })
    sent.on('error', reject)
    sent.end(JSON.stringify(chat))
  })
}

test('requests over one connection are each authenticated by their own key', async t => {
  const { organisationId, live, test: sandbox } = await gateway.account()
  const narrow = await gateway.key(organisationId, 'test', { scopes: 'embeddings' })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const bearer = (key: string) => ({ authorization: `Bearer ${key}` })
  try {
    const asked: [Record<string, string>, string | number][] = [
      [bearer(sandbox), 200],
      [bearer(sandbox), 200],
      [bearer(narrow), 'insufficient_scope'],
      [bearer(live), 200],
      [{ 'x-api-key': live }, 200],
      [{ 'x-api-key': narrow }, 'insufficient_scope'],
      [bearer(`${live}0`), 'invalid_api_key'],
      [bearer(`${live}0`), 'invalid_api_key'],
      [{}, 'missing_api_key'],
      [bearer(live), 200],
    ]
    for (const [headers, expected] of asked) t.is(await ask(agent, headers), expected)
  } finally {
    agent.destroy()
  }
})
