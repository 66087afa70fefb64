import test from 'ava'
import { OidcEmulator } from './emulators/oidc.ts'
import { join, password, type SignedUp, signUp, Visitor } from './support/dashboard.ts'
import { freshStores, type Gateway, type Stores, startGateway } from './support/gateway.ts'

const auth = '/dashboard/api/auth'
let stores: Stores
let gateway: Gateway
let ada: SignedUp
let oidc: OidcEmulator

test.before(async () => {
  stores = await freshStores()
  oidc = await OidcEmulator.start()
  gateway = await startGateway(stores, {
    DEV_OUTBOX: 'true',
    OIDC_ISSUER: oidc.issuer,
    OIDC_CLIENT_ID: 'headgate',
    OIDC_CLIENT_SECRET: 'secret',
  })
  ada = await signUp(gateway)
})
test.after.always(async () => {
  await gateway?.close()
  oidc?.close()
  await stores?.drop()
})

/** The token in the latest email to an address. */
async function tokenFor(email: string, subject: RegExp): Promise<string> {
  const mails = (await gateway.services.mailer.outbox())!
  const mail = mails.find(({ to, subject: text }) => to === email && subject.test(text))!
  return new URL(mail.link!.url).searchParams.get('token')!
}

test.serial('a person signs up, is known by a cookie, and owns the organisation they make', async t => {
  const { visitor, organisationId } = await signUp(gateway, { verified: false })
  const me = await visitor.json<{ email_verified: boolean; organisations: unknown[] }>('/dashboard/api/me')
  t.false(me.email_verified)
  t.deepEqual(me.organisations, [{ id: organisationId, name: 'Ada’s organisation', role: 'owner' }])
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

test.serial('a forgotten password is replaced by the link of an email, once, and every session ends', async t => {
  const { visitor } = await signUp(gateway)
  const { email } = visitor
  const stranger = new Visitor(gateway, email)
  await stranger.json(`${auth}/request-password-reset`, { body: { email } })
  const token = await tokenFor(email, /new password/i)
  const body = { token, newPassword: 'another battery' }
  t.is((await stranger.fetch(`${auth}/reset-password`, { body })).status, 200)
  t.is((await stranger.fetch(`${auth}/reset-password`, { body })).status, 400)
  t.is((await visitor.fetch('/dashboard/api/me')).status, 401)
  t.is((await stranger.fetch(`${auth}/sign-in/email`, { body: { email, password } })).status, 401)
  t.is((await stranger.fetch(`${auth}/sign-in/email`, { body: { email, password: 'another battery' } })).status, 200)
  t.is((await stranger.fetch('/dashboard/api/me')).status, 200)
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
  await visitor.fetch(`${auth}/verify-email?token=${await tokenFor(newEmail, /confirm your email/i)}`)
  t.is(await emailNow(), newEmail)
})

test.serial('429 when too much is asked for one email address, from wherever', async t => {
  const body = { email: 'often@example.com' }
  const ask = async () => (await new Visitor(gateway, '').fetch(`${auth}/request-password-reset`, { body })).status
  const statuses = await Promise.all(Array.from({ length: 8 }, ask))
  t.deepEqual(statuses.toSorted(), [...Array(5).fill(200), ...Array(3).fill(429)])
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
  const over = await new Visitor(secure, '').fetch(`${auth}/sign-in/email`, {
    body: { email: visitor.email, password },
  })
  t.regex(over.headers.getSetCookie()[0]!, /^__Secure-headgate\.session_token=.*; Secure/i)
  t.regex(over.headers.get('strict-transport-security')!, /^max-age=/)
  await secure.close()
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
  const { id: invitationId } = await visitor.json<{ id: string }>(`${auth}/organization/invite-member`, {
    body: invited,
  })
  const accept = (person: SignedUp) =>
    person.visitor.fetch(`${auth}/organization/accept-invitation`, { body: { invitationId } })
  t.is((await accept(guest)).status, 403)
  t.is((await accept(ada)).status, 403)
  await gateway.services.db.user.update({ where: { id: guest.userId }, data: { emailVerified: true } })
  const before = await guest.visitor.json<{ invitations: { id: string }[] }>('/dashboard/api/me')
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

test.serial('single sign-on makes an account, and takes over none whose address nobody confirmed', async t => {
  const through = async (profile: OidcEmulator['profile']) => {
    oidc.profile = profile
    const visitor = new Visitor(gateway, profile.email)
    const { url } = await visitor.json<{ url: string }>(`${auth}/sign-in/oauth2`, {
      body: { providerId: 'oidc', callbackURL: '/dashboard/' },
    })
    const agreed = await fetch(url, { redirect: 'manual' })
    const back = new URL(agreed.headers.get('location')!)
    const landed = await visitor.fetch(back.pathname + back.search)
    return { visitor, to: landed.headers.get('location') }
  }
  const { visitor, to } = await through({ sub: 'new', email: 'sso@example.com', email_verified: true })
  t.is(to, '/dashboard/')
  const me = await visitor.json<{ email: string; email_verified: boolean }>('/dashboard/api/me')
  t.like(me, { email: 'sso@example.com', email_verified: true })
  const squatter = await signUp(gateway, { verified: false })
  const refused = await through({ sub: 'victim', email: squatter.visitor.email, email_verified: true })
  t.regex(refused.to!, /error=account_not_linked/)
  t.is((await refused.visitor.fetch('/dashboard/api/me')).status, 401)
})

test.serial('with SIGN_UP=invitation nobody makes an account uninvited', async t => {
  const closed = await startGateway(stores, { SIGN_UP: 'invitation', DEV_OUTBOX: 'true' })
  const attempt = (email: string) =>
    new Visitor(closed, email).fetch(`${auth}/sign-up/email`, { body: { name: 'Eve', email, password } })
  t.is((await attempt('eve@example.com')).status, 403)
  await ada.visitor.json(`${auth}/organization/invite-member`, {
    body: { organizationId: ada.organisationId, email: 'eve@example.com', role: 'member' },
  })
  t.is((await attempt('eve@example.com')).status, 200)
  await closed.close()
})

test.serial('bad input of accounts is a 4xx, and pages say what they may load', async t => {
  const bad: unknown[] = [{}, { email: 'x', password }, { email: 'a@b.co', password: 'short', name: 'x' }, [], 'text']
  for (const body of bad) {
    const { status } = await new Visitor(gateway, '').fetch(`${auth}/sign-up/email`, {
      body,
      headers: { 'x-forwarded-for': '192.0.2.77' },
    })
    t.true(status >= 400 && status < 500, `${JSON.stringify(body)}: ${status}`)
  }
  const large = await ada.visitor.fetch(`${auth}/update-user`, { body: { name: 'x'.repeat(70_000) } })
  t.is(large.status, 413)
  t.is((await fetch(`${gateway.url}/dashboard/api/outbox`)).status, 200)
  const closed = await startGateway(stores)
  t.is((await fetch(`${closed.url}/dashboard/api/outbox`)).status, 404)
  await closed.close()
})
