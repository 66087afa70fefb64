// Every page of the dashboard as it is loaded, seen and read out: weight, accessibility, narrow screens, both colour schemes.
import { statSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { builtPages } from '../../../api/dashboard/middleware.ts'
import type { IncidentsPage } from '../../../api/dashboard/wire/operator-home.ts'
import { groupIncidents } from '../../../shared/alerts/incident-groups.ts'
import { reconcileIncidents } from '../../../shared/alerts/incidents.ts'
import { signUp } from '../../support/dashboard/dashboard.ts'
import { fill } from '../../support/dashboard/fixtures.ts'
import { findBarriers, rulesOfColors } from '../../support/io/barriers.ts'
import { startBrowser } from '../../support/io/chromium.ts'
import { test } from '../../support/test.ts'
import { use, useGateway } from '../../support/use.ts'

const maxGzippedBytes = 300_000
/** To visit and examine some seventy pages, on a busy machine. */
const maxVisitsMs = 360_000
/** The addresses in the navigation, and the tabs of the operator area. */
let listed: string[]
/** The id of an incident of a provider. */
let incident: string

const gateway = useGateway(test, { ALLOW_PRIVATE_URLS: 'true', DEV_OUTBOX: 'true' })
const owner = use(test, () => signUp(gateway))
test.before(async () => {
  await gateway.services.db.user.update({ where: { id: owner.userId }, data: { operator: true } })
})
const filled = use(test, () => fill(gateway, owner.organisationId))
const browser = use(test, startBrowser)
test.before(async () => {
  const { services } = gateway
  const failing = { kind: 'circuit', subject: 'openai|gpt-5', provider: 'openai', model: 'gpt-5' } as const
  await reconcileIncidents(services, ['failing'], [{ ...failing, message: 'HTTP 500: down' }])
  await groupIncidents(services)
  const { visitor } = owner
  const { data } = await visitor.json<IncidentsPage>('/dashboard/api/operator/incidents?limit=1')
  incident = data[0]!.id
  listed = await listPages()
})

/** The pages that the navigation of an owner and operator lists: a new one is covered by these tests without naming it here. */
async function listPages(): Promise<string[]> {
  const context = await window(true)
  const page = await context.newPage()
  await visit(page, `/${owner.organisationId}/overview`)
  const links = await page.getByRole('navigation', { name: 'Pages' }).getByRole('link').all()
  const hrefs = await Promise.all(links.map(link => link.getAttribute('href')))
  await visit(page, '/operator')
  const paths: string[] = []
  for (const tab of await page.getByRole('tab').all()) {
    await tab.click()
    paths.push(new URL(page.url()).pathname)
  }
  await context.close()
  // The documentation is a site of its own, with its own tests.
  const own = hrefs.map(href => href!).filter(href => href.startsWith('/dashboard/'))
  return [...new Set([...own, ...paths])].map(path => path.replace('/dashboard', ''))
}

/** Every page, visitors' and members', with one thing opened where pages show one. */
function addresses(): string[] {
  const { organisationId } = owner
  const id = (part: string) => Object.values(filled.ids.find(([sort]) => sort === part)![1])[0]!
  const tabs = [
    ...['chat', 'compare', 'completions', 'embeddings', 'image', 'speech', 'transcription', 'music', 'sfx', 'video'],
    ...['lipsync', 'face_swap', 'avatar', 'mesh', 'realtime'],
  ]
  return [
    ...listed,
    `/${organisationId}/models?q=gpt`,
    ...tabs.map(tab => `/${organisationId}/playground/${tab}`),
    `/${organisationId}/keys?key=new`,
    `/${organisationId}/keys?key=connect`,
    `/${organisationId}/requests/${id('/requests/')}`,
    `/${organisationId}/jobs/${id('/jobs/')}`,
    `/${organisationId}/batches/${id('/batches/')}`,
    `/${organisationId}/keys/${id('/keys/')}`,
    `/${organisationId}/models/gpt-5-mini`,
    `/${organisationId}/webhooks/endpoints/${id('/endpoints/')}`,
    `/${organisationId}/log-exports/${id('/log-exports/')}`,
    `/operator/log-exports/${id('/operator/log-exports/')}`,
    '/operator/providers/openai',
    `/operator/incidents/${incident}`,
    ...['', '/usage', '/requests', '/keys', '/billing', '/audit'].map(
      path => `/operator/organisations/${organisationId}${path}`,
    ),
    `/operator/organisations/${organisationId}/requests/${id('/requests/')}`,
    `/operator/organisations/${organisationId}/keys/${id('/keys/')}`,
    '/account',
    '/welcome?new',
  ]
}
const forVisitors = [
  '/sign-in',
  '/sign-up',
  '/forgot-password',
  '/reset-password?token=x',
  '/verify-email?token=x',
  '/invitations/x',
  '/outbox',
]

/** A browser window with the owner's session, or without one. */
async function window(signedIn: boolean, options: Parameters<Browser['newContext']>[0] = {}): Promise<BrowserContext> {
  const context = await browser.newContext({ reducedMotion: 'reduce', ...options })
  if (signedIn)
    await context.addCookies(owner.visitor.cookies.map(([name, value]) => ({ name, value, url: gateway.url })))
  return context
}

async function settled(page: Page): Promise<void> {
  const heading = page.getByRole('heading', { level: 1 }).first()
  await heading.waitFor().catch(async error => {
    throw new Error(`${page.url()} has no heading: ${await page.locator('body').innerText()}`, { cause: error })
  })
  await page.locator('[aria-busy="true"]').first().waitFor({ state: 'detached' })
}

/** Goes to a page as its link does, without loading the application again. */
async function visit(page: Page, path: string): Promise<void> {
  const url = `${gateway.url}/dashboard${path}`
  if (page.url() === 'about:blank') await page.goto(url)
  // Two frames later the page that was left is gone.
  else
    await page.evaluate(
      `history.pushState(null, '', ${JSON.stringify(url)}), new Promise(resolve => requestAnimationFrame(() => requestAnimationFrame(resolve)))`,
    )
  await settled(page)
}

test.serial('a first visit loads less than 300 kB, compressed: the sign-in, and the overview', async t => {
  for (const [path, signedIn] of [
    ['/sign-in', false],
    [`/${owner.organisationId}/overview`, true],
  ] as const) {
    const context = await window(signedIn)
    const page = await context.newPage()
    const files = new Set<string>()
    page.on('request', request => {
      const { pathname, origin } = new URL(request.url())
      t.is(origin, gateway.url, request.url())
      if (!pathname.startsWith('/dashboard/api/')) files.add(pathname.replace(/^\/dashboard\/?/, ''))
    })
    await visit(page, path)
    await page.waitForLoadState('networkidle')
    let bytes = 0
    for (const file of files) {
      const name = /\.\w+$/.test(file) ? file : 'index.html'
      const compressed = statSync(join(builtPages, `${name}.gz`), { throwIfNoEntry: false })
      bytes += (compressed ?? statSync(join(builtPages, name))).size
    }
    t.true(files.size > 3 && bytes < maxGzippedBytes, `${path}: ${bytes} bytes in ${[...files].join(' ')}`)
    t.log(path, bytes)
    await context.close()
  }
})

/** Visits every page in one window, the visitors' first. `watch` gets each window before it shows anything. */
async function everyPage(
  options: Parameters<Browser['newContext']>[0],
  look: (page: Page, path: string) => Promise<void>,
  watch: (page: Page) => void = () => {},
) {
  for (const [signedIn, paths] of [
    [false, forVisitors],
    [true, addresses()],
  ] as const) {
    const context = await window(signedIn, options)
    const page = await context.newPage()
    watch(page)
    for (const path of paths) {
      await visit(page, path)
      await look(page, path)
    }
    await context.close()
  }
}

test.serial('a first visit leaves nothing in the console', async t => {
  const context = await window(false)
  const page = await context.newPage()
  const messages: string[] = []
  page.on('console', message => messages.push(`${message.type()}: ${message.text()}`))
  page.on('pageerror', error => messages.push(error.message))
  await page.goto(gateway.url)
  await page.getByRole('heading', { level: 1, name: 'Sign in' }).waitFor()
  await page.waitForLoadState('networkidle')
  await page.getByRole('link', { name: 'Create an account' }).click()
  await page.getByRole('heading', { level: 1, name: 'Create an account' }).waitFor()
  t.deepEqual(messages, [])
  await context.close()
})

test.serial('the navigation lists every page', t => {
  t.true(listed.length > 12, listed.join(' '))
  t.true(listed.includes('/operator/providers'))
})

test.serial('every route of the pages is among those that are examined', async t => {
  const web = join(builtPages, '../web')
  const files = await readdir(web, { recursive: true })
  const sources = await Promise.all(
    files
      .filter(file => file.endsWith('.tsx'))
      .map(async file => [file, await readFile(join(web, file), 'utf8')] as const),
  )
  const routes = sources.flatMap(([file, text]) => [
    ...[...text.matchAll(/<Route path=(?:"([^"]+)"|\{`([^`]+)`\})/g)].map(([, plain, made]) => plain ?? made!),
    ...(file === 'app.tsx' ? [...text.matchAll(/\{ path: '([^']+)', page/g)].map(([, path]) => path!) : []),
    ...[...text.matchAll(/\{ path: '(\w+)', label: '[^']*', tab/g)].map(
      ([, tab]) => `/:organisation/playground/${tab}`,
    ),
  ])
  t.true(routes.length > 30, routes.join(' '))
  const examined = [...forVisitors, ...addresses()].map(address => address.replace(/\?.*/, ''))
  const missing = routes.filter(route => {
    const pattern = route
      .replace(/^\$\{home\}/, '/:organisation')
      .replace(/\/\*\??$/, '(?:/.*)?')
      .replace(/:\w+/g, '[^/]+')
    return !examined.some(address => new RegExp(`^${pattern}$`).test(address))
  })
  // It only leads to another page.
  t.deepEqual(missing, ['/'])
})

test.serial('ok: axe finds no barrier on any page', async t => {
  t.timeout(maxVisitsMs)
  await everyPage({ colorScheme: 'light' }, async (page, path) => {
    // The target size of 2.2 is not among the rules that axe uses by default.
    t.deepEqual(await findBarriers(page, { further: ['target-size'] }), [], path)
  })
})

test.serial('an open drawer or dialog adds no landmark to the page', async t => {
  const { organisationId } = owner
  const context = await window(true)
  const page = await context.newPage()
  const id = Object.values(filled.ids.find(([sort]) => sort === '/requests/')![1])[0]!
  for (const path of [`/requests?open=${id}`, '/keys?key=new', '/keys?key=connect']) {
    await visit(page, `/${organisationId}${path}`)
    await page.getByRole('dialog').waitFor()
    const rules = [
      'landmark-no-duplicate-banner',
      'landmark-banner-is-top-level',
      'landmark-one-main',
      'landmark-unique',
    ]
    t.deepEqual(await findBarriers(page, { rules }), [], path)
  }
  await context.close()
})

test.serial(
  'on a dark phone no page is hard to read, scrolls sideways, breaks, or asks another origin for anything',
  async t => {
    t.timeout(maxVisitsMs)
    const problems: string[] = []
    const watch = (page: Page) => {
      page.on('pageerror', error => problems.push(error.message))
      page.on('console', message => {
        const text = message.text()
        if (message.type() === 'error' && !text.startsWith('Failed to load resource')) problems.push(text)
      })
      page.on('request', request => {
        const url = request.url()
        if (!/^(?:data|blob):/.test(url) && new URL(url).origin !== gateway.url) problems.push(url)
      })
    }
    const look = async (page: Page, path: string) => {
      const excess = await page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth')
      t.is(excess, 0, `${path} is too wide`)
      // What a colour scheme can change; the rest is the same in both.
      t.deepEqual(await findBarriers(page, { rules: rulesOfColors }), [], path)
    }
    await everyPage({ colorScheme: 'dark', viewport: { width: 360, height: 740 } }, look, watch)
    t.deepEqual(problems, [])
  },
)
