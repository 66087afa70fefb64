// The documentation in a browser: accessible, searchable, complete without any other host.
import type { Browser, Page } from 'playwright-core'
import { findBarriers, rulesOfColors } from '../../support/io/barriers.ts'
import { startBrowser } from '../../support/io/chromium.ts'
import { type ExecutionContext, test } from '../../support/test.ts'
import { use, useGateway } from '../../support/use.ts'

const gateway = useGateway(test)
const browser = use(test, startBrowser)

/** Opens a page in a window of its own; what it must not do is added to `faults`. */
async function open(path: string, faults: string[], options: Parameters<Browser['newContext']>[0] = {}): Promise<Page> {
  const context = await browser.newContext({ reducedMotion: 'reduce', ...options })
  const page = await context.newPage()
  page.on('request', request => {
    const { origin, protocol } = new URL(request.url())
    if (protocol.startsWith('http') && origin !== gateway.url) faults.push(`asks ${request.url()}`)
  })
  page.on('console', message => {
    if (message.type() === 'error') faults.push(message.text())
  })
  page.on('pageerror', error => faults.push(error.message))
  await page.goto(gateway.url + path)
  return page
}

/** What is less than serious is up to the libraries that these pages are made with. */
const seriousBarriers = (page: Page, rules?: string[]) =>
  findBarriers(page, { ...(rules && { rules }), impacts: ['serious', 'critical'] })

/** Of a page in light colours everything, then in dark ones what depends on colours. */
async function isAccessible(t: ExecutionContext, page: Page, path: string): Promise<void> {
  t.deepEqual(await seriousBarriers(page), [], path)
  await page.emulateMedia({ colorScheme: 'dark' })
  await page.locator('html.dark').waitFor()
  t.deepEqual(await seriousBarriers(page, rulesOfColors), [], `${path}, dark`)
}

test('pages are accessible, fit a phone and load nothing from elsewhere', async t => {
  for (const path of ['/docs/', '/docs/routing', '/docs/errors', '/docs/dashboard', '/docs/nowhere']) {
    const faults: string[] = []
    const page = await open(path, faults, { colorScheme: 'light', viewport: { width: 390, height: 844 } })
    await page.getByRole('heading', { level: 1 }).first().waitFor()
    await isAccessible(t, page, path)
    t.true(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), path)
    // The browser says that a page was not found.
    t.deepEqual(
      faults.filter(fault => !fault.includes('404 (Not Found)')),
      [],
    )
    await page.context().close()
  }
})

test('examples have the address of the gateway that serves them, also after a link', async t => {
  const faults: string[] = []
  const page = await open('/docs/keys-and-limits', faults)
  const example = page.locator('pre code').filter({ hasText: '/api/v1/keys' }).first()
  await example.filter({ hasText: `curl ${gateway.url}/api/v1/keys` }).waitFor()
  await page.locator('.vp-doc a[href*="/routing"]').first().click()
  await page.locator('pre code').filter({ hasText: gateway.url }).first().waitFor()
  t.is(await page.locator('pre code').filter({ hasText: 'localhost:3000' }).count(), 0)
  t.deepEqual(faults, [])
  await page.context().close()
})

test('search finds a guide', async t => {
  const faults: string[] = []
  const page = await open('/docs/', faults)
  // The page answers keys once its script runs.
  await page.waitForLoadState('networkidle')
  await page.keyboard.press('Control+k')
  await page.getByRole('searchbox').or(page.locator('#localsearch-input')).first().fill('webhook signature')
  await page.locator('#localsearch-list a[href*="/webhooks"]').first().click()
  await page.waitForURL(/\/docs\/webhooks/)
  t.deepEqual(faults, [])
})

test('search finds a guide by another word for it, from a page that is not there', async t => {
  const page = await open('/docs/nowhere', [])
  await page.getByRole('heading', { level: 1, name: 'Page not found' }).waitFor()
  await page.waitForLoadState('networkidle')
  await page.keyboard.press('Control+k')
  await page.getByRole('searchbox').or(page.locator('#localsearch-input')).first().fill('rotate key')
  t.regex((await page.locator('#localsearch-list a').first().getAttribute('href'))!, /keys-and-limits/)
})

for (const colorScheme of ['light', 'dark'] as const)
  test(`the API reference is accessible, shows every tag, code in three languages, and asks no other host: ${colorScheme}`, async t => {
    const faults: string[] = []
    const page = await open('/docs/api/', faults, { colorScheme, viewport: { width: 1440, height: 900 } })
    // The largest page there is: on a busy machine it takes longer than others may.
    await page.getByRole('heading', { name: 'Create a chat completion' }).first().waitFor({ timeout: 120_000 })
    await page.getByText('Shell').first().waitFor()
    t.deepEqual(faults, [])
    t.deepEqual(await seriousBarriers(page, colorScheme === 'light' ? undefined : rulesOfColors), [])
    await page.context().close()
  })
