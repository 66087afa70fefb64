// The dashboard as a newcomer walks through it, in a real browser against a whole gateway.

import OpenAI from 'openai'
import type { Browser, Page } from 'playwright-core'
import { nanoFromUsd } from '../../../shared/base/money.ts'
import { chatLine } from '../../support/batches/gateway.ts'
import { startWorld, type World } from '../../support/chat/gateway.ts'
import { eventually } from '../../support/gateway.ts'
import { newPage, startBrowser } from '../../support/io/chromium.ts'
import { download } from '../../support/io/download.ts'
import { test } from '../../support/test.ts'
import { Receiver, status } from '../../support/webhooks/receiver.ts'
import { startWorkers, type Workers } from '../../support/workers.ts'

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
  ])
  const started = await starting
  world = started[0]
  browser = started[1]
  receiver = started[2]
  workers = startWorkers(world.gateway.services)
  page = await newPage(browser, world.gateway.url, { viewport: { width: 1280, height: 900 } })
  page.on('pageerror', error => problems.push(error.message))
  page.on('console', message => {
    // A refused request is part of the story; a broken page or policy is not.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource'))
      problems.push(message.text())
  })
})
test.afterEach.always(async t => {
  if (!t.passed) t.log(page.url(), ...problems)
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

test.serial('a visitor signs up and names an organisation', async t => {
  await open('/')
  await heading('Sign in')
  await page.getByRole('link', { name: 'Create an account' }).click()
  await page.getByLabel('Name').fill(person.name)
  await page.getByLabel('Email').fill(person.email)
  await page.locator('input[type=password]').fill(person.password)
  await page.getByRole('button', { name: 'Create account' }).click()
  await page.getByLabel('Organisation name').fill('Analytical Engines')
  await page.getByRole('button', { name: 'Create organisation' }).click()
  await heading('Overview')
  organisationId = new URL(page.url()).pathname.split('/')[2]!
  t.regex(organisationId, /^org_/)
})

test.serial('the first test key is shown once, and the first request appears while the page waits for it', async t => {
  const steps = page.getByRole('region', { name: 'Getting started' })
  const firstKey = (await steps.getByRole('region', { name: 'Secret' }).innerText()).trim()
  t.regex(firstKey, /^svc_sk_test_[0-9A-Za-z]{40}$/)
  for (const language of ['curl', 'Node.js', 'Python']) {
    await steps.getByRole('tab', { name: language }).click()
    const example = await steps.getByRole('region', { name: `${language} example` }).innerText()
    t.true(example.includes(world.gateway.url) && example.includes('HEADGATE_API_KEY'), language)
  }
  await steps.getByText('Waiting for your first request…').waitFor()
  const answer = await sdk(firstKey).chat.completions.create({
    model: 'auto',
    messages: [{ role: 'user', content: 'Hello' }],
  })
  t.truthy(answer.choices[0]!.message.content)
  await steps.getByRole('link', { name: 'see what happened to it' }).click()
  await heading('Chat request')
  await goTo('Overview')
  await steps.getByRole('button', { name: 'I have copied it' }).click()
  t.false((await page.content()).includes(firstKey))
  await open(`/${organisationId}/overview`)
  await steps.waitFor()
  t.is(await steps.getByRole('region', { name: 'Secret' }).count(), 0)
  await goTo('Playground')
  await page.getByRole('textbox', { name: 'Message' }).waitFor()
})

test.serial('refused: another key before the address is confirmed', async t => {
  await goTo('API keys')
  await page.getByRole('button', { name: 'Create key' }).first().click()
  const form = page.getByRole('dialog')
  await form.getByRole('alert', { name: 'Confirm your email address', exact: true }).waitFor()
  await form.getByLabel('Test').check()
  await form.getByRole('button', { name: 'Create key' }).click()
  await form.getByText('Confirm your email address first').waitFor()
  t.is(await world.gateway.services.db.apiKey.count({ where: { organisationId } }), 1)
  await open('/outbox')
  await page.getByRole('link', { name: 'Confirm address' }).click()
  await page.getByText('Your email address is confirmed').waitFor()
  await page.getByRole('link', { name: 'Go to the dashboard' }).click()
  await heading('Overview')
})

test.serial('a live key is created, shown once, and works with the official SDK', async t => {
  const amountNano = nanoFromUsd('25')
  await world.gateway.services.wallets.deposit({ organisationId, amountNano, method: 'grant' })
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
  const agent = (name: string) => shown.getByRole('region', { name: `${name} example` }).innerText()
  const claudeCode = await agent('Claude Code')
  t.true(claudeCode.includes(`export ANTHROPIC_BASE_URL=${world.gateway.url}\n`), claudeCode)
  t.true(claudeCode.includes(`export ANTHROPIC_AUTH_TOKEN=${secret}\n`))
  await shown.getByRole('tab', { name: 'opencode' }).click()
  t.is(JSON.parse(await agent('opencode')).provider.headgate.options.baseURL, `${world.gateway.url}/v1`)
  await shown.getByRole('button', { name: 'I have copied it' }).click()
  await page.getByRole('link', { name: 'Production' }).waitFor()
  t.false((await page.content()).includes(secret))
  const answer = await ask(secret, 'Hello')
  t.truthy(answer.choices[0]!.message.content)
  t.deepEqual(await world.gateway.settled(), [])
})

test.serial('the request, its score, its spend and the chart are there to see', async t => {
  const { id } = await world.gateway.services.db.generation.findFirstOrThrow({
    where: { organisationId, environment: 'live' },
  })
  const score = { generation_id: id, score: -0.5, comment: 'Too long' }
  t.is((await world.gateway.fetch('/v1/feedback', { key: secret, body: score })).status, 200)
  await goTo('Requests')
  await page
    .getByRole('link', { name: /^Chat request of/ })
    .first()
    .click()
  await heading('Chat request')
  const text = await page.getByRole('main').innerText()
  for (const part of ['gpt-5-mini', 'Production', 'openai', '$0.0', '−0.5', 'Too long'])
    t.true(text.includes(part), part)
  await open(`/${organisationId}/overview`)
  await page.getByRole('region', { name: 'Spend', exact: true }).getByText('<$0.01').waitFor()
  await page.getByRole('img', { name: /^Cost over time, <\$0\.01/ }).waitFor()
  await page.getByRole('img', { name: /^Requests over time: 1 Ok/ }).waitFor()
  await goTo('Usage')
  await page.getByRole('table', { name: 'Usage by group' }).getByText('Production').first().waitFor()
})

test.serial('search finds pages and ids, a way back keeps the filters, and times can be in UTC', async t => {
  await open(`/${organisationId}/requests?status=ok`)
  await page
    .getByRole('link', { name: /^Chat request of/ })
    .first()
    .click()
  await heading('Chat request')
  const id = new URL(page.url()).pathname.split('/').at(-1)!
  await page.waitForFunction(`document.title === 'Chat request ${id} · Headgate'`)
  await page.getByRole('main').getByRole('link', { name: 'Requests', exact: true }).click()
  await heading('Requests')
  t.is(new URL(page.url()).search, '?status=ok')

  const search = async (text: string, option: string | RegExp) => {
    await page.keyboard.press('Control+k')
    await page.getByRole('combobox', { name: 'Search pages, API keys, models and IDs' }).fill(text)
    await page.getByRole('option', { name: option, selected: true }).waitFor()
    await page.keyboard.press('Enter')
  }
  await search('production', /^Production API key/)
  await heading('Production')
  await search('gpt-5-mini', /gpt-5-mini/)
  await page.waitForURL(/\/models\/gpt-5-mini/)
  await search(id, `Open ${id} ID`)
  await heading('Chat request')

  await page.getByRole('button', { name: `Account of ${person.name}` }).click()
  await page.getByRole('menuitem', { name: 'Show times in UTC' }).click()
  const time = /\d{1,2} \w{3,4} \d{4}, \d\d:\d\d:\d\d UTC/
  await page.getByRole('main').getByText(time).first().waitFor()
  await page.keyboard.press('Escape')
})

test.serial('the key is edited, rolled and revoked, each in force at once', async t => {
  const statusOf = async (key: string) => (await world.gateway.fetch('/v1/models', { key })).status
  await goTo('API keys')
  await page.getByRole('link', { name: 'Production' }).click()
  await page.getByRole('tab', { name: 'Policy' }).click()
  await page.getByRole('region', { name: 'Policy' }).getByText('$5.00', { exact: true }).waitFor()
  const edit = page.getByRole('button', { name: 'Edit' })
  await edit.click()
  const drawer = page.getByRole('dialog', { name: 'Production' })
  await drawer.getByLabel('Requests per minute').fill('1')
  await drawer.getByLabel('Learn from feedback').uncheck()
  await drawer.getByRole('button', { name: 'Save changes' }).click()
  await page.getByText('API key saved').waitFor()
  t.deepEqual([await statusOf(secret), await statusOf(secret)], [200, 429])
  const key = await world.gateway.services.db.apiKey.findFirstOrThrow({ where: { organisationId, name: 'Production' } })
  t.deepEqual([key.rpmLimit, key.learning], [1, false])
  await drawer.getByRole('button', { name: 'Roll secret' }).click()
  const rolling = page.getByRole('dialog', { name: /^Roll the secret/ })
  await rolling.getByLabel('Works for 1 more hour').check()
  await rolling.getByRole('button', { name: 'Roll secret' }).click()
  const shown = page.getByRole('dialog', { name: 'Secret of “Production”' })
  const rolled = (await shown.getByRole('region', { name: 'Secret' }).innerText()).trim()
  await shown.getByRole('button', { name: 'I have copied it' }).click()
  for (const working of [secret, rolled]) t.not(await statusOf(working), 401)
  await edit.click()
  await drawer.getByRole('button', { name: 'Revoke' }).click()
  await page
    .getByRole('dialog', { name: /^Revoke/ })
    .getByRole('button', { name: 'Revoke key' })
    .click()
  await page.getByRole('main').getByText('revoked', { exact: true }).first().waitFor()
  await page.getByRole('tab', { name: 'History' }).click()
  await page.getByRole('table', { name: 'History' }).getByText('rolled the secret of').waitFor()
  for (const stopped of [secret, rolled]) t.is(await statusOf(stopped), 401)
  await goTo('Audit log')
  for (const action of ['created the API key', 'changed the API key', 'rolled the secret of', 'revoked the API key'])
    await page.getByRole('main').getByText(action).first().waitFor()
  t.pass()
})

test.serial('the playground’s chat streams', async t => {
  await goTo('API keys')
  await page.getByRole('button', { name: 'Create key' }).first().click()
  const form = page.getByRole('dialog')
  await form.getByLabel('Name', { exact: true }).fill('Staging')
  await form.getByLabel('Test').check()
  await form.getByRole('button', { name: 'Create key' }).click()
  const shown = page.getByRole('dialog', { name: 'Secret of “Staging”' })
  secret = (await shown.getByRole('region', { name: 'Secret' }).innerText()).trim()
  await shown.getByRole('button', { name: 'I have copied it' }).click()
  await goTo('Playground')
  await page.getByRole('textbox', { name: 'Message' }).fill('Let the water in')
  const asked = page.waitForRequest(request => request.url().endsWith('/v1/chat/completions'))
  await page.getByRole('button', { name: 'Send' }).click()
  const answered = await (await asked).response()
  t.is(answered?.headers()['content-type'], 'text/event-stream; charset=utf-8')
  const conversation = page.getByRole('region', { name: 'Conversation' })
  await conversation.getByText('Completed').waitFor()
  t.true((await conversation.innerText()).split('Let the water in').length > 2)
})

test.serial('text and sound of the other tabs are made, each with its place in the request log', async t => {
  const logged = page.getByRole('link', { name: 'view in request log' })
  const run = async (tab: string, field: RegExp, button: string) => {
    await page.getByRole('tab', { name: tab, exact: true }).click()
    await page.getByLabel(field).fill('A door that creaks')
    await page.getByRole('button', { name: button, exact: true }).click()
    await logged.waitFor()
  }
  await run('Completions', /^Prompt/, 'Complete')
  await run('Embeddings', /^Texts/, 'Create embeddings')
  await page.getByText(/^Text 1: [\d,]+ dimensions/).waitFor()
  for (const tab of ['Music', 'Sound effects']) {
    await run(tab, /^Prompt/, 'Generate')
    await page.locator('audio').waitFor()
  }
  t.pass()
})

test.serial('a video is submitted, followed and played', async t => {
  await page.getByRole('tab', { name: 'Video' }).click()
  await page.getByLabel('Prompt', { exact: true }).fill('A lock gate opens at dawn')
  await page.getByRole('button', { name: 'Generate' }).click()
  await page.getByRole('progressbar', { name: 'Progress of the job' }).waitFor({ state: 'attached' })
  const id = await page.getByRole('link', { name: /^job_/ }).innerText()
  const player = page.locator('video')
  await player.waitFor()
  type Film = { play(): Promise<void>; currentTime: number }
  await player.evaluate(film => (film as unknown as Film).play())
  await eventually(() => player.evaluate(film => (film as unknown as Film).currentTime > 0), 'the film runs')
  await goTo('Jobs')
  await page.locator(`a[href$="/jobs/${id}"]`).click()
  await page.getByText('completed').first().waitFor()
  await page.locator('video').waitFor()
  t.is(new URL(page.url()).pathname.split('/').at(-1), id)
})

test.serial('a batch shows its progress, and what failed', async t => {
  const requests = Array.from({ length: 30 }, (_, i) =>
    chatLine(`line-${i}`, 'auto', i === 7 ? 'sandbox:fail' : `Line ${i}`),
  )
  const body = { endpoint: '/v1/chat/completions', completion_window: '24h', requests }
  const created = await world.gateway.fetch('/v1/batches', { key: secret, body })
  const { id } = (await created.json()) as { id: string }
  await goTo('Batches')
  await page.locator(`a[href$="/batches/${id}"]`).click()
  await page.getByRole('progressbar', { name: 'Progress of the batch' }).first().waitFor({ state: 'attached' })
  await page.getByText('completed', { exact: true }).first().waitFor()
  await page.getByText('line-7').waitFor()
  const { bytes } = await download(page, () => page.getByRole('link', { name: 'Download the output file' }).click())
  t.is(bytes.toString().trim().split('\n').length, 29)
})

test.serial('a webhook is sent again by hand, under the same id', async t => {
  // The queue itself does not send it again meanwhile.
  receiver.once(status(503, { 'retry-after': '36000' }))
  const body = { prompt: 'A boat passes', webhook_url: receiver.url }
  t.is((await world.gateway.fetch('/v1/videos', { key: secret, body })).status, 202)
  await eventually(() => receiver.received.length === 1, 'the first delivery is refused')
  await goTo('Webhooks')
  await page.getByRole('button', { name: 'job.completed' }).first().click()
  const drawer = page.getByRole('dialog', { name: 'job.completed' })
  await drawer.getByRole('button', { name: 'Send now' }).click()
  await drawer.getByText('delivered').first().waitFor()
  t.is(receiver.received.length, 2)
  t.is(receiver.received[0]!.headers['webhook-id'], receiver.received[1]!.headers['webhook-id'])
})

test.serial('nothing broke on the way, and the books are right', async t => {
  t.deepEqual(problems, [])
  t.deepEqual(await world.gateway.settled(), [])
})
