// Four people with a question each, in a real browser over a month of requests with an outage in it: every answer is at most two
// clicks from the page they are on.
import pg from 'pg'
import type { Locator, Page } from 'playwright-core'
import { fillMonth, outageProvider } from '../../../bench/lib/month.ts'
import { operatorActor } from '../../../shared/io/audit.ts'
import { hashSecret } from '../../../shared/keys/secret.ts'
import { runMaintenance } from '../../../workers/maintenance.ts'
import { WebhookDeliveries } from '../../../workers/webhooks/deliveries.ts'
import { type SignedUp, signUp } from '../../support/dashboard/dashboard.ts'
import { newPage, startBrowser } from '../../support/io/chromium.ts'
import { download } from '../../support/io/download.ts'
import { test } from '../../support/test.ts'
import { use, useGateway, useStores } from '../../support/use.ts'
import { Receiver, status } from '../../support/webhooks/receiver.ts'

/** So many that each hour of the outage has failures enough. */
const requests = 60_000
const maxClicks = 2
let page: Page
let clicks = 0

const stores = useStores(test)
const gateway = useGateway(
  test,
  { ALLOW_PRIVATE_URLS: 'true', ENCRYPTION_KEY: 'an operator’s key '.repeat(3) },
  { stores },
)
const owner = use(test, () => signUp(gateway))
const newcomer = use(test, () => signUp(gateway, { name: 'Grace' }))
test.before(async () => {
  await gateway.services.db.user.update({ where: { id: owner.userId }, data: { operator: true } })
  const db = new pg.Client({ connectionString: stores.databaseUrl })
  await db.connect()
  await fillMonth(db, owner.organisationId, owner.userId, requests, Date.now(), { lastMoment: 300 }).finally(() =>
    db.end(),
  )
})
const browser = use(test, startBrowser)
test.afterEach.always(async t => {
  if (!t.passed) t.log(page.url(), await main().ariaSnapshot())
  await page.context().close()
})

/** A person stands on a page, and has not clicked yet. */
async function standOn(path: string, { visitor, organisationId }: SignedUp = owner): Promise<void> {
  page = await newPage(browser, gateway.url, { visitor, viewport: { width: 1440, height: 900 } })
  await page.goto(`${gateway.url}/dashboard${path.replace('~', `/${organisationId}`)}`)
  clicks = 0
}

async function click(target: Locator): Promise<void> {
  clicks++
  await target.first().click()
}

/** Opens the search by its shortcut, which counts as a click as Enter does. */
async function searchFor(text: string): Promise<void> {
  clicks += 2
  await page.getByRole('main').waitFor()
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox', { name: /^Search pages/ }).fill(text)
  await page.getByRole('option', { name: text, selected: true }).waitFor()
  await page.keyboard.press('Enter')
}

const link = (name: string | RegExp) => page.getByRole('link', { name, exact: typeof name === 'string' })
const navigation = (name: string) =>
  page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name, exact: true })
const main = () => page.getByRole('main')

test.serial('developer: why did my call fail?', async t => {
  const key = await gateway.key(owner.organisationId, 'test', { name: 'My first app' })
  const failed = await gateway.fetch('/v1/chat/completions', { key, body: { model: 'gpt-5-mini', messages: [] } })
  t.is(failed.status, 400)
  await gateway.services.refusalLog.flush()
  await standOn('~/overview')
  await searchFor(failed.headers.get('x-request-id')!)
  const why = main().getByRole('alert', { name: 'What went wrong' })
  await why.getByText('messages').first().waitFor()
  await why.getByText('What to do:').waitFor()
  t.true(clicks <= maxClicks)
})

test.serial('shown to a developer: what an error means', async t => {
  const key = await gateway.key(owner.organisationId, 'test')
  const failed = await gateway.fetch('/v1/chat/completions', { key, body: { model: 'gpt-5-mini', messages: [] } })
  await gateway.services.refusalLog.flush()
  await standOn(`~/requests/${failed.headers.get('x-request-id')}`)
  await click(main().getByRole('alert', { name: 'What went wrong' }).getByRole('link', { name: 'Documentation' }))
  await page.waitForURL(`${gateway.url}/docs/errors#invalid_request`)
  await page.locator('tr:target').getByText('A field has a wrong type or value').waitFor()
  t.true(clicks <= maxClicks)
})

test.serial('developer: what did my request send, and what came back?', async t => {
  const key = await gateway.key(owner.organisationId, 'test')
  const { services } = gateway
  const contentUntil = new Date(services.clock.now() + 3_600_000)
  const logging = { contentMode: 'all', contentPercent: null, contentUntil }
  await services.keys.setContentLogging(owner.organisationId, hashSecret(key), logging, operatorActor)
  const body = { model: 'gpt-5-mini', messages: [{ role: 'user', content: 'How does a lock gate work?' }] }
  const answered = await gateway.fetch('/v1/chat/completions', { key, body })
  t.is(answered.status, 200)
  await gateway.settled()
  await services.contentLog.flush()
  await standOn(`~/requests/${answered.headers.get('x-request-id')}`)
  await click(main().getByRole('button', { name: 'Show input and output' }))
  await main().getByText('How does a lock gate work?').first().waitFor()
  await click(main().getByRole('tab', { name: 'Output' }))
  await main().getByRole('tabpanel', { name: 'Output' }).getByText('How does a lock gate work?').waitFor()
  t.true(clicks <= maxClicks)
})

test.serial('developer: how do I call this model?', async t => {
  await standOn('~/overview')
  await click(navigation('Models'))
  await click(main().getByRole('link', { name: 'GPT-5 mini', exact: true }))
  const example = await main().getByRole('region', { name: 'curl example' }).innerText()
  t.true(example.includes(`${gateway.url}/v1/chat/completions`) && example.includes('gpt-5-mini'), example)
  t.true(clicks <= maxClicks)
})

test.serial('developer: how do I send my first request?', async t => {
  await standOn('~/overview', newcomer)
  const steps = main().getByRole('region', { name: 'Getting started' })
  await click(steps.getByRole('button', { name: 'Create test key' }))
  await steps
    .getByText(/svc_sk_test_/)
    .first()
    .waitFor()
  t.true((await steps.getByRole('region', { name: 'curl example' }).innerText()).includes(gateway.url))
  t.true(clicks <= maxClicks)
})

test.serial('shown to a lead: who spent how much', async t => {
  await standOn('~/usage')
  const table = page.getByRole('table', { name: 'Usage by group' })
  await table.getByText('Web app').first().waitFor()
  await click(page.getByRole('combobox', { name: 'Group by', exact: true }).last())
  await click(page.getByRole('option', { name: 'Member' }))
  await table.getByText('Ada').first().waitFor()
  t.regex(await table.innerText(), /\$\d/)
  t.true(clicks <= maxClicks)
})

test.serial('shown to a lead: spend beside that of the period before', async t => {
  await standOn('~/overview')
  const spend = main().getByRole('region', { name: 'Spend', exact: true })
  await spend
    .getByText(/%|unchanged|new/)
    .first()
    .waitFor()
  t.is(clicks, 0)
})

test.serial('lead: can I have that as a file?', async t => {
  await standOn('~/usage')
  const { bytes } = await download(page, () => click(link('CSV')))
  const lines = bytes.toString().split('\r\n')
  t.regex(lines[0]!, /^start,key,requests,/)
  t.true(lines.some(line => line.includes('Web app')))
  t.true(clicks <= maxClicks)
})

test.serial(
  'finance: what was paid and used, from balance to balance, by key and member, on paper and as a file?',
  async t => {
    await standOn('~/billing')
    await click(page.getByRole('combobox', { name: 'Period (UTC)' }))
    await click(page.getByRole('option', { name: 'Last 12 months' }))
    for (const name of ['Opening balance', 'Payments and credits', 'Usage', 'Closing balance'])
      await main().getByText(name, { exact: true }).first().waitFor()
    await page.getByRole('table', { name: 'Ledger' }).getByRole('columnheader', { name: 'Balance' }).waitFor()
    t.true(clicks <= maxClicks)

    clicks = 0
    await click(main().getByText('Usage by member'))
    t.regex(await page.getByRole('table', { name: 'Usage by member' }).innerText(), /@example\.com[\s\S]*\$\d/)
    t.true(clicks <= maxClicks)

    for (const [name, ending] of [
      ['Export PDF', 'pdf'],
      ['Export CSV', 'csv'],
    ] as const) {
      const { name: file, bytes } = await download(page, () => click(link(name)))
      t.regex(file, new RegExp(`ada.*\\d{4}-\\d{2}.*\\.${ending}$`, 'i'))
      t.true(ending === 'pdf' ? bytes.subarray(0, 5).toString() === '%PDF-' : bytes.toString().includes('currency'))
    }
  },
)

test.serial('shown to a lead: alerts before it gets expensive', async t => {
  const rule = { name: 'Spend of the month', kind: 'spend', threshold: 1, window: 'month', email: 'owners' }
  await owner.visitor.json(`${owner.base}/alerts/rules`, { body: rule })
  await runMaintenance('rules', null, gateway.services)
  await standOn('~/overview')
  await click(navigation('Alerts'))
  const rules = page.getByRole('table', { name: 'Rules' })
  const row = rules.getByRole('row').filter({ hasText: 'Spend of the month' })
  await row.getByText('firing').waitFor()
  t.regex(await row.innerText(), /\$\d.*Email to owners/s)
  await click(main().getByRole('button', { name: 'Create rule' }))
  await page.getByRole('dialog').getByLabel('Alert on').first().waitFor()
  t.true(clicks <= maxClicks)
})

test.serial('operator: is anything wrong now, and at which provider?', async t => {
  await standOn('/operator')
  await click(page.getByRole('tab', { name: 'Providers' }))
  await main().getByText(outageProvider).first().waitFor()
  t.true(clicks <= maxClicks)
})

test.serial('operator: what does the service earn, is work waiting, is a process gone?', async t => {
  await standOn('/operator')
  await main().getByText('Webhooks pending').waitFor()
  await page.getByRole('table', { name: 'Instances' }).getByText('Last heartbeat').waitFor()
  await main().getByRole('region', { name: 'Revenue', exact: true }).getByText(/\$\d/).first().waitFor()
  t.is(clicks, 0)
})

test.serial('operator: what fails at a customer, why, with which key, and what were they charged?', async t => {
  const operator = await signUp(gateway, { name: 'Olga' })
  await gateway.services.db.user.update({ where: { id: operator.userId }, data: { operator: true } })
  const home = `/dashboard/operator/organisations/${owner.organisationId}`
  const tab = (name: string) => page.getByRole('tab', { name, exact: true })
  const path = () => new URL(page.url()).pathname
  await standOn(home.replace('/dashboard', ''), operator)
  await click(tab('Requests'))
  await click(main().getByRole('button', { name: 'Errors, last 24 hours' }))
  await main().getByRole('group', { name: 'Active filters' }).waitFor()
  const found = link(/^Chat request of/)
  await found.first().waitFor()
  t.is(new URL(page.url()).search, '?status=error&span=24h')
  for (const name of ['Export', 'Save view']) t.is(await main().getByRole('button', { name }).count(), 0, name)
  t.true(clicks <= maxClicks)

  clicks = 0
  await click(found)
  await main().getByRole('alert', { name: 'What went wrong' }).getByText('What to do:').waitFor()
  await main().getByText('An admin of the organisation can log those of a key').waitFor()
  t.is(await main().getByRole('button', { name: 'Open in playground' }).count(), 0)
  const request = path()
  t.true(request.startsWith(`${home}/requests/`), request)
  const key = main().getByRole('region', { name: 'Details' }).locator('a[href*="/keys/"]')
  await click(key)
  await page.waitForURL(`**${home}/keys/*`)
  await main().getByRole('region', { name: 'Error rate' }).waitFor()
  t.deepEqual(await page.getByRole('tablist').last().getByRole('tab').allInnerTexts(), ['Usage', 'Policy', 'History'])
  t.is(
    await main()
      .getByRole('button', { name: /^(Edit|Policy)$/ })
      .count(),
    0,
  )
  t.true(clicks <= maxClicks)

  clicks = 0
  await click(tab('Ledger'))
  await page.getByRole('table', { name: 'Ledger' }).getByText('Usage').first().waitFor()
  t.is(path(), `${home}/billing`)
  await page.goBack()
  await page.goBack()
  await main().getByRole('alert', { name: 'What went wrong' }).waitFor()
  t.is(path(), request)
  await main().getByRole('link', { name: 'Requests', exact: true }).click()
  await found.first().waitFor()
  t.is(new URL(page.url()).search, '?status=error&span=24h')
  await page.waitForFunction(`document.title === 'Requests · Ada’s organisation · Headgate'`)
  await page.getByRole('banner').getByText('Operator area').waitFor()
  await tab('Audit').click()
  const seen = page
    .getByRole('table', { name: 'Audit log' })
    .getByRole('row')
    .filter({ hasText: 'viewed the requests' })
  await seen.getByText(operator.visitor.email).first().waitFor()
  t.true(clicks <= maxClicks)
})

test.serial('debugger: an outage is seen on the overview, and leads to what failed', async t => {
  await standOn('~/overview')
  // Usually one; among so few requests, some that happen to succeed may divide the outage.
  const notices = main()
    .getByRole('region', { name: 'Recovered' })
    .getByRole('listitem')
    .filter({ hasText: `${outageProvider} failed` })
  await notices.first().waitFor()
  for (const text of await notices.allInnerTexts()) t.regex(text, /\d+ of \d+ requests \(\d+(\.\d)? ?%\) from .* to /)
  await click(notices.first().getByRole('link'))
  await page.waitForURL(new RegExp(`provider=${outageProvider}`))
  await click(link(/^Chat request of/))
  await main().getByText('Every provider that could serve this request failed').first().waitFor()
  t.true(clicks <= maxClicks)
})

test.serial('debugger: which webhooks fail, since when, and why?', async t => {
  const receiver = await Receiver.start()
  t.teardown(() => receiver.close())
  receiver.always = status(500, {}, 'The database is full.')
  const { services } = gateway
  const create = { url: receiver.url, events: ['*'], signing_secret: 'own' as const }
  const { row } = await services.webhookEndpoints.create(owner.organisationId, create, operatorActor)
  const body = { type: 'job.completed' }
  const sent = await owner.visitor.json<{ data: { id: string } }>(`${owner.base}/webhooks/endpoints/${row.id}/test`, {
    body,
  })
  const deliveries = new WebhookDeliveries(services)
  await deliveries.attempt(sent.data.id)
  await deliveries.close()
  await standOn('~/webhooks')
  await click(page.getByRole('tab', { name: 'Endpoints' }))
  const shown = main().getByRole('row').filter({ hasText: receiver.url })
  await shown.getByText('HTTP 500 The database is full.').waitFor()
  await click(shown.getByRole('link'))
  await main().getByRole('button', { name: 'Resend failed' }).waitFor()
  t.true(clicks <= maxClicks)
})

test.serial('debugger: any id leads to the request and its timeline', async t => {
  const where = { organisationId: owner.organisationId, status: 502, provider: outageProvider }
  const row = await gateway.services.db.generation.findFirstOrThrow({ where, orderBy: { createdAt: 'desc' } })
  for (const id of [row.id, row.requestId, row.upstreamId!]) {
    await standOn('~/requests')
    await searchFor(id)
    const timeline = main().getByRole('region', { name: 'Timeline' })
    await timeline.getByText('server error').first().waitFor()
    await timeline.getByText(`${row.provider} ${row.model}`).first().waitFor()
    t.true(clicks <= maxClicks, id)
    if (id !== row.upstreamId) await page.context().close()
  }
})
