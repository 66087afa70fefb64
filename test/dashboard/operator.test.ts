import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type {
  NewProvisioningKey,
  OrganisationDetail,
  OrganisationsPage,
  PeoplePage,
} from '../../api/dashboard/wire/operator.ts'
import type { ProvidersAnswer, SystemAnswer } from '../../api/dashboard/wire/operator-home.ts'
import { commands } from '../../api/operator/commands.ts'
import { parseCommand, UsageError } from '../../api/operator/parse.ts'
import { seedDemo } from '../../dev/seed.ts'
import { ProviderError } from '../../shared/providers/provider-error.ts'
import { errorCode, signUp, Visitor } from '../support/dashboard/dashboard.ts'
import { test } from '../support/test.ts'
import { use, useGateway, useStores } from '../support/use.ts'
import { startWorkers } from '../support/workers.ts'

const base = '/dashboard/api/operator'
const secret = 'sk-secret-of-the-operator'

const stores = useStores(test)
const gateway = useGateway(
  test,
  {
    OPENAI_API_KEY: `${secret},${secret}-2`,
    FAL_API_KEY: secret,
    REDIS_KEY_PREFIX: 'operated:',
  },
  { stores },
)
use(test, () => startWorkers(gateway.services))
const operator = use(test, () => signUp(gateway, { name: 'Op' }))
const customer = use(test, () => signUp(gateway, { name: 'Customer' }))
test.before(async () => {
  await run('user', 'promote', '--email', operator.visitor.email)
})

/** A command of the operator's command line, in this process. */
async function run(...argv: string[]): Promise<{ data: unknown; text: string }> {
  const { command, flags } = parseCommand(argv, commands)
  return command.run(gateway.services, flags)
}

test('403 for non-operators, 401 without a session, on every route', async t => {
  const { organisationId: id } = customer
  const routes = [
    ['GET', `${base}/organisations`],
    ['POST', `${base}/organisations`, { name: 'Mine' }],
    ['GET', `${base}/organisations/${id}`],
    ['POST', `${base}/organisations/${id}/credits`, { amount_usd: 1_000, method: 'grant' }],
    ['POST', `${base}/organisations/${id}/provisioning-keys`],
    ['DELETE', `${base}/organisations/${id}/provisioning-keys/key_x`],
    ['GET', `${base}/people`],
    ['PATCH', `${base}/people/${customer.userId}`, { operator: true }],
    ['GET', `${base}/providers`],
    ['GET', `${base}/system`],
    ['PATCH', `${base}/queues/media`, { paused: true }],
  ] as const
  for (const [method, path, body] of routes) {
    const refused = await customer.visitor.fetch(path, { method, body })
    t.is(refused.status, 403, `${method} ${path}`)
    t.is(((await refused.json()) as { error: { code: string } }).error.code, 'insufficient_role')
    const headers = { origin: gateway.url }
    t.is((await fetch(gateway.url + path, { method, headers, redirect: 'manual' })).status, 401, `${method} ${path}`)
  }
})

test('an operator finds and makes organisations, credits them and issues provisioning keys; all is audited', async t => {
  const { visitor } = operator
  const pages: string[] = []
  for (let after = ''; ; ) {
    const page = await visitor.json<OrganisationsPage>(`${base}/organisations?limit=1${after}`)
    pages.push(...page.data.map(({ id }) => id))
    if (!page.has_more) break
    after = `&after=${page.last_id}`
  }
  t.true(pages.includes(customer.organisationId))
  t.is(new Set(pages).size, pages.length)
  for (const [search, found] of [
    [customer.organisationId, true],
    ['CUSTOMER', true],
    [customer.visitor.email, true],
    ['%', false],
  ] as const) {
    const { data } = await visitor.json<OrganisationsPage>(`${base}/organisations?search=${encodeURIComponent(search)}`)
    t.is(
      data.some(({ id }) => id === customer.organisationId),
      found,
      search,
    )
  }

  const owner_email = customer.visitor.email.toUpperCase()
  const made = await visitor.json<OrganisationDetail>(`${base}/organisations`, { body: { name: 'Acme', owner_email } })
  t.like(made, { name: 'Acme', balance_usd: 0, members: 1, keys: 0, people: [{ id: customer.userId, role: 'owner' }] })
  const stranger = await visitor.fetch(`${base}/organisations`, { body: { name: 'X', owner_email: 'no@example.com' } })
  t.is(stranger.status, 400)

  const path = `${base}/organisations/${made.id}`
  for (const [body, expected] of [
    [
      { amount_usd: 12.5, method: 'grant' },
      { balance_usd: 12.5, available_usd: 12.5, held_usd: 0 },
    ],
    [
      { amount_usd: 10, method: 'ach' },
      { balance_usd: 22.5, available_usd: 12.5, held_usd: 10 },
    ],
    [
      { amount_usd: 1, method: 'card', hold_days: 2 },
      { balance_usd: 23.5, available_usd: 12.5, held_usd: 11 },
    ],
  ] as const)
    t.like(await visitor.json(`${path}/credits`, { body }), expected)
  for (const amount_usd of [-1, 0, 1e-10])
    t.is((await visitor.fetch(`${path}/credits`, { body: { amount_usd, method: 'grant' } })).status, 400)
  t.is((await visitor.fetch(`${path}/credits`, { body: { amount_usd: 5 } })).status, 400)

  const key = await visitor.json<NewProvisioningKey>(`${path}/provisioning-keys`, { method: 'POST' })
  t.is((await gateway.fetch('/api/v1/keys', { key: key.secret })).status, 200)
  const shown = await visitor.json<OrganisationDetail>(path)
  t.like(shown.provisioning_keys, [{ id: key.id, last4: key.last4, revoked_at: null }])
  t.false(JSON.stringify(shown).includes(key.secret))
  t.deepEqual(
    shown.credits.map(({ amount_usd, method }) => [amount_usd, method]),
    [
      [1, 'card'],
      [10, 'ach'],
      [12.5, 'grant'],
    ],
  )
  const revoke = (id: string, from = path) => visitor.fetch(`${from}/provisioning-keys/${id}`, { method: 'DELETE' })
  t.is((await revoke(key.id, `${base}/organisations/${customer.organisationId}`)).status, 404)
  t.is((await revoke(key.id)).status, 200)
  t.is((await revoke(key.id)).status, 404)
  t.is((await gateway.fetch('/api/v1/keys', { key: key.secret })).status, 401)
  for (const rest of ['', '/credits', '/provisioning-keys']) {
    const body = rest === '/credits' ? { amount_usd: 1, method: 'grant' } : undefined
    const options = { method: rest === '' ? 'GET' : 'POST', body }
    t.is((await visitor.fetch(`${base}/organisations/org_unknown${rest}`, options)).status, 404, rest)
  }

  const audited = await gateway.services.db.auditEvent.findMany({
    where: { organisationId: made.id },
    orderBy: { createdAt: 'asc' },
  })
  t.deepEqual(
    audited.map(({ action }) => action),
    [
      'organisation.created',
      'credit.added',
      'credit.added',
      'credit.added',
      'provisioning_key.created',
      'provisioning_key.revoked',
    ],
  )
  t.true(audited.every(({ actorKind, actorId }) => actorKind === 'operator' && actorId === operator.userId))
})

test('credits with an id are booked once; 409 for other credits with it', async t => {
  const { organisationId } = await gateway.account({ usd: '1' })
  const path = `${base}/organisations/${organisationId}/credits`
  const credit = { id: 'credit-of-a-form', amount_usd: 5, method: 'grant' }
  const same = await Promise.all(Array.from({ length: 4 }, () => operator.visitor.fetch(path, { body: credit })))
  t.deepEqual(
    same.map(({ status }) => status),
    [200, 200, 200, 200],
  )
  t.like(await operator.visitor.json(path, { body: credit }), { balance_usd: 6 })
  t.is(await gateway.services.db.auditEvent.count({ where: { organisationId, action: 'credit.added' } }), 1)
  for (const other of [{ amount_usd: 6 }, { method: 'card' }]) {
    const refused = await operator.visitor.fetch(path, { body: { ...credit, ...other } })
    t.is(await errorCode(refused), 'idempotency_key_reused')
  }
  const elsewhere = `${base}/organisations/${customer.organisationId}/credits`
  t.is((await operator.visitor.fetch(elsewhere, { body: credit })).status, 409)
  t.is((await operator.visitor.fetch(path, { body: { ...credit, id: 'a:b:c:d:e' } })).status, 400)
  await run('credit', 'add', '--org', organisationId, '--usd', '5', '--id', credit.id)
  t.is((await gateway.services.wallets.view(organisationId)).balanceNano, 6_000_000_000n)
})

test('providers show circuits, error rates and how many credentials they have, and never a secret', async t => {
  const { health, upstreams, catalog } = gateway.services
  const target = upstreams
    .targets(catalog.models.get('gpt-4o-mini')!, 'live')
    .find(({ provider }) => provider.name === 'openai')!
  const fault = new ProviderError('overloaded', 'away')
  const key = upstreams.credential(target).credential
  for (let i = 0; i < 3; i++) health.recordFailure(target, fault, 60_000, { id: key.id, alone: true })
  health.recordFailure(target, new ProviderError('auth', 'refused'), 0, { id: key.id, alone: false })
  await health.sync()
  const response = await operator.visitor.fetch(`${base}/providers`)
  const text = await response.text()
  t.false(text.includes(secret))
  const { data } = JSON.parse(text) as ProvidersAnswer
  const found = (name: string) => data.find(provider => provider.name === name)!
  t.is(found('openai').state, 'down')
  t.is(found('openai').keys.length, 2)
  t.like(
    found('openai').keys.find(({ state }) => state !== 'accepted'),
    { state: 'refused' },
  )
  const [deployment] = found('openai').deployments
  t.like(deployment, { model: 'gpt-4o-mini', circuit: 'open', state: 'down', last_error: { reason: 'overloaded' } })
  t.true(deployment!.cooldown_ms > 50_000)
  t.like(found('fal'), { state: 'healthy', day: null, deployments: [] })
  t.like(found('anthropic'), { state: 'not_configured', keys: [] })
  t.true(found('anthropic').models > 0)
})

test('the system shows the ledger’s lag, processes and open work', async t => {
  const { db, redis } = gateway.services
  const shown = await operator.visitor.json<SystemAnswer>(`${base}/system`)
  t.like(shown.jobs, { queued: await db.job.count({ where: { stage: 'waiting' } }), in_progress: 0 })
  t.is(shown.instances.length, 1)
  t.like(shown.ledger, { waiting: 0, oldest_at: null, refused: 0 })
  const atMs = Date.now() - 90_000
  await redis.xadd('usage:dead', '*', 'event', '{}')
  await redis.zadd('instances', atMs, 'gone')
  const later = await operator.visitor.json<SystemAnswer>(`${base}/system`)
  t.is(later.ledger.refused, 1)
  t.is(later.instances.length, 1)
})

test('promoted and demoted in force at once, by page and by command', async t => {
  const { visitor, userId } = await signUp(gateway)
  const late = await signUp(gateway, { verified: false })
  const allowed = async () => (await visitor.fetch(`${base}/system`)).status === 200
  const change = (id: string, isOperator: boolean) =>
    operator.visitor.fetch(`${base}/people/${id}`, { method: 'PATCH', body: { operator: isOperator } })
  t.false(await allowed())
  t.is((await change(userId, true)).status, 200)
  t.true(await allowed())
  const { data } = await operator.visitor.json<PeoplePage>(`${base}/people?search=${visitor.email}&operator=true`)
  t.deepEqual((await operator.visitor.json<PeoplePage>(`${base}/people?search=%25`)).data, [], 'no pattern')
  t.like(data, [{ id: userId, operator: true, email_verified: true, organisations: [{ role: 'owner' }] }])
  await run('user', 'promote', '--email', visitor.email.toUpperCase(), '--demote')
  t.false(await allowed())
  await run('user', 'promote', '--email', visitor.email)
  t.true(await allowed())
  const { text } = await run('user', 'list')
  t.regex(text, new RegExp(`operator  ${visitor.email}`))

  t.is((await change(operator.userId, false)).status, 400, 'operators cannot lock themselves out')
  t.is((await change(late.userId, true)).status, 403, 'an address that is not confirmed proves nothing')
  t.is((await change('user_unknown', true)).status, 404)
  await t.throwsAsync(run('user', 'promote', '--email', late.visitor.email), { message: /not confirmed/ })
  await t.throwsAsync(run('user', 'promote', '--email', 'nobody@example.com'), { message: /No such user/ })
  await t.throwsAsync(run('user', 'promote', '--email'), { instanceOf: UsageError, message: '--email needs a value' })
  await t.throwsAsync(run('user', 'promote', '--demote', 'x'), { instanceOf: UsageError })
})

test('the development stack’s operator signs in, and a second start finds the same one', async t => {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'headgate-demo-'))
  t.teardown(() => rm(dataDir, { recursive: true, force: true }))
  const { live: liveKey, test: testKey, organisationId } = await gateway.account()
  await writeFile(path.join(dataDir, 'demo.json'), JSON.stringify({ liveKey, testKey }))
  const demo = await seedDemo({ ...stores, dataDir })
  const visitor = new Visitor(gateway, demo.email)
  await visitor.json('/dashboard/api/auth/sign-in/email', { body: { email: demo.email, password: demo.password } })
  t.like(await visitor.person(), {
    operator: true,
    email_verified: true,
    organisations: [{ id: organisationId, role: 'owner' }],
  })
  t.is((await visitor.fetch(`${base}/system`)).status, 200)
  t.deepEqual(await seedDemo({ ...stores, dataDir }), demo)
  await visitor.json('/dashboard/api/auth/change-password', {
    body: { currentPassword: demo.password, newPassword: 'one of their own' },
  })
  t.is((await seedDemo({ ...stores, dataDir })).password, null)
})
