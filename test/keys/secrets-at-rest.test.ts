// What a reader of the database or the log learns: no secret that opens or signs anything.

import { openSlackUrl } from '../../shared/alerts/rules.ts'
import { loadConfig } from '../../shared/base/config.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import { createLog } from '../../shared/io/log.ts'
import { Mailer } from '../../shared/io/mail.ts'
import { Sealer } from '../../shared/io/sealer.ts'
import { getWebhookSecrets, rotateWebhookSecret } from '../../shared/webhooks/secrets.ts'
import { password, signUp, Visitor } from '../support/dashboard/dashboard.ts'
import { totp } from '../support/dashboard/totp.ts'
import { type Gateway, startGateway } from '../support/gateway.ts'
import { runOperator, storesEnv } from '../support/operator.ts'
import { test } from '../support/test.ts'
import { useStores } from '../support/use.ts'

const auth = '/dashboard/api/auth'
const [first, second] = ['first key '.repeat(4), 'second key '.repeat(4)]

const stores = useStores(test)

/** All that lies in the database by way of secrets, as text. */
async function stored({ services: { db } }: Gateway): Promise<string> {
  const [organisations, endpoints, rules, settings, twoFactors, verifications, accounts] = await Promise.all([
    db.organisation.findMany(),
    db.webhookEndpoint.findMany(),
    db.alertRule.findMany(),
    db.setting.findMany(),
    db.twoFactor.findMany(),
    db.verification.findMany(),
    db.account.findMany(),
  ])
  return JSON.stringify(
    { organisations, endpoints, rules, settings, twoFactors, verifications, accounts },
    (_, value) => (typeof value === 'bigint' ? String(value) : value),
  )
}

test('a sealed text is opened by its key and at its place alone, and no two are alike', t => {
  const [one, other] = [new Sealer([first]), new Sealer([second, first])]
  const text = one.seal('whsec_1', 'a')
  t.regex(text, /^sealed:1:[0-9a-f]{8}:[\w-]+$/)
  t.not(text, one.seal('whsec_1', 'a'))
  t.deepEqual([one.open(text, 'a'), other.open(text, 'a')], ['whsec_1', 'whsec_1'])
  t.deepEqual([one.isCurrent(text), other.isCurrent(text)], [true, false])
  t.throws(() => one.open(text, 'b'))
  t.throws(() => one.open(`${text.slice(0, -2)}AA`, 'a'))
  const lost = t.throws(() => new Sealer([second]).open(text, 'a'), { code: 'service_unavailable' })
  t.regex(String(lost?.cause), /key [0-9a-f]{8}, which is not configured/)
  t.notRegex(lost!.message, /key/)
  t.throws(() => new Sealer([]).open(text, 'a'))
  const none = new Sealer([])
  t.deepEqual([none.encrypts, none.seal('x', 'a'), one.open('x', 'a')], [false, 'x', 'x'])
})

test('the keys that encrypt are those of ENCRYPTION_KEY, and SIGNING_SECRET after them', t => {
  const urls = { DATABASE_URL: 'postgres://x', REDIS_URL: 'redis://x', DATA_DIR: '/nowhere' }
  const keysOf = (env: Record<string, string>) => loadConfig({ ...urls, ...env }).encryptionKeys
  t.deepEqual(keysOf({}), [])
  t.deepEqual(keysOf({ SIGNING_SECRET: first }), [first])
  t.deepEqual(keysOf({ ENCRYPTION_KEY: `${second.trim()}, ${first.trim()}` }), [second.trim(), first.trim()])
  t.deepEqual(keysOf({ ENCRYPTION_KEY: second.trim(), SIGNING_SECRET: first }), [second.trim(), first])
  t.throws(() => keysOf({ ENCRYPTION_KEY: `${first},short` }), {
    message: /^ENCRYPTION_KEY: must be keys of at least 32/,
  })
})

test.serial(
  'no secret is in the database in clear, keys are rotated, and rows of before are encrypted by one command',
  async t => {
    // As it was before there was a key.
    const bare = await startGateway(stores, { DEV_OUTBOX: 'true' })
    t.teardown(() => bare.close())
    const { visitor, organisationId, userId } = await signUp(bare)
    const before = await getWebhookSecrets(bare.services, organisationId, Date.now())
    const signing = await bare.services.signingSecret.get()
    const { secret: endpointSecret } = await bare.services.webhookEndpoints.create(
      organisationId,
      { url: 'https://93.184.215.14/', events: ['*'], signing_secret: 'own' },
      operatorActor,
    )
    const slack = 'https://93.184.215.14/services/T000/B000/slackSecret'
    const body = { name: 'Spend', kind: 'spend', threshold: 1, window: 'day', slack_url: slack }
    const rules = `/dashboard/api/organisations/${organisationId}/alerts/rules`
    const { data: rule } = await visitor.json<{ data: { id: string } }>(rules, { body })
    const { totpURI, backupCodes } = await visitor.json<{ totpURI: string; backupCodes: string[] }>(
      `${auth}/two-factor/enable`,
      { body: { password } },
    )
    const app = new URL(totpURI).searchParams.get('secret')!
    await visitor.json(`${auth}/two-factor/verify-totp`, { body: { code: totp(app) } })
    await new Visitor(bare, '').json(`${auth}/request-password-reset`, { body: { email: visitor.email } })
    const mails = (await bare.services.mailer.outbox())!
    const reset = new URL(mails.find(({ subject }) => /Reset your password/.test(subject))!.link!.url).searchParams.get(
      'token',
    )!
    const clear = await stored(bare)
    for (const secret of [before.secret, signing, endpointSecret!, slack]) t.true(clear.includes(secret))
    for (const secret of [reset, app, backupCodes[0]!]) t.false(clear.includes(secret), secret)
    await bare.close()

    const command = async (keys: string) => {
      const env = { ...storesEnv(stores), ENCRYPTION_KEY: keys }
      const { stdout, stderr } = await runOperator(env, 'secrets', 'encrypt', '--json')
      t.is(stderr, '')
      return (JSON.parse(stdout) as { data: object }).data
    }
    const noContent = {
      stored_responses: 0,
      conversation_items: 0,
      request_contents: 0,
      server_keys: 0,
      provider_keys: 0,
      log_exports: 0,
      operator_notifications: 0,
    }
    const all = {
      webhook_secrets: 1,
      webhook_endpoints: 1,
      slack_urls: 1,
      signing_secret: 1,
      authenticator_apps: 1,
      ...noContent,
    }
    t.deepEqual(await command(first), all)
    const none = {
      webhook_secrets: 0,
      webhook_endpoints: 0,
      slack_urls: 0,
      signing_secret: 0,
      authenticator_apps: 0,
      ...noContent,
    }
    t.deepEqual(await command(first), none)
    const sealed = await startGateway(stores, { ENCRYPTION_KEY: first })
    t.teardown(() => sealed.close())
    const now = await stored(sealed)
    for (const secret of [before.secret, signing, endpointSecret!, slack]) t.false(now.includes(secret))
    t.deepEqual(await getWebhookSecrets(sealed.services, organisationId, Date.now()), before)
    t.is(await sealed.services.signingSecret.get(), signing)
    const rotated = await rotateWebhookSecret(sealed.services, organisationId, operatorActor, Date.now())
    t.is(rotated.previous, before.secret)
    t.false((await stored(sealed)).includes(rotated.secret))
    await sealed.close()

    t.deepEqual(await command(`${second},${first}`), all)
    const after = await startGateway(stores, { ENCRYPTION_KEY: second })
    t.teardown(() => after.close())
    t.is((await getWebhookSecrets(after.services, organisationId, Date.now())).secret, rotated.secret)
    const row = await after.services.db.alertRule.findUniqueOrThrow({ where: { id: rule.id } })
    t.is(openSlackUrl(after.services.sealer, row), slack)
    const again = new Visitor(after, visitor.email)
    await again.json(`${auth}/sign-in/email`, { body: { email: visitor.email, password } })
    t.is((await again.fetch(`${auth}/two-factor/verify-totp`, { body: { code: totp(app, 1) } })).status, 200)
    t.is((await again.person())?.id, userId)
    await after.close()
    const lost = await startGateway(stores, { ENCRYPTION_KEY: 'another key '.repeat(4) })
    t.teardown(() => lost.close())
    await t.throwsAsync(getWebhookSecrets(lost.services, organisationId, Date.now()), { code: 'service_unavailable' })
  },
)

test.serial('an email that cannot be sent leaves no link in the log', async t => {
  const gateway = await startGateway(stores)
  t.teardown(() => gateway.close())
  const lines: string[] = []
  const log = Object.assign(createLog('silent'), { info: (...args: unknown[]) => lines.push(JSON.stringify(args)) })
  const mailer = await Mailer.open(gateway.services.config.email, gateway.services.redis, log)
  await mailer.send({
    to: 'a@example.com',
    subject: 'x',
    text: 'x',
    link: { label: 'x', url: 'https://h/reset?token=s3' },
  })
  t.is(lines.length, 1)
  t.false(lines[0]!.includes('s3'))
})
