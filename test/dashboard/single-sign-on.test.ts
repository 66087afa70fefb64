// Single sign-on, by a provider that is careless, and by visitors who are not who they seem to be.

import { OidcEmulator, type Profile } from '../emulators/oidc.ts'
import { password, signUp, Visitor } from '../support/dashboard/dashboard.ts'
import { operatorJson } from '../support/operator.ts'
import { test } from '../support/test.ts'
import { use, useGateway, useStores } from '../support/use.ts'

const auth = '/dashboard/api/auth'

const stores = useStores(test)
const oidc = use(test, () => OidcEmulator.start())
const gateway = useGateway(test, () => ({ DEV_OUTBOX: 'true', ...oidc.env }), { stores })

test.beforeEach(() => {
  oidc.idToken = null
  oidc.statedIssuer = null
})

/** A visitor who begins to sign in, and where the provider sends them back to. */
async function agreed(profile: Profile & Record<string, unknown>): Promise<{ visitor: Visitor; back: string }> {
  oidc.profile = profile
  const visitor = new Visitor(gateway, profile.email)
  const { url } = await visitor.json<{ url: string }>(`${auth}/sign-in/oauth2`, {
    body: { providerId: 'oidc', callbackURL: '/dashboard/' },
  })
  const response = await fetch(url, { redirect: 'manual' })
  const { pathname, search } = new URL(response.headers.get('location')!)
  return { visitor, back: pathname + search }
}

/** Where a visitor gets by the address that the provider sent somebody to, and who is signed in. */
async function land(visitor: Visitor, back: string) {
  const landed = await visitor.fetch(back)
  return { to: landed.headers.get('location'), person: await visitor.person() }
}

/** Signs in through the provider, which says so much of a person. */
async function through(profile: Profile & Record<string, unknown>) {
  const { visitor, back } = await agreed(profile)
  return land(visitor, back)
}

let people = 0
const newProfile = (): Profile => ({ sub: `sub-${++people}`, email: `sso-${people}@example.com`, email_verified: true })
const claimsOf = (profile: Profile) => ({
  iss: oidc.issuer,
  aud: oidc.clientId,
  exp: Math.floor(Date.now() / 1_000) + 600,
  ...profile,
})

test.serial('single sign-on makes an account, and takes over none whose address is not confirmed', async t => {
  const { to, person } = await through({ sub: 'new', email: 'sso@example.com', email_verified: true })
  t.is(to, '/dashboard/')
  t.like(person, { email: 'sso@example.com', email_verified: true })
  const squatter = await signUp(gateway, { verified: false })
  const refused = await through({ sub: 'victim', email: squatter.visitor.email, email_verified: true })
  t.regex(refused.to!, /error=account_not_linked/)
  t.is(refused.person, null)
})

test.serial('single sign-on believes no address that the provider did not confirm, and no name but `sub`', async t => {
  const ada = await signUp(gateway)
  const { email } = ada.visitor
  for (const email_verified of [false, 'false', 0, undefined, null, {}] as boolean[]) {
    const attacker = { sub: 'attacker', email, email_verified, emailVerified: true }
    const refused = await through(attacker)
    t.regex(refused.to!, /error=account_not_linked/, String(email_verified))
    t.is(refused.person, null)
  }
  // Some providers write it as text.
  const linked = await through({ sub: 'ada', email, email_verified: 'true' as unknown as boolean })
  t.is(linked.person!.id, ada.userId)
  const other = await through({ sub: 'other', id: 'ada', email: 'other@example.com', email_verified: true })
  t.not(other.person!.id, ada.userId)
  const nameless = { sub: undefined as unknown as string, email: 'nameless@example.com', email_verified: true }
  t.regex((await through(nameless)).to!, /error=id_is_missing/)
})

test.serial('an ID token for another client, of another issuer or from earlier signs nobody in', async t => {
  const profile = newProfile()
  const claims = claimsOf(profile)
  const wrong: Record<string, object> = {
    'another issuer': { iss: 'https://issuer.example' },
    'no issuer': { iss: undefined },
    'another client': { aud: 'another' },
    'other clients': { aud: ['another', 'third'] },
    'no client': { aud: undefined },
    'asked for by another client': { aud: [oidc.clientId, 'another'], azp: 'another' },
    expired: { exp: Math.floor(Date.now() / 1_000) - 3_600 },
    'without an end': { exp: undefined },
    'an end that is no number': { exp: '9999999999' },
    nameless: { sub: undefined },
  }
  for (const [name, change] of Object.entries(wrong)) {
    oidc.idToken = { ...claims, ...change }
    const refused = await through(profile)
    t.regex(refused.to!, /error=user_info_is_missing/, name)
    t.is(refused.person, null, name)
  }
  for (const aud of [oidc.clientId, ['another', oidc.clientId]]) {
    oidc.idToken = { ...claims, aud }
    t.like((await through(profile)).person, { email: profile.email })
  }
})

test.serial('an ID token of a tenant signs in where the issuer of the provider has a place for it', async t => {
  // https://login.microsoftonline.com/common/v2.0 states such an issuer.
  oidc.statedIssuer = `${oidc.issuer}/{tenantid}/v2.0`
  const profile = newProfile()
  const claims: Record<string, unknown> = { ...claimsOf(profile), iss: `${oidc.issuer}/t1/v2.0`, tid: 't1' }
  oidc.idToken = claims
  t.like((await through(profile)).person, { email: profile.email })
  for (const change of [{ tid: 't2' }, { tid: undefined }, { iss: oidc.statedIssuer, tid: undefined }]) {
    oidc.idToken = { ...claims, ...change }
    t.is((await through(profile)).person, null)
  }
})

test.serial('an ID token whose issuer lacks the scheme signs in, as Google’s may', async t => {
  oidc.statedIssuer = 'https://accounts.example.com'
  const profile = newProfile()
  oidc.idToken = { ...claimsOf(profile), iss: 'accounts.example.com' }
  t.like((await through(profile)).person, { email: profile.email })
  oidc.idToken = { ...claimsOf(profile), iss: 'other.example.com' }
  t.is((await through(profile)).person, null)
})

test.serial('the address of another person at the userinfo endpoint is not believed', async t => {
  const [profile, other] = [newProfile(), newProfile()]
  const { email, email_verified, ...claims } = claimsOf(profile)
  oidc.idToken = claims
  t.like((await through(profile)).person, { email })
  const refused = await through(other)
  t.regex(refused.to!, /error=user_info_is_missing/)
  t.is(refused.person, null)
})

test.serial('who gets the address of another person later does not get their account', async t => {
  const profile = newProfile()
  const { person } = await through(profile)
  const successor = { ...profile, sub: 'successor' }
  const refused = await through(successor)
  t.regex(refused.to!, /error=unable_to_link_account/)
  t.is(refused.person, null)
  t.is((await through(profile)).person!.id, person!.id)
  await operatorJson(stores, 'user', 'unlink-single-sign-on', '--email', profile.email)
  t.is((await through(successor)).person!.id, person!.id)
  t.regex((await through(profile)).to!, /error=unable_to_link_account/)
})

test.serial('a person with a password is told that single sign-on was connected, and others are not', async t => {
  const { db, mailer } = gateway.services
  const told = async (email: string) =>
    (await mailer.outbox())!.filter(({ to, text }) => to === email && text.includes('Single sign-on was connected'))
      .length
  const ada = await signUp(gateway)
  const { email } = ada.visitor
  for (let i = 0; i < 2; i++) t.is((await through({ ...newProfile(), sub: 'linked', email })).person!.id, ada.userId)
  t.is(await told(email), 1)
  const noted = { organisationId: ada.organisationId, action: 'member.single_sign_on_linked', actorId: ada.userId }
  t.is(await db.auditEvent.count({ where: noted }), 1)
  const profile = newProfile()
  await through(profile)
  t.is(await told(profile.email), 0)
})

test.serial('a provider that replaces another signs in nobody by the name that another person had there', async t => {
  const profile = newProfile()
  const { person } = await through(profile)
  await operatorJson(stores, 'user', 'unlink-single-sign-on', '--all')
  t.is(await gateway.services.db.session.count({ where: { userId: person!.id } }), 0)
  const namesake = await through({ ...newProfile(), sub: profile.sub })
  t.not(namesake.person!.id, person!.id)
  t.is((await through({ ...profile, sub: 'a new name' })).person!.id, person!.id)
})

test.serial('the address that the provider sent one visitor to signs in no other, and nobody twice', async t => {
  const [mine, theirs] = [await agreed(newProfile()), await agreed(newProfile())]
  const fixated = await land(theirs.visitor, mine.back)
  t.regex(fixated.to!, /error=state_mismatch/)
  t.is(fixated.person, null)
  const stranger = new Visitor(gateway, 'stranger@example.com')
  t.is((await land(stranger, theirs.back)).person, null)
  const { visitor, back } = await agreed(newProfile())
  t.truthy((await land(visitor, back)).person)
  t.is((await visitor.fetch(`${auth}/sign-out`, { body: {} })).status, 200)
  const replayed = await land(visitor, back)
  t.regex(replayed.to!, /error=state_mismatch/)
  t.is(replayed.person, null)
  const foreign = await agreed(newProfile())
  const named = await land(foreign.visitor, `${foreign.back}&iss=https%3A%2F%2Fissuer.example`)
  t.regex(named.to!, /error=issuer_mismatch/)
  t.is(named.person, null)
})

test.serial(
  'who takes an account over by the link of an email does not share it with a stranger’s identity',
  async t => {
    const stranger = { ...newProfile(), email_verified: false }
    const { person } = await through(stranger)
    t.false(person!.email_verified)
    const owner = new Visitor(gateway, stranger.email)
    await owner.json(`${auth}/request-password-reset`, { body: { email: stranger.email } })
    const mails = (await gateway.services.mailer.outbox())!
    const mail = mails.find(({ to, subject }) => to === stranger.email && /reset/i.test(subject))!
    const token = new URL(mail.link!.url).searchParams.get('token')!
    await owner.json(`${auth}/reset-password`, { body: { token, newPassword: password } })
    await owner.json(`${auth}/sign-in/email`, { body: { email: stranger.email, password } })
    t.is((await owner.person())!.id, person!.id)
    await gateway.services.db.user.update({ where: { id: person!.id }, data: { emailVerified: true } })
    const refused = await through(stranger)
    t.regex(refused.to!, /error=account_not_linked/)
    t.is(refused.person, null)
    t.is((await through({ ...newProfile(), email: stranger.email })).person!.id, person!.id)
  },
)
