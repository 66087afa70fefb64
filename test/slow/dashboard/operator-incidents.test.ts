// An operator is told of an outage, opens it from the home page, finds what a customer asks about, and pauses the provider.
import type { Page } from 'playwright-core'
import { groupIncidents } from '../../../shared/alerts/incident-groups.ts'
import { reconcileIncidents } from '../../../shared/alerts/incidents.ts'
import { sendEmails } from '../../../workers/emails.ts'
import { signUp } from '../../support/dashboard/dashboard.ts'
import { newPage, startBrowser } from '../../support/io/chromium.ts'
import { test } from '../../support/test.ts'
import { use, useGateway } from '../../support/use.ts'
import { Receiver, signedBy } from '../../support/webhooks/receiver.ts'

const gateway = useGateway(test, { ALLOW_PRIVATE_URLS: 'true', OPENAI_API_KEY: 'sk-test-key-of-openai' })
const operator = use(test, () => signUp(gateway))
const receiver = use(test, () => Receiver.start())
const browser = use(test, startBrowser)
let page: Page

test.before(async () => {
  await gateway.services.db.user.update({ where: { id: operator.userId }, data: { operator: true } })
})
test.beforeEach(async () => {
  page = await newPage(browser, gateway.url, { visitor: operator.visitor, viewport: { width: 1440, height: 900 } })
})
test.afterEach.always(async t => {
  if (!t.passed) t.log(page.url(), await page.getByRole('main').ariaSnapshot())
  await page.context().close()
})
const open = (path: string) => page.goto(`${gateway.url}/dashboard${path}`)

test.serial('the banner names the one incident of a provider and leads to its page', async t => {
  const models = ['gpt-5', 'gpt-5-mini', 'gpt-4o']
  const conditions = models.map(model => {
    return {
      kind: 'circuit',
      subject: `openai|${model}`,
      provider: 'openai',
      model,
      message: 'HTTP 500: down',
    } as const
  })
  await reconcileIncidents(gateway.services, ['failing'], conditions)
  await groupIncidents(gateway.services)
  await open('/operator')
  await page
    .getByRole('status')
    .getByRole('link', { name: /^3 models fail at openai, since / })
    .click()
  await page.getByRole('heading', { level: 1, name: /^3 models fail/ }).waitFor()
  await page.getByRole('region', { name: 'Course' }).getByText('gpt-5-mini: ').waitFor()
  t.regex(await page.title(), /^3 models .* at openai · Headgate$/)
})

test.serial('a webhook is set, tested and received; what happened to it is shown', async t => {
  await open('/operator/notifications')
  await page.getByLabel('Webhook URL', { exact: true }).fill(receiver.url)
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByRole('button', { name: 'Test webhook' }).click()
  const row = page.getByRole('row', { name: /Test Webhook, 127/ })
  await row.getByText('pending').waitFor()
  await sendEmails('incidents', null, gateway.services)
  await row.getByText('delivered').waitFor()
  const { secret } = await operator.visitor.json<{ secret: string }>('/dashboard/api/operator/notifications/secret')
  t.true(signedBy(receiver.received[0]!, secret))
})

test.serial('Ctrl-K finds an organisation from anywhere in the operator area, and its title is said once', async t => {
  await open('/operator/queues')
  await page.getByRole('main').waitFor()
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox', { name: 'Search all organisations' }).fill(operator.organisationId)
  await page.getByRole('option', { selected: true }).getByText(operator.organisationId).waitFor()
  await page.keyboard.press('Enter')
  await page.waitForURL(`**/operator/organisations/${operator.organisationId}**`)
  const { name } = await gateway.services.db.organisation.findUniqueOrThrow({ where: { id: operator.organisationId } })
  await page.getByRole('heading', { level: 1, name }).waitFor()
  t.is((await page.title()).split(name).length, 2)
})

test.serial('a pause says which models lose their only provider, and until when it lasts', async t => {
  await open('/operator/providers/openai')
  await page.getByRole('button', { name: 'Pause' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText(/models lose their only provider/).waitFor()
  await dialog.getByLabel('For how long').selectOption('1 hour')
  await dialog.getByRole('button', { name: 'Pause provider' }).click()
  await page.getByText(/Paused by .* until /).waitFor()
  t.pass()
})
