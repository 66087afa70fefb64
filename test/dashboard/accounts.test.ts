import type { IncomingMessage } from 'node:http'
import { clientAddress } from '../../api/auth/address.ts'
import type { KeyAnswer, KeySecretAnswer } from '../../api/dashboard/wire/keys.ts'
import { dayMs } from '../../shared/base/time.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import { hashSecret } from '../../shared/keys/secret.ts'
import { setSuspension } from '../../shared/keys/suspensions.ts'
import { runMaintenance } from '../../workers/maintenance.ts'
import { OidcEmulator } from '../emulators/oidc.ts'
import { errorCode, join, password, type SignedUp, signUp, Visitor } from '../support/dashboard/dashboard.ts'
import { eventually, startGateway } from '../support/gateway.ts'
import { MailServer } from '../support/io/mail-server.ts'
import { test } from '../support/test.ts'
import { use, useGateway, useStores } from '../support/use.ts'

const auth = '/dashboard/api/auth'

const stores = useStores(test)
const oidc = use(test, () => OidcEmulator.start())
const gateway = useGateway(
  test,
  () => ({
    DEV_OUTBOX: 'true',
    SUPPORT_CONTACT: 'support@example.com',
    ...oidc.env,
  }),
  { stores },
)
const ada = use(test, () => signUp(gateway))

/** The token in the latest email to an address. */
async function tokenFor(email: string, subject: RegExp): Promise<string> {
  const mails = (await gateway.services.mailer.outbox())!
  const mail = mails.find(({ to, subject: text }) => to === email && subject.test(text))!
  return new URL(mail.link!.url).searchParams.get('token')!
}

test.serial('a person signs up, is known by a cookie, and owns the organisation they make', async t => {
  const { visitor, organisationId } = await signUp(gateway, { verified: false })
  const me = (await visitor.person())!
  t.false(me.email_verified)
  t.deepEqual(me.organisations, [
    { id: organisationId, name: 'Ada’s organisation', role: 'owner', require_two_factor: false, suspended: false },
  ])
  t.truthy(await gateway.services.db.wallet.findUnique({ where: { organisationId } }))
})

test.serial('the link of the confirmation email confirms the address', async t => {
  const { visitor, userId } = await signUp(gateway, { verified: false })
  const token = await tokenFor(visitor.email, /confirm your email/i)
  const forged = await visitor.fetch(`${auth}/verify-email?token=${token.slice(0, -2)}xx`)
  t.not(forged.status, 200)
  t.is((await visitor.fetch(`${auth}/verify-email?token=${token}`)).status, 200)
  t.true((await gateway.services.db.user.findUniqueOrThrow({ where: { id: userId } })).emailVerified)
})

test.serial(
  'the confirmation takes the limits of an unconfirmed account from its first key, and no others',
  async t => {
    const { visitor, base, organisationId } = await signUp(gateway, { verified: false })
    const first = await visitor.json<KeySecretAnswer>(`${base}/first-key`, { method: 'POST' })
    t.like(first.data, { rpm_limit: 20, tpm_limit: 40_000 })
    const other = await gateway.key(organisationId, 'test', {
      name: 'Of the operator',
      rpm_limit: 20,
      tpm_limit: 40_000,
    })
    await visitor.json(`${auth}/verify-email?token=${await tokenFor(visitor.email, /confirm your email/i)}`)
    const read = await visitor.json<KeyAnswer>(`${base}/keys/${first.data.id}`)
    t.like(read.data, { rpm_limit: null, tpm_limit: null })
    const kept = await visitor.json<KeyAnswer>(`${base}/keys/${hashSecret(other)}`)
    t.like(kept.data, { rpm_limit: 20, tpm_limit: 40_000 })
  },
)

test.serial('members of a suspended organisation see why, and whom to ask', async t => {
  const { visitor, organisationId } = await signUp(gateway)
  await setSuspension(gateway.services, organisationId, 'An invoice is open', operatorActor)
  t.like((await visitor.person())!.organisations, [{ suspended: true, suspension_reason: 'An invoice is open' }])
  t.like(await visitor.json('/dashboard/api/settings'), { contact: 'support@example.com' })
})

test.serial('400 in our own words for the only owner who leaves', async t => {
  const { visitor, organisationId } = await signUp(gateway)
  const left = await visitor.fetch(`${auth}/organization/leave`, { body: { organizationId: organisationId } })
  t.is(left.status, 400)
  t.like(await left.json(), {
    message: 'You are the only owner of this organisation. Make another member an owner first.',
  })
})

test.serial('a forgotten password is replaced by the link of an email, once, and every session ends', async t => {
  const { visitor } = await signUp(gateway)
  const { email } = visitor
  const stranger = new Visitor(gateway, email)
  await stranger.json(`${auth}/request-password-reset`, { body: { email } })
  const token = await tokenFor(email, /reset your password/i)
  const body = { token, newPassword: 'another battery' }
  t.is((await stranger.fetch(`${auth}/reset-password`, { body })).status, 200)
  t.is((await stranger.fetch(`${auth}/reset-password`, { body })).status, 400)
  t.is(await visitor.person(), null)
  t.is((await stranger.fetch(`${auth}/sign-in/email`, { body: { email, password } })).status, 401)
  t.is((await stranger.fetch(`${auth}/sign-in/email`, { body: { email, password: 'another battery' } })).status, 200)
  t.truthy(await stranger.person())
})

test.serial('an unknown address gets the same answers as a known one', async t => {
  const stranger = new Visitor(gateway, 'nobody@example.com')
  const answers = async (email: string) => {
    const signIn = await stranger.fetch(`${auth}/sign-in/email`, { body: { email, password: 'wrong password' } })
    const reset = await stranger.fetch(`${auth}/request-password-reset`, { body: { email } })
    return [signIn.status, await signIn.text(), reset.status, await reset.text()]
  }
  t.deepEqual(await answers('nobody@example.com'), await answers(ada.visitor.email))
})

test.serial('a new email address needs the consent of the old one, and its own', async t => {
  const { visitor, userId } = await signUp(gateway)
  const newEmail = `new.${visitor.email}`
  await visitor.json(`${auth}/change-email`, { body: { newEmail } })
  const emailNow = async () => (await gateway.services.db.user.findUniqueOrThrow({ where: { id: userId } })).email
  await visitor.fetch(`${auth}/verify-email?token=${await tokenFor(visitor.email, /change of your email/i)}`)
  t.is(await emailNow(), visitor.email)
  // Opening it does not sign in.
  const stranger = new Visitor(gateway, newEmail)
  const opened = await stranger.fetch(`${auth}/verify-email?token=${await tokenFor(newEmail, /confirm your email/i)}`)
  t.deepEqual([opened.status, opened.headers.getSetCookie()], [200, []])
  t.is(await emailNow(), newEmail)
  t.truthy(await visitor.person())
})

test.serial('429 when too much is asked for one email address, from wherever', async t => {
  const body = { email: 'often@example.com' }
  const ask = async () => (await new Visitor(gateway, '').fetch(`${auth}/request-password-reset`, { body })).status
  const statuses = await Promise.all(Array.from({ length: 8 }, ask))
  t.deepEqual(statuses.toSorted(), [...Array(5).fill(200), ...Array(3).fill(429)])
})

test('the address of a client is the one that the last trusted proxy saw, without its port', t => {
  const from = (forwarded: string | undefined, trusted: number) => {
    const headers = forwarded === undefined ? {} : { 'x-forwarded-for': forwarded }
    return clientAddress({ headers, socket: { remoteAddress: '10.0.0.9' } } as IncomingMessage, trusted)
  }
  for (const [forwarded, trusted, address] of [
    ['203.0.113.7', 0, '10.0.0.9'],
    [undefined, 1, '10.0.0.9'],
    ['198.51.100.1, 203.0.113.7', 1, '203.0.113.7'],
    ['198.51.100.1, 203.0.113.7, 10.0.0.1', 2, '203.0.113.7'],
    ['203.0.113.7', 2, '203.0.113.7'],
    ['203.0.113.7:51234', 1, '203.0.113.7'],
    ['[2001:db8::1]:51234', 1, '2001:db8::1'],
    ['2001:db8::1', 1, '2001:db8::1'],
    ['unknown', 1, '10.0.0.9'],
  ] as const)
    t.is(from(forwarded, trusted), address, forwarded)
})

test.serial('429 when one address of the network tries too often, whatever it says it was forwarded for', async t => {
  const attempt = async (path: string, body: unknown, n: number) => {
    const headers = { 'x-forwarded-for': `10.0.0.${n}, 203.0.113.7` }
    return (await new Visitor(gateway, '').fetch(`${auth}/${path}`, { body, headers })).status
  }
  const guesses = Array.from({ length: 22 }, (_, n) =>
    attempt('reset-password', { token: `guess${n}`, newPassword: password }, n),
  )
  const statuses = await Promise.all(guesses)
  t.deepEqual(statuses.toSorted(), [...Array(20).fill(400), 429, 429])
})

test.serial('the session’s cookie is kept from scripts, other sites and the API', async t => {
  const { visitor } = ada
  const response = await new Visitor(gateway, '').fetch(`${auth}/sign-in/email`, {
    body: { email: visitor.email, password },
  })
  const [cookie] = response.headers.getSetCookie()
  t.regex(cookie!, /^headgate\.session_token=/)
  for (const flag of [/; HttpOnly/i, /; SameSite=Lax/i, /; Path=\/dashboard(;|$)/]) t.regex(cookie!, flag)
  t.notRegex(cookie!, /Secure/i)
  const secure = await startGateway(stores, { PUBLIC_URL: 'https://gateway.example.com' })
  t.teardown(() => secure.close())
  const over = await new Visitor(secure, '').fetch(`${auth}/sign-in/email`, {
    body: { email: visitor.email, password },
  })
  t.regex(over.headers.getSetCookie()[0]!, /^__Secure-headgate\.session_token=.*; Secure/i)
  t.regex(over.headers.get('strict-transport-security')!, /^max-age=/)
})

test.serial('403 for what another site’s page sends with the cookies of a visitor', async t => {
  const { visitor, organisationId, base } = ada
  for (const origin of ['https://evil.example', 'null']) {
    const headers = { origin }
    const rename = { body: { organizationId: organisationId, data: { name: 'Theirs' } }, headers }
    t.is((await visitor.fetch(`${auth}/organization/update`, rename)).status, 403, origin)
    t.is((await visitor.fetch(`${base}/keys`, { body: { name: 'theirs' }, headers })).status, 403, origin)
  }
})

test.serial('an invited person joins with a confirmed address only, and the audit log says who did what', async t => {
  const { visitor, organisationId } = await signUp(gateway)
  const guest = await signUp(gateway, { verified: false, name: 'Grace' })
  const invited = { organizationId: organisationId, email: guest.visitor.email, role: 'admin' }
  const again = { ...invited, role: 'owner' }
  await visitor.json(`${auth}/organization/invite-member`, { body: again })
  const { id: invitationId, role } = await visitor.json<{ id: string; role: string }>(
    `${auth}/organization/invite-member`,
    { body: invited },
  )
  t.is(role, 'admin', 'the latest invitation counts')
  const accept = (person: SignedUp) =>
    person.visitor.fetch(`${auth}/organization/accept-invitation`, { body: { invitationId } })
  t.is((await accept(guest)).status, 403)
  t.is((await accept(ada)).status, 403)
  await gateway.services.db.user.update({ where: { id: guest.userId }, data: { emailVerified: true } })
  const before = (await guest.visitor.person())!
  t.deepEqual(
    before.invitations.map(({ id }) => id),
    [invitationId],
  )
  t.is((await accept(guest)).status, 200)
  const member = await gateway.services.db.membership.findFirstOrThrow({
    where: { organisationId, userId: guest.userId },
  })
  t.is(member.role, 'admin')
  const change = { memberId: member.id, organizationId: organisationId }
  const byGuest = await guest.visitor.fetch(`${auth}/organization/update-member-role`, {
    body: { ...change, role: 'owner' },
  })
  t.is(byGuest.status, 403)
  const twoRoles = await visitor.fetch(`${auth}/organization/update-member-role`, {
    body: { ...change, role: ['admin', 'member'] },
  })
  t.is(twoRoles.status, 400)
  await visitor.json(`${auth}/organization/update-member-role`, { body: { ...change, role: 'member' } })
  await visitor.json(`${auth}/organization/remove-member`, {
    body: { memberIdOrEmail: member.id, organizationId: organisationId },
  })
  t.is((await guest.visitor.fetch(`/dashboard/api/organisations/${organisationId}/keys`)).status, 404)
  const entries = await gateway.services.db.auditEvent.findMany({ where: { organisationId }, orderBy: { id: 'asc' } })
  t.deepEqual(
    entries.map(({ action, actorName, targetName, changes }) => [action, actorName, targetName, changes]),
    [
      ['organisation.created', visitor.email, null, null],
      ['member.invited', visitor.email, guest.visitor.email, { role: [null, 'owner'] }],
      ['member.invited', visitor.email, guest.visitor.email, { role: [null, 'admin'] }],
      ['member.joined', guest.visitor.email, guest.visitor.email, { role: [null, 'admin'] }],
      ['member.role_changed', visitor.email, guest.visitor.email, { role: ['admin', 'member'] }],
      ['member.removed', visitor.email, guest.visitor.email, { role: ['member', null] }],
    ],
  )
})

test.serial('members’ routes of the accounts are closed to other organisations and to lower roles', async t => {
  const { organisationId } = await signUp(gateway)
  const other = await signUp(gateway)
  const calls: [string, unknown?][] = [
    [`list-members?organizationId=${organisationId}`],
    [`list-invitations?organizationId=${organisationId}`],
    [`get-full-organization?organizationId=${organisationId}`],
    ['invite-member', { organizationId: organisationId, email: 'x@example.com', role: 'member' }],
    ['update', { organizationId: organisationId, data: { name: 'Theirs' } }],
    ['delete', { organizationId: organisationId }],
    ['set-active', { organizationId: organisationId }],
  ]
  const refusals = async (changing: boolean) => {
    for (const [path, body] of calls.filter(([, given]) => !changing || given !== undefined)) {
      if (changing && path === 'set-active') continue
      const { status } = await other.visitor.fetch(`${auth}/organization/${path}`, { body })
      t.true(status >= 400 && status < 500, `${path}: ${status}`)
    }
  }
  await refusals(false)
  await join(gateway, other.userId, organisationId, 'member')
  await refusals(true)
  t.is(
    (await gateway.services.db.organisation.findUniqueOrThrow({ where: { id: organisationId } })).name,
    'Ada’s organisation',
  )
})

test.serial('with SIGN_UP=invitation no account is made without an invitation', async t => {
  const closed = await startGateway(stores, { SIGN_UP: 'invitation', DEV_OUTBOX: 'true' })
  t.teardown(() => closed.close())
  const attempt = (email: string) =>
    new Visitor(closed, email).fetch(`${auth}/sign-up/email`, { body: { name: 'Eve', email, password } })
  t.is((await attempt('eve@example.com')).status, 403)
  await ada.visitor.json(`${auth}/organization/invite-member`, {
    body: { organizationId: ada.organisationId, email: 'eve@example.com', role: 'member' },
  })
  t.is((await attempt('eve@example.com')).status, 200)
})

test.serial('400 naming the field, 404 and 405 for what the accounts do not take', async t => {
  const { visitor, organisationId } = ada
  const long = 'x'.repeat(101)
  const bad: [path: string, body: unknown, param: string | null][] = [
    ['sign-up/email', {}, 'name'],
    ['sign-up/email', { name: 'x', email: 'x', password }, 'email'],
    ['sign-up/email', { name: 'x', email: `${'x'.repeat(250)}@example.com`, password }, 'email'],
    ['sign-up/email', { name: 'x', email: 'op@example.com', password, operator: true }, 'operator'],
    ['sign-up/email', { name: 'Win!\nhttps://evil.example', email: 'a@example.com', password }, 'name'],
    ['sign-up/email', [], null],
    ['sign-up/email', 'text', null],
    ['update-user', { name: long }, 'name'],
    ['update-user', { name: { set: 'x' } }, 'name'],
    ['update-user', { name: 'a\0b' }, 'name'],
    ['update-user', { operator: true, name: 'Ada' }, 'operator'],
    ['sign-in/oauth2', { providerId: 'oidc', callbackURL: 'https://evil.example' }, 'callbackURL'],
    ['sign-in/oauth2', { providerId: 'oidc', callbackURL: '//evil.example' }, 'callbackURL'],
    ['organization/update', { organizationId: organisationId, data: { name: 'x', logo: 'y' } }, 'data.logo'],
    ['organization/invite-member', { organizationId: organisationId, email: 'a@b.co', role: ['owner'] }, 'role'],
    ['revoke-session', { token: '\0' }, 'token'],
  ]
  for (const [path, body, param] of bad) {
    const response = await visitor.fetch(`${auth}/${path}`, { body })
    const { error } = (await response.json()) as { error: { param: string | null } }
    t.deepEqual([response.status, error.param], [400, param], `${path} ${JSON.stringify(body)}`)
  }
  const of = `organizationId=${organisationId}`
  for (const query of [`${of}&limit=abc`, `${of}&sortBy=role`, `${of}&filterField=x`, 'organizationId=%00', ''])
    t.is((await visitor.fetch(`${auth}/organization/list-members?${query}`)).status, 400, query)
  t.is((await visitor.fetch('/dashboard/api/organisations/%00/keys')).status, 400)
  // Of the library's many routes, those that no page uses are closed.
  for (const path of ['get-access-token', 'refresh-token', 'delete-user', 'update-session', 'organization/set-active'])
    t.is(await errorCode(await visitor.fetch(`${auth}/${path}`, { body: {} })), 'not_found', path)
  for (const path of ['error', 'ok', 'account-info', 'reset-password/x?callbackURL=/', 'organization/list', 'x', ''])
    t.is(await errorCode(await visitor.fetch(`${auth}/${path}`)), 'not_found', path)
  const posted = await visitor.fetch(`${auth}/verify-email`, { body: {} })
  t.deepEqual([posted.status, posted.headers.get('allow')], [405, 'GET'])
  const short = { name: 'x', email: 'a@example.com', password: 'short' }
  t.is((await visitor.fetch(`${auth}/sign-up/email`, { body: short })).status, 400)
  t.is((await visitor.fetch(`${auth}/update-user`, { body: { name: 'x'.repeat(70_000) } })).status, 413)
  t.is((await fetch(`${gateway.url}/dashboard/api/outbox`)).status, 200)
  const closed = await startGateway(stores)
  t.teardown(() => closed.close())
  t.is((await fetch(`${closed.url}/dashboard/api/outbox`)).status, 404)
})

test.serial('a session lasts seven days from its last use, and is listed for as long', async t => {
  const { visitor, userId } = await signUp(gateway)
  const { session } = gateway.services.db
  const expireIn = (days: number, of = userId) => {
    const [createdAt, expiresAt] = [days - 7, days].map(offset => new Date(Date.now() + offset * dayMs))
    return session.updateMany({ where: { userId: of }, data: { createdAt, expiresAt } })
  }
  t.deepEqual((await visitor.fetch('/dashboard/api/me')).headers.getSetCookie(), [])
  await expireIn(5)
  const [cookie] = (await visitor.fetch('/dashboard/api/me')).headers.getSetCookie()
  t.regex(cookie!, /^headgate\.session_token=[^;]+; Max-Age=604800;/)
  t.true((await session.findFirstOrThrow({ where: { userId } })).expiresAt.getTime() > Date.now() + 6.9 * dayMs)
  t.is((await visitor.json<unknown[]>(`${auth}/list-sessions`)).length, 1)
  await expireIn(-1)
  t.is(await visitor.person(), null)
  const idle = await signUp(gateway)
  await expireIn(-1, idle.userId)
  await runMaintenance('expire', null, gateway.services)
  t.is(await session.count({ where: { userId: idle.userId } }), 0)
  t.true((await session.count({ where: { userId: ada.userId } })) > 0)
})

test.serial('who leaves, declines or renames is noted', async t => {
  const { visitor, organisationId } = await signUp(gateway)
  const [leaving, declining] = [await signUp(gateway, { name: 'Grace' }), await signUp(gateway)]
  await join(gateway, leaving.userId, organisationId, 'admin')
  const call = (person: SignedUp, path: string, body: object) =>
    person.visitor.json<{ id: string }>(`${auth}/organization/${path}`, { body })
  await call(leaving, 'update', { organizationId: organisationId, data: { name: ' Acme ' } })
  const invited = { organizationId: organisationId, email: declining.visitor.email, role: 'member' }
  const { id: invitationId } = await call(leaving, 'invite-member', invited)
  await call(declining, 'reject-invitation', { invitationId })
  await call(leaving, 'leave', { organizationId: organisationId })
  const events = await gateway.services.db.auditEvent.findMany({ where: { organisationId }, orderBy: { id: 'asc' } })
  const [left, declined] = [leaving.visitor.email, declining.visitor.email]
  t.deepEqual(
    events.map(({ action, actorName, targetName, changes }) => [action, actorName, targetName, changes]),
    [
      ['organisation.created', visitor.email, null, null],
      ['organisation.changed', left, null, { name: ['Ada’s organisation', 'Acme'] }],
      ['member.invited', left, declined, { role: [null, 'member'] }],
      ['invitation.declined', declined, declined, null],
      ['member.removed', left, left, { role: ['admin', null] }],
    ],
  )
})

test.serial('an invitation ends with the role of its author', async t => {
  const { visitor, organisationId } = await signUp(gateway)
  const of = { organizationId: organisationId }
  const memberOf = (userId: string) => ({ organisationId_userId: { organisationId, userId } })
  const ends: [role: 'admin' | 'owner', invited: string, end: (inviter: SignedUp) => Promise<unknown>][] = [
    [
      'owner',
      'owner',
      ({ visitor: { email } }) =>
        visitor.json(`${auth}/organization/remove-member`, { body: { ...of, memberIdOrEmail: email } }),
    ],
    ['owner', 'owner', inviter => changeRole(inviter, 'admin')],
    ['owner', 'billing', inviter => changeRole(inviter, 'admin')],
    ['admin', 'member', inviter => changeRole(inviter, 'billing')],
    ['admin', 'member', inviter => changeRole(inviter, 'member')],
    ['admin', 'member', inviter => inviter.visitor.json(`${auth}/organization/leave`, { body: of })],
  ]
  const changeRole = async ({ userId }: SignedUp, role: string) => {
    const { id: memberId } = await gateway.services.db.membership.findUniqueOrThrow({ where: memberOf(userId) })
    return visitor.json(`${auth}/organization/update-member-role`, { body: { ...of, memberId, role } })
  }
  for (const [role, invited, end] of ends) {
    const [inviter, puppet] = [await signUp(gateway), await signUp(gateway)]
    await join(gateway, inviter.userId, organisationId, role)
    const { id: invitationId } = await inviter.visitor.json<{ id: string }>(`${auth}/organization/invite-member`, {
      body: { ...of, email: puppet.visitor.email, role: invited },
    })
    await end(inviter)
    const accepted = await puppet.visitor.fetch(`${auth}/organization/accept-invitation`, { body: { invitationId } })
    t.is(accepted.status, 400)
    t.is(await gateway.services.db.membership.findUnique({ where: memberOf(puppet.userId) }), null)
  }
  const guest = await signUp(gateway)
  const body = { ...of, email: guest.visitor.email, role: 'member' }
  const { id: invitationId } = await visitor.json<{ id: string }>(`${auth}/organization/invite-member`, { body })
  await join(gateway, guest.userId, organisationId, 'admin')
  const again = await guest.visitor.fetch(`${auth}/organization/accept-invitation`, { body: { invitationId } })
  t.is(again.status, 400, 'for an existing member')
})

test.serial('nobody gives a role with permissions that they lack, by change or by invitation', async t => {
  const { visitor, organisationId } = await signUp(gateway)
  const of = { organizationId: organisationId }
  const [admin, payer, member] = [await signUp(gateway), await signUp(gateway), await signUp(gateway)]
  await join(gateway, admin.userId, organisationId, 'admin')
  await join(gateway, payer.userId, organisationId, 'billing')
  await join(gateway, member.userId, organisationId, 'member')
  const memberId = `mem_${member.userId}_${organisationId}`
  const give = (giver: Visitor, role: string) =>
    giver.fetch(`${auth}/organization/update-member-role`, { body: { ...of, memberId, role } })
  const invite = (giver: Visitor, role: string) =>
    giver.fetch(`${auth}/organization/invite-member`, { body: { ...of, email: `${role}@example.com`, role } })
  for (const call of [give, invite]) {
    t.is((await call(admin.visitor, 'billing')).status, 403)
    t.is((await call(admin.visitor, 'member')).status, 200)
    t.is((await call(payer.visitor, 'member')).status, 403)
    t.is((await call(payer.visitor, 'billing')).status, 403)
    t.is((await call(visitor, 'billing')).status, 200)
  }
  const own = { ...of, memberId: `mem_${admin.userId}_${organisationId}`, role: 'billing' }
  const toThemselves = await admin.visitor.fetch(`${auth}/organization/update-member-role`, { body: own })
  t.is(toThemselves.status, 403)
  t.is((await give(admin.visitor, 'member')).status, 200, 'an admin may take the role away')
  const { role } = await gateway.services.db.membership.findUniqueOrThrow({ where: { id: memberId } })
  t.is(role, 'member')
})

test.serial('an organisation keeps an owner, however many of them leave at a time', async t => {
  for (let round = 0; round < 8; round++) {
    const [one, other] = [await signUp(gateway), await signUp(gateway)]
    const { organisationId } = one
    await join(gateway, other.userId, organisationId, 'owner')
    const leave = ({ visitor }: SignedUp) =>
      visitor.fetch(`${auth}/organization/leave`, { body: { organizationId: organisationId } })
    const statuses = (await Promise.all([one, other].map(leave))).map(({ status }) => status)
    t.deepEqual(statuses.sort(), [200, 400])
    t.is(await gateway.services.db.membership.count({ where: { organisationId, role: 'owner' } }), 1)
  }
})

test.serial('hidden: unconfirmed accounts from strangers, who get few emails', async t => {
  const { visitor, organisationId, userId } = await signUp(gateway, { verified: false, name: 'Free money' })
  const victim = 'victim@example.com'
  const invite = async () => {
    const body = { organizationId: organisationId, email: victim, role: 'member' }
    return (await visitor.fetch(`${auth}/organization/invite-member`, { body })).status
  }
  t.is(await invite(), 403)
  for (const status of [200, 200, 200, 200, 200, 429])
    t.is((await visitor.fetch(`${auth}/change-email`, { body: { newEmail: victim } })).status, status)
  const mails = (await gateway.services.mailer.outbox())!.filter(({ to }) => to === victim)
  t.is(mails.length, 5)
  t.false(JSON.stringify(mails).includes('Free money'))
  await gateway.services.db.user.update({ where: { id: userId }, data: { emailVerified: true } })
  t.deepEqual(await Promise.all(Array.from({ length: 5 }, invite)).then(all => all.sort()), [200, 200, 200, 200, 429])
})

test.serial('200 at once, whether the mail server is slow or refuses; the email arrives, also at a stop', async t => {
  const server = await MailServer.start()
  t.teardown(() => server.close())
  const mailing = await startGateway(stores, { SMTP_URL: server.url })
  t.teardown(() => mailing.close())
  const { visitor } = await signUp(gateway, { verified: false })
  const ask = (path: string) => new Visitor(mailing, '').fetch(`${auth}/${path}`, { body: { email: visitor.email } })
  server.refusing = true
  t.is((await ask('send-verification-email')).status, 200)
  await eventually(() => server.asked === 1, 'the server refused one')
  server.refusing = false
  let answer = () => {}
  server.until = new Promise(resolve => (answer = resolve))
  t.is((await ask('request-password-reset')).status, 200)
  t.is(server.received.length, 0)
  const closed = mailing.close()
  answer()
  await closed
  t.like(server.received, [{ to: [visitor.email], subject: 'Reset your password' }])
})

test.serial('200 from a page of the very host that is asked, whatever PUBLIC_URL calls it', async t => {
  const proxied = await startGateway(stores, { PUBLIC_URL: 'https://gateway.example.com' })
  t.teardown(() => proxied.close())
  const { host } = new URL(proxied.url)
  const body = { email: ada.visitor.email, password }
  for (const [origin, status] of [
    [`https://${host}`, 200],
    [`http://${host}`, 200],
    ['https://gateway.example.com', 200],
    ['https://example.com', 403],
  ] as const)
    t.is((await new Visitor(proxied, '').fetch(`${auth}/sign-in/email`, { body, headers: { origin } })).status, status)
})
