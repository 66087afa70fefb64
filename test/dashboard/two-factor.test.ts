// Second factors over HTTP: what their routes take, who may change them, how often codes are guessed.

import { errorCode, join, password, type SignedUp, signUp, Visitor } from '../support/dashboard/dashboard.ts'
import { totp } from '../support/dashboard/totp.ts'
import { operatorJson } from '../support/operator.ts'
import { test } from '../support/test.ts'
import { useGateway, useStores } from '../support/use.ts'

const auth = '/dashboard/api/auth'

const stores = useStores(test)
const gateway = useGateway(test, { DEV_OUTBOX: 'true' }, { stores })

const wrong = '000000'
const post = async (visitor: Visitor, path: string, body: object) =>
  (await visitor.fetch(`${auth}/${path}`, { body })).status
const codeOf = async (response: Response) => ((await response.json()) as { code?: string }).code

/** A user with an authenticator app. */
async function withApp(): Promise<{ person: SignedUp; secret: string; codes: string[] }> {
  const person = await signUp(gateway)
  const { totpURI, backupCodes: codes } = await person.visitor.json<{ totpURI: string; backupCodes: string[] }>(
    `${auth}/two-factor/enable`,
    { body: { password } },
  )
  const secret = new URL(totpURI).searchParams.get('secret')!
  await person.visitor.json(`${auth}/two-factor/verify-totp`, { body: { code: totp(secret) } })
  return { person, secret, codes }
}
/** A browser that has given the right password and is asked for a code. */
async function halfway(email: string): Promise<Visitor> {
  const visitor = new Visitor(gateway, email)
  const { twoFactorRedirect } = await visitor.json<{ twoFactorRedirect: boolean }>(`${auth}/sign-in/email`, {
    body: { email, password },
  })
  return twoFactorRedirect ? visitor : Promise.reject(new Error('no second step'))
}

test.serial('401 for the code of a sign-in whose password was changed meanwhile', async t => {
  const { person, secret } = await withApp()
  const thief = await halfway(person.visitor.email)
  const body = { currentPassword: password, newPassword: 'another battery', revokeOtherSessions: true }
  await person.visitor.json(`${auth}/change-password`, { body })
  t.is(await post(thief, 'two-factor/verify-totp', { code: totp(secret, 1) }), 401)
  t.is(await thief.person(), null)
  t.truthy(await person.visitor.person())
})

test.serial('400 without the password for every change of a second factor, and 400 for a wrong one', async t => {
  const { person } = await withApp()
  const response = { id: 'x', rawId: 'x', type: 'public-key', clientExtensionResults: {} }
  const attestation = { ...response, response: { clientDataJSON: 'x', attestationObject: 'x' } }
  const changes: [string, object][] = [
    ['two-factor/enable', {}],
    ['two-factor/disable', {}],
    ['two-factor/generate-backup-codes', {}],
    ['passkey/verify-registration', { name: 'x', response: attestation }],
    ['passkey/delete-passkey', { id: 'x' }],
  ]
  for (const [path, body] of changes)
    for (const proof of [{}, { password: 'not the password' }, { code: wrong }]) {
      const answer = await person.visitor.fetch(`${auth}/${path}`, { body: { ...body, ...proof } })
      t.deepEqual([answer.status, await codeOf(answer)], [400, 'INVALID_PASSWORD'], path)
      await gateway.services.redis.del(`attempts:proof:${person.userId}`)
    }
  const again = await person.visitor.fetch(`${auth}/two-factor/enable`, { body: { password } })
  t.is(await codeOf(again), 'TWO_FACTOR_ALREADY_ON')
  const junk = await person.visitor.fetch(`${auth}/passkey/verify-registration`, {
    body: { password, name: 'x', response: attestation },
  })
  t.is(junk.status, 400)
  const statuses = []
  for (let i = 0; i < 12; i++) statuses.push(await post(person.visitor, 'two-factor/disable', { password: 'guess' }))
  t.deepEqual(statuses, [...Array(10).fill(400), 429, 429])
})

test.serial('400 naming the field, and 404 for what no page uses of the second factors’ routes', async t => {
  const { visitor } = await signUp(gateway)
  const bad: [string, object, string][] = [
    ['two-factor/verify-totp', { code: '12345' }, 'code'],
    ['two-factor/verify-totp', { code: wrong, trustDevice: true }, 'trustDevice'],
    ['two-factor/verify-backup-code', { code: 'x', disableSession: true }, 'disableSession'],
    ['two-factor/enable', { password, issuer: 'Evil' }, 'issuer'],
    ['passkey/verify-registration', { password, name: 'evil.example', response: {} }, 'name'],
    ['passkey/verify-authentication', { response: { id: 1 } }, 'response.id'],
    ['passkey/update-passkey', { id: 'x' }, 'name'],
  ]
  for (const [path, body, param] of bad) {
    const answer = await visitor.fetch(`${auth}/${path}`, { body })
    const { error } = (await answer.json()) as { error: { param: string } }
    t.deepEqual([answer.status, error.param], [400, param], path)
  }
  for (const path of [
    'two-factor/get-totp-uri',
    'two-factor/send-otp',
    'two-factor/verify-otp',
    'two-factor/view-backup-codes',
  ])
    t.is(await errorCode(await visitor.fetch(`${auth}/${path}`, { body: {} })), 'not_found', path)
  const mine = await visitor.fetch(`${auth}/passkey/generate-authenticate-options`)
  t.is(mine.status, 200)
  const unknown = { id: 'x', rawId: 'x', type: 'public-key', clientExtensionResults: {} }
  const use = { ...unknown, response: { clientDataJSON: 'x', authenticatorData: 'x', signature: 'x' } }
  t.is(await post(visitor, 'passkey/verify-authentication', { response: use }), 401)
})

test.serial('429 after ten wrong codes from one who has the password; the owner’s own device still works', async t => {
  const { person, secret, codes } = await withApp()
  const { email } = person.visitor
  const thief = await halfway(email)
  const statuses = []
  for (let i = 0; i < 5; i++) statuses.push(await post(thief, 'two-factor/verify-totp', { code: wrong }))
  t.deepEqual(statuses, Array(5).fill(401))
  t.is(await post(thief, 'two-factor/verify-totp', { code: wrong }), 400, 'this step is over')
  const second = await halfway(email)
  for (let i = 0; i < 4; i++) await post(second, 'two-factor/verify-backup-code', { code: `wrong-${i}` })
  const third = await halfway(email)
  const outcomes = []
  for (let i = 0; i < 3; i++) outcomes.push(await post(third, 'two-factor/verify-totp', { code: wrong }))
  t.is(outcomes.at(-1), 429)
  t.is(await post(third, 'two-factor/verify-backup-code', { code: codes[0]! }), 429)
  // The device that set it up is known.
  await person.visitor.fetch(`${auth}/sign-out`, { body: {} })
  await person.visitor.json(`${auth}/sign-in/email`, { body: { email, password } })
  t.is(await post(person.visitor, 'two-factor/verify-totp', { code: totp(secret, 1) }), 200)
  t.truthy(await person.visitor.person())
})

test.serial('the same code signs in once, however many try it at a time', async t => {
  const { person, secret } = await withApp()
  const visitors = await Promise.all([halfway(person.visitor.email), halfway(person.visitor.email)])
  const code = totp(secret, 1)
  const statuses = await Promise.all(visitors.map(visitor => post(visitor, 'two-factor/verify-totp', { code })))
  t.deepEqual(statuses.toSorted(), [200, 401])
})

test.serial('403 where two factors are required, on every way into the organisation, until they are there', async t => {
  const { person: owner } = await withApp()
  const member = await signUp(gateway)
  await join(gateway, member.userId, owner.organisationId, 'admin')
  const security = { method: 'PATCH', body: { require_two_factor: true } }
  t.is(await errorCode(await member.visitor.fetch(`${owner.base}/security`, security)), 'two_factor_required')
  await owner.visitor.json(`${owner.base}/security`, security)
  const of = { organizationId: owner.organisationId }
  const { id: invitationId } = await owner.visitor.json<{ id: string }>(`${auth}/organization/invite-member`, {
    body: { ...of, email: 'x@example.com', role: 'member' },
  })
  t.is(await errorCode(await member.visitor.fetch(`${owner.base}/keys`)), 'two_factor_required')
  const refused: [string, object][] = [
    ['organization/update', { ...of, data: { name: 'Theirs' } }],
    ['organization/invite-member', { ...of, email: 'y@example.com', role: 'member' }],
    ['organization/remove-member', { ...of, memberIdOrEmail: owner.visitor.email }],
    ['organization/cancel-invitation', { invitationId }],
  ]
  for (const [path, body] of refused) t.is(await post(member.visitor, path, body), 403, path)
  t.is(
    (await member.visitor.fetch(`${auth}/organization/list-members?organizationId=${owner.organisationId}`)).status,
    403,
  )
  t.is((await member.visitor.fetch(`${member.base}/keys`)).status, 200, 'their own organisation')
  t.is(await post(member.visitor, 'organization/leave', of), 200)
})

test.serial('an operator takes a lost second factor away: told by email, noted, sessions ended', async t => {
  const { person } = await withApp()
  const { email } = person.visitor
  await operatorJson(stores, 'user', 'reset-two-factor', '--email', email)
  t.is(await person.visitor.person(), null)
  t.is(await post(person.visitor, 'sign-in/email', { email, password }), 200)
  t.truthy(await person.visitor.person())
  t.is(await gateway.services.db.twoFactor.count({ where: { userId: person.userId } }), 0)
  const noted = await gateway.services.db.auditEvent.findMany({ where: { organisationId: person.organisationId } })
  t.deepEqual(
    noted.map(({ action, actorName }) => [action, actorName]),
    [
      ['organisation.created', email],
      ['member.two_factor_on', email],
      ['member.two_factor_reset', 'operator'],
    ],
  )
  // Of a person without an organisation, the operators' own log has it.
  const { auditEvent, membership } = gateway.services.db
  const lone = await signUp(gateway)
  await membership.deleteMany({ where: { userId: lone.userId } })
  await operatorJson(stores, 'user', 'reset-two-factor', '--email', lone.visitor.email)
  t.is(await auditEvent.count({ where: { targetId: lone.userId, organisationId: null } }), 1)
})
