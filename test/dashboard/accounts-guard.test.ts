// What keeps accounts from strangers, and an organisation from those who have left it.

import { quoteName } from '../../shared/base/quote-name.ts'
import { hashSecret } from '../../shared/keys/secret.ts'
import { errorCode, join, password, type SignedUp, signUp, Visitor } from '../support/dashboard/dashboard.ts'
import { eventually, startGateway } from '../support/gateway.ts'
import { test } from '../support/test.ts'
import { useGateway, useStores } from '../support/use.ts'

const auth = '/dashboard/api/auth'

const stores = useStores(test)
const gateway = useGateway(test, { DEV_OUTBOX: 'true' }, { stores })

/** The statuses of sign-ins tried one after the other. */
async function signIns(visitor: Visitor, email: string, passwords: string[]): Promise<number[]> {
  const statuses = []
  for (const guess of passwords)
    statuses.push((await visitor.fetch(`${auth}/sign-in/email`, { body: { email, password: guess } })).status)
  return statuses
}
const wrong = (times: number) => Array<string>(times).fill('not the password')

test.serial('200 for the right password, however many wrong ones strangers have tried', async t => {
  const { visitor } = await signUp(gateway)
  const { email } = visitor
  t.deepEqual(await signIns(new Visitor(gateway, ''), email, [...wrong(10), password]), [...Array(10).fill(401), 429])
  // Right passwords count for nothing, and another address has its own budget.
  const elsewhere = new Visitor(gateway, '')
  t.deepEqual(await signIns(elsewhere, email, Array(12).fill(password)), Array(12).fill(200))
  // A known device has one of its own even at the address of the stranger, and where all others are used up.
  const known = new Visitor(gateway, '')
  t.deepEqual(await signIns(known, email, [password]), [200])
  for (let i = 0; i < 3; i++) await signIns(new Visitor(gateway, ''), email, wrong(10))
  t.deepEqual(await signIns(new Visitor(gateway, ''), email, [password]), [429])
  t.deepEqual(await signIns(known, email, [...wrong(9), password]), [...Array(9).fill(401), 200])
  t.deepEqual(await signIns(visitor, email, [password]), [200], 'the browser that signed up is known, too')
})

test.serial(
  '429 tells the way through: a new password by email opens the account at once, and voids known devices',
  async t => {
    const { visitor } = await signUp(gateway)
    const { email } = visitor
    const thief = new Visitor(gateway, '')
    await signIns(thief, email, [password])
    for (let i = 0; i < 3; i++) await signIns(new Visitor(gateway, ''), email, wrong(10))
    const owner = new Visitor(gateway, '')
    const refused = await owner.fetch(`${auth}/sign-in/email`, { body: { email, password } })
    t.is(refused.status, 429)
    t.true(Number(refused.headers.get('retry-after')) > 0)
    t.regex(((await refused.json()) as { message: string }).message, /Forgot the password/)
    await owner.json(`${auth}/request-password-reset`, { body: { email } })
    const mails = (await gateway.services.mailer.outbox())!
    const token = new URL(mails.find(({ to }) => to === email)!.link!.url).searchParams.get('token')!
    await owner.json(`${auth}/reset-password`, { body: { token, newPassword: 'another battery' } })
    t.deepEqual(await signIns(owner, email, ['another battery']), [200])
    for (let i = 0; i < 3; i++) await signIns(new Visitor(gateway, ''), email, wrong(10))
    t.deepEqual(await signIns(thief, email, ['another battery']), [429])
    t.deepEqual(await signIns(owner, email, ['another battery']), [200])
  },
)

test.serial('401 for no more guesses than the budget has, many at a time as well', async t => {
  const { visitor } = await signUp(gateway)
  const stranger = new Visitor(gateway, '')
  const guess = () =>
    stranger.fetch(`${auth}/sign-in/email`, { body: { email: visitor.email, password: 'not the password' } })
  const statuses = (await Promise.all(Array.from({ length: 14 }, guess))).map(({ status }) => status)
  t.deepEqual(statuses.toSorted(), [...Array(10).fill(401), ...Array(4).fill(429)])
})

test.serial('200 for the owner’s own emails when strangers have used up theirs', async t => {
  const { visitor } = await signUp(gateway, { verified: false })
  const ask = async (by: Visitor) =>
    (await by.fetch(`${auth}/send-verification-email`, { body: { email: visitor.email } })).status
  for (let i = 0; i < 5; i++) await ask(new Visitor(gateway, ''))
  t.is(await ask(new Visitor(gateway, '')), 429)
  t.is(await ask(visitor), 200)
  await visitor.fetch(`${auth}/sign-out`, { body: {} })
  t.is(await ask(visitor), 200, 'signed out, the device is known')
})

/** A member with one key of their own, a playground secret and a client secret of it. */
async function memberWithKey(owner: SignedUp) {
  const member = await signUp(gateway, { name: 'Grace' })
  await join(gateway, member.userId, owner.organisationId, 'member')
  const keys = `${owner.base}/keys`
  const { key } = await member.visitor.json<{ key: string }>(keys, { body: { name: 'theirs', environment: 'test' } })
  const hash = hashSecret(key)
  const made = await owner.visitor.json<{ secret: string }>(`${keys}/${hash}/playground-secret`, { body: {} })
  return { member, key, hash, playground: made.secret }
}
const statusOf = async (key: string) => (await gateway.fetch('/v1/models', { key })).status
const removals = (owner: SignedUp) =>
  gateway.services.db.auditEvent.findMany({
    where: {
      organisationId: owner.organisationId,
      action: { in: ['member.removed', 'key.revoked', 'key.handed_over'] },
    },
    orderBy: { id: 'asc' },
  })

test.serial('401 for the keys of a removed member, and all that stands for them, at once on every process', async t => {
  const owner = await signUp(gateway)
  const { member, key, playground } = await memberWithKey(owner)
  const other = await startGateway(stores)
  t.teardown(() => other.close())
  const elsewhere = async (secret: string) => (await other.fetch('/v1/models', { key: secret })).status
  t.deepEqual([await statusOf(key), await elsewhere(key), await elsewhere(playground)], [200, 200, 200])
  const body = { organizationId: owner.organisationId, memberIdOrEmail: member.visitor.email }
  await owner.visitor.json(`${auth}/organization/remove-member`, { body })
  t.deepEqual([await elsewhere(key), await elsewhere(playground), await statusOf(key)], [401, 401, 401])
  t.is(await errorCode(await other.fetch('/v1/models', { key })), 'revoked_api_key')
  await other.close()
  const noted = (await removals(owner)).map(({ action, targetName, changes }) => [action, targetName, changes])
  t.deepEqual(noted, [
    ['key.revoked', 'theirs', null],
    ['member.removed', member.visitor.email, { role: ['member', null], keys_revoked: [null, 1] }],
  ])
})

test.serial('200 for the keys of a removed member that are handed over: then admins manage them', async t => {
  const owner = await signUp(gateway)
  const { member, key, hash } = await memberWithKey(owner)
  const body = { organizationId: owner.organisationId, memberIdOrEmail: member.visitor.email, keys: 'hand_over' }
  t.is((await owner.visitor.fetch(`${auth}/organization/remove-member`, { body: { ...body, keys: 'x' } })).status, 400)
  await owner.visitor.json(`${auth}/organization/remove-member`, { body })
  t.is(await statusOf(key), 200)
  const { data } = await owner.visitor.json<{ data: { created_by: null } }>(`${owner.base}/keys/${hash}`)
  t.like(data, { created_by: null, mine: false, may_manage: true })
  t.deepEqual(
    (await removals(owner)).map(({ action, changes }) => [action, changes]),
    [
      ['key.handed_over', null],
      ['member.removed', { role: ['member', null], keys_handed_over: [null, 1] }],
    ],
  )
})

test.serial('401 for the keys of a member who left; those of the last owner, who cannot leave, still work', async t => {
  const owner = await signUp(gateway)
  const { member, key } = await memberWithKey(owner)
  const { key: owners } = await owner.visitor.json<{ key: string }>(`${owner.base}/keys`, { body: {} })
  const body = { organizationId: owner.organisationId }
  t.is((await owner.visitor.fetch(`${auth}/organization/leave`, { body })).status, 400)
  t.is(await statusOf(owners), 200)
  await member.visitor.json(`${auth}/organization/leave`, { body })
  t.deepEqual([await statusOf(key), await statusOf(owners)], [401, 200])
})

test.serial('400 for names that lead somewhere, and emails quote those there are', async t => {
  const { visitor, organisationId } = await signUp(gateway)
  const names = ['Win http://evil.example', 'evil.example/win', 'www.evil', 'a\nb', 'a\u202eb', 'https://x', 'x.y.zz']
  for (const name of names) {
    const created = await visitor.fetch(`${auth}/organization/create`, { body: { name, slug: 'x' } })
    const renamed = await visitor.fetch(`${auth}/update-user`, { body: { name } })
    t.deepEqual([created.status, renamed.status], [400, 400], name)
  }
  for (const name of ['J. R. Smith & Co.', 'Ada’s organisation', '株式会社', 'Acme 2.0'])
    t.is((await visitor.fetch(`${auth}/update-user`, { body: { name } })).status, 200, name)
  // One that was given before there were rules for names.
  const data = { name: `Paid! ”https://evil.example/pay\r\n${'x'.repeat(100)}` }
  await gateway.services.db.organisation.update({ where: { id: organisationId }, data })
  const body = { organizationId: organisationId, email: 'guest@example.com', role: 'member' }
  await visitor.json(`${auth}/organization/invite-member`, { body })
  const [mail] = (await gateway.services.mailer.outbox())!
  t.is(mail!.to, 'guest@example.com')
  t.regex(
    mail!.subject,
    /^Invitation to the organisation “Paid! https: \/ \/ evil\. example\/? ?\/? ?pay x+…” on Headgate$/,
  )
  t.false(/https?:\/\/|\.example\/|[\r]/.test(mail!.text.replaceAll('@example.com', '')))
  t.true(mail!.text.includes(`${visitor.email}, who uses the name “Acme 2. 0”, invites you`))
  t.is(quoteName('a.b:c/d@e'), '“a. b: c/ d@ e”')
})

/** The token of the latest email to an address. */
async function tokenTo(email: string): Promise<string> {
  const mails = (await gateway.services.mailer.outbox())!
  return new URL(mails.find(({ to }) => to === email)!.link!.url).searchParams.get('token')!
}

/** Replaces the password of an account by the link of an email. */
async function resetPassword(visitor: Visitor): Promise<void> {
  const { email } = visitor
  await visitor.json(`${auth}/request-password-reset`, { body: { email } })
  await visitor.json(`${auth}/reset-password`, {
    body: { token: await tokenTo(email), newPassword: 'their own battery' },
  })
}

test.serial('401 for a change of the address that was asked for before the account changed hands', async t => {
  // A stranger signs up with the address of a person who does not have an account yet.
  const { visitor: stranger, userId } = await signUp(gateway, { verified: false })
  const newEmail = `stranger.${stranger.email}`
  await stranger.json(`${auth}/change-email`, { body: { newEmail } })
  const kept = await tokenTo(newEmail)
  // Tokens have the time of their issue in seconds.
  const second = Math.floor(Date.now() / 1_000)
  await eventually(async () => Date.now() >= (second + 1) * 1_000, 'another second has begun')
  const person = new Visitor(gateway, stranger.email)
  await resetPassword(person)
  const use = (token: string) => new Visitor(gateway, '').fetch(`${auth}/verify-email?token=${token}`)
  t.is((await use(kept)).status, 401, 'after a new password')
  await person.json(`${auth}/sign-in/email`, { body: { email: person.email, password: 'their own battery' } })
  await person.json(`${auth}/send-verification-email`, { body: { email: person.email } })
  t.is((await use(await tokenTo(person.email))).status, 200)
  t.is((await use(kept)).status, 401, 'after the address was confirmed')
  // A forged link gets the same answer, whether there is such an account or not.
  const forged = (email: string) => {
    const payload = { email, updateTo: 'x@example.com', requestType: 'change-email-verification', iat: 1 }
    return `e30.${Buffer.from(JSON.stringify(payload)).toString('base64url')}.AAAA`
  }
  const answers = [kept, forged(person.email), forged('nobody@example.com')].map(async token =>
    (await use(token)).text(),
  )
  t.is(new Set(await Promise.all(answers)).size, 1)
  t.is((await gateway.services.db.user.findUniqueOrThrow({ where: { id: userId } })).email, person.email)
})

/** Ways to change an account after which no earlier link opens it. */
const takeovers: [name: string, action: string, change: (visitor: Visitor) => Promise<unknown>][] = [
  ['another link has replaced the password', 'member.password_reset', resetPassword],
  [
    'the password was changed',
    'member.password_changed',
    visitor =>
      visitor.json(`${auth}/change-password`, {
        body: { currentPassword: password, newPassword: 'their own battery', revokeOtherSessions: true },
      }),
  ],
  [
    'the address was changed',
    'member.email_changed',
    async visitor => {
      const newEmail = `new.${visitor.email}`
      await visitor.json(`${auth}/change-email`, { body: { newEmail } })
      await visitor.json(`${auth}/verify-email?token=${await tokenTo(visitor.email)}`)
      await visitor.json(`${auth}/verify-email?token=${await tokenTo(newEmail)}`)
    },
  ],
]
for (const [name, action, change] of takeovers)
  test.serial(`400 for a link that replaces the password once ${name}, which is noted`, async t => {
    const { visitor, organisationId, userId } = await signUp(gateway)
    const { email } = visitor
    const thief = new Visitor(gateway, email)
    await thief.json(`${auth}/request-password-reset`, { body: { email } })
    const kept = await tokenTo(email)
    await change(visitor)
    const used = await thief.fetch(`${auth}/reset-password`, {
      body: { token: kept, newPassword: 'a thief’s battery' },
    })
    t.is(used.status, 400, await used.text())
    const { db, mailer } = gateway.services
    const { email: now } = await db.user.findUniqueOrThrow({ where: { id: userId } })
    const [noted, ...others] = await db.auditEvent.findMany({ where: { organisationId, targetId: userId } })
    t.like(noted, { action, actorId: userId, changes: now === email ? null : { email: [email, now] } })
    t.deepEqual(others, [])
    const told = (await mailer.outbox())!.filter(
      ({ to, subject }) => to === email && /password.*changed/i.test(subject),
    )
    t.is(told.length, now === email ? 1 : 0)
    // Links that are asked for from then on work.
    await resetPassword(new Visitor(gateway, now))
  })

test.serial('403 for a first app or passkey of an account whose address is not confirmed', async t => {
  // They would stay when the owner of the address takes the account over by a new password.
  const { visitor, userId } = await signUp(gateway, { verified: false })
  const answer = { clientDataJSON: 'e30', attestationObject: 'e30' }
  const credential = { id: 'x', rawId: 'x', type: 'public-key', clientExtensionResults: {}, response: answer }
  const enable = () => visitor.fetch(`${auth}/two-factor/enable`, { body: { password } })
  const add = () =>
    visitor.fetch(`${auth}/passkey/verify-registration`, {
      body: { password, name: 'Phone', response: credential },
    })
  for (const refused of [await enable(), await add()]) t.is(refused.status, 403, await refused.text())
  await gateway.services.db.user.update({ where: { id: userId }, data: { emailVerified: true } })
  t.is((await enable()).status, 200)
})

test.serial('403 for a page of a host name that is not ours, whatever Host says', async t => {
  const { visitor } = await signUp(gateway)
  const http = await import('node:http')
  const ask = (host: string, origin: string) =>
    new Promise<number>((resolve, reject) => {
      const { port } = new URL(gateway.url)
      const headers = { host, origin, 'content-type': 'application/json', 'x-forwarded-for': '198.51.100.9' }
      const options = { host: '127.0.0.1', port, method: 'POST', path: `${auth}/sign-in/email`, headers }
      const request = http.request(options, response => {
        response.resume()
        resolve(response.statusCode!)
      })
      request.on('error', reject)
      request.end(JSON.stringify({ email: visitor.email, password }))
    })
  t.is(await ask('evil.example', 'http://evil.example'), 403)
  t.is(await ask('evil.example:3000', 'https://evil.example:3000'), 403)
  t.is(await ask('localhost.evil.example', 'http://localhost.evil.example'), 403)
  t.is(await ask('localhost:3000', 'http://localhost:3000'), 200)
  t.is(await ask('192.0.2.7', 'https://192.0.2.7'), 200)
  t.is(await ask('[::1]:3000', 'http://[::1]:3000'), 200)
  t.is(await ask('evil.example', gateway.url), 200, 'PUBLIC_URL’s own page, whatever a proxy makes of Host')
})
