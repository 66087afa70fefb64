import test from 'ava'
import { join, password, signUp, Visitor } from './support/dashboard.ts'
import { freshStores, type Gateway, type Stores, startGateway } from './support/gateway.ts'

let stores: Stores
let gateway: Gateway

test.before(async () => {
  stores = await freshStores()
  gateway = await startGateway(stores, { DEV_OUTBOX: 'true', TRUSTED_PROXIES: '1' })
})
test.after.always(async () => {
  await gateway?.close()
  await stores?.drop()
})

test('a person signs up, is known by a cookie, and owns the organisation they make', async t => {
  const { visitor, organisationId } = await signUp(gateway, { verified: false })
  const me = await visitor.json<{ email_verified: boolean; organisations: unknown[] }>('/dashboard/api/me')
  t.false(me.email_verified)
  t.like(me.organisations[0], { id: organisationId, role: 'owner' })
  t.truthy(await gateway.services.db.wallet.findUnique({ where: { organisationId } }))
})
