// The operator's exports of the logs of all organisations, in a real browser.
import { signUp } from '../../support/dashboard/dashboard.ts'
import { findBarriers } from '../../support/io/barriers.ts'
import { newPage, showInColors, startBrowser } from '../../support/io/chromium.ts'
import { test } from '../../support/test.ts'
import { use, useGateway } from '../../support/use.ts'
import { Receiver } from '../../support/webhooks/receiver.ts'

const gateway = useGateway(test, { ALLOW_PRIVATE_URLS: 'true', ENCRYPTION_KEY: 'a key for the operator’s exports' })
const operator = use(test, () => signUp(gateway))
const receiver = use(test, () => Receiver.start())
const browser = use(test, startBrowser)
test.before(async () => {
  await gateway.services.db.user.update({ where: { id: operator.userId }, data: { operator: true } })
})

test.serial(
  'an export is added, tested, disabled and deleted, audited as the operator’s; those of an organisation stay its own',
  async t => {
    const page = await newPage(browser, gateway.url, {
      visitor: operator.visitor,
      t,
      viewport: { width: 1280, height: 900 },
    })
    await page.goto(`${gateway.url}/dashboard/operator`)
    await page.getByRole('tab', { name: 'Log exports' }).click()
    await page.getByText('No log exports yet').waitFor()
    await page.getByRole('button', { name: 'Add export' }).click()
    const form = page.getByRole('dialog')
    await form.getByLabel('Name').fill('Warehouse')
    await form.getByLabel('URL').fill(receiver.url)
    await form.getByRole('checkbox', { name: 'Audit log' }).check()
    await form.getByRole('button', { name: 'Add export' }).click()
    await page
      .getByText(/whsec_/)
      .first()
      .waitFor()
    await page.keyboard.press('Escape')
    await page.waitForURL(/\/operator\/log-exports\/exp_/)
    await page.getByRole('heading', { level: 1, name: 'Warehouse' }).waitFor()
    const row = await gateway.services.db.logExport.findFirstOrThrow({ where: { name: 'Warehouse' } })
    t.is(row.organisationId, null)

    await page.getByRole('button', { name: 'Test', exact: true }).click()
    await page.getByText('The sample was accepted').waitFor()
    t.true(receiver.received.length > 0)
    for (const colorScheme of ['light', 'dark'] as const) {
      await showInColors(page, colorScheme)
      t.deepEqual(await findBarriers(page), [], colorScheme)
    }
    await page.getByRole('button', { name: 'Disable' }).click()
    await page.getByRole('button', { name: 'Enable' }).waitFor()
    await page.getByRole('link', { name: 'Log exports' }).click()
    await page.getByRole('table', { name: 'Log exports' }).getByText('disabled').waitFor()
    await page.getByRole('link', { name: 'Warehouse' }).click()
    await page.getByRole('button', { name: 'More' }).click()
    await page.getByRole('menuitem', { name: 'Delete' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete export' }).click()
    await page.getByText('No log exports yet').waitFor()
    const events = await gateway.services.db.auditEvent.findMany({ where: { action: { startsWith: 'log_export.' } } })
    t.deepEqual([...new Set(events.map(event => event.action))].sort(), [
      ...['log_export.created', 'log_export.deleted', 'log_export.updated'],
    ])
    t.true(events.every(event => event.organisationId === null && event.actorId === operator.userId))
  },
)
