// Whoever is on call, in a real browser: a provider fails under traffic; it is seen, tested and paused, the clients are told, and it comes back.
import type { Page } from 'playwright-core'
import { runMaintenance } from '../../../workers/maintenance.ts'
import { Emulator, type Reply } from '../../emulators/emulator.ts'
import { reply, serverError } from '../../emulators/openai.ts'
import { signUp } from '../../support/dashboard/dashboard.ts'
import { eventually } from '../../support/gateway.ts'
import { newPage, startBrowser } from '../../support/io/chromium.ts'
import { test } from '../../support/test.ts'
import { use, useGateway } from '../../support/use.ts'

const failures = 12
const recoversWithinMs = 90_000
let isDown = true
let page: Page

/** Fails as a provider in an outage does: its list of models is still there. */
const upstream: Reply = (request, response) =>
  (isDown && request.method === 'POST' ? serverError : reply)(request, response)

const openai = use(test, () => Emulator.start(upstream))
const gateway = useGateway(test, () => ({ OPENAI_API_KEY: 'sk-upstream', OPENAI_BASE_URL: `${openai.url}/v1` }))
const operator = use(test, () => signUp(gateway))
const browser = use(test, startBrowser)
test.before(async () => {
  await gateway.services.db.user.update({ where: { id: operator.userId }, data: { operator: true } })
})
test.afterEach.always(async t => {
  if (!t.passed) t.log(page.url(), await page.getByRole('main').ariaSnapshot())
  await page.context().close()
})

test('an outage is seen, tested and paused; clients are told; resumed, the provider is healthy again', async t => {
  t.timeout(240_000)
  const { live: key } = await gateway.account({ usd: '10' })
  const body = { model: 'gpt-5-mini', messages: [{ role: 'user', content: 'Hello' }] }
  const ask = () => gateway.fetch('/v1/chat/completions', { key, body })
  for (let i = 0; i < failures; i++) t.true((await ask()).status >= 500)
  await gateway.settled()
  for (const task of ['incidents', 'failures']) await runMaintenance(task, null, gateway.services)

  page = await newPage(browser, gateway.url, { visitor: operator.visitor, viewport: { width: 1440, height: 900 } })
  await page.goto(`${gateway.url}/dashboard/operator`)
  // The banner leads to the incident, the incident to the provider.
  await page
    .getByRole('status')
    .getByRole('link', { name: /openai/ })
    .first()
    .click()
  await page.getByRole('heading', { level: 1, name: /openai/ }).waitFor()
  await page.getByRole('main').getByRole('link', { name: 'openai', exact: true }).first().click()
  await page.getByRole('heading', { level: 1, name: 'openai' }).waitFor()
  await page
    .getByText(/Last error/)
    .first()
    .waitFor()

  await page.getByRole('button', { name: 'Test now' }).click()
  const result = page.getByRole('dialog', { name: 'Test result' })
  await result.getByText('accepted').waitFor()
  await page.keyboard.press('Escape')
  await result.waitFor({ state: 'detached' })

  await page.getByRole('button', { name: 'Pause' }).click()
  await page.getByRole('dialog').getByLabel('Reason').fill('Their status page says so')
  await page.getByRole('dialog').getByRole('button', { name: 'Pause provider' }).click()
  await page.getByText(/Paused by .*Their status page says so/).waitFor()
  const refused = await ask()
  t.is(refused.status, 503)
  t.regex(((await refused.json()) as { error: { message: string } }).error.message, /paused/)

  isDown = false
  await page.getByRole('button', { name: 'Resume' }).click()
  await page.getByRole('button', { name: 'Pause' }).waitFor()
  await eventually(async () => (await ask()).status === 200, 'the provider answers', recoversWithinMs)
  await page.reload()
  await page.getByRole('main').getByText('Healthy').first().waitFor()
})
