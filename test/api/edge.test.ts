import { once } from 'node:events'
import http from 'node:http'
import { Emulator, json, type Reply } from '../emulators/emulator.ts'
import {
  answersError,
  plainChatReply,
  plainStream,
  provisioningKey,
  rawCall,
  validBodies,
} from '../support/api/edge.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

let provisioning: string

const reply: Reply = (request, response) => {
  if (request.body.stream !== true) return plainChatReply(request, response)
  response.writeHead(200, { 'content-type': 'text/event-stream' }).end(plainStream)
}

const upstream = use(test, () => Emulator.start(reply))
const gateway = useGateway(test, () => ({ OPENAI_API_KEY: 'sk-upstream', OPENAI_BASE_URL: `${upstream.url}/v1` }))
const account = use(test, () => gateway.account())
test.before(async () => {
  provisioning = await provisioningKey(gateway, account.organisationId)
})

const chat = '/v1/chat/completions'
const hello = validBodies[chat]
const limits = ['limit', 'remaining', 'reset'].flatMap(name =>
  ['requests', 'tokens'].map(what => `x-ratelimit-${name}-${what}`),
)

test.serial('a valid x-request-id is echoed on every kind of answer, another is replaced', async t => {
  const calls: [string, object][] = [
    ['/healthz', {}],
    ['/nowhere', {}],
    ['/v1/models', {}],
    ['/v1/models', { key: account.live }],
    [chat, { key: account.live, body: hello }],
    [chat, { key: account.live, body: { ...hello, stream: true } }],
    [chat, { key: account.live, body: '{' }],
    [chat, { method: 'OPTIONS' }],
    ['/api/v1/keys', { key: provisioning }],
  ]
  for (const [path, options] of calls) {
    const sent = { 'x-request-id': 'My.id:1-2_3' }
    const echoed = await gateway.fetch(path, { ...options, headers: sent })
    await echoed.text()
    t.is(echoed.headers.get('x-request-id'), sent['x-request-id'], path)
    for (const bad of ['two words', 'x'.repeat(129), 'a,b', '<script>', 'é']) {
      const replaced = await gateway.fetch(path, { ...options, headers: { 'x-request-id': bad } })
      await replaced.text()
      t.regex(replaced.headers.get('x-request-id') ?? '', /^req_[0-9a-z]+$/, `${path}, ${bad}`)
    }
  }
})

test.serial('CORS: any origin on /v1 with every header readable, nowhere else', async t => {
  const preflight = await gateway.fetch(chat, {
    method: 'OPTIONS',
    headers: { origin: 'https://app.example', 'access-control-request-headers': 'authorization,x-stainless-os' },
  })
  t.is(preflight.status, 204)
  t.is(preflight.headers.get('access-control-allow-origin'), '*')
  t.regex(preflight.headers.get('access-control-allow-methods') ?? '', /POST/)
  t.is(preflight.headers.get('access-control-allow-headers'), 'authorization,x-stainless-os')
  const bodies: unknown[] = [hello, { ...hello, stream: true }, '{']
  for (const body of bodies) {
    const response = await gateway.fetch(chat, { key: account.live, body })
    await response.text()
    t.is(response.headers.get('access-control-allow-origin'), '*')
    t.is(response.headers.get('access-control-expose-headers'), '*')
    t.is(response.headers.get('access-control-allow-credentials'), null)
  }
  for (const path of ['/healthz', '/api/v1/keys', '/docs', '/openapi.json', '/nowhere']) {
    const response = await gateway.fetch(path, { key: provisioning })
    t.is(response.headers.get('access-control-allow-origin'), null, path)
    const options = await gateway.fetch(path, { method: 'OPTIONS' })
    t.is(options.headers.get('access-control-allow-origin'), null, path)
  }
})

test.serial('405 with Allow for another method, 404 for another path', async t => {
  const wrong: [string, string, string][] = [
    ['GET', chat, 'POST'],
    ['DELETE', '/v1/models', 'HEAD, GET'],
    ['PUT', '/api/v1/keys', 'HEAD, GET, POST'],
    ['POST', '/healthz', 'HEAD, GET'],
  ]
  for (const [method, path, allow] of wrong) {
    const response = await gateway.fetch(path, { method, key: account.live })
    await answersError(t, response, 'method_not_allowed', null, `${method} ${path}`)
    const sorted = (list: string) => list.split(', ').sort().join()
    t.is(sorted(response.headers.get('allow') ?? ''), sorted(allow))
  }
  for (const path of [
    '/api/hello',
    '/v1',
    '/v1/chat',
    '/v1/chat/completions/x',
    '/V2/models',
    '/docs/../package.json',
    '/docs/x',
  ])
    await answersError(t, await gateway.fetch(path, { key: account.live }), 'not_found', null, path)
})

test.serial('404 that names the route beside a wrong base URL', async t => {
  const hint = 'Did you mean /v1/chat/completions? Check the base URL of the client.'
  for (const base of ['', '/v1/v1', '/api/v1', '/v1/v1/v1']) {
    const path = `${base}/chat/completions`
    const response = await gateway.fetch(path, { key: account.live, body: hello })
    t.is((await answersError(t, response, 'not_found')).message, `There is no POST ${path}. ${hint}`)
  }
  for (const path of ['/chat', '/v1/chat', '/v1/v1', '/api/v1'])
    t.is((await answersError(t, await gateway.fetch(path), 'not_found')).message, `There is no GET ${path}.`)
})

test.serial('HEAD answers as GET does, without a body', async t => {
  for (const [path, key] of [['/healthz'], ['/openapi.json'], ['/v1/models', account.live]] as [string, string?][]) {
    const { status, body, headers } = await rawCall(gateway.url, {
      method: 'HEAD',
      path,
      ...(key && { headers: { authorization: `Bearer ${key}` } }),
    })
    t.is(status, 200, path)
    t.is(body, '')
    t.true(Number(headers['content-length']) > 0, path)
  }
  t.is((await gateway.fetch('/v1/models', { method: 'HEAD' })).status, 401)
})

test.serial('HEAD / and HEAD /api/hello answer without a key, GET / leads to the dashboard', async t => {
  for (const path of ['/', '/api/hello']) {
    const { status, body } = await rawCall(gateway.url, { method: 'HEAD', path })
    t.is(status, 200, path)
    t.is(body, '')
  }
  const { status, headers } = await rawCall(gateway.url, { method: 'GET', path: '/' })
  t.is(status, 302)
  t.is(headers.location, '/dashboard')
})

test.serial('x-api-key is taken on /v1 as Authorization is', async t => {
  const { live, test } = account
  const unknown = `svc_sk_live_${'a'.repeat(40)}`
  const told = async (path: string, headers: Record<string, string>, body?: unknown) =>
    (await gateway.fetch(path, { headers, body })).headers.get('x-sandbox')
  t.is(await told(chat, { 'x-api-key': test }, hello), 'true')
  // The one that has the form of our keys wins; Authorization where both have, whether that key exists or not.
  t.is(await told(chat, { authorization: 'Bearer sk-ant-other', 'x-api-key': test }, hello), 'true')
  t.is(await told(chat, { authorization: 'Basic b3RoZXI6', 'x-api-key': test }, hello), 'true')
  t.is(await told(chat, { authorization: `Bearer ${test}`, 'x-api-key': 'sk-other' }, hello), 'true')
  t.is(await told(chat, { authorization: `Bearer ${test}`, 'x-api-key': live }, hello), 'true')
  t.is(await told(chat, { authorization: `Bearer ${live}`, 'x-api-key': test }, hello), null)
  const refused: Record<string, string>[] = [
    { 'x-api-key': 'sk-other' },
    { authorization: `Bearer ${unknown}`, 'x-api-key': live },
  ]
  for (const headers of refused)
    await answersError(t, await gateway.fetch('/v1/models', { headers }), 'invalid_api_key', null)
  const form = new FormData()
  form.set('file', new Blob(['RIFFsizeWAVEfmt ']), 'sound.wav')
  const upload = await fetch(`${gateway.url}/v1/uploads`, {
    method: 'POST',
    headers: { 'x-api-key': test },
    body: form,
  })
  t.is(upload.status, 201)
  // What is kept of an answer that holds a secret is sealed with the key, wherever that was sent.
  const secret = () =>
    gateway.fetch('/v1/realtime/client_secrets', {
      headers: { 'x-api-key': test, 'idempotency-key': 'sealed' },
      body: { session: { type: 'realtime', model: 'gpt-realtime-2.1' } },
    })
  const [first, again] = [await secret(), await secret()]
  t.is(first.status, 200)
  t.is(again.headers.get('idempotent-replayed'), 'true')
  t.deepEqual(await again.json(), await first.json())
  await answersError(
    t,
    await gateway.fetch('/api/v1/keys', { headers: { 'x-api-key': provisioning } }),
    'missing_api_key',
  )
})

test.serial('401 with WWW-Authenticate, 403 for the wrong kind of key or scope', async t => {
  const unknown = `svc_sk_live_${'a'.repeat(40)}`
  const refused: [Record<string, string>, 'missing_api_key' | 'invalid_api_key'][] = [
    [{}, 'missing_api_key'],
    [{ authorization: 'Basic abc' }, 'invalid_api_key'],
    [{ authorization: 'Bearer' }, 'invalid_api_key'],
    [{ authorization: 'Bearer sk-other' }, 'invalid_api_key'],
    [{ authorization: `Bearer ${unknown}` }, 'invalid_api_key'],
    [{ authorization: `Bearer ${account.live}x y` }, 'invalid_api_key'],
  ]
  for (const path of [chat, '/v1/embeddings', '/v1/models', '/v1/balance', '/api/v1/keys']) {
    for (const [headers, code] of refused) {
      // A standard key is the wrong kind there, whether it exists or not.
      if (path === '/api/v1/keys' && headers.authorization?.includes('svc_sk_')) continue
      const method = path in validBodies ? 'POST' : 'GET'
      const response = await gateway.fetch(path, { method, headers })
      const { message } = await answersError(t, response, code, null, `${path} ${JSON.stringify(headers)}`)
      t.is(response.headers.get('www-authenticate'), 'Bearer')
      t.false(message.includes('aaaa'))
    }
  }
  await answersError(t, await gateway.fetch(chat, { key: provisioning, body: hello }), 'wrong_key_type')
  await answersError(t, await gateway.fetch('/api/v1/keys', { key: account.live }), 'wrong_key_type')
  const embedder = await gateway.key(account.organisationId, 'live', { scopes: 'embeddings' })
  await answersError(t, await gateway.fetch(chat, { key: embedder, body: hello }), 'insufficient_scope')
  // Who may not call hears that first, whatever else is wrong.
  await answersError(t, await gateway.fetch(chat, { key: embedder, body: '{' }), 'insufficient_scope')
  t.is((await gateway.fetch('/v1/models', { headers: { authorization: `bearer  ${account.live} ` } })).status, 200)
})

test.serial('200 and every error after the admission carry a limited key’s figures', async t => {
  const key = await gateway.key(account.organisationId, 'live', { rpm_limit: 100, tpm_limit: 1_000_000 })
  const failing = json(400, { error: { message: 'No.', type: 'invalid_request_error', param: null, code: null } })
  const broken = json(500, { error: { message: 'Oops.', type: 'server_error', param: null, code: null } })
  const bodies: [number, unknown, Reply[]][] = [
    [200, hello, []],
    [200, { ...hello, stream: true }, []],
    [400, hello, [failing]],
    [502, hello, Array(8).fill(broken)],
  ]
  for (const [status, body, replies] of bodies) {
    upstream.reset()
    upstream.next(...replies)
    const response = await gateway.fetch(chat, { key, body })
    t.is(response.status, status, await response.text())
    for (const name of limits) t.truthy(response.headers.get(name), `${status}: ${name}`)
    t.regex(response.headers.get('x-ratelimit-reset-requests')!, /^\d+(\.\d+)?s$/)
  }
  upstream.reset()
  for (const path of ['/v1/balance', '/v1/models', '/v1/generation?id=x']) {
    const response = await gateway.fetch(path, { key })
    for (const name of limits) t.truthy(response.headers.get(name), `${path}: ${name}`)
  }
  const free = await gateway.fetch(chat, { key: account.live, body: hello })
  for (const name of limits) t.is(free.headers.get(name), null)
})

test.serial('429 with retry-after and the figures, by requests and by tokens', async t => {
  for (const [limit, what] of [
    [{ rpm_limit: 1 }, 'requests'],
    [{ tpm_limit: 1 }, 'tokens'],
  ] as const) {
    const key = await gateway.key(account.organisationId, 'live', limit)
    t.is((await gateway.fetch(chat, { key, body: hello })).status, 200)
    const response = await gateway.fetch(chat, { key, body: hello })
    const { message } = await answersError(t, response, 'rate_limit_exceeded', null)
    t.true(message.includes(what))
    t.regex(response.headers.get('retry-after') ?? '', /^[1-9]\d*$/)
    t.is(response.headers.get(`x-ratelimit-remaining-${what}`), '0')
  }
})

test.serial('503 with retry-after when no configured provider serves a model', async t => {
  const body = { ...hello, model: 'claude-opus-5' }
  const response = await gateway.fetch(chat, { key: account.live, body })
  await answersError(t, response, 'no_provider_available')
  t.regex(response.headers.get('retry-after') ?? '', /^[1-9]\d*$/)
})

test.serial('a stream that breaks ends with one error event of the documented shape and no [DONE]', async t => {
  const half = plainStream.slice(0, plainStream.indexOf('\n\n') + 2)
  upstream.next((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(half, () => response.destroy())
  })
  const response = await gateway.fetch(chat, { key: account.live, body: { ...hello, stream: true } })
  const text = await response.text()
  t.is(response.status, 200)
  const events = text.split('\n\n').filter(Boolean)
  t.false(text.includes('[DONE]'))
  const last = JSON.parse(events.at(-1)!.slice('data: '.length))
  t.deepEqual(last.choices, [{ index: 0, delta: {}, finish_reason: 'error' }])
  t.deepEqual(Object.keys(last.error).sort(), ['code', 'message', 'metadata', 'param', 'type'])
  t.is(last.error.code, 'upstream_error')
})

test.serial('200 for a request that offers to go on in HTTP/2, as clients of other languages do', async t => {
  const request = http.request(`${gateway.url}/v1/balance`, {
    headers: {
      authorization: `Bearer ${account.live}`,
      connection: 'Upgrade, HTTP2-Settings',
      upgrade: 'h2c',
      'http2-settings': 'AAMAAABkAARAAAAAAAIAAAAA',
    },
  })
  request.end()
  const [response] = (await once(request, 'response')) as [http.IncomingMessage]
  t.is(response.statusCode, 200)
  response.resume()
})

test.serial('500 without internal details', async t => {
  // A real internal error: a table is gone.
  await gateway.services.db.$executeRaw`ALTER TABLE generations RENAME TO elsewhere`
  try {
    const response = await gateway.fetch('/v1/generation?id=x', { key: account.live })
    const { message } = await answersError(t, response, 'internal_error', null)
    t.notRegex(message, /generations|prisma|postgres|\.ts|at \w+ \(/i)
  } finally {
    await gateway.services.db.$executeRaw`ALTER TABLE elsewhere RENAME TO generations`
  }
})
