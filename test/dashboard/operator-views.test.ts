// What operators see of an organisation that they do not belong to: its figures and records, never contents, and nothing to change.

import { dashboardEndpoints } from '../../api/dashboard/routes/index.ts'
import type { AuditAnswer } from '../../api/dashboard/wire/audit.ts'
import type { LedgerPage } from '../../api/dashboard/wire/billing.ts'
import type { KeyAnswer, KeysAnswer } from '../../api/dashboard/wire/keys.ts'
import type { RequestDetail, RequestsPage } from '../../api/dashboard/wire/requests.ts'
import type { UsageGroups } from '../../api/dashboard/wire/usage.ts'
import { newId } from '../../shared/base/ids.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import { hashSecret } from '../../shared/keys/secret.ts'
import { join, type SignedUp, signUp } from '../support/dashboard/dashboard.ts'
import { freshStores, type Gateway, type Stores, startGateway } from '../support/gateway.ts'
import { test } from '../support/test.ts'

const hourMs = 3_600_000
const prompt = `prompt ${newId('req')}`

let stores: Stores
let gateway: Gateway
let owner: SignedUp
let other: SignedUp
let operator: SignedUp
let colleague: SignedUp
let secret: string
let requestId: string
/** Where the operator's routes of the owner's organisation begin. */
let base: string
let offsetMs = 0

test.before(async () => {
  stores = await freshStores()
  gateway = await startGateway(stores, {}, { now: () => Date.now() + offsetMs })
  const { services } = gateway
  owner = await signUp(gateway)
  other = await signUp(gateway)
  operator = await signUp(gateway)
  colleague = await signUp(gateway)
  const ids = [operator, colleague].map(({ userId }) => userId)
  await services.db.user.updateMany({ where: { id: { in: ids } }, data: { operator: true } })
  const { organisationId } = owner
  base = `/dashboard/api/operator/organisations/${organisationId}`
  const amountNano = 5_000_000_000n
  await services.wallets.deposit({ organisationId, amountNano, method: 'grant' })
  secret = await gateway.key(organisationId, 'test', { name: 'Shop' })
  const contentUntil = new Date(services.clock.now() + hourMs)
  const logging = { contentMode: 'all', contentPercent: null, contentUntil }
  await services.keys.setContentLogging(organisationId, hashSecret(secret), logging, operatorActor)
  const messages = [{ role: 'user', content: prompt }]
  const answer = await gateway.fetch('/v1/chat/completions', { key: secret, body: { model: 'gpt-5', messages } })
  await answer.text()
  requestId = answer.headers.get('x-generation-id')!
  await services.contentLog.flush()
  await gateway.settled()
})
test.after.always(async () => {
  await gateway?.close()
  await stores?.drop()
})

const ofMembers = '/dashboard/api/organisations/{organisation}/'
const ofOperators = '/dashboard/api/operator/organisations/{organisation}/'
const views = dashboardEndpoints.filter(
  ({ method, path }) =>
    path.startsWith(ofOperators) &&
    dashboardEndpoints.some(own => own.method === method && own.path === path.replace(ofOperators, ofMembers)),
)

/** The address of a view, with the ids of what the organisation has. */
function addressOf(path: string, organisationId = owner.organisationId): string {
  const id = path.includes('/keys/') ? hashSecret(secret) : requestId
  const query = path.endsWith('ledger.csv') ? '?from=2026-01&to=2026-12' : ''
  return path.replace('{organisation}', organisationId).replace(/\{\w+\}/g, id) + query
}

test.serial('200 for an operator on every view, each only to read; nothing has a secret or a prompt', async t => {
  t.true(views.length > 12)
  for (const { method, path } of views) {
    t.is(method, 'get', path)
    const answer = await operator.visitor.fetch(addressOf(path))
    t.is(answer.status, 200, path)
    const text = await answer.text()
    for (const hidden of [secret, prompt]) t.false(text.includes(hidden), path)
  }
})

test.serial('404 for contents, and for every change that members can make', async t => {
  const address = `${base}/requests/${requestId}/content`
  t.is((await owner.visitor.fetch(`${owner.base}/requests/${requestId}/content`)).status, 200)
  t.is((await operator.visitor.fetch(address)).status, 404)
  t.is((await operator.visitor.fetch(address, { method: 'DELETE' })).status, 404)
  const ofKey = `${base}/keys/${hashSecret(secret)}`
  const changes = [
    ['POST', `${base}/keys`, { name: 'Mine' }],
    ['PATCH', ofKey, { name: 'Renamed' }],
    ['POST', `${ofKey}/roll`, {}],
    ['DELETE', ofKey],
    ['POST', `${base}/top-ups`, { amount_usd: 10 }],
  ] as const
  for (const [method, path, body] of changes) {
    const { status } = await operator.visitor.fetch(path, { method, body })
    t.true(status === 404 || status === 405, `${method} ${path}: ${status}`)
  }
  t.is((await operator.visitor.fetch(`${owner.base}/keys`)).status, 404)
})

test.serial('views have the organisation’s own answers, and no key that could be managed', async t => {
  const { visitor } = operator
  const request = await visitor.json<RequestDetail>(`${base}/requests/${requestId}`)
  const { id: keyId } = await gateway.services.keys.get(null, hashSecret(secret))
  t.like(request, { id: requestId, model: 'gpt-5', key_id: keyId })
  t.truthy(request.content)
  const own = await owner.visitor.json<RequestDetail>(`${owner.base}/requests/${requestId}`)
  t.deepEqual(request, own)
  const { data } = await visitor.json<RequestsPage>(`${base}/requests`)
  t.deepEqual(
    data.map(({ id }) => id),
    [requestId],
  )
  const { total } = await visitor.json<UsageGroups>(`${base}/usage/groups?environment=test`)
  t.is(total.requests, 1)
  const ledger = await visitor.json<LedgerPage>(`${base}/billing/ledger`)
  t.deepEqual(
    ledger.data.map(({ amount_usd }) => amount_usd),
    [5],
  )
  await gateway.services.db.apiKey.updateMany({
    where: { organisationId: owner.organisationId, name: 'Shop' },
    data: { createdById: operator.userId },
  })
  const keys = await visitor.json<KeysAnswer>(`${base}/keys`)
  t.deepEqual(
    keys.data.map(({ name, may_manage }) => [name, may_manage]),
    [['Shop', false]],
  )
  const key = await visitor.json<KeyAnswer>(`${base}/keys/${hashSecret(secret)}`)
  t.like(key.data, { mine: true, may_manage: false })
})

test.serial('403 for everybody but operators, owners of the organisation included', async t => {
  await join(gateway, other.userId, owner.organisationId, 'admin')
  for (const { visitor } of [owner, other])
    for (const { path } of views) t.is((await visitor.fetch(addressOf(path))).status, 403, path)
})

test.serial('404 for an organisation that does not exist, and for what another one has', async t => {
  for (const { path } of views) t.is((await operator.visitor.fetch(addressOf(path, 'org_none'))).status, 404, path)
  const ofThings = views.filter(({ path }) => path.slice(ofOperators.length).includes('{'))
  t.true(ofThings.length > 2)
  for (const { path } of ofThings)
    t.is((await operator.visitor.fetch(addressOf(path, other.organisationId))).status, 404, path)
})

test.serial('the audit log of the organisation says which operator viewed its requests, once an hour', async t => {
  const { auditEvent } = gateway.services.db
  await auditEvent.deleteMany({ where: { action: 'request_log.viewed' } })
  // In the middle of an hour, whenever this runs.
  offsetMs = hourMs + hourMs / 2 - (Date.now() % hourMs)
  const entries = async () => {
    const page = await owner.visitor.json<AuditAnswer>(`${owner.base}/audit?action=request_log&order=asc`)
    return page.data.map(({ actor }) => [actor.kind, actor.name])
  }
  const first = ['operator', operator.visitor.email]
  await operator.visitor.json(`${base}/usage`)
  await operator.visitor.json(`${base}/keys`)
  t.deepEqual(await entries(), [])
  const addresses = [`${base}/requests`, `${base}/requests?status=error`, `${base}/requests/${requestId}`]
  await Promise.all(addresses.map(address => operator.visitor.json(address)))
  t.deepEqual(await entries(), [first])
  await colleague.visitor.json(`${base}/requests/${requestId}`)
  t.deepEqual(await entries(), [first, ['operator', colleague.visitor.email]])
  offsetMs += hourMs
  await operator.visitor.json(`${base}/requests`)
  t.is((await entries()).length, 3)
  t.is(await auditEvent.count({ where: { organisationId: other.organisationId, action: 'request_log.viewed' } }), 0)
})
