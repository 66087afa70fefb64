// What is entered in a form is what is saved, in a real browser: numbers that are typed anew, times in the chosen zone, forms
// that are open while a colleague changes the same thing.
import type { BrowserContextOptions, Page } from 'playwright-core'
import { signUp } from '../../support/dashboard/dashboard.ts'
import { newPage, startBrowser } from '../../support/io/chromium.ts'
import { type ExecutionContext, test } from '../../support/test.ts'
import { use, useGateway } from '../../support/use.ts'

const gateway = useGateway(test, { ALLOW_PRIVATE_URLS: 'true' })
const owner = use(test, () => signUp(gateway))
const browser = use(test, startBrowser)

/** A page of the organisation. Its time is moved on by `page.clock`. */
async function open(t: ExecutionContext, path: string, options: BrowserContextOptions & { inUtc?: boolean } = {}) {
  const { inUtc = false, ...context } = options
  const page = await newPage(browser, gateway.url, { visitor: owner.visitor, t, ...context })
  if (inUtc) await page.addInitScript(() => localStorage.setItem('headgate-time-zone', 'utc'))
  await page.clock.install()
  await page.goto(`${gateway.url}/dashboard/${owner.organisationId}/${path}`)
  return page
}

/** Calls a route of the organisation in the name of a colleague. */
const call = <T>(path: string, method: string, body: object) =>
  owner.visitor.json<T>(`${owner.base}/${path}`, { method, body })

/** Comes back to the page from another window: what it shows is fetched again. */
async function comeBack(page: Page, path: string): Promise<void> {
  await page.clock.runFor(11_000)
  const looked = page.waitForResponse(response => response.url().endsWith(`${owner.base}/${path}`))
  await page.evaluate("window.dispatchEvent(new Event('visibilitychange'))")
  await looked
  await page.clock.runFor(100)
}

const rule = { kind: 'error_rate', threshold: 5, window: '1h', email: 'owners' }

test.serial('a number that is cleared and typed anew is what was typed, and none is not sent', async t => {
  const page = await open(t, 'alerts')
  await page.getByRole('button', { name: 'Create rule' }).first().click()
  const form = page.getByRole('dialog')
  await form.getByLabel('Name').fill('Typed anew')
  const threshold = form.getByLabel('At or above (%)')
  await threshold.press('End')
  await threshold.press('Backspace')
  t.is(await threshold.inputValue(), '')
  await form.getByRole('button', { name: 'Create rule' }).click()
  t.true(
    await threshold.evaluate(element => (element as unknown as { matches(css: string): boolean }).matches(':invalid')),
  )
  await threshold.pressSequentially('7')
  t.is(await threshold.inputValue(), '7')
  await form.getByRole('button', { name: 'Create rule' }).click()
  await form.waitFor({ state: 'detached' })
  t.is((await gateway.services.db.alertRule.findFirst({ where: { name: 'Typed anew' } }))!.threshold, 7)
})

test.serial('an alert rule keeps what a colleague changed while its form was open', async t => {
  const { data } = await call<{ data: { id: string } }>('alerts/rules', 'POST', { ...rule, name: 'Noisy' })
  const page = await open(t, 'alerts')
  await page.getByRole('button', { name: 'Actions for Noisy' }).click()
  await page.getByRole('menuitem', { name: 'Edit' }).click()
  const form = page.getByRole('dialog')
  await form.getByLabel('Name').fill('Quiet')
  await call(`alerts/rules/${data.id}`, 'PATCH', { enabled: false, threshold: 20 })
  await form.getByRole('button', { name: 'Save' }).click()
  await form.waitFor({ state: 'detached' })
  const saved = await gateway.services.db.alertRule.findUnique({ where: { id: data.id } })
  t.like(saved, { name: 'Quiet', enabled: false, threshold: 20, window: '1h' })
})

test.serial('a budget keeps what a colleague changed while its form was open', async t => {
  const budget = { limit_usd: 100, blocks: true, alert_percents: [50] }
  await call('budgets/organisation', 'PUT', budget)
  const page = await open(t, 'members')
  await page.getByRole('button', { name: 'Budget of the organisation' }).click()
  const form = page.getByRole('dialog')
  await form.getByText('Only alert').click()
  await call('budgets/organisation', 'PUT', { ...budget, limit_usd: 500 })
  await form.getByRole('button', { name: 'Save budget' }).click()
  await form.waitFor({ state: 'detached' })
  const saved = await owner.visitor.json<{ data: object[] }>(`${owner.base}/budgets`)
  t.like(saved.data[0], { limit_usd: 500, blocks: false, alert_percents: [50] })
})

test.serial('a webhook endpoint keeps what a colleague changed while its form was open', async t => {
  const url = 'http://127.0.0.1:9/hooks'
  const fields = { url, description: '', events: ['*'], signing_secret: 'own' }
  const { data } = await call<{ data: { id: string } }>('webhooks/endpoints', 'POST', fields)
  const page = await open(t, `webhooks/endpoints/${data.id}`)
  await page.getByRole('button', { name: 'More' }).click()
  await page.getByRole('menuitem', { name: 'Edit' }).click()
  const form = page.getByRole('dialog')
  await form.getByLabel('Description').fill('Billing')
  await call(`webhooks/endpoints/${data.id}`, 'PATCH', { events: ['job.*'] })
  await comeBack(page, `webhooks/endpoints/${data.id}`)
  await form.getByRole('button', { name: 'Save' }).click()
  await form.waitFor({ state: 'detached' })
  const saved = await gateway.services.db.webhookEndpoint.findUnique({ where: { id: data.id } })
  t.like(saved, { description: 'Billing', events: ['job.*'] })
})

test.serial(
  'a log export loses the region and the folder that are cleared, and keeps what a colleague changed',
  async t => {
    const { data } = await call<{ data: { id: string } }>('log-exports', 'POST', {
      kind: 's3',
      name: 'Archive',
      url: 'http://127.0.0.1:9',
      bucket: 'archive',
      region: 'eu-central-1',
      prefix: 'logs',
      access_key_id: 'AKIA',
      secret_access_key: 'secret',
      streams: ['requests'],
    })
    const page = await open(t, `log-exports/${data.id}`)
    await page.getByRole('button', { name: 'More' }).click()
    await page.getByRole('menuitem', { name: 'Edit' }).click()
    const form = page.getByRole('dialog')
    await form.getByLabel('Region').fill('')
    await form.getByLabel('Folder').fill('')
    await call(`log-exports/${data.id}`, 'PATCH', { interval_s: 60 })
    await comeBack(page, `log-exports/${data.id}`)
    await form.getByRole('button', { name: 'Save' }).click()
    await form.waitFor({ state: 'detached' })
    const saved = await gateway.services.db.logExport.findUnique({ where: { id: data.id } })
    t.like(saved, { region: null, prefix: '', intervalS: 60, bucket: 'archive' })
  },
)

test.serial('a log export loses all its headers, whose names the form shows', async t => {
  const { data } = await call<{ data: { id: string } }>('log-exports', 'POST', {
    kind: 'https',
    name: 'Collector',
    url: 'http://127.0.0.1:9',
    headers: { 'x-tenant': 'acme', authorization: 'Bearer secret' },
    streams: ['requests'],
  })
  const page = await open(t, `log-exports/${data.id}`)
  await page.getByRole('button', { name: 'More' }).click()
  await page.getByRole('menuitem', { name: 'Edit' }).click()
  const form = page.getByRole('dialog')
  await form.getByText('they stay as they are (x-tenant, authorization)').waitFor()
  await form.getByRole('switch', { name: 'Remove all headers' }).click()
  t.true(await form.getByLabel('Headers', { exact: true }).isDisabled())
  await form.getByRole('button', { name: 'Save' }).click()
  await form.waitFor({ state: 'detached' })
  t.like(await gateway.services.db.logExport.findUnique({ where: { id: data.id } }), { headerNames: [] })
})

test.serial('what is typed in a preset stays when a colleague saves a version, and is saved as the next', async t => {
  const config = { model: 'gpt-4o', temperature: 0.5 }
  await call('presets', 'POST', { name: 'letters', config })
  const page = await open(t, 'presets')
  await page.getByRole('button', { name: 'Open' }).click()
  const form = page.getByRole('dialog')
  await form.getByLabel('System prompt').fill('Written for an hour.')
  await page.clock.runFor(1_000)
  await call('presets', 'POST', { name: 'letters', config: { ...config, temperature: 0.7 } })
  await comeBack(page, 'presets')
  await form.getByText('Version 2 is in use since you opened this form').waitFor()
  t.is(await form.getByLabel('System prompt').inputValue(), 'Written for an hour.')
  await form.getByRole('button', { name: 'Save as new version' }).click()
  await form.getByText('Version 3').waitFor()
  t.is(await form.getByLabel('System prompt').inputValue(), 'Written for an hour.')
  await call('presets', 'POST', { name: 'letters', config: { ...config, system: 'By a colleague.' } })
  await comeBack(page, 'presets')
  t.is(await form.getByLabel('System prompt').inputValue(), 'By a colleague.')
  await page.keyboard.press('Escape')

  await page.getByRole('button', { name: 'Create preset' }).click()
  await form.getByLabel('Name').fill('letters')
  await form.getByText('There is a preset of this name.').waitFor()
  t.true(await form.getByRole('button', { name: 'Create preset' }).isDisabled())
})

test.serial('times are entered in the zone in which they are shown', async t => {
  const inUtc = { timezoneId: 'America/New_York', inUtc: true }
  const page = await open(t, 'requests', inUtc)
  await page.getByRole('button', { name: 'Custom' }).click()
  await page.getByRole('textbox', { name: 'From (UTC)' }).fill('2026-03-08T02:30')
  await page.getByRole('textbox', { name: 'To (UTC)' }).fill('2026-03-08T12:00')
  await page.getByRole('button', { name: 'Apply' }).click()
  await page.getByRole('button', { name: '8 Mar 2026, 02:30 – 8 Mar 2026, 12:00' }).waitFor()
  const address = new URL(page.url()).searchParams
  t.deepEqual([address.get('from'), address.get('to')], ['2026-03-08T02:30:00.000Z', '2026-03-08T12:00:00.000Z'])

  const keys = await open(t, 'keys?key=new', inUtc)
  const form = keys.getByRole('dialog')
  await form.getByLabel('Name', { exact: true }).fill('Until midnight')
  await form.getByLabel('Test').check()
  await form.getByRole('button', { name: 'More limits' }).click()
  await form.getByLabel('Expires (UTC)').fill('2036-11-01T00:00')
  await form.getByRole('button', { name: 'Create key' }).click()
  await keys.getByRole('region', { name: 'Secret' }).waitFor()
  const key = await gateway.services.db.apiKey.findFirst({ where: { name: 'Until midnight' } })
  t.is(key!.expiresAt!.toISOString(), '2036-11-01T00:00:00.000Z')
})

test.serial('a day of a statement is typed with its year', async t => {
  const page = await open(t, 'billing?period=2026-11-01_2026-11-30')
  const from = page.getByLabel('From', { exact: true })
  // What is still hidden takes no focus.
  await from.waitFor()
  await from.focus()
  await page.keyboard.type('10152025')
  t.is(await from.inputValue(), '2025-10-15')
  t.is(new URL(page.url()).searchParams.get('period'), '2025-10-15_2026-11-30')
})

test.serial('a roll, which stops the old secret now unless something else is chosen, begins at Cancel', async t => {
  const { data } = await call<{ data: { id: string } }>('keys', 'POST', { name: 'Rolled', environment: 'test' })
  const page = await open(t, `keys/${data.id}`)
  const focused = () => page.evaluate<string>('document.activeElement.textContent')
  await page.getByRole('button', { name: 'Roll secret' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Stop it now').waitFor()
  await page.clock.runFor(1_000)
  t.is(await focused(), 'Cancel')
})

test.serial('a server keeps what another operator changed while its form was open', async t => {
  await gateway.services.db.user.update({ where: { id: owner.userId }, data: { operator: true } })
  const server = { base_url: 'http://127.0.0.1:9/v1', models: [], data_collection: false }
  const path = '/dashboard/api/operator/servers'
  const save = (body: object) => owner.visitor.json(`${path}/vllm`, { method: 'POST', body })
  await save(server)
  const page = await open(t, '')
  await page.goto(`${gateway.url}/dashboard/operator/servers`)
  await page.getByRole('button', { name: 'Edit vllm' }).click()
  const form = page.getByRole('dialog')
  await form.getByLabel('Zero data retention').check()
  await save({ ...server, base_url: 'http://127.0.0.1:10/v1' })
  await form.getByRole('button', { name: 'Save server' }).click()
  await form.waitFor({ state: 'detached' })
  const { data } = await owner.visitor.json<{ data: object[] }>(path)
  t.like(data[0], { base_url: 'http://127.0.0.1:10/v1', data_collection: false, zdr: true })
})
