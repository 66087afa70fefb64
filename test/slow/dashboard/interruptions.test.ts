// What is interrupted on the dashboard, in a real browser: a form by the end of the session, a save by a lost connection, the work of
// someone at the keyboard by the button that they pressed, an address by what it no longer leads to.
import type { Page, Route } from 'playwright-core'
import { password, type SignedUp, signUp } from '../../support/dashboard/dashboard.ts'
import { eventually } from '../../support/gateway.ts'
import { findBarriers } from '../../support/io/barriers.ts'
import { newPage, startBrowser } from '../../support/io/chromium.ts'
import { type ExecutionContext, test } from '../../support/test.ts'
import { use, useGateway } from '../../support/use.ts'

const gateway = useGateway(test)
const owner = use(test, () => signUp(gateway))
test.before(async () => {
  await gateway.services.db.user.update({ where: { id: owner.userId }, data: { operator: true } })
})
const browser = use(test, startBrowser)

async function open(t: ExecutionContext, path: string, who: SignedUp = owner): Promise<Page> {
  const page = await newPage(browser, gateway.url, { visitor: who.visitor, t, viewport: { width: 1440, height: 900 } })
  await page.goto(addressOf(path, who))
  await page.getByRole('main').waitFor()
  return page
}

const addressOf = (path: string, { organisationId } = owner) =>
  `${gateway.url}/dashboard${path.replace('~', `/${organisationId}`)}`

/** The request reaches the gateway, and its answer is lost. */
async function loseAnswer(route: Route): Promise<void> {
  if (route.request().method() !== 'POST') return route.continue()
  await route.fetch()
  await route.abort('connectionreset')
}

const focused = (page: Page) => page.evaluate<string>('document.activeElement.textContent')
const focusOn = (page: Page, text: string) =>
  eventually(async () => (await focused(page)) === text, `the focus is on ${text}`)

test('a form whose session has ended keeps what was entered, and is sent after a sign-in in another tab', async t => {
  const who = await signUp(gateway)
  const page = await open(t, '~/keys?key=new', who)
  const form = page.getByRole('dialog')
  await form.getByLabel('Name', { exact: true }).fill('Entered before')
  await form.getByLabel('Test').check()
  await gateway.services.db.session.deleteMany({ where: { userId: who.userId } })
  await form.getByRole('button', { name: 'Create key' }).click()
  const alert = form.getByRole('alert')
  await alert.getByText('Your session has ended.').waitFor()
  t.is(await form.getByLabel('Name', { exact: true }).inputValue(), 'Entered before')
  t.deepEqual(await findBarriers(page), [])

  const opened = page.waitForEvent('popup')
  await alert.getByRole('link', { name: 'Sign in in another tab' }).click()
  const other = await opened
  await other.getByLabel('Email').fill(who.visitor.email)
  await other.locator('input[type=password]').fill(password)
  await other.getByRole('button', { name: 'Sign in' }).click()
  await other.getByRole('heading', { name: 'API keys', exact: true }).waitFor()
  await form.getByRole('button', { name: 'Create key' }).click()
  await page.getByRole('button', { name: 'I have copied it' }).click()
  const { organisationId } = who
  t.is(await gateway.services.db.apiKey.count({ where: { organisationId, name: 'Entered before' } }), 1)

  // What was saved is not lost: the page leads to the sign-in by itself again.
  await gateway.services.db.session.deleteMany({ where: { userId: who.userId } })
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Members' }).click()
  await page.getByRole('heading', { name: 'Sign in' }).waitFor()
})

test('credits that are added again, because the answer was lost, are booked once', async t => {
  const { organisationId } = owner
  const page = await open(t, `/operator/organisations/${organisationId}`)
  await page.getByRole('button', { name: 'Add credits' }).click()
  const form = page.getByRole('dialog')
  await form.getByLabel('Amount in USD').fill('7')
  await page.route('**/credits', loseAnswer)
  await form.getByRole('button', { name: 'Add credits' }).click()
  await form.getByRole('alert').getByText('the change may have been made: look before you repeat it.').waitFor()
  await page.unroute('**/credits')
  await form.getByRole('button', { name: 'Add credits' }).click()
  await page.getByText('Credits added').waitFor()
  t.is(await gateway.services.db.ledgerEntry.count({ where: { organisationId, kind: 'deposit' } }), 1)
  t.is(await gateway.services.db.auditEvent.count({ where: { organisationId, action: 'credit.added' } }), 1)
})

test('a button has the focus again when its action is over; where nothing is left to save, the field before it', async t => {
  const { organisationId } = owner
  await gateway.key(organisationId, 'test', { name: 'Paused' })
  const { id } = await gateway.services.db.apiKey.findFirstOrThrow({ where: { organisationId, name: 'Paused' } })
  const page = await open(t, `~/keys/${id}`)
  await page.getByRole('button', { name: 'Disable', exact: true }).focus()
  await page.keyboard.press('Enter')
  const dialog = page.getByRole('dialog', { name: 'Disable “Paused”' })
  await dialog.getByText('are refused with 401 immediately').waitFor()
  await dialog.getByRole('button', { name: 'Disable key' }).click()
  await focusOn(page, 'Enable')
  await page.keyboard.press('Enter')
  await focusOn(page, 'Disable')
  t.false((await gateway.services.db.apiKey.findUniqueOrThrow({ where: { id } })).disabled)

  await page.goto(addressOf('~/settings'))
  const name = page.getByLabel('Organisation name')
  await name.fill('Renamed')
  await page.getByRole('button', { name: 'Rename' }).focus()
  await page.keyboard.press('Enter')
  await eventually(
    async () => (await page.evaluate('document.activeElement.value')) === 'Renamed',
    'the focus is on the name',
  )
})

test('an invited visitor is told of the invitation, at the sign-in and where accounts are created', async t => {
  const page = await newPage(browser, gateway.url, { t })
  await page.goto(addressOf('/invitations/inv_1'))
  const note = page.getByText('with the email address that the invitation was sent to')
  await note.waitFor()
  await page.getByRole('link', { name: 'Create an account' }).click()
  await page.getByRole('heading', { name: 'Create an account' }).waitFor()
  await note.waitFor()
  t.deepEqual(await findBarriers(page), [])
  await page.goto(addressOf('/sign-in'))
  await page.getByRole('heading', { name: 'Sign in' }).waitFor()
  t.is(await note.count(), 0)
})

test('a page whose scripts take long says that it is loading', async t => {
  const page = await newPage(browser, gateway.url, { t })
  const arrived = Promise.withResolvers<void>()
  await page.route('**/assets/*.js', async route => {
    await arrived.promise
    await route.continue()
  })
  await page.goto(addressOf('/sign-in'), { waitUntil: 'commit' })
  await page.getByRole('status').getByText('Loading').waitFor()
  arrived.resolve()
  await page.getByRole('heading', { name: 'Sign in' }).waitFor()
  t.is(await page.getByText('Loading').count(), 0)
})

/** A page in a new window, to whose first requests of some scripts nobody answers. */
async function openWithout(
  t: ExecutionContext,
  scripts: RegExp,
  times: number,
  { path = '~/keys', before = async (_page: Page) => {} } = {},
) {
  const page = await newPage(browser, gateway.url, { visitor: owner.visitor, t })
  await page.route(scripts, route => route.abort('connectionreset'), { times })
  await before(page)
  await page.goto(addressOf(path))
  return page
}

async function stopClock({ clock }: Page): Promise<void> {
  await clock.install()
  await clock.pauseAt(Date.now() + 60_000)
}

/** Waits until a page whose clock stands still says that it is loaded anew, and is, so many times; then its time goes on. */
async function reload(page: Page, times: number): Promise<void> {
  for (let loads = 0; loads < times; loads++) {
    await page.getByText('could not be loaded. This page tries again by itself.').waitFor()
    await page.waitForLoadState('load')
    const again = page.waitForEvent('load')
    await page.clock.runFor(3_000)
    await again
  }
  await page.clock.resume()
}

test('a page whose first scripts are lost says so, and is loaded anew a few times', async t => {
  const page = await openWithout(t, /assets\/index-.*js$/, 2, { before: stopClock })
  await reload(page, 2)
  await page.getByRole('heading', { level: 1, name: 'API keys' }).waitFor()
  t.is(await page.evaluate('sessionStorage.length'), 0)

  const lost = await openWithout(t, /assets\/index-.*js$/, 100, { before: stopClock })
  await reload(lost, 5)
  await lost.getByText('Load this page again, or ask whoever runs the gateway.').waitFor()
})

test('a page whose layout is lost says so in place of nothing; without the script of messages it is there', async t => {
  const page = await openWithout(t, /assets\/organisation-shell-/, 2)
  await page.getByRole('main').getByRole('alert').getByText('This page could not be displayed').waitFor()
  t.deepEqual(await findBarriers(page), [])
  await page.getByRole('button', { name: 'Reload' }).click()
  await page.getByRole('heading', { level: 1, name: 'API keys' }).waitFor()

  const silent = await openWithout(t, /assets\/esm-/, 2, { path: '/sign-in' })
  await silent.getByRole('heading', { level: 1, name: 'Sign in' }).waitFor()
})

test('an address that leads to nothing has a heading and a title; what does not exist is not tried again', async t => {
  const page = await open(t, '~/overview')
  for (const [path, heading] of [
    ['~/nothing', 'Page not found'],
    ['/org_nobody/overview', 'Organisation not found'],
    ['~/models/nothing', 'Model not found'],
  ] as const) {
    await page.goto(addressOf(path))
    await page.getByRole('heading', { level: 1, name: heading }).waitFor()
    t.is(await page.title(), `${heading} · Headgate`)
  }
  for (const path of ['keys/key_nothing', 'jobs/job_nothing', 'batches/batch_nothing']) {
    await page.goto(addressOf(`~/${path}`))
    await page.getByRole('alert').waitFor()
    t.is(await page.getByRole('button', { name: 'Try again' }).count(), 0, path)
  }
  await page.goto(addressOf('/operator/queues'))
  await page.getByRole('table', { name: 'Queues' }).waitFor()
  t.is(await page.title(), 'Operator area · Queues · Headgate')
})

test('an opened menu has the focus on its first item, and nothing else is in it', async t => {
  const page = await open(t, '~/requests')
  await page.getByRole('button', { name: 'Export' }).click()
  await focusOn(page, 'CSV')
  t.deepEqual(await findBarriers(page, { rules: ['aria-required-children'] }), [])
  await page.keyboard.press('Escape')
  await focusOn(page, 'Export')
})

test('an answer that is not of the gateway, such as the sign-in page of a proxy, is said to be that', async t => {
  const page = await open(t, '~/members')
  const html = { status: 200, contentType: 'text/html', body: '<!doctype html><title>Sign in to the network</title>' }
  await page.route('**/audit?*', route => route.fulfill(html))
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Audit log' }).click()
  await page.getByRole('alert').getByText('Something else answered in place of the gateway').waitFor()
  await page.unrouteAll()
  await page.getByRole('button', { name: 'Try again' }).click()
  await page.getByRole('table', { name: 'Audit log' }).waitFor()
  t.is(await page.getByRole('alert').count(), 0)
})
