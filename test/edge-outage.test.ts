import test from 'ava'
import { migrate } from '../dev/migrate.ts'
import type { ErrorCode } from '../shared/base/errors.ts'
import { password, type SignedUp, signUp } from './support/dashboard.ts'
import { answersError, provisioningKey, validBodies } from './support/edge.ts'
import { type Account, eventually, type Gateway, startGateway } from './support/gateway.ts'
import { type PrivateServer, privatePostgres, privateRedis } from './support/stack.ts'

let postgres: PrivateServer
let redis: PrivateServer
let gateway: Gateway
let account: Account
let provisioning: string
let person: SignedUp

test.before(async () => {
  ;[postgres, redis] = await Promise.all([privatePostgres(), privateRedis()])
  await migrate(postgres.url)
  gateway = await startGateway({ databaseUrl: postgres.url, redisUrl: redis.url, drop: async () => {} })
  account = await gateway.account()
  provisioning = await provisioningKey(gateway, account.organisationId)
  person = await signUp(gateway)
})
test.after.always(async () => {
  await gateway?.close()
  await Promise.all([postgres?.stop(), redis?.stop()])
})

const chat = '/v1/chat/completions'
const ready = async () => (await gateway.fetch('/readyz')).status === 200

type Call = [path: string, options: Parameters<Gateway['fetch']>[1]]

/** Requests that must be refused while a store is away, never answered for free and never with 401. */
async function refused(t: Parameters<typeof answersError>[0], calls: Call[]): Promise<void> {
  for (const [path, options] of [['/readyz', {}] as Call, ...calls]) {
    const response = await gateway.fetch(path, options)
    await answersError(t, response, 'service_unavailable' satisfies ErrorCode, null, path)
    t.regex(response.headers.get('retry-after') ?? '', /^[1-9]\d*$/, path)
  }
  const alive = await gateway.fetch('/healthz')
  t.deepEqual(await alive.json(), { status: 'ok' })
}

test.serial('200 of healthz and readyz while both stores are there', async t => {
  for (const path of ['/healthz', '/readyz']) {
    const response = await gateway.fetch(path)
    t.is(response.status, 200)
    t.deepEqual(await response.json(), { status: 'ok' })
  }
})

test.serial('503 for what needs Postgres while it is away, 200 once it is back', async t => {
  const { live, test: sandbox } = account
  const stranger = `svc_sk_live_${'a'.repeat(40)}`
  const body = validBodies[chat]
  // Known keys are served without Postgres.
  t.is((await gateway.fetch(chat, { key: sandbox, body })).status, 200)
  await postgres.kill()
  await refused(t, [
    ['/api/v1/keys', { key: provisioning }],
    ['/api/v1/keys', { key: provisioning, body: { name: 'x' } }],
    ['/v1/generation?id=x', { key: sandbox }],
    [chat, { key: stranger, body }],
    [chat, { key: live, body, headers: { 'idempotency-key': 'a' } }],
  ])
  t.is((await gateway.fetch(chat, { key: sandbox, body })).status, 200)
  const auth = '/dashboard/api/auth'
  const visits: Call[] = [
    ['/dashboard/api/me', {}],
    [`${person.base}/keys`, { body: {} }],
    [`${auth}/get-session`, {}],
    [`${auth}/update-user`, { body: { name: 'x' } }],
    [`${auth}/organization/list-members?organizationId=${person.organisationId}`, {}],
    [`${auth}/sign-in/email`, { body: { email: person.visitor.email, password } }],
  ]
  // Nobody is signed out by it.
  for (const [path, options] of visits)
    await answersError(t, await person.visitor.fetch(path, options), 'service_unavailable', null, path)
  await postgres.restart()
  await eventually(ready, 'Postgres is back')
  t.is((await gateway.fetch('/api/v1/keys', { key: provisioning })).status, 200)
  t.is((await person.visitor.fetch('/dashboard/api/me')).status, 200)
})

test.serial('503 for everything served while Redis is away, 200 once it is back', async t => {
  const { live, test: sandbox } = account
  const body = validBodies[chat]
  const { hash } = await gateway.services.db.apiKey.findFirstOrThrow({ where: { environment: 'live' } })
  await redis.kill()
  await refused(t, [
    [chat, { key: sandbox, body }],
    ['/v1/embeddings', { key: sandbox, body: validBodies['/v1/embeddings'] }],
    ['/v1/models', { key: live }],
    ['/v1/balance', { key: live }],
    ['/v1/route', { key: sandbox, body }],
    // A change of a key needs Redis to be in force everywhere.
    [`/api/v1/keys/${hash}`, { method: 'PATCH', key: provisioning, body: { name: 'x' } }],
  ])
  await redis.restart()
  await eventually(ready, 'Redis is back')
  t.is((await gateway.fetch(chat, { key: sandbox, body })).status, 200)
})
