// SIGNING_SECRET while it is rotated: the first one signs, all verify.
import { randomUUID } from 'node:crypto'
import { ConfigError, loadConfig } from '../../shared/base/config.ts'
import { callbackUrl, isCallbackToken } from '../../shared/jobs/job-provider.ts'
import type { Policy } from '../../shared/keys/policy.ts'
import { openReasoningSealer } from '../../shared/providers/toolkit/reasoning-envelope.ts'
import { signUp, Visitor } from '../support/dashboard/dashboard.ts'
import { type Gateway, startGateway } from '../support/gateway.ts'
import { test } from '../support/test.ts'
import { useStores } from '../support/use.ts'

const [one, two] = ['signing secret one '.repeat(2).trim(), 'signing secret two '.repeat(2).trim()]
const policy = { organisationId: 'org_1', environment: 'live' } as Policy

const stores = useStores(test)

/** What a gateway signs, as a question which of it another gateway accepts. */
async function signAll(gateway: Gateway): Promise<(other: Gateway) => Promise<string[]>> {
  const { services } = gateway
  const { visitor } = await signUp(gateway, { verified: false })
  const mails = (await services.mailer.outbox())!
  const mail = mails.find(({ to, subject }) => to === visitor.email && subject === 'Confirm your email address')!
  const token = new URL(mail.link!.url).searchParams.get('token')!
  const callback = new URL(await callbackUrl(services, 'job_1')).pathname.split('/').at(-1)!
  const key = `files/${randomUUID()}`
  const file = new URL(await services.blobs.signedUrl({ key, contentType: 'text/plain' }, Date.now() + 3_600_000))
  const sealer = (await openReasoningSealer(services.signingSecret, policy))!
  const envelope = sealer.seal({ provider: 'anthropic', credentialId: null, model: 'm', state: 's' })!
  return async other => {
    const cookie = visitor.cookies.map(([name, value]) => `${name}=${value}`).join('; ')
    const me = await other.fetch('/dashboard/api/me', { headers: { cookie } })
    const link = `/dashboard/api/auth/verify-email?token=${token}`
    const opener = (await openReasoningSealer(other.services.signingSecret, policy))!
    const accepted = {
      session: ((await me.json()) as { person: object | null }).person !== null,
      file: (await other.services.blobs.keyOf(other.url + file.pathname + file.search).catch(() => null)) === key,
      callback: await isCallbackToken(other.services, 'job_1', callback),
      reasoning: opener.open(envelope)?.state === 's',
      email: (await new Visitor(other, '').fetch(link)).status === 200,
    }
    return Object.entries(accepted).flatMap(([name, isAccepted]) => (isAccepted ? [name] : []))
  }
}

test('200 at every step of a rotation for what any process signed, and 401 or 404 once its secret is removed', async t => {
  const secrets = [one, `${one},${two}`, `${two}, ${one}`, two]
  const steps = await Promise.all(
    secrets.map(SIGNING_SECRET => startGateway(stores, { SIGNING_SECRET, DEV_OUTBOX: 'true' })),
  )
  t.teardown(() => Promise.all(steps.map(step => step.close())))
  const [first, added, moved, last] = steps as [Gateway, Gateway, Gateway, Gateway]
  const all = ['session', 'file', 'callback', 'reasoning', 'email']
  for (const signer of [first, added]) {
    const accepted = await signAll(signer)
    for (const step of [first, added, moved]) t.deepEqual(await accepted(step), all)
    t.deepEqual(await accepted(last), [])
  }
  const accepted = await signAll(moved)
  for (const step of [added, moved, last]) t.deepEqual(await accepted(step), all)
  t.deepEqual(await accepted(first), [])
})

test('401 during a rotation for a session cookie that no secret signed, and a foreign cookie stays as it is', async t => {
  const gateway = await startGateway(stores, { SIGNING_SECRET: `${two},${one}` })
  t.teardown(() => gateway.close())
  const { visitor } = await signUp(gateway)
  const forged = visitor.cookies.map(
    ([name, value]) => `${name}=${value.replace(/^./, found => (found === 'x' ? 'y' : 'x'))}`,
  )
  for (const cookie of [forged.join('; '), 'headgate.session_token=%E0%A4%A', 'other=1; headgate.session_token', 'a=b'])
    t.is((await gateway.fetch('/dashboard/api/organisations', { headers: { cookie } })).status === 200, false, cookie)
  const cookie = ['other=%E0%A4%A', ...visitor.cookies.map(([name, value]) => `${name}=${value}`)].join('; ')
  const me = await gateway.fetch('/dashboard/api/me', { headers: { cookie } })
  t.truthy(((await me.json()) as { person: object | null }).person)
})

test('a fault for secrets that are short, repeated or too many, and a passphrase with commas is one secret', t => {
  const urls = { DATABASE_URL: 'postgres://x', REDIS_URL: 'redis://x', DATA_DIR: '/nowhere' }
  const load = (SIGNING_SECRET: string) => loadConfig({ ...urls, SIGNING_SECRET })
  const faultOf = (text: string) => t.throws(() => load(text), { instanceOf: ConfigError })!.message
  t.regex(faultOf(`${one},short`), /^SIGNING_SECRET: must be secrets of at least 32 characters, separated by commas$/)
  t.regex(faultOf(`${one},`), /^SIGNING_SECRET: must be secrets of at least 32/)
  t.regex(faultOf('short'), /^SIGNING_SECRET: must be secrets of at least 32/)
  t.regex(faultOf(`${one},${two},${one}`), /^SIGNING_SECRET: has a secret twice$/)
  t.regex(faultOf([1, 2, 3, 4, 5].map(n => `${one}${n}`).join()), /^SIGNING_SECRET: must be at most 4 secrets$/)
  t.deepEqual(load(`${two} , ${one}`).signingSecrets, [two, one])
  t.deepEqual(load(`${two},${one}`).encryptionKeys, [two, one])
  const passphrase = 'a signing secret of the deploys, long enough'
  t.deepEqual(load(passphrase).signingSecrets, [passphrase])
})
