import { newId } from '../../../shared/base/ids.ts'
import { provisioningKey } from '../../support/api/edge.ts'
import { type SignedUp, signUp } from '../../support/dashboard/dashboard.ts'
import { test } from '../../support/test.ts'
import { useGateway } from '../../support/use.ts'

const auth = '/dashboard/api/auth'
const maxTestKeys = 5
/** The limit of the accounts library, which is not ours to configure in a test. */
const maxMembers = 500
const gateway = useGateway(test, { MAX_TEST_KEYS: String(maxTestKeys), ALLOW_PRIVATE_URLS: 'true' })

/** Something of which there may be only so many. */
type Limited = {
  what: string
  max: number
  /** How many there are before the requests; created without requests. */
  before: number
  /** Creates what there is before, and returns what creates one more and how many there are. */
  open(owner: SignedUp): Promise<{ create(n: number): Promise<Response>; count(): Promise<number> }>
}
const db = () => gateway.services.db
const rows = <T>(count: number, row: (n: number) => T) => Array.from({ length: count }, (_, n) => row(n))

const limits: Limited[] = [
  {
    what: 'organisations of a person',
    max: 10,
    before: 1,
    async open({ visitor, userId }) {
      return {
        create: n => visitor.fetch(`${auth}/organization/create`, { body: { name: `O${n}`, slug: `o-${n}` } }),
        count: () => db().membership.count({ where: { userId } }),
      }
    },
  },
  {
    what: 'invitations of an organisation',
    max: 100,
    before: 97,
    async open({ visitor, organisationId, userId }) {
      const expiresAt = new Date(Date.now() + 3_600_000)
      const invitation = { organisationId, role: 'member', inviterId: userId, expiresAt }
      const data = rows(97, n => ({ ...invitation, id: newId('inv'), email: `i${n}@example.com` }))
      await db().invitation.createMany({ data })
      const body = (n: number) => ({ organizationId: organisationId, email: `new${n}@example.com`, role: 'member' })
      return {
        create: n => visitor.fetch(`${auth}/organization/invite-member`, { body: body(n) }),
        count: () => db().invitation.count({ where: { organisationId, status: 'pending' } }),
      }
    },
  },
  {
    what: 'members of an organisation',
    max: maxMembers,
    before: maxMembers - 2,
    async open({ organisationId, userId }) {
      const users = rows(maxMembers - 4, n => ({ id: newId('user'), name: 'M', email: `m${n}.${userId}@example.com` }))
      await db().user.createMany({ data: users })
      const members = users.map(({ id }) => ({ id: newId('mem'), organisationId, userId: id, role: 'member' }))
      await db().membership.createMany({ data: members })
      const guests = await Promise.all(rows(6, () => signUp(gateway)))
      const expiresAt = new Date(Date.now() + 3_600_000)
      const invitation = { organisationId, role: 'member', inviterId: userId, expiresAt }
      const invitations = guests.map(({ visitor }) => ({ ...invitation, id: newId('inv'), email: visitor.email }))
      await db().invitation.createMany({ data: invitations })
      // One is in already, so that what there is before is exact.
      await db().membership.create({
        data: { id: newId('mem'), organisationId, userId: guests[5]!.userId, role: 'member' },
      })
      return {
        create: n => {
          const body = { invitationId: invitations[n % 5]!.id }
          return guests[n % 5]!.visitor.fetch(`${auth}/organization/accept-invitation`, { body })
        },
        count: () => db().membership.count({ where: { organisationId } }),
      }
    },
  },
  {
    what: 'webhook endpoints of an organisation',
    max: 20,
    before: 0,
    async open({ visitor, base, organisationId }) {
      const body = (n: number) => ({ url: `http://127.0.0.1:9/${n}`, events: ['*'] })
      return {
        create: n => visitor.fetch(`${base}/webhooks/endpoints`, { body: body(n) }),
        count: () => db().webhookEndpoint.count({ where: { organisationId } }),
      }
    },
  },
  {
    what: 'alert rules of an organisation',
    max: 50,
    before: 0,
    async open({ visitor, base, organisationId }) {
      const body = (n: number) => ({ name: `R${n}`, kind: 'spend', threshold: 1, window: 'day', email: 'owners' })
      return {
        create: n => visitor.fetch(`${base}/alerts/rules`, { body: body(n) }),
        count: () => db().alertRule.count({ where: { organisationId } }),
      }
    },
  },
  {
    what: 'test keys of an organisation, from the dashboard and by provisioning',
    max: maxTestKeys,
    before: 0,
    async open({ visitor, base, organisationId }) {
      const key = await provisioningKey(gateway, organisationId)
      const body = { name: 'K', environment: 'test' }
      return {
        create: n =>
          n % 2 === 0 ? visitor.fetch(`${base}/keys`, { body }) : gateway.fetch('/api/v1/keys', { key, body }),
        count: () => db().apiKey.count({ where: { organisationId, environment: 'test', revokedAt: null } }),
      }
    },
  },
]

/** Sends a request again while changes take longer than it waits for its turn. */
async function untilTaken(send: () => Promise<Response>): Promise<Response> {
  const answer = await send()
  return answer.status === 503 ? untilTaken(send) : answer
}

for (const { what, max, before, open } of limits)
  test.serial(`403 beyond ${max} ${what}, however many are created at once`, async t => {
    const { create, count } = await open(await signUp(gateway))
    t.is(await count(), before)
    const answers = await Promise.all(rows(max - before + 10, n => untilTaken(() => create(n))))
    t.is(await count(), max)
    const created = answers.filter(({ ok }) => ok).length
    t.is(created, max - before)
    for (const { ok, status } of answers) t.true(ok || status === 403 || status === 400, String(status))
  })

test.serial('403 for a disabled or expired test key that would be active again beyond the limit', async t => {
  const { visitor, base, organisationId } = await signUp(gateway)
  const create = async (fields = {}) => {
    const response = await visitor.fetch(`${base}/keys`, { body: { name: 'K', environment: 'test', ...fields } })
    return (await response.json()) as { data: { hash: string }; error?: { code: string; message: string } }
  }
  const patch = (hash: string, body: object) => visitor.fetch(`${base}/keys/${hash}`, { method: 'PATCH', body })
  const hash = (await create()).data.hash
  t.is((await patch(hash, { disabled: true })).status, 200)
  const expired = (await create()).data.hash
  await db().apiKey.update({ where: { hash: expired }, data: { expiresAt: new Date(0) } })
  for (let n = 0; n < maxTestKeys; n++) await create()
  const { error } = await create()
  t.is(error?.code, 'quota_exceeded')
  t.regex(error!.message, /at most 5 active test keys\. Revoke or disable one/)
  t.is((await patch(hash, { disabled: false })).status, 403)
  t.is((await patch(expired, { expires_at: null })).status, 403)
  t.is((await patch(expired, { name: 'Renamed' })).status, 200)
  t.is((await create({ environment: 'live' })).error, undefined)
  const [active] = await db().apiKey.findMany({ where: { organisationId, disabled: false, expiresAt: null }, take: 1 })
  t.is((await visitor.fetch(`${base}/keys/${active!.hash}`, { method: 'DELETE' })).status, 200)
  t.is((await patch(hash, { disabled: false })).status, 200)
})
