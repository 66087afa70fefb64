import { zstdCompressSync } from 'node:zlib'
import { bodyPaths, provisioningKey, type RawAnswer, rawCall, validBodies } from '../support/api/edge.ts'
import { eventually, startProcess } from '../support/gateway.ts'
import { type ExecutionContext, test } from '../support/test.ts'
import { use, useGateway, useStores } from '../support/use.ts'

let number = 0

const stores = useStores(test)
const gateway = useGateway(test, {}, { stores })
const web = use(test, () =>
  startProcess('web', stores, { OPENAI_API_KEY: 'unused', OPENAI_BASE_URL: 'http://127.0.0.1:9/v1' }),
)
const account = use(test, () => gateway.account({ usd: '0' }))

type Shot = {
  path?: string
  key?: string | null
  body?: object | string | Buffer
  headers?: Record<string, string>
  /** How often it is sent by each entrance. */
  times?: number
}

type Seen = { answer: RawAnswer; line: Record<string, unknown> }

/** Sends a request by one entrance: a query makes it the framework's. */
async function send(shot: Shot, entrance: 'direct' | 'koa'): Promise<Seen> {
  const {
    path = '/v1/chat/completions',
    key = account.test,
    body = validBodies[path as keyof typeof validBodies],
  } = shot
  // Of one length by both entrances, as an error may repeat it.
  const requestId = `parity-${String(++number).padStart(4, '0')}-${entrance.padEnd(9, '-')}`
  const own = Object.entries(shot.headers ?? {}).map(([name, value]) => [name, value.replace('<entrance>', entrance)])
  const raw = Buffer.isBuffer(body) ? body : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))
  const answer = await rawCall(web.url, {
    method: 'POST',
    path: entrance === 'direct' ? path : `${path}?`,
    headers: {
      'content-type': 'application/json',
      ...(key !== null && { authorization: `Bearer ${key}` }),
      'x-request-id': requestId,
      ...Object.fromEntries(own),
    },
    body: raw,
  })
  const lineOf = () =>
    web
      .output()
      .split('\n')
      .find(line => line.includes(`"${answer.headers['x-request-id']}"`) && line.includes('"msg":"request"'))
  await eventually(() => lineOf() !== undefined, 'the request is in the log')
  return { answer, line: JSON.parse(lineOf()!) }
}

const volatileHeaders = ['date', 'x-request-id', 'request-id', 'x-generation-id', 'retry-after']
const volatileFields = ['time', 'requestId', 'generationId', 'durationMs']

/** What must be the same by both entrances. */
function lasting({ answer, line }: Seen) {
  const headers = Object.entries(answer.headers)
    .filter(([name]) => !volatileHeaders.includes(name) && !/^x-ratelimit-(remaining|reset)/.test(name))
    .sort(([a], [b]) => (a < b ? -1 : 1))
  const fields = Object.entries(line).filter(([name]) => !volatileFields.includes(name))
  return {
    status: answer.status,
    headers,
    names: Object.keys(answer.headers).sort(),
    body: answer.body
      .replaceAll(/"((chatcmpl|cmpl)-|(emb|msg|resp|rs|fc)_)\w{20,}"/g, '"id"')
      .replaceAll(/"request_id":"[\w-]+"/g, '"request_id":""')
      .replaceAll(/"(created|created_at|completed_at)":\d+/g, '"$1":0')
      .replaceAll(/Retry in \d+ s/g, 'Retry in a while'),
    line: fields,
    fields: Object.keys(line),
  }
}

async function same(t: ExecutionContext, shot: Shot, status: number): Promise<void> {
  for (let i = 0; i < (shot.times ?? 1); i++) {
    const [direct, byKoa] = [await send(shot, 'direct'), await send(shot, 'koa')]
    t.deepEqual(lasting(direct), lasting(byKoa))
    t.is(direct.answer.status, status)
    t.is(direct.line.status, status)
  }
}

const chat = { model: 'gpt-5.6-luna', messages: [{ role: 'user', content: 'Hello' }] }

for (const path of bodyPaths.filter(path => path.startsWith('/v1/')))
  test(`200 and 400 the same by both entrances: ${path}`, async t => {
    await same(t, { path }, 200)
    await same(t, { path, body: {} }, 400)
    await same(t, { path, body: { ...validBodies[path], model: 'no-such-model' } }, 404)
  })

const cases: [name: string, status: number, shot: Shot][] = [
  ['a stream', 200, { body: { ...chat, stream: true } }],
  ['a session and a dropped field', 200, { body: { ...chat, user: 'x' }, headers: { 'x-session-id': 's-1' } }],
  ['auto', 200, { body: { ...chat, model: 'auto' } }],
  ['without a content type', 200, { headers: { 'content-type': 'application/vnd.x+json' } }],
  ['no key', 401, { key: null }],
  ['an unknown key', 401, { key: `sk-hg-live-${'0'.repeat(43)}` }],
  ['no key at all', 401, { key: 'nonsense' }],
  ['a broken body before a wrong key', 401, { key: 'nonsense', body: '{' }],
  ['no JSON', 400, { body: '{"model":' }],
  ['an empty body', 400, { body: '' }],
  ['a list', 400, { body: '[]' }],
  ['no UTF-8', 400, { body: Buffer.from([0x7b, 0xff, 0x7d]) }],
  ['a name twice', 400, { body: '{"model":"a","model":"b"}' }],
  ['a field of the wrong type', 400, { body: { ...chat, temperature: 'hot' } }],
  ['the session of an agent', 200, { headers: { 'session-id': 's-1' } }],
  ['too long a session', 400, { headers: { 'x-session-id': 's'.repeat(300) } }],
  ['a form', 415, { headers: { 'content-type': 'multipart/form-data; boundary=x' }, body: '--x--\r\n' }],
  ['another content type', 415, { headers: { 'content-type': 'text/plain' } }],
  ['a compressed body', 200, { headers: { 'content-encoding': 'zstd' }, body: zstdCompressSync(JSON.stringify(chat)) }],
  ['a body that is not compressed as announced', 400, { headers: { 'content-encoding': 'gzip' } }],
  ['an unknown compression', 415, { headers: { 'content-encoding': 'compress' } }],
  // Only announced: the connection of one that is sent may be reset before its answer is read.
  ['too large a body', 413, { body: ' ', headers: { 'content-length': String(10 * 1024 * 1024 + 1) } }],
  ['a failing provider', 502, { body: { ...chat, messages: [{ role: 'user', content: 'sandbox:fail' }] } }],
  ['a limiting provider', 502, { body: { ...chat, messages: [{ role: 'user', content: 'sandbox:rate_limit' }] } }],
  [
    'a stream that fails',
    502,
    { body: { ...chat, stream: true, messages: [{ role: 'user', content: 'sandbox:fail' }] } },
  ],
  ['a key for an answer, and its repetition', 200, { headers: { 'idempotency-key': 'good-<entrance>' }, times: 2 }],
  ['a bad idempotency key', 400, { headers: { 'idempotency-key': 'x'.repeat(300) } }],
]
for (const [name, status, shot] of cases)
  test(`${status} the same by both entrances: ${name}`, t => same(t, shot, status))

test('402, 403 and 429 the same by both entrances', async t => {
  await same(t, { key: account.live }, 402)
  await same(t, { key: await provisioningKey(gateway, account.organisationId) }, 403)
  await same(t, { key: await gateway.key(account.organisationId, 'test', { scopes: 'embeddings' }) }, 403)
  await same(t, { key: await gateway.key(account.organisationId, 'test', { model_allowlist: ['gpt-5-mini'] }) }, 403)
  const limited = await gateway.key(account.organisationId, 'test', { rpm_limit: 1 })
  t.is((await send({ key: limited }, 'direct')).answer.status, 200)
  await same(t, { key: limited }, 429)
})

test('200 and 401 the same by both entrances: the key in x-api-key, which is not in the log', async t => {
  const foreign = 'sk-ant-of-another-service'
  await same(t, { key: null, headers: { 'x-api-key': account.test } }, 200)
  await same(t, { key: foreign, headers: { 'x-api-key': account.test } }, 200)
  await same(t, { headers: { 'x-api-key': foreign } }, 200)
  await same(t, { key: null, headers: { 'x-api-key': foreign } }, 401)
  await same(t, { key: foreign, headers: { 'x-api-key': foreign } }, 401)
  await same(t, { key: account.live, headers: { 'x-api-key': account.test } }, 402)
  for (const secret of [account.test, account.live, foreign]) t.false(web.output().includes(secret))
})

test('409 the same by both entrances: another body under one Idempotency-Key', async t => {
  const headers = { 'idempotency-key': 'twice-<entrance>' }
  await same(t, { headers, body: chat }, 200)
  await same(t, { headers, body: { ...chat, temperature: 1 } }, 409)
})
