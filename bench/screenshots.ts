// The pictures of docs/dashboard.md: `npm run screenshots [-- --only usage]`, over a month of invented requests. Linux only.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import type { Browser, Page } from 'playwright-core'
import { createRule } from '../shared/alerts/rules.ts'
import { operatorActor } from '../shared/io/audit.ts'
import { openDatabase } from '../shared/io/db.ts'
import { openWorkerRedis } from '../shared/io/redis.ts'
import { queueAddress } from '../shared/queues/queues.ts'
import { maintainPartitions } from '../shared/wallet/partitions.ts'
import { type Gateway, startGateway } from '../test/support/gateway.ts'
import { startBrowser } from '../test/support/io/chromium.ts'
import { startWorkers } from '../test/support/workers.ts'
import { runMaintenance } from '../workers/maintenance.ts'
import { runQueue } from '../workers/run-queue.ts'
import { BrowserSession } from './lib/browser-session.ts'
import { fillMonth } from './lib/month.ts'
import { readOptions } from './lib/options.ts'
import { withOwnStores } from './lib/own-stores.ts'

const { values: options } = readOptions({ only: '', requests: 20_000, cpus: '0-1' })

const folder = join(import.meta.dirname, '../docs/images/dashboard')
const quality = 82
const desktop = { width: 1440, height: 900 }
const phone = { width: 390, height: 844 }
const person = { name: 'Ada', email: 'ada@example.com', password: 'correct horse battery' }
const month = 30
const dayMs = 86_400_000
const settledMs = 30_000

/** A picture: its name, and its page; `~` is the organisation. `open` shows what the address alone does not. */
type Picture = { name: string; path: string; isPhone?: boolean; open?: (page: Page) => Promise<unknown> }

const pictures: Picture[] = [
  { name: 'overview', path: '~/overview' },
  { name: 'playground', path: '~/playground/chat', open: ask },
  { name: 'models', path: '~/models' },
  { name: 'keys', path: '~/keys' },
  { name: 'requests', path: '~/requests' },
  { name: 'request', path: '~/requests?status=failed&span=30d', open: openFirst },
  { name: 'usage', path: '~/usage' },
  { name: 'jobs', path: '~/jobs' },
  { name: 'batches', path: '~/batches' },
  { name: 'webhooks', path: '~/webhooks' },
  { name: 'alerts', path: '~/alerts' },
  { name: 'billing', path: '~/billing' },
  { name: 'members', path: '~/members' },
  { name: 'audit', path: '~/audit' },
  { name: 'settings', path: '~/settings' },
  { name: 'operator-home', path: '/operator' },
  { name: 'operator-incident', path: '/operator', open: openIncident },
  { name: 'operator-provider', path: '/operator/providers/mistral' },
  { name: 'phone', path: '~/requests', isPhone: true },
]

await withOwnStores(options.cpus, async stores => {
  const nowMs = Date.now()
  const prisma = openDatabase(stores.databaseUrl, { connections: 2, statementTimeoutMs: 60_000 })
  // The partitions of the month that has ended, too.
  for (const at of [nowMs - (month + 1) * dayMs, nowMs]) await maintainPartitions(prisma, at, 12)
  await prisma.$disconnect()
  const gateway = await startGateway(
    { ...stores, drop: async () => {} },
    // A provider that does not answer, for an incident.
    {
      DEV_OUTBOX: 'true',
      ALLOW_PRIVATE_URLS: 'true',
      ENCRYPTION_KEY: 'a key of the pictures '.repeat(2),
      MISTRAL_API_KEY: 'unused',
      MISTRAL_BASE_URL: 'http://127.0.0.1:9',
    },
  )
  const { services } = gateway
  const workers = startWorkers(services)
  const waiting = openWorkerRedis(queueAddress(services.config))
  const house = runQueue({ queue: 'maintenance', processor: runMaintenance }, services, waiting)
  const browser = await startBrowser()
  try {
    const session = new BrowserSession(gateway.url)
    const organisation = await fill(gateway, session, stores.databaseUrl, nowMs)
    mkdirSync(folder, { recursive: true })
    for (const picture of pictures.filter(({ name }) => name.includes(options.only)))
      await take(browser, session, organisation, picture)
  } finally {
    await browser.close()
    await Promise.all([workers.stop(), house.close()])
    waiting.disconnect()
    await gateway.close()
  }
})

/** An organisation with a month behind it, and an incident at a provider. Returns its id. */
async function fill(gateway: Gateway, session: BrowserSession, databaseUrl: string, nowMs: number): Promise<string> {
  await session.json('/dashboard/api/auth/sign-up/email', person)
  const created = { name: 'Example', slug: 'example' }
  const { id } = await session.json<{ id: string }>('/dashboard/api/auth/organization/create', created)
  const db = new pg.Client({ connectionString: databaseUrl })
  await db.connect()
  try {
    const { rows } = await db.query('UPDATE users SET operator = true, email_verified = true RETURNING id')
    await fillMonth(db, id, rows[0].id, options.requests, nowMs, { depositUsd: 250, capUsd: 40 })
  } finally {
    await db.end()
  }
  const { services } = gateway
  const endpoint = {
    url: 'http://127.0.0.1:9/hooks',
    events: ['*'],
    signing_secret: 'own',
    description: 'Billing',
  } as const
  await services.webhookEndpoints.create(id, endpoint as never, operatorActor)
  await createRule(
    services,
    id,
    {
      name: 'Spend of a day',
      kind: 'spend',
      threshold: 50,
      window: 'day',
      min_requests: 1,
      key: null,
      model: null,
      environment: 'live',
      email: 'all',
      member_ids: [],
      webhook: false,
      slack_url: null,
      enabled: true,
    },
    operatorActor,
  )
  const key = await gateway.key(id, 'live', { name: 'Assistant' })
  const body = { model: 'mistral-large-3', messages: [{ role: 'user', content: 'Hello' }] }
  for (let i = 0; i < 12; i++) await (await gateway.fetch('/v1/chat/completions', { key, body })).text()
  await gateway.key(id, 'test', { name: 'Development' })
  await gateway.settled()
  for (const task of ['rules', 'incidents', 'failures']) await runMaintenance(task, null, services)
  return id
}

/** Takes a picture of a page that has its data, in the light scheme. */
async function take(
  browser: Browser,
  session: BrowserSession,
  organisation: string,
  { name, path, isPhone = false, open }: Picture,
): Promise<void> {
  const viewport = isPhone ? phone : desktop
  const context = await browser.newContext({ viewport, colorScheme: 'light', reducedMotion: 'reduce', locale: 'en-GB' })
  await context.addCookies(session.cookies)
  const page = await context.newPage()
  page.setDefaultTimeout(settledMs)
  await page.goto(`${session.url}/dashboard${path.replace('~', `/${organisation}`)}`)
  await settled(page)
  await open?.(page)
  await page.mouse.move(0, 0)
  const devtools = await context.newCDPSession(page)
  const { data } = await devtools.send('Page.captureScreenshot', { format: 'webp', quality })
  const bytes = Buffer.from(data, 'base64')
  writeFileSync(join(folder, `${name}.webp`), bytes)
  console.log(`${(bytes.length / 1_000).toFixed(0).padStart(4)} kB  docs/images/dashboard/${name}.webp`)
  await context.close()
}

async function settled(page: Page): Promise<void> {
  await page.getByRole('heading', { level: 1 }).first().waitFor()
  await page.locator('[aria-busy="true"], .mantine-Skeleton-root').first().waitFor({ state: 'detached' })
  await page.waitForLoadState('networkidle')
}

/** Asks the sandbox in the playground. */
async function ask(page: Page): Promise<void> {
  await page.getByRole('textbox', { name: 'Message' }).fill('How does a lock gate work?')
  await page.getByRole('button', { name: 'Send' }).click()
  await page.getByText('Completed').first().waitFor({ state: 'attached' })
}

/** The banner leads to it. */
async function openIncident(page: Page): Promise<void> {
  await page
    .getByRole('status')
    .getByRole('link', { name: /mistral/ })
    .first()
    .click()
  await page.waitForURL(/\/incidents\/\w+$/)
  await settled(page)
}

async function openFirst(page: Page): Promise<void> {
  await page.getByRole('table', { name: 'Requests' }).getByRole('rowheader').getByRole('link').first().click()
  await page.waitForURL(/\/requests\/[\w-]+$/)
  await settled(page)
}
