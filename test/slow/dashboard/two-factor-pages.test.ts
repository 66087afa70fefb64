// Second factors as people set them up and use them, in a real browser with a virtual authenticator.
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { join, password, type SignedUp, signUp } from '../../support/dashboard/dashboard.ts'
import { totp } from '../../support/dashboard/totp.ts'
import { eventually, freshStores, type Gateway, type Stores, startGateway } from '../../support/gateway.ts'
import { findBarriers } from '../../support/io/barriers.ts'
import { newPage, startBrowser } from '../../support/io/chromium.ts'
import { test } from '../../support/test.ts'

let stores: Stores
let gateway: Gateway
let browser: Browser
let context: BrowserContext
let page: Page
let owner: SignedUp
let origin: string
/** Of the owner's app. */
let secret = ''
let backupCodes: string[] = []

test.before(async () => {
  stores = await freshStores()
  const started = await Promise.all([
    startGateway(stores, { DEV_OUTBOX: 'true', PUBLIC_URL: 'http://localhost:0' }),
    startBrowser(),
  ])
  gateway = started[0]
  browser = started[1]
  origin = gateway.services.config.publicUrl
  owner = await signUp(gateway)
  ;({ context, page } = await open())
})
test.afterEach.always(async t => {
  if (!t.passed) t.log(page?.url(), await page?.getByRole('main').innerText())
})
test.after.always(async () => {
  await browser?.close()
  await gateway?.close()
  await stores?.drop()
})

/** A browser of its own, whose device makes passkeys and says that it knows its owner. */
async function open() {
  const page = await newPage(browser, gateway.url, { viewport: { width: 1100, height: 900 } })
  const cdp = await page.context().newCDPSession(page)
  await cdp.send('WebAuthn.enable')
  const options = { protocol: 'ctap2', transport: 'internal', hasResidentKey: true, hasUserVerification: true } as const
  await cdp.send('WebAuthn.addVirtualAuthenticator', {
    options: { ...options, isUserVerified: true, automaticPresenceSimulation: true },
  })
  return { context: page.context(), page }
}

async function signIn(email: string, on = page) {
  await on.goto(`${origin}/dashboard/sign-in`)
  await on.getByLabel('Email').fill(email)
  await on.locator('input[type=password]').fill(password)
  await on.getByRole('button', { name: 'Sign in', exact: true }).click()
}
const submit = () => page.getByRole('button', { name: 'Sign in', exact: true }).click()
const signOut = () => context.clearCookies({ name: /session_token/ })
const account = async () => {
  await page.goto(`${origin}/dashboard/account`)
  await page.getByRole('heading', { name: 'Account', level: 1 }).waitFor()
}
const isIn = (on = page) => on.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
const subjects = async () => (await gateway.services.mailer.outbox())!.filter(({ to }) => to === owner.visitor.email)

/** From the password to the backup codes, on a page that shows the first step. */
async function setUp(on: Page): Promise<{ secret: string; codes: string[] }> {
  await on.getByLabel('Your password').fill(password)
  await on.getByRole('button', { name: 'Continue' }).click()
  const secret = (await on.getByRole('region', { name: 'Secret' }).innerText()).trim()
  await on.getByLabel('Code from your authenticator app').fill('000000')
  await on.getByRole('button', { name: 'Confirm' }).click()
  await on.getByRole('alert').waitFor()
  const code = totp(secret)
  await on.getByLabel('Code from your authenticator app').fill(`${code.slice(0, 3)} ${code.slice(3)}`)
  await on.getByRole('button', { name: 'Confirm' }).click()
  const list = on.getByRole('list', { name: 'Backup codes' })
  await list.waitFor()
  const codes = await list.getByRole('listitem').allInnerTexts()
  return { secret, codes }
}

test.serial(
  'an authenticator app is set up by its secret and a first code; the backup codes are shown once',
  async t => {
    await signIn(owner.visitor.email)
    await isIn()
    await account()
    await page.getByRole('button', { name: 'Set up an authenticator app' }).click()
    const made = await setUp(page)
    secret = made.secret
    backupCodes = made.codes
    t.regex(secret, /^[A-Z2-7]{32,}$/)
    t.is(backupCodes.length, 10)
    t.deepEqual(await findBarriers(page), [])
    const saved = page.waitForEvent('download')
    await page.getByRole('link', { name: 'Download' }).click()
    t.is((await saved).suggestedFilename(), 'headgate-backup-codes.txt')
    await page.getByRole('button', { name: 'I have saved them' }).click()
    await page.getByText('requires a code from your authenticator app').waitFor()
    t.false((await page.content()).includes(backupCodes[0]!))
    const row = await gateway.services.db.twoFactor.findFirstOrThrow({ where: { userId: owner.userId } })
    t.false(JSON.stringify(row).includes(backupCodes[0]!))
    t.is((await subjects())[0]!.subject, 'Two-factor sign-in of your account changed')
  },
)

test.serial('the password alone does not sign in; a code does, once, and a backup code does, once', async t => {
  await signOut()
  await signIn(owner.visitor.email)
  await page.getByRole('heading', { name: 'Two-factor sign-in' }).waitFor()
  t.deepEqual(await findBarriers(page), [])
  t.like(await (await page.request.get(`${origin}/dashboard/api/me`)).json(), { person: null })
  const field = page.getByLabel('Code from your authenticator app')
  await field.fill('000000')
  await submit()
  await page.getByRole('alert').waitFor()
  const code = totp(secret, 1)
  await field.fill(code)
  await submit()
  await isIn()
  await signOut()
  await signIn(owner.visitor.email)
  await field.fill(code)
  await submit()
  await page.getByText('This code was already used').waitFor()
  await page.getByRole('button', { name: 'Use a backup code' }).click()
  await page.getByRole('textbox', { name: 'Backup code' }).fill(backupCodes[0]!)
  await submit()
  await isIn()
  await signOut()
  await signIn(owner.visitor.email)
  await page.getByRole('button', { name: 'Use a backup code' }).click()
  await page.getByRole('textbox', { name: 'Backup code' }).fill(backupCodes[0]!)
  await submit()
  await page.getByRole('alert').waitFor()
  await page.getByRole('textbox', { name: 'Backup code' }).fill(backupCodes[1]!)
  await submit()
  await isIn()
})

test.serial('a passkey is added with the password, signs in by itself, is renamed and removed', async t => {
  await account()
  await page.getByRole('button', { name: 'Add a passkey' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Passkey name').fill('My laptop')
  await dialog.getByLabel('Your password').fill('not the password')
  await dialog.getByRole('button', { name: 'Add passkey' }).click()
  await dialog.getByRole('alert').waitFor()
  t.is(await gateway.services.db.passkey.count(), 0)
  await dialog.getByLabel('Your password').fill(password)
  await dialog.getByRole('button', { name: 'Add passkey' }).click()
  await page.getByRole('rowheader', { name: 'My laptop', exact: true }).waitFor()
  t.deepEqual(await findBarriers(page), [])
  await signOut()
  await page.goto(`${origin}/dashboard/sign-in`)
  await page.getByRole('button', { name: 'Continue with a passkey' }).click()
  await isIn()
  await account()
  await page.getByRole('button', { name: 'Rename My laptop' }).click()
  await dialog.getByLabel('Passkey name').fill('Old laptop')
  await dialog.getByRole('button', { name: 'Rename' }).click()
  await page.getByRole('button', { name: 'Remove Old laptop' }).click()
  await dialog.getByLabel('Your password').fill(password)
  await dialog.getByRole('button', { name: 'Remove' }).click()
  await dialog.waitFor({ state: 'hidden' })
  t.is(await gateway.services.db.passkey.count(), 0)
  await signOut()
  await page.goto(`${origin}/dashboard/sign-in`)
  await page.getByRole('button', { name: 'Continue with a passkey' }).click()
  await page.getByRole('alert').waitFor()
})

test.serial(
  'members without a second factor are led to set it up before anything else, where it is required',
  async t => {
    const { visitor, userId } = await signUp(gateway, { name: 'Grace' })
    await join(gateway, userId, owner.organisationId, 'member')
    await signIn(owner.visitor.email)
    await page.getByRole('button', { name: 'Use a backup code' }).click()
    await page.getByRole('textbox', { name: 'Backup code' }).fill(backupCodes[2]!)
    await submit()
    await isIn()
    await page.goto(`${origin}/dashboard/${owner.organisationId}/settings`)
    await page.getByRole('switch', { name: 'Require two-factor sign-in' }).click()
    await eventually(async () => {
      const { id, requireTwoFactor } = await gateway.services.db.organisation.findFirstOrThrow({
        where: { id: owner.organisationId },
      })
      return id !== '' && requireTwoFactor
    }, 'the requirement is saved')
    const other = await open()
    await signIn(visitor.email, other.page)
    await isIn(other.page)
    await other.page.goto(`${origin}/dashboard/${owner.organisationId}/keys`)
    await other.page.getByRole('heading', { name: 'Set up two-factor sign-in' }).waitFor()
    t.deepEqual(await findBarriers(other.page), [])
    const refused = await other.page.request.get(`${origin}${owner.base}/keys`)
    t.is(refused.status(), 403)
    const members = `/dashboard/api/auth/organization/list-members?organizationId=${owner.organisationId}`
    t.is((await other.page.request.get(origin + members)).status(), 403)
    await setUp(other.page)
    await other.page.getByRole('button', { name: 'I have saved them' }).click()
    await other.page.getByRole('heading', { level: 1, name: 'API keys' }).waitFor()
    t.is((await other.page.request.get(origin + members)).status(), 200)
    await other.context.close()
  },
)

test.serial(
  'the dialog of a removal asks what becomes of the member’s keys; two-factor sign-in stays on where it is required',
  async t => {
    await page.goto(`${origin}/dashboard/${owner.organisationId}/members`)
    await page.getByRole('button', { name: /^Remove/ }).click()
    const dialog = page.getByRole('dialog')
    t.true(await dialog.getByLabel('Revoke them').isChecked())
    t.deepEqual(await findBarriers(page), [])
    await dialog.getByRole('button', { name: 'Remove' }).click()
    await dialog.waitFor({ state: 'hidden' })
    await account()
    await page.getByRole('button', { name: 'Turn off' }).click()
    await dialog.getByLabel('Your password').fill(password)
    await dialog.getByRole('button', { name: 'Turn off' }).click()
    await dialog.getByText('requires two-factor sign-in of its members').waitFor()
    const data = { requireTwoFactor: false }
    await gateway.services.db.organisation.update({ where: { id: owner.organisationId }, data })
    await dialog.getByRole('button', { name: 'Turn off' }).click()
    await page.getByRole('button', { name: 'Set up an authenticator app' }).waitFor()
    await signOut()
    await signIn(owner.visitor.email)
    await isIn()
    const noted = await gateway.services.db.auditEvent.findMany({ where: { organisationId: owner.organisationId } })
    const actions = new Set(noted.map(({ action }) => action))
    for (const action of ['two_factor_on', 'two_factor_off', 'passkey_added', 'passkey_removed', 'removed'])
      t.true(actions.has(`member.${action}`), action)
    const changed = noted.find(({ action }) => action === 'organisation.changed')
    t.deepEqual(changed?.changes, { require_two_factor: [false, true] })
  },
)
