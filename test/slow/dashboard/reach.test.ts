// The dashboard by keyboard, on a phone, over a bad connection: where the focus is, how long lists are, what moves, what is asked for.
import pg from 'pg'
import type { Browser, Page } from 'playwright-core'
import { fillMonth } from '../../../bench/lib/month.ts'
import { password, type SignedUp, signUp } from '../../support/dashboard/dashboard.ts'
import { eventually } from '../../support/gateway.ts'
import { findBarriers, rulesOfColors } from '../../support/io/barriers.ts'
import { newPage, showInColors, startBrowser } from '../../support/io/chromium.ts'
import { type ExecutionContext, test } from '../../support/test.ts'
import { use, useGateway, useStores } from '../../support/use.ts'

const requests = 4_000
const phone = { width: 390, height: 844 }
const desktop = { width: 1440, height: 900 }
const maxShift = 0.05
/** Two lines each, with room for a third where a name is long. */
const maxRowPx = 90
/** With a line of buttons. */
const maxRowWithButtonsPx = 150
const maxScripts = 50

const stores = useStores(test)
const gateway = useGateway(
  test,
  { DEV_OUTBOX: 'true', OPENAI_API_KEY: 'sk-test', OPENAI_BASE_URL: 'http://127.0.0.1:9/v1' },
  { stores },
)
const owner = use(test, () => signUp(gateway))
test.before(async () => {
  await gateway.services.db.user.update({ where: { id: owner.userId }, data: { operator: true } })
  const db = new pg.Client({ connectionString: stores.databaseUrl })
  await db.connect()
  const filled = fillMonth(db, owner.organisationId, owner.userId, requests, Date.now(), { lastMoment: 100 })
  await filled.finally(() => db.end())
})
const browser = use(test, startBrowser)

type Options = Parameters<Browser['newContext']>[0] & {
  who?: SignedUp | null
  before?: (page: Page) => Promise<unknown>
}

/** A page in a window of its own, signed in. */
async function open(
  t: ExecutionContext,
  path: string,
  { who = owner, before, ...options }: Options = {},
): Promise<Page> {
  const page = await newPage(browser, gateway.url, { visitor: who?.visitor, t, viewport: desktop, ...options })
  await before?.(page)
  await page.goto(`${gateway.url}/dashboard${path.replace('~', `/${owner.organisationId}`)}`)
  return page
}

async function settled(page: Page): Promise<void> {
  await page.getByRole('heading', { level: 1 }).first().waitFor()
  await page.locator('[aria-busy="true"], .mantine-Skeleton-root').first().waitFor({ state: 'detached' })
}

const main = (page: Page) => page.getByRole('main')
const table = (page: Page, name: string) => page.getByRole('table', { name, exact: true })
const navigation = (page: Page, name: string) =>
  page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name, exact: true })
/** The name of what has the focus: its label, or its text. */
const focused = (page: Page) =>
  page.evaluate<string>(
    `(({ activeElement: e }) => e === document.body ? 'nothing' : (e.getAttribute('aria-label') ?? e.labels?.[0]?.textContent ?? e.textContent))(document)`,
  )
const focusOn = (page: Page, name: string | RegExp) =>
  eventually(async () => {
    const now = await focused(page)
    return typeof name === 'string' ? now === name : name.test(now)
  }, `the focus is on ${name}`)

test.serial('a page that is opened is announced and has the focus on its heading; Back, its row has it', async t => {
  const page = await open(t, '~/overview')
  await settled(page)
  await navigation(page, 'Requests').focus()
  await page.keyboard.press('Enter')
  await focusOn(page, 'Requests')
  const announced = page.locator('body [aria-live="polite"].visually-hidden').first()
  await announced.getByText('Requests · Headgate').waitFor({ state: 'attached' })

  const links = table(page, 'Requests').getByRole('rowheader').getByRole('link')
  const third = links.nth(2)
  const name = (await third.getAttribute('aria-label'))!
  await third.focus()
  await page.keyboard.press('Enter')
  await focusOn(page, /request$/)
  t.regex(await page.title(), /request/)
  t.is(await page.evaluate('scrollY'), 0)
  await page.goBack()
  await focusOn(page, name)

  await navigation(page, 'Billing').focus()
  await page.keyboard.press('Enter')
  await focusOn(page, 'Billing')
  await announced.getByText('Billing · Headgate').waitFor({ state: 'attached' })
})

test.serial('tabs of a page keep the focus', async t => {
  const page = await open(t, '~/playground/image')
  await settled(page)
  await page.getByRole('tab', { name: 'Image' }).focus()
  await page.keyboard.press('ArrowRight')
  await page.keyboard.press('Enter')
  await page.waitForURL(/playground\/(?!image)/)
  await eventually(async () => (await page.evaluate('document.activeElement.role')) === 'tab', 'a tab has the focus')
  t.pass()
})

test.serial('a request is shown beside the list by keyboard, and the focus returns to its row', async t => {
  const page = await open(t, '~/requests')
  const row = table(page, 'Requests').getByRole('row').nth(1)
  await row.getByRole('link').first().focus()
  await page.keyboard.press('Tab')
  const button = await focused(page)
  t.regex(button, /beside the list$/)
  await page.keyboard.press('Enter')
  await page.getByRole('dialog').waitFor()
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await focusOn(page, button)
})

test.serial('a key’s form begins at its name; the button that shows a password is reached by Tab', async t => {
  const page = await open(t, '~/keys')
  await settled(page)
  await page.getByRole('button', { name: 'Create key' }).first().focus()
  await page.keyboard.press('Enter')
  await focusOn(page, 'Name')

  const signIn = await open(t, '/sign-in', { who: null })
  await signIn.getByRole('textbox', { name: 'Password' }).focus()
  await signIn.keyboard.type('hidden')
  await signIn.keyboard.press('Tab')
  t.is(await focused(signIn), 'Show password')
  await signIn.keyboard.press('Enter')
  t.is(await signIn.getByRole('textbox', { name: 'Password' }).getAttribute('type'), 'text')
})

test.serial('the set-up of a second factor keeps the focus at each step', async t => {
  const who = await signUp(gateway)
  const page = await open(t, '/account', { who })
  await settled(page)
  const start = page.getByRole('button', { name: 'Set up an authenticator app' })
  await start.focus()
  await page.keyboard.press('Enter')
  await focusOn(page, /^Your password/)
  await page.keyboard.type(password)
  await page.keyboard.press('Enter')
  await focusOn(page, /^Code from your authenticator app/)
  await page.getByRole('button', { name: 'Cancel' }).focus()
  await page.keyboard.press('Enter')
  await focusOn(page, 'Set up an authenticator app')
  t.pass()
})

test.serial('on a phone, lists have two lines for a row and filters are behind a button with their number', async t => {
  const page = await open(t, '~/requests?status=ok', { viewport: phone })
  await settled(page)
  await table(page, 'Requests').getByRole('rowheader').nth(49).waitFor()
  const heightOf = async (name: string, rows: number, rowPx = maxRowPx) => {
    const { height } = (await table(page, name).boundingBox())!
    t.log(name, rows, height)
    t.true(height < rows * rowPx, `${name}: ${height} px for ${rows} rows`)
  }
  await heightOf('Requests', 50)
  const filters = page.getByRole('button', { name: 'Filters (1)' })
  t.is(await filters.getAttribute('aria-expanded'), 'false')
  t.false(await page.getByLabel('Environment', { exact: true }).first().isVisible())
  const top = (await table(page, 'Requests').boundingBox())!.y
  t.true(top < phone.height, `the list begins at ${top} px`)
  await filters.click()
  await page.getByLabel('Environment', { exact: true }).first().waitFor()

  for (const [path, name, rowPx] of [
    ['~/keys', 'API keys', 120],
    ['~/members', 'Members', maxRowWithButtonsPx],
    ['/operator/providers', 'Providers', maxRowWithButtonsPx],
    ['/operator/models', 'Models', maxRowWithButtonsPx],
    ['/operator/organisations', 'Organisations', maxRowPx],
    ['/operator/people', 'Users', maxRowWithButtonsPx],
    ['/operator/queues', 'Queues', maxRowWithButtonsPx],
    ['~/billing', 'Ledger'],
    ['~/usage', 'Usage by group'],
    ['~/jobs', 'Jobs'],
    ['~/webhooks', 'Deliveries'],
    ['~/audit', 'Audit log'],
  ] as const) {
    await page.goto(`${gateway.url}/dashboard${path.replace('~', `/${owner.organisationId}`)}`)
    await settled(page)
    const list = table(page, name)
    if (!(await list.isVisible())) await page.getByRole('tab', { name, exact: true }).click()
    await list.getByRole('rowheader').first().waitFor()
    await heightOf(name, await list.getByRole('rowheader').count(), rowPx)
    t.deepEqual(await page.evaluate(textsThatTouch), [], name)
  }

  await page.goto(`${gateway.url}/dashboard/${owner.organisationId}/models`)
  await settled(page)
  await table(page, 'Models').getByRole('rowheader', { name: 'openai', exact: true }).waitFor()
  const height = await page.evaluate<number>('document.documentElement.scrollHeight')
  t.log('models', height)
  t.true(height < 6_000, `the page of models: ${height} px`)
  await page.getByRole('button', { name: 'Show more' }).click()
  await eventually(
    async () => (await page.evaluate<number>('document.documentElement.scrollHeight')) > height,
    'more models are shown',
  )
})

/** Texts of a card that follow each other in a line without a gap, as if they were one word. */
const textsThatTouch = `[...document.querySelectorAll('[data-card="line"] .mantine-Text-root + .mantine-Text-root')]
  .filter(text => {
    const [before, after] = [text.previousElementSibling, text].map(one => one.getBoundingClientRect())
    return after.width > 0 && Math.abs(after.top - before.top) < 4 && after.left - before.right < 3
  })
  .map(text => text.previousElementSibling.textContent + text.textContent)`

const places = [
  ...[
    'overview',
    'requests',
    'requests?status=error',
    'usage',
    'keys',
    'models',
    'jobs',
    'batches',
    'webhooks',
    'alerts',
  ],
  ...['billing', 'members', 'audit', 'settings', 'playground', 'presets', 'log-exports'],
].map(path => `~/${path}`)
const others = [
  ...['/account', '/operator', '/operator/models', '/operator/organisations'],
  ...['/operator/providers', '/operator/providers/openai'],
]

for (const [name, viewport] of [
  ['desktop', desktop],
  ['phone', phone],
] as const)
  test.serial(`nothing moves while a page is loaded: ${name}`, async t => {
    t.timeout(300_000)
    const moved: string[] = []
    for (const path of [...places, ...others]) {
      const page = await open(t, path, {
        viewport,
        before: page =>
          page.addInitScript(`
            globalThis.shifts = []
            new PerformanceObserver(list => {
              for (const { value, hadRecentInput, sources } of list.getEntries())
                if (!hadRecentInput) shifts.push({ value, of: sources.map(({ node }) => node?.className || node?.nodeName).join(' | ') })
            }).observe({ type: 'layout-shift', buffered: true })`),
      })
      await settled(page)
      await page.waitForLoadState('networkidle')
      await page.evaluate('new Promise(resolve => requestAnimationFrame(() => requestAnimationFrame(resolve)))')
      const shifts = await page.evaluate<{ value: number; of: string }[]>('shifts')
      const sum = shifts.reduce((sum, { value }) => sum + value, 0)
      t.log(path, sum.toFixed(3))
      if (sum > maxShift) moved.push(`${path}: ${sum.toFixed(3)} ${shifts.map(({ of }) => of).join('; ')}`)
      await page.context().close()
    }
    t.deepEqual(moved, [])
  })

test.serial('pages with an outage, many requests and open parts have no barrier, light or dark', async t => {
  t.timeout(240_000)
  for (const viewport of [desktop, phone])
    for (const path of [
      '~/overview',
      '~/requests',
      '~/usage',
      '~/billing',
      '~/models',
      '/operator',
      '/operator/people',
      '/sign-in',
    ]) {
      const page = await open(t, path, { viewport, colorScheme: 'light', ...(path === '/sign-in' && { who: null }) })
      await settled(page)
      const filters = page.getByRole('button', { name: /^Filters/ })
      if (await filters.isVisible()) await filters.click()
      // Each is called otherwise once it is pressed.
      const closed = page.getByRole('button', { name: /^Show as table/ })
      for (let left = await closed.count(); left > 0; left--) await closed.first().click()
      t.deepEqual(await findBarriers(page), [], path)
      await showInColors(page, 'dark')
      t.deepEqual(await findBarriers(page, { rules: rulesOfColors }), [], `${path}, dark`)
      await page.context().close()
    }
})

test.serial('the values of a chart are shown as a table', async t => {
  const page = await open(t, '~/usage?span=30d')
  await settled(page)
  const chart = main(page).getByRole('img', { name: /^Cost over time/ })
  const name = (await chart.getAttribute('aria-label'))!
  await page.getByRole('button', { name: `Show as table ${name}` }).click()
  const values = page.getByRole('table', { name })
  t.true((await values.getByRole('row').count()) > 20)
  t.regex(await values.getByRole('row').nth(1).innerText(), /UTC.*\$/s)
})

/** What pages ask for only once the person or earlier data is known: a third trip, for what is not there for everybody. */
const later: readonly [path: RegExp, reads: RegExp][] = [
  [/\?/, /./],
  [/\/requests$/, /\/request-count\?/],
  [/\/usage$/, /\/keys\?limit=100&include_revoked=true$/],
  [/\/settings$/, /\/(responses|provider-keys|content-settings)$/],
  [/\/members$/, /\/list-invitations\?/],
  [/\/keys\/\w+$/, /\/(activity|usage)\?/],
  [/\/operator\/.*\/billing$/, /\/api\/settings$/],
]

test.serial(
  'two trips bring a page its scripts and its data: the document names all of both, and each is asked for once',
  async t => {
    t.timeout(300_000)
    const { db } = gateway.services
    // A fifth of the requests are of other organisations.
    const { id: generation } = await db.generation.findFirstOrThrow({
      where: { organisationId: owner.organisationId, status: 200 },
      select: { id: true },
    })
    const viewed = ['', '/requests', '/usage', '/keys', '/billing', '/audit'].map(
      path => `/operator/organisations~${path}`,
    )
    const items = [`~/requests/${generation}`, '~/keys/key_month0', '~/models/gpt-5-mini', '~/playground/image']
    const areas = ['servers', 'queues', 'people', 'notifications', 'log-exports', 'audit'].map(
      path => `/operator/${path}`,
    )
    for (const path of [...places, ...others, ...items, ...areas, ...viewed]) {
      const asked: string[] = []
      const page = await open(t, path, {
        before: async page => {
          page.on(
            'request',
            request => void asked.push(new URL(request.url()).pathname + new URL(request.url()).search),
          )
          await page.addInitScript(`
          globalThis.fetched = []
          const { fetch } = globalThis
          globalThis.fetch = (path, options) => (fetched.push(path), fetch(path, options))`)
        },
      })
      await settled(page)
      const document = await fetch(page.url(), { headers: { accept: 'text/html' } })
      const named = [...document.headers.get('link')!.matchAll(/<([^>]+)>/g)].map(([, url]) => url!)
      const data = named.filter(url => url.startsWith('/dashboard/api/'))
      let fetched: string[] = []
      // Some data is read once the page is shown.
      const usesAll = async () => {
        fetched = await page.evaluate<string[]>('fetched')
        return data.every(url => fetched.includes(url))
      }
      await eventually(usesAll, `${path} uses all that it preloads: ${data.join(' ')}`, 120_000).catch(async error => {
        throw new Error(
          `${error.message}; it asked for ${fetched.join(' ')}, and shows: ${await main(page).innerText()}`,
        )
      })
      const expected = later.filter(([of]) => of.test(path)).map(([, reads]) => reads)
      t.deepEqual(
        fetched.filter(url => !named.includes(url) && !expected.some(reads => reads.test(url))),
        [],
        `${path} asks for data that its document does not name`,
      )
      // What is preloaded is what the page gets: nothing is asked for twice.
      const countOf = (urls: string[], url: string) => urls.filter(one => one === url).length
      for (const url of data) t.is(countOf(asked, url), countOf(fetched, url), `${path}: ${url}`)
      for (const url of named.filter(url => !data.includes(url))) t.is(countOf(asked, url), 1, `${path}: ${url}`)
      // Everything that the page needs at first is known from its document: no script is found later.
      const html = await document.text()
      const scripts = asked.filter(url => /^\/dashboard\/assets\/.*\.js$/.test(url))
      t.deepEqual(
        scripts.filter(url => !named.includes(url) && !html.includes(url)),
        [],
        path,
      )
      // Over HTTP/1.1 a browser loads six at a time.
      t.true(scripts.length <= maxScripts, `${path}: ${scripts.length} scripts`)
      await page.context().close()
    }
  },
)

test.serial('503 while a page is read: one notice, and the page is there as soon as the gateway serves', async t => {
  const page = await open(t, '~/overview', {
    before: page =>
      page.route(/\/organisations\/[^/]+\/(overview|activity|attention|usage)/, route =>
        route.fulfill({
          status: 503,
          json: { error: { code: 'unavailable', message: 'The gateway is restarting.', param: null } },
        }),
      ),
  })
  await page.getByRole('alert').filter({ hasText: 'The gateway is restarting.' }).waitFor()
  t.is(await page.getByRole('alert').count(), 1)
  await page.unrouteAll()
  await main(page).getByRole('region', { name: 'Spend', exact: true }).waitFor()
  await page.getByRole('alert').filter({ hasText: 'restarting' }).waitFor({ state: 'detached' })
})

test.serial('a page that is opened offline is there as soon as the browser is online', async t => {
  const page = await open(t, '~/keys')
  await settled(page)
  await page.context().setOffline(true)
  await navigation(page, 'Audit log').click()
  await page.getByRole('alert').filter({ hasText: 'Are you offline?' }).waitFor()
  t.is(await page.getByRole('alert').count(), 1)
  await page.context().setOffline(false)
  await page.getByRole('heading', { level: 1, name: 'Audit log' }).waitFor()
  await table(page, 'Audit log').getByRole('rowheader').first().waitFor()
  await page.getByRole('alert').first().waitFor({ state: 'detached' })
})

test.serial('a page that cannot be updated says how old it is, until it is updated again', async t => {
  const page = await open(t, '~/overview', { before: page => page.clock.install() })
  await main(page).getByRole('region', { name: 'Spend', exact: true }).waitFor()
  await page.clock.runFor(10_000)
  await page.route('**/dashboard/api/**', route => route.abort('connectionrefused'))
  await eventually(async () => {
    await page.clock.runFor(5_000)
    return (await page.getByRole('alert').filter({ hasText: 'What this page shows is from' }).count()) === 1
  }, 'the page says how old it is')
  t.is(await page.getByRole('alert').count(), 1)
  t.true(await main(page).getByRole('region', { name: 'Spend', exact: true }).isVisible())
  await page.unrouteAll()
  await eventually(async () => {
    await page.clock.runFor(5_000)
    return (await page.getByRole('alert').count()) === 0
  }, 'the page is up to date')
})
