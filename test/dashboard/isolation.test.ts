// Every route of the dashboard against every role that must not use it. New routes are covered by being in the table.

import { dashboardEndpoints } from '../../api/dashboard/routes/index.ts'
import type { Endpoint } from '../../api/endpoint.ts'
import { may, type Permission, roles } from '../../shared/base/roles.ts'
import { errorCode, join, signUp, Visitor } from '../support/dashboard/dashboard.ts'
import { fill } from '../support/dashboard/fixtures.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

const gateway = useGateway(test, { ALLOW_PRIVATE_URLS: 'true' })
const owner = use(test, () => signUp(gateway))
const stranger = use(test, () => signUp(gateway))
const filled = use(test, () => fill(gateway, owner.organisationId))

const ofOrganisations = dashboardEndpoints.filter(({ access }) => typeof access === 'object' && 'permission' in access)
const ofOperators = dashboardEndpoints.filter(({ access }) => access === 'operator')
const closed = dashboardEndpoints.filter(({ access }) => access !== 'public' && access !== 'visitor')
const neededFor = ({ access }: Endpoint) => (access as { permission: Permission }).permission
const nameOf = ({ method, path }: Endpoint) => `${method.toUpperCase()} ${path}`

/** Calls a route with the ids of what the owner has, and a body that is right. */
function ask(
  visitor: Visitor,
  { method, path }: Endpoint,
  organisationId: string,
  headers: Record<string, string> = {},
) {
  const { ids, bodies } = filled
  const named = path
    .replace('{organisation}', organisationId)
    .replace(/\{(\w+)\}/g, (_, name: string) => ids.find(([part]) => path.includes(part))?.[1][name] ?? 'none')
  const body = method === 'get' || method === 'delete' ? undefined : (bodies[`${method.toUpperCase()} ${path}`] ?? {})
  return visitor.fetch(named, { method: method.toUpperCase(), body, headers })
}

test.serial('every route of an organisation says in its path which', t => {
  for (const endpoint of ofOrganisations)
    t.true(endpoint.path.startsWith('/dashboard/api/organisations/{organisation}'), nameOf(endpoint))
  t.true(ofOrganisations.length > 20)
})

test.serial('401 without a session, on every route, and nothing of it is kept by a cache', async t => {
  for (const endpoint of closed) {
    const answer = await ask(new Visitor(gateway, ''), endpoint, owner.organisationId)
    t.is(answer.headers.get('cache-control'), 'no-store', nameOf(endpoint))
    t.is(answer.headers.get('x-content-type-options'), 'nosniff', nameOf(endpoint))
    t.is(await errorCode(answer), 'not_signed_in', nameOf(endpoint))
  }
})

test.serial('403 from another site’s page, on every route that changes something', async t => {
  for (const endpoint of closed.filter(({ method }) => method !== 'get')) {
    const answer = await ask(owner.visitor, endpoint, owner.organisationId, { origin: 'https://evil.example' })
    t.is(await errorCode(answer), 'origin_not_allowed', nameOf(endpoint))
  }
})

test.serial('404 for another organisation’s member, on every route', async t => {
  for (const endpoint of ofOrganisations) {
    const answer = await ask(stranger.visitor, endpoint, owner.organisationId)
    t.is(answer.status, 404, nameOf(endpoint))
    t.is(await errorCode(answer), 'not_found', nameOf(endpoint))
  }
})

test.serial('404 for what another organisation has, asked for under one’s own', async t => {
  const ofThings = ofOrganisations.filter(({ path }) => path.replace('{organisation}', '').includes('{'))
  t.true(ofThings.length > 8)
  for (const endpoint of ofThings) {
    const answer = await ask(stranger.visitor, endpoint, stranger.organisationId)
    t.is(await errorCode(answer), 'not_found', nameOf(endpoint))
    // The same id is there for its owner: the 404 is about whose it is.
    if (endpoint.method !== 'get') continue
    t.true((await ask(owner.visitor, endpoint, owner.organisationId)).status < 400, nameOf(endpoint))
  }
})

test.serial('no list shows another organisation’s things', async t => {
  const lists = ofOrganisations.filter(
    ({ method, path }) => method === 'get' && !path.replace('{organisation}', '').includes('{'),
  )
  for (const endpoint of lists) {
    const [theirs, own] = await Promise.all([
      ask(stranger.visitor, endpoint, stranger.organisationId).then(answer => answer.text()),
      ask(owner.visitor, endpoint, owner.organisationId).then(answer => answer.text()),
    ])
    for (const secret of filled.marks) t.false(theirs.includes(secret), `${nameOf(endpoint)} shows ${secret}`)
    t.true(own.length > 0)
  }
})

test.serial('403 for each role without the permission that a route needs', async t => {
  const { visitor, userId } = await signUp(gateway)
  await join(gateway, userId, owner.organisationId, 'member')
  const { membership } = gateway.services.db
  for (const role of roles) {
    await membership.updateMany({ where: { userId, organisationId: owner.organisationId }, data: { role } })
    for (const endpoint of ofOrganisations.filter(endpoint => !may(role, neededFor(endpoint))))
      t.is(await errorCode(await ask(visitor, endpoint, owner.organisationId)), 'insufficient_role', nameOf(endpoint))
  }
})

/** What whoever sees and pays the organisation's money may call: each route is judged here once. */
const ofMoney = [
  'DELETE billing/card',
  'GET billing',
  'GET billing/auto-top-up',
  'GET billing/ledger',
  'GET billing/ledger.csv',
  'GET billing/statement.pdf',
  'GET billing/totals',
  'GET budgets',
  'GET members',
  'GET top-ups',
  'GET top-ups/{id}',
  'GET usage',
  'GET usage/groups',
  'GET usage/groups.csv',
  'GET usage/groups.jsonl',
  'POST billing/card',
  'POST top-ups',
  'PUT billing/auto-top-up',
]

test.serial('the billing role sees and does money, and nothing else', async t => {
  const { visitor, userId } = await signUp(gateway)
  await join(gateway, userId, owner.organisationId, 'billing')
  const allowed = ofOrganisations.filter(endpoint => may('billing', neededFor(endpoint)))
  const shortName = (endpoint: Endpoint) => nameOf(endpoint).replace('/dashboard/api/organisations/{organisation}/', '')
  t.deepEqual(allowed.map(shortName).sort(), ofMoney)
  for (const endpoint of allowed.filter(({ method }) => method === 'get')) {
    const answer = await ask(visitor, endpoint, owner.organisationId)
    t.is(answer.status, 200, `${nameOf(endpoint)} ${await answer.text()}`)
  }
  const secrets = await gateway.services.db.apiKey.findMany({ where: { organisationId: owner.organisationId } })
  for (const endpoint of allowed.filter(({ method }) => method === 'get')) {
    const text = await (await ask(visitor, endpoint, owner.organisationId)).text()
    for (const { hash } of secrets) t.false(text.includes(hash), `${nameOf(endpoint)} shows a key`)
  }
})

test.serial('403 for non-operators, on every route of the operator area', async t => {
  t.true(ofOperators.length > 5)
  for (const endpoint of ofOperators)
    t.is(
      await errorCode(await ask(owner.visitor, endpoint, owner.organisationId)),
      'insufficient_role',
      nameOf(endpoint),
    )
})

test.serial('refused: API keys at the dashboard, and cookies at the API', async t => {
  const key = await gateway.key(owner.organisationId, 'live')
  const headers = { authorization: `Bearer ${key}` }
  t.is((await fetch(`${gateway.url}${owner.base}/keys`, { headers })).status, 401)
  t.is((await owner.visitor.fetch('/v1/balance')).status, 401)
  t.is((await owner.visitor.fetch('/api/v1/keys')).status, 401)
})
