// The dashboard as a newcomer walks through it, in a real browser against a whole gateway.
import anyTest from 'ava'
import OpenAI from 'openai'
import type { Browser, Page } from 'playwright-core'
import { buildDashboard } from '../dev/dashboard.ts'
import { nanoFromUsd } from '../shared/base/money.ts'
import { startWorld, type World } from './support/chat.ts'
import { startBrowser } from './support/chromium.ts'
import { Receiver } from './support/receiver.ts'
import { startWorkers, type Workers } from './support/workers.ts'

const test = anyTest.serial
const person = { name: 'Ada', email: 'ada@example.com', password: 'correct horse battery' }

let world: World
let workers: Workers
let receiver: Receiver
let browser: Browser
let page: Page
const problems: string[] = []
/** The secret of the key that the story makes. */
let secret = ''
let organisationId = ''

test.before(async () => {
  const starting = Promise.all([
    startWorld({ DEV_OUTBOX: 'true', ALLOW_PRIVATE_URLS: 'true' }),
    startBrowser(),
    Receiver.start(),
    buildDashboard(),
  ])
  const started = await starting
  world = started[0]
  browser = started[1]
  receiver = started[2]
  workers = startWorkers(world.gateway.services)
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } })
  page = await context.newPage()
  page.setDefaultTimeout(20_000)
  page.on('pageerror', error => problems.push(error.message))
  page.on('console', message => {
    // A refused request is part of the story; a broken page or policy is not.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource'))
      problems.push(message.text())
  })
})
test.afterEach.always(async t => {
  if (!t.passed) await page.screenshot({ path: `/tmp/shots/story.png`, fullPage: true }); t.log(page.url(), ...problems)
})
test.after.always(async () => {
  await browser?.close()
  await workers?.stop()
  await world?.close()
  await receiver?.close()
})

const open = (path: string) => page.goto(`${world.gateway.url}/dashboard${path}`)
const goTo = (name: string) =>
  page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name, exact: true }).click()
const heading = (name: string | RegExp) => page.getByRole('heading', { level: 1, name }).waitFor()
const sdk = (apiKey: string) => new OpenAI({ apiKey, baseURL: `${world.gateway.url}/v1`, maxRetries: 0 })
const ask = (apiKey: string, content: string) =>
  sdk(apiKey).chat.completions.create({ model: 'gpt-5-mini', messages: [{ role: 'user', content }] })

test('a visitor signs up and names an organisation', async t => {
  await open('/')
  await heading('Sign in')
  await page.getByRole('link', { name: 'Create an account' }).click()
  await page.getByLabel('Name').fill(person.name)
  await page.getByLabel('Email').fill(person.email)
  await page.locator('input[type=password]').fill(person.password)
  await page.getByRole('button', { name: 'Create account' }).click()
  await page.getByLabel('Name of the organisation').fill('Analytical Engines')
  await page.getByRole('button', { name: 'Create organisation' }).click()
  await heading('Overview')
  organisationId = new URL(page.url()).pathname.split('/')[2]!
  t.regex(organisationId, /^org_/)
})

test('a key is refused until the address is confirmed', async t => {
  await goTo('API keys')
  await page.getByRole('button', { name: 'Create key' }).first().click()
  const form = page.getByRole('dialog')
  await form.getByRole('button', { name: 'Create key' }).click()
  await form.getByText('Confirm your email address').waitFor()
  t.is(await world.gateway.services.db.apiKey.count({ where: { organisationId } }), 0)
  await open('/outbox')
  await page.getByRole('link', { name: 'Confirm the address' }).click()
  await page.getByText('Your address is confirmed').waitFor()
  await page.getByRole('link', { name: 'Go to the dashboard' }).click()
  await heading('Overview')
})

test('a live key is created, shown once, and works with the official SDK', async t => {
  const amountNano = nanoFromUsd('25')
  await world.gateway.services.accounts.deposit({ organisationId, amountNano, method: 'grant' })
  await goTo('API keys')
  await page.getByRole('button', { name: 'Create key' }).first().click()
  const form = page.getByRole('dialog')
  await form.getByLabel('Live').check()
  await form.getByLabel('Name', { exact: true }).fill('Production')
  await form.getByLabel('Monthly spend cap (USD)').fill('5')
  await form.getByRole('button', { name: 'Create key' }).click()
  const shown = page.getByRole('dialog', { name: 'Secret of “Production”' })
  secret = (await shown.getByRole('region', { name: 'Secret' }).innerText()).trim()
  t.regex(secret, /^svc_sk_live_[0-9A-Za-z]{40}$/)
  t.true((await shown.innerText()).includes(world.gateway.url))
  await shown.getByRole('button', { name: 'I have copied it' }).click()
  await page.getByRole('button', { name: 'Production' }).waitFor()
  t.false((await page.content()).includes(secret))
  const answer = await ask(secret, 'Hello')
  t.truthy(answer.choices[0]!.message.content)
  t.deepEqual(await world.gateway.settled(), [])
})
