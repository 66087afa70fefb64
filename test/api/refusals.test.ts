import type { RequestDetail, RequestsPage } from '../../api/dashboard/wire/requests.ts'
import { hashSecret } from '../../shared/keys/secret.ts'
import { failure } from '../emulators/openai.ts'
import { saying, startWorld } from '../support/chat/gateway.ts'
import { openResponses } from '../support/chat/responses-socket.ts'
import { signUp } from '../support/dashboard/dashboard.ts'
import { refusedSession } from '../support/realtime/sockets.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

/** Refused calls in the request log. */

const startedMs = Date.now()
/** The middle of a minute, so that what a test counts per minute is counted in one. */
const nowMs = Math.floor(startedMs / 60_000) * 60_000 + 1_000
let minutes = 0

const world = use(test, () => startWorld({}, { now: () => nowMs + minutes * 60_000 }))
const owner = use(test, () => signUp(world.gateway))
test.before(async () => {
  await world.gateway.services.wallets.deposit({
    organisationId: owner.organisationId,
    amountNano: 5_000_000_000n,
    method: 'grant',
  })
})

const chat = '/v1/chat/completions'
const logged = async (requestId: string) => {
  await world.gateway.services.refusalLog.flush()
  return owner.visitor.json<RequestDetail>(`${owner.base}/requests/${requestId}`)
}
const rowsOf = (keyId: string) =>
  world.gateway.services.db.generation.findMany({ where: { keyId }, orderBy: [{ createdAt: 'asc' }, { id: 'asc' }] })
const keyIdOf = async (key: string) =>
  (await world.gateway.services.db.apiKey.findFirstOrThrow({ where: { hash: hashSecret(key) } })).id
const newKey = (fields: object = {}) => world.gateway.key(owner.organisationId, 'live', fields)

test.serial('every sort of refusal is found by its request id, with what the caller was told', async t => {
  const { gateway } = world
  const plain = await newKey()
  const scoped = await newKey({ scopes: 'embeddings' })
  const listed = await newKey({ model_allowlist: ['gpt-5-mini'] })
  const capped = await newKey({ monthly_spend_cap_usd: 0.0000001 })
  const limited = await newKey({ rpm_limit: 1 })
  const expired = await newKey()
  await gateway.services.db.apiKey.update({
    where: { hash: hashSecret(expired) },
    data: { expiresAt: new Date(nowMs - 1), version: { increment: 1 } },
  })
  await (await gateway.fetch(chat, { key: limited, body: saying('gpt-5-mini') })).text()
  const long = 'a long prompt '.repeat(200_000)
  const cases: [key: string, path: string, body: object | string, expected: Partial<RequestDetail>][] = [
    [plain, chat, '{"model":', { status: 400, error_code: 'invalid_json', type: 'chat', model: '' }],
    [
      plain,
      chat,
      { ...saying('gpt-5'), temperature: 9 },
      { status: 400, error_code: 'invalid_request', error_param: 'temperature', model: 'gpt-5' },
    ],
    [plain, chat, saying('gpt-5', long), { status: 400, error_code: 'context_length_exceeded', model: 'gpt-5' }],
    [plain, chat, saying('no-such-model'), { status: 404, error_code: 'model_not_found', model: '' }],
    [scoped, chat, saying('gpt-5'), { status: 403, error_code: 'insufficient_scope', model: '' }],
    [listed, chat, saying('gpt-5'), { status: 403, error_code: 'model_not_allowed', model: 'gpt-5' }],
    [capped, chat, saying('gpt-5'), { status: 402, error_code: 'monthly_spend_cap_reached', model: 'gpt-5' }],
    [
      limited,
      chat,
      saying('gpt-5-mini', '', { stream: true }),
      { status: 429, error_code: 'rate_limit_exceeded', streamed: true },
    ],
    [expired, chat, saying('gpt-5'), { status: 401, error_code: 'expired_api_key' }],
    [
      listed,
      '/v1/responses/compact',
      { model: 'gpt-5', input: 'Hello' },
      { status: 403, error_code: 'model_not_allowed', type: 'responses', model: 'gpt-5' },
    ],
    [plain, '/v1/messages', { model: 'gpt-5' }, { status: 400, error_code: 'missing_field', type: 'messages' }],
    [
      plain,
      '/v1/images/generations',
      { model: 'gpt-image-1' },
      { status: 400, error_code: 'missing_field', type: 'image' },
    ],
    [plain, '/v1/videos', {}, { status: 400, error_code: 'missing_field', type: 'video' }],
    [plain, '/v1/embeddings', { model: 'gpt-5', input: 'x' }, { status: 404, type: 'embedding', model: 'gpt-5' }],
  ]
  for (const [key, path, body, expected] of cases) {
    const response = await gateway.fetch(path, { key, body })
    const text = await response.text()
    const row = await logged(response.headers.get('x-request-id')!)
    t.like(row, { ...expected, provider: null, attempts: 0, cost_usd: 0, count: 1, environment: 'live' }, text)
    t.is(row.status, response.status)
    t.true(text.includes(JSON.stringify(row.error_message).slice(1, 100)), text)
    t.is(row.key!.last4, key.slice(-4))
  }
  t.deepEqual(await gateway.settled(), [])
})

test.serial('refused turns and sessions of WebSockets are logged as well', async t => {
  const { gateway } = world
  const key = await newKey({ model_allowlist: ['gpt-5-mini'] })
  const client = await openResponses(gateway.url, { key })
  await client.turn({ model: 'gpt-5', input: 'Hello' })
  await client.close()
  const session = await refusedSession(gateway.url, { key, query: 'model=gpt-realtime-2.1' })
  t.is(session.status, 403, session.text)
  await gateway.services.refusalLog.flush()
  t.deepEqual(
    (await rowsOf(await keyIdOf(key))).map(({ kind, model, status, errorCode }) => [kind, model, status, errorCode]),
    [
      ['responses', 'gpt-5', 403, 'model_not_allowed'],
      ['realtime', 'gpt-realtime-2.1', 403, 'model_not_allowed'],
    ],
  )
})

test.serial('what ran is logged once, and calls without a known key or without a model are not logged', async t => {
  const { gateway, openai } = world
  const key = await newKey()
  const keyId = await keyIdOf(key)
  openai.next(failure(400, 'That is no prompt.', 'invalid_request_error', null))
  const ran = await gateway.fetch(chat, { key, body: saying('gpt-5-nano') })
  t.is(ran.status, 400)
  await (await gateway.fetch('/v1/messages/count_tokens', { key, body: {} })).text()
  await (await gateway.fetch(chat, { key: 'sk-hg-live-0123456789', body: saying('gpt-5') })).text()
  await gateway.settled()
  await gateway.services.refusalLog.flush()
  t.deepEqual(
    (await rowsOf(keyId)).map(({ requestId, attempts }) => [requestId, attempts]),
    [[ran.headers.get('x-request-id'), 1]],
  )
})

test.serial('a flood of refused calls becomes few rows that add up, minute by minute', async t => {
  const { gateway } = world
  const key = await newKey()
  const keyId = await keyIdOf(key)
  const { refusalLog } = gateway.services
  const flood = async (calls: number, body: object, status: number) => {
    const ids: string[] = []
    for (let i = 0; i < calls; i += 50) {
      const answers = await Promise.all(Array.from({ length: 50 }, () => gateway.fetch(chat, { key, body })))
      for (const answer of answers) {
        t.is(answer.status, status)
        ids.push(answer.headers.get('x-request-id')!)
        await answer.text()
      }
      if (i % 200 === 0) await refusalLog.flush()
    }
    return ids
  }
  const wrong = { ...saying('gpt-5'), temperature: 9 }
  const unknown = saying('no-such-model')
  const ids = await flood(500, wrong, 400)
  await flood(300, unknown, 404)
  minutes++
  await flood(100, wrong, 400)
  await refusalLog.flush()
  const rows = await rowsOf(keyId)
  t.is(
    rows.reduce((sum, { calls }) => sum + calls, 0),
    900,
  )
  const sums = rows.filter(({ calls }) => calls > 1).map(({ errorCode, calls }) => [errorCode, calls])
  t.deepEqual(sums, [
    ['invalid_request', 480],
    ['model_not_found', 300],
    ['invalid_request', 80],
  ])
  t.is(rows.length, 20 + 2 + 20 + 1)
  t.true(ids.includes(rows.find(({ calls }) => calls === 480)!.requestId))
  const days = await gateway.services.db.usageDay.aggregate({
    where: { keyId },
    _sum: { requests: true, errors: true },
  })
  t.deepEqual(days._sum, { requests: 900n, errors: 900n })
  const hours = await gateway.services.db.usageHour.groupBy({
    by: ['outcome'],
    where: { keyId },
    _sum: { requests: true },
  })
  t.deepEqual(
    hours.map(({ outcome, _sum }) => [outcome, _sum.requests]),
    [['invalid', 900n]],
  )
  const page = await owner.visitor.json<RequestsPage>(`${owner.base}/requests?key=${keyId}&status=model_not_found`)
  t.deepEqual(
    page.data.map(({ count }) => count),
    [300],
  )
  t.deepEqual(await gateway.settled(), [])
})

test.serial('rows that could not be written are written later, once', async t => {
  const { gateway } = world
  const key = await newKey()
  const { db, refusalLog } = gateway.services
  await db.$executeRaw`ALTER TABLE generations RENAME TO generations_gone`
  for (let i = 0; i < 30; i++) await (await gateway.fetch(chat, { key, body: saying('no-such-model') })).text()
  await refusalLog.flush()
  await db.$executeRaw`ALTER TABLE generations_gone RENAME TO generations`
  await refusalLog.flush()
  await refusalLog.flush()
  const rows = await rowsOf(await keyIdOf(key))
  t.deepEqual([rows.length, rows.reduce((sum, { calls }) => sum + calls, 0)], [21, 30])
})
