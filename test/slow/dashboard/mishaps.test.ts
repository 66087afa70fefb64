// Faults while the dashboard is used, in a real browser: clicks twice, leaves too early, loses the session, is
// overtaken by a colleague, has no https.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { BrowserContextOptions, Locator, Page } from 'playwright-core'
import { operatorActor } from '../../../shared/io/audit.ts'
import { hashSecret } from '../../../shared/keys/secret.ts'
import { password, type SignedUp, signUp } from '../../support/dashboard/dashboard.ts'
import { eventually } from '../../support/gateway.ts'
import { newPage, startBrowser } from '../../support/io/chromium.ts'
import { type ExecutionContext, test } from '../../support/test.ts'
import { use, useGateway } from '../../support/use.ts'
import { startWorkers } from '../../support/workers.ts'

const run = promisify(execFile)

const gateway = useGateway(test, { MAX_TEST_KEYS: '0' })
use(test, () => startWorkers(gateway.services))
const owner = use(test, () => signUp(gateway))
test.before(async () => {
  await gateway.services.db.user.update({ where: { id: owner.userId }, data: { operator: true } })
})
const browser = use(test, startBrowser)

/** A page of the dashboard in a browser of its own; `clocked`: its time is moved on by `page.clock`. */
async function open(
  t: ExecutionContext,
  path: string,
  { who = owner, clocked = false, ...options }: { who?: SignedUp; clocked?: boolean } & BrowserContextOptions = {},
): Promise<Page> {
  const page = await newPage(browser, gateway.url, { visitor: who.visitor, t, ...options })
  if (clocked) await page.clock.install()
  await page.goto(`${gateway.url}/dashboard${path}`)
  return page
}

const ofOrganisation = (path: string) => `/${owner.organisationId}/${path}`
const goTo = (page: Page, name: string) =>
  page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name, exact: true }).click()
const shownSecret = async (page: Page) => (await page.getByRole('region', { name: 'Secret' }).innerText()).trim()
const keyNamed = (name: string) => gateway.services.db.apiKey.findFirst({ where: { name } })

/** Presses a button in a form that creates a key under a name. */
async function createKey(page: Page, name: string): Promise<void> {
  const form = page.getByRole('dialog')
  await form.getByLabel('Name', { exact: true }).fill(name)
  await form.getByLabel('Test').check()
  await form.getByRole('button', { name: 'Create key' }).click()
}

test.serial('a double click on a busy page adds credits once', async t => {
  const page = await open(t, `/operator/organisations/${owner.organisationId}`)
  await page.getByRole('button', { name: 'Add credits' }).click()
  const form = page.getByRole('dialog')
  await form.getByLabel('Amount in USD').fill('5')
  const button = (await form.getByRole('button', { name: 'Add credits' }).boundingBox())!
  const at = { x: button.x + 20, y: button.y + 10, button: 'left' as const }
  const devtools = await page.context().newCDPSession(page)
  // Both clicks wait while the page computes, and are handled one right after the other.
  const busy = page.evaluate('for (const end = performance.now() + 500; performance.now() < end; );')
  const clicks = [1, 2].flatMap(clickCount =>
    (['mousePressed', 'mouseReleased'] as const).map(type =>
      devtools.send('Input.dispatchMouseEvent', { type, ...at, clickCount }),
    ),
  )
  await Promise.all([busy, ...clicks])
  await page.getByText('Credits added').waitFor()
  const { organisationId } = owner
  t.is(await gateway.services.db.ledgerEntry.count({ where: { organisationId, kind: 'deposit' } }), 1)
  t.deepEqual(await gateway.settled(), [])
})

test.serial(
  'a new secret is shown though its form was closed, stays while the gateway is away, and is nowhere afterwards',
  async t => {
    const page = await open(t, ofOrganisation('keys?key=new'), { clocked: true })
    const answer = Promise.withResolvers<void>()
    await page.route('**/keys', async route => {
      if (route.request().method() === 'POST') await answer.promise
      await route.continue()
    })
    const asked = page.waitForRequest(request => request.method() === 'POST')
    await createKey(page, 'Early')
    await asked
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    answer.resolve()
    const secret = await shownSecret(page)
    t.is((await keyNamed('Early'))!.hash, hashSecret(secret))

    let looks = 0
    await page.route('**/dashboard/api/me', route => {
      looks++
      return route.fulfill({ status: 503, json: { error: { code: 'unavailable', message: 'Away.', param: null } } })
    })
    await page.clock.runFor(11_000)
    await page.evaluate("window.dispatchEvent(new Event('visibilitychange'))")
    await eventually(async () => {
      await page.clock.runFor(1_000)
      return looks >= 3
    }, 'the page gave up to look who is signed in')
    await page.clock.runFor(1_000)
    t.is(await shownSecret(page), secret)

    await page.getByRole('button', { name: 'I have copied it' }).click()
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await page.clock.runFor(1_000)
    const kept = await page.evaluate(
      'location.href + JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.documentElement.outerHTML])',
    )
    t.false(String(kept).includes(secret))
    // What a page was rendered with last may be held until it is left.
    await goTo(page, 'Members')
    await page.clock.runFor(1_000)
    await eventually(async () => !(await heapOf(page)).includes(secret), 'nothing holds the secret')
    t.true((await heapOf(page)).includes('/dashboard/api/me'))
  },
)

/** The memory of a page, with every string that is held. */
async function heapOf(page: Page): Promise<string> {
  const devtools = await page.context().newCDPSession(page)
  const chunks: string[] = []
  devtools.on('HeapProfiler.addHeapSnapshotChunk', ({ chunk }) => chunks.push(chunk))
  await devtools.send('HeapProfiler.collectGarbage')
  await devtools.send('HeapProfiler.takeHeapSnapshot', { reportProgress: false })
  await devtools.detach()
  return chunks.join('')
}

/** What the browser finds wrong with a field. */
function validity(field: Locator): Promise<{ patternMismatch: boolean; rangeOverflow: boolean }> {
  return field.evaluate(element => {
    const { patternMismatch, rangeOverflow } = (
      element as unknown as { validity: Awaited<ReturnType<typeof validity>> }
    ).validity
    return { patternMismatch, rangeOverflow }
  })
}

test.serial('a key’s form sends no number and no date that is none', async t => {
  const page = await open(t, ofOrganisation('keys?key=new'))
  const form = page.getByRole('dialog')
  const cap = form.getByLabel('Monthly spend cap (USD)')
  await form.getByLabel('Name', { exact: true }).fill('Dotted')
  await form.getByLabel('Test').check()
  await cap.pressSequentially('.')
  await cap.press('Enter')
  t.true((await validity(cap)).patternMismatch)
  await cap.fill('0.5')
  const more = form.getByRole('button', { name: 'More limits' })
  await more.click()
  await form.getByLabel('Expires').fill('20261-05-01T10:00')
  t.true((await validity(form.getByLabel('Expires'))).rangeOverflow)
  // What is invalid is shown, although it was hidden.
  await more.click()
  await form.getByLabel('Expires').waitFor({ state: 'hidden' })
  await form.getByRole('button', { name: 'Create key' }).click()
  await form.getByLabel('Expires').waitFor()
  await form.getByRole('button', { name: 'Never' }).click()
  t.is(await keyNamed('Dotted'), null)
  await form.getByRole('button', { name: 'Create key' }).click()
  await shownSecret(page)
  t.is((await keyNamed('Dotted'))!.monthlySpendCapNano, 500_000_000n)
})

test.serial('saving a key takes back nothing that a colleague changed meanwhile', async t => {
  const hash = hashSecret(await gateway.key(owner.organisationId, 'test', { name: 'Shared' }))
  const page = await open(t, ofOrganisation(`keys?key=${hash}`), { clocked: true })
  await page.getByRole('dialog').getByLabel('Name', { exact: true }).fill('Shared by two')
  await gateway.services.keys.patch(owner.organisationId, hash, { rpm_limit: 77 }, operatorActor)
  const looked = page.waitForResponse(response => response.url().endsWith(`/keys/${hash}`))
  await page.clock.runFor(16_000)
  await looked
  await page.getByRole('button', { name: 'Save changes' }).click()
  await page.getByText('API key saved').waitFor()
  t.like(await gateway.services.db.apiKey.findUnique({ where: { hash } }), { name: 'Shared by two', rpmLimit: 77 })
})

test.serial('a session that has ended leads to the sign-in and back, on the pages of the accounts too', async t => {
  const who = await signUp(gateway)
  const path = `/${who.organisationId}/members`
  // A page that does not refresh by itself: the click is the first call after the end of the session.
  const page = await open(t, `/${who.organisationId}/models`, { who })
  await page.getByRole('heading', { name: 'Models', exact: true }).waitFor()
  await gateway.services.db.session.deleteMany({ where: { userId: who.userId } })
  await goTo(page, 'Members')
  await page.getByRole('heading', { name: 'Sign in' }).waitFor()
  await page.getByLabel('Email').fill(who.visitor.email)
  await page.locator('input[type=password]').fill(password)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByText(`${who.visitor.email}`).first().waitFor()
  t.is(new URL(page.url()).pathname, `/dashboard${path}`)
})

test.serial('one organisation’s data is not on another’s page, and nothing of it after signing out', async t => {
  const who = await signUp(gateway, { name: 'Twice' })
  const second = await who.visitor.json<{ id: string }>('/dashboard/api/auth/organization/create', {
    body: { name: 'The second', slug: 'the-second' },
  })
  await gateway.key(who.organisationId, 'test', { name: 'Only in the first' })
  const page = await open(t, `/${who.organisationId}/keys`, { who })
  await page.getByRole('link', { name: 'Only in the first' }).waitFor()
  await page.route(`**/organisations/${second.id}/keys*`, () => {}) // Its own keys never come.
  await page.getByLabel('Organisation').first().click()
  await page.getByRole('option', { name: 'The second' }).click()
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  await goTo(page, 'API keys')
  await page.locator('[aria-busy="true"]').first().waitFor()
  t.false((await page.content()).includes('Only in the first'))
  await page.getByRole('button', { name: 'Account of Twice' }).click()
  await page.getByRole('menuitem', { name: 'Sign out' }).click()
  await page.getByRole('heading', { name: 'Sign in' }).waitFor()
  await page.goBack()
  await page.getByRole('heading', { name: 'Sign in' }).waitFor()
  t.false((await page.content()).includes('The second'))
})

test.serial('the focus goes back to what opened a dialog', async t => {
  await gateway.key(owner.organisationId, 'test', { name: 'Opened' })
  const page = await open(t, ofOrganisation('keys'))
  await page.getByRole('link', { name: 'Opened' }).click()
  await page.getByRole('button', { name: 'Edit' }).press('Enter')
  const dialog = page.getByRole('dialog', { name: 'Opened' })
  const revoke = dialog.getByRole('button', { name: 'Revoke' })
  await revoke.press('Enter')
  const focused = () => page.evaluate('document.activeElement.textContent')
  // The button that changes nothing is the one at hand.
  await page.getByRole('dialog', { name: /^Revoke/ }).waitFor()
  await eventually(async () => (await focused()) === 'Cancel', 'Cancel has the focus')
  await page.keyboard.press('Enter')
  await eventually(async () => (await focused()) === 'Revoke', 'the button of the drawer has it back')
  await page.keyboard.press('Escape')
  await eventually(async () => (await focused()) === 'Edit', 'the button of the page has it back')
  t.is(await page.getByRole('dialog').count(), 0)
})

test.serial(
  'what a page filters by follows its address, without secrets; keys are searched beyond the first hundred',
  async t => {
    const who = await signUp(gateway)
    for (let i = 0; i <= 100; i++)
      await gateway.key(who.organisationId, 'test', { name: i === 0 ? 'The oldest' : `${i}` })
    const page = await open(t, `/${who.organisationId}/keys`, { who })
    const search = page.getByLabel('Search keys')
    await search.fill(`svc_sk_test_${'0'.repeat(40)}`)
    await page.getByText('No API keys found').waitFor()
    t.is(new URL(page.url()).search, '?search=svc_sk_test_0000')
    await goTo(page, 'API keys')
    await page.getByRole('row').nth(1).waitFor()
    t.is(await search.inputValue(), '')

    await goTo(page, 'Jobs')
    const key = page.getByLabel('Key').first()
    await key.click()
    await key.pressSequentially('the oldest')
    await page.getByRole('option', { name: /^The oldest/ }).click()
    await page.getByText('No jobs found').waitFor()
    await page.reload()
    await page.getByText('No jobs found').waitFor()
    await eventually(async () => (await key.inputValue()).startsWith('The oldest'), 'the key is named')
    t.pass()
  },
)

test.serial('on a page of http, and with the network away, organisations are made and secrets are copied', async t => {
  const page = await open(t, '/welcome?new')
  // What browsers keep from pages that are neither of https nor of localhost.
  await page.evaluate(
    "delete Crypto.prototype.randomUUID, Object.defineProperty(Navigator.prototype, 'clipboard', { get: () => undefined })",
  )
  await page.evaluate("window.dispatchEvent(new Event('offline'))")
  await page.getByLabel('Organisation name').fill('At home')
  await page.getByRole('button', { name: 'Create organisation' }).click()
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  await goTo(page, 'API keys')
  await page.getByRole('button', { name: 'Create key' }).click()
  await createKey(page, 'By hand')
  const secret = await shownSecret(page)
  await page.getByRole('button', { name: 'Copy Secret' }).click()
  await page.getByRole('button', { name: 'Secret copied' }).waitFor()
  await page.getByRole('button', { name: 'I have copied it' }).click()
  await page.getByLabel('Search keys').press('Control+V')
  t.is(await page.getByLabel('Search keys').inputValue(), secret)
})

test.serial('resumed: a chat that was left in the middle of an answer', async t => {
  await gateway.key(owner.organisationId, 'test')
  const page = await open(t, ofOrganisation('playground/chat'))
  await page.getByRole('textbox', { name: 'Message' }).fill('sandbox:slow=60000 Hello')
  const asked = page.waitForRequest('**/v1/chat/completions')
  await page.getByRole('button', { name: 'Send' }).click()
  const request = await asked
  const broken = page.waitForEvent('requestfailed', failed => failed === request)
  await page.getByRole('tab', { name: 'Image' }).click()
  await broken
  await page.getByRole('tab', { name: 'Chat' }).click()
  await page.getByText('Stopped').first().waitFor({ state: 'attached' })
  await page.getByRole('textbox', { name: 'Message' }).fill('Once more')
  await page.getByRole('button', { name: 'Send' }).click()
  await page.getByText('Completed').first().waitFor({ state: 'attached' })
  t.pass()
})

test.serial('an image that is paid for is there when its tab is visited again', async t => {
  await gateway.key(owner.organisationId, 'test')
  const page = await open(t, ofOrganisation('playground/image'))
  const drawn = Promise.withResolvers<void>()
  await page.route('**/v1/images', async route => {
    const response = await route.fetch()
    await drawn.promise
    await route.fulfill({ response })
  })
  await page.getByLabel(/^Prompt/).fill('A lock gate')
  const asked = page.waitForRequest('**/v1/images')
  await page.getByRole('button', { name: 'Generate' }).click()
  await asked
  await page.getByRole('tab', { name: 'Speech' }).click()
  await page.getByRole('button', { name: 'Generate speech' }).waitFor()
  const answered = page.waitForResponse('**/v1/images')
  drawn.resolve()
  await answered
  await page.getByRole('tab', { name: 'Image' }).click()
  await page.getByRole('img', { name: 'A lock gate' }).waitFor()
  t.pass()
})

test.serial('a session that is left ends, with the microphone that is allowed too late; muted stays muted', async t => {
  await gateway.key(owner.organisationId, 'test')
  const page = await open(t, ofOrganisation('playground/realtime'))
  await page.evaluate(`
    const waiting = []
    window.tracks = []
    navigator.mediaDevices.getUserMedia = () => new Promise(resolve => waiting.push(resolve))
    window.allow = () => {
      const { stream } = new AudioContext().createMediaStreamDestination()
      window.tracks.push(...stream.getTracks())
      waiting.shift()(stream)
    }`)
  const sockets: string[] = []
  page.on('websocket', socket => sockets.push(socket.url()))
  const given = Promise.withResolvers<void>()
  await page.route('**/playground-secret', async route => {
    await given.promise
    await route.continue()
  })
  const start = page.getByRole('button', { name: 'Start session' })
  const end = page.getByRole('button', { name: 'End session' })
  await start.click()
  await page.getByRole('tab', { name: 'Speech' }).click()
  await page.getByRole('button', { name: 'Generate speech' }).waitFor()
  const answered = page.waitForResponse('**/playground-secret')
  given.resolve()
  await answered
  await page.getByRole('tab', { name: 'Realtime' }).click()
  t.deepEqual(sockets, [])

  await start.click()
  await end.click()
  await page.getByText(/^Closed with 1000/).waitFor()
  await page.evaluate('allow()')
  await eventually(() => page.evaluate("tracks.every(track => track.readyState === 'ended')"), 'the microphone is off')

  await start.click()
  await page.getByRole('button', { name: 'Mute' }).click()
  await end.click()
  await start.click()
  await page.getByRole('button', { name: 'Unmute' }).waitFor()
  await page.evaluate('allow(), allow()')
  await eventually(() => page.evaluate("tracks.at(-1).readyState === 'live'"), 'the microphone is on')
  await page.waitForTimeout(500)
  t.truthy(await page.getByText(/^0 audio events sent/).count())
})

test.serial('a job of a key with few requests per minute is followed to its end', async t => {
  await gateway.key(owner.organisationId, 'test', { name: 'Slow', rpm_limit: 1 })
  const page = await open(t, ofOrganisation('playground/video'), { clocked: true })
  await page.getByLabel('API key').first().click()
  await page.getByRole('option', { name: /^Slow/ }).click()
  await page.getByLabel(/^Prompt/).fill('sandbox:slow=5000 A lock gate opens')
  await page.getByRole('button', { name: 'Generate' }).click()
  await eventually(async () => {
    await page.clock.runFor(2_000)
    return (await page.locator('video').count()) === 1
  }, 'the video is there')
  t.is(await page.getByRole('alert').count(), 0)
})

/** The words that a command of the page hands to curl. */
async function wordsOf(page: Page): Promise<string[]> {
  const command = await page.getByRole('region', { name: 'curl example', exact: true }).innerText()
  const script = `curl() { printf '%s\\0' "$@"; }\n${command}`
  const { stdout } = await run('sh', ['-c', script], { env: { HEADGATE_API_KEY: 'key' } })
  return stdout.split('\0').slice(0, -1)
}

test.serial('the commands beside the playground say what the page sends, whatever is written', async t => {
  await gateway.key(owner.organisationId, 'test')
  const text = `It's "$HOME" \`id\` \\ <b>\n; rm -rf / #`
  const page = await open(t, ofOrganisation('playground/chat'))
  await page.getByRole('textbox', { name: 'Message' }).fill(text)
  const chat = await wordsOf(page)
  t.is(JSON.parse(chat[chat.indexOf('-d') + 1]!).messages[0].content, text)

  await page.getByRole('tab', { name: 'Transcription' }).click()
  await page.getByRole('button', { name: 'Record' }).waitFor()
  const file = { name: 'a, b; "c".mp3', mimeType: 'audio/mpeg', buffer: Buffer.from('x') }
  await page.locator('input[type=file]').setInputFiles(file)
  await page.getByLabel(/^Prompt/).fill('<secret.txt;type=text/html')
  const words = await wordsOf(page)
  t.is(words[words.indexOf('-F') + 1], 'file=@"a, b; \\"c\\".mp3"')
  t.is(words[words.lastIndexOf('--form-string') + 1], 'prompt=<secret.txt;type=text/html')

  await page.getByRole('tab', { name: 'Realtime' }).click()
  await page.getByLabel('Instructions').fill(text)
  const lines = (await page.getByRole('region', { name: 'Shell example', exact: true }).innerText()).split('\n')
  t.is(JSON.parse(lines.find(line => line.startsWith('{'))!).session.instructions, text)
})

test.serial('names of one long word widen no page of a phone', async t => {
  const who = await signUp(gateway, { name: 'W'.repeat(80) })
  const { db } = gateway.services
  const { organisationId, userId } = who
  await db.user.update({ where: { id: userId }, data: { operator: true, email: `${'e'.repeat(60)}@example.com` } })
  await db.organisation.update({ where: { id: organisationId }, data: { name: 'O'.repeat(100) } })
  const hash = hashSecret(await gateway.key(organisationId, 'test', { name: 'K'.repeat(200) }))
  const page = await open(t, '/account', { who, viewport: { width: 360, height: 740 } })
  const places = ['overview', 'keys', 'members', 'billing', 'audit'].map(path => `/${organisationId}/${path}`)
  for (const path of ['/account', '/welcome?new', `/operator/organisations/${organisationId}`, ...places]) {
    await page.goto(`${gateway.url}/dashboard${path}`)
    await page.getByRole('heading', { level: 1 }).waitFor()
    await page.locator('[aria-busy="true"]').first().waitFor({ state: 'detached' })
    t.is(await page.evaluate('document.documentElement.scrollWidth'), 360, path)
  }
  await page.goto(`${gateway.url}/dashboard/${organisationId}/keys?key=${hash}`)
  const close = (await page.getByRole('dialog').getByRole('button', { name: 'Close' }).boundingBox())!
  t.true(close.x + close.width <= 360)
})

test.serial('keys are changed together; what fails is named, stays selected, and can be tried again', async t => {
  const names = ['Bulk one', 'Bulk two', 'Bulk three']
  for (const name of names) await gateway.key(owner.organisationId, 'live', { name })
  const page = await open(t, ofOrganisation('keys?search=bulk'))
  const select = page.getByLabel('Select all')
  await select.check()
  const actions = page.getByRole('group', { name: 'Selected keys' })
  await actions.getByRole('button', { name: 'Set cap' }).click()
  const capping = page.getByRole('dialog', { name: 'Set cap of 3 keys' })
  // Nothing is entered yet: pressing Enter twice does not take the caps away.
  await capping.getByRole('button', { name: 'Remove cap of 3 keys' }).waitFor()
  const focused = () => page.evaluate<string>('document.activeElement.labels?.[0]?.innerText ?? ""')
  await eventually(async () => (await focused()).startsWith('Monthly spend cap'), 'the focus is on the cap')
  await capping.getByLabel('Monthly spend cap (USD)').fill('0')
  await capping.getByText('3 keys spent $0.00 or more').waitFor()
  await capping.getByRole('button', { name: 'Set cap of 3 keys' }).click()
  await page.getByText('3 keys capped').waitFor()
  t.is((await keyNamed('Bulk two'))!.monthlySpendCapNano, 0n)
  // One of them is refused once.
  const { id } = (await keyNamed('Bulk two'))!
  const error = { message: 'Try again later.', code: 'service_unavailable', param: null }
  await page.route(`**/keys/${id}`, route => route.fulfill({ status: 503, json: { error } }), { times: 1 })
  await page.getByLabel('Select all').check()
  await actions.getByRole('button', { name: 'Disable' }).click()
  await page.getByRole('button', { name: 'Disable 3 keys' }).click()
  const failed = page.getByRole('dialog', { name: '1 key not disabled' })
  await failed.getByText('Bulk two: Try again later.').waitFor()
  await failed.getByText('Close', { exact: true }).click()
  await page.getByLabel('1 key selected').waitFor()
  await actions.getByRole('button', { name: 'Disable' }).click()
  await page.getByRole('button', { name: 'Disable 1 key' }).click()
  await page.getByText('1 key disabled').waitFor()
  for (const name of names) t.true((await keyNamed(name))!.disabled, name)
})
