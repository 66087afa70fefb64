// The page of log exports in a browser: an export is added, tested, delivered, replayed, disabled and deleted.

import type { Page } from 'playwright-core'
import { LogExportDeliveries } from '../../shared/log-exports/deliveries.ts'
import { join, signUp } from '../support/dashboard/dashboard.ts'
import { eventually } from '../support/gateway.ts'
import { newPage, startBrowser } from '../support/io/chromium.ts'
import { Destination } from '../support/log-exports/destination.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

const gateway = useGateway(test, { ALLOW_PRIVATE_URLS: 'true' })
const owner = use(test, () => signUp(gateway))
const destination = use(test, () => Destination.start())
const deliveries = use(test, () => new LogExportDeliveries(gateway.services))
const browser = use(test, startBrowser)
let page: Page

test.before(async () => {
  page = await newPage(browser, gateway.url, { visitor: owner.visitor, viewport: { width: 1440, height: 900 } })
})
test.afterEach.always(async t => {
  if (!t.passed) t.log(page.url(), await page.getByRole('main').ariaSnapshot())
})

test.serial('an export is added, tested, delivered, replayed, disabled and deleted', async t => {
  await page.goto(`${gateway.url}/dashboard/${owner.organisationId}/log-exports`)
  await page.getByRole('button', { name: 'Add export' }).click()
  const form = page.getByRole('dialog', { name: 'Add log export' })
  await form.getByLabel('Name').fill('SIEM')
  await form.getByLabel('URL').fill(destination.url)
  await form.getByLabel('Headers').fill('X-Api-Key: of-the-receiver')
  await form.getByLabel('Audit log').check()
  await form.getByRole('button', { name: 'Add export' }).click()
  const secret = page.getByRole('dialog', { name: 'Signing secret' })
  t.regex((await secret.getByText(/^whsec_/).textContent())!, /^whsec_/)
  await page.keyboard.press('Escape')
  await page.getByRole('heading', { level: 1, name: 'SIEM' }).waitFor()

  await page.getByRole('button', { name: 'Test', exact: true }).click()
  await page.getByText('The sample was accepted').waitFor()
  t.is(destination.received[0]!.headers['x-api-key'], 'of-the-receiver')

  await eventually(async () => {
    await gateway.services.db.logExport.updateMany({ data: { dueAt: new Date(0) } })
    await deliveries.claim()
    await deliveries.settle()
    return destination.rows('audit').length > 0
  }, 'the audit log is delivered')
  await page.reload()
  const streams = page.getByRole('table', { name: 'Streams' })
  await streams.getByRole('row', { name: /^audit/ }).waitFor()
  t.false((await page.getByRole('main').textContent())!.includes('of-the-receiver'))

  await page.getByRole('button', { name: 'Replay' }).click()
  const replay = page.getByRole('dialog', { name: 'Replay a window' })
  await replay.getByLabel('From').fill('2026-01-01T00:00')
  await replay.getByLabel('To').fill('2026-01-02T00:00')
  await replay.getByRole('button', { name: 'Start replay' }).click()
  await page.getByRole('table', { name: 'Replays' }).getByText('running').first().waitFor()

  await page.getByRole('button', { name: 'Disable' }).click()
  await page.getByRole('button', { name: 'Enable' }).waitFor()
  await page.getByRole('button', { name: 'More' }).click()
  await page.getByRole('menuitem', { name: 'Delete' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Delete export' }).click()
  await page.getByText('No log exports yet').waitFor()
})

test.serial('403 for a member who is no admin', async t => {
  const member = await signUp(gateway)
  await join(gateway, member.userId, owner.organisationId, 'member')
  t.is((await member.visitor.fetch(`${owner.base}/log-exports`)).status, 403)
})
