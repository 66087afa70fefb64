// Whoever has the billing role, in a real browser: the pages about money and no others, a card, and automatic top-ups.
import type { Page } from 'playwright-core'
import { StripeEmulator } from '../../emulators/stripe.ts'
import { join, signUp } from '../../support/dashboard/dashboard.ts'
import { newPage, startBrowser } from '../../support/io/chromium.ts'
import { test } from '../../support/test.ts'
import { use, useGateway } from '../../support/use.ts'
import { paymentEnvironment, take } from '../../support/wallet/payments.ts'

let page: Page

const stripe = use(test, () => StripeEmulator.start())
const gateway = useGateway(test, () => paymentEnvironment(stripe))
const owner = use(test, () => signUp(gateway))
const payer = use(test, () => signUp(gateway, { name: 'Grace' }))
test.before(async () => {
  await join(gateway, payer.userId, owner.organisationId, 'billing')
})
const browser = use(test, startBrowser)
test.afterEach.always(async t => {
  if (!t.passed) t.log(page.url(), await page.locator('body').ariaSnapshot())
  await page.context().close()
})

async function open(path: string): Promise<void> {
  page = await newPage(browser, gateway.url, { visitor: payer.visitor, viewport: { width: 1280, height: 900 } })
  await page.goto(`${gateway.url}/dashboard/${owner.organisationId}${path}`)
}

test.serial('the menu has what is about money, and every page there works', async t => {
  const failed: string[] = []
  await open('')
  page.on('response', response => response.status() >= 400 && failed.push(response.url()))
  await page.getByRole('heading', { name: 'Usage', level: 1 }).waitFor()
  const menu = page.getByRole('navigation', { name: 'Pages' }).getByRole('link')
  t.deepEqual(await menu.allInnerTexts(), ['Usage', 'Billing', 'Members', 'Documentation'])
  for (const name of ['Members', 'Billing', 'Usage']) {
    await menu.filter({ hasText: name }).click()
    await page.getByRole('heading', { name, level: 1 }).waitFor()
    await page.waitForLoadState('networkidle')
  }
  t.deepEqual(failed, [])
  await page.goto(`${gateway.url}/dashboard/${owner.organisationId}/keys`)
  await page.getByRole('heading', { name: 'Page not found', level: 1 }).waitFor()
})

test.serial('a card is saved at the provider’s page, and automatic top-ups are set and stopped', async t => {
  const { organisationId } = owner
  await open('/billing')
  await page.getByRole('button', { name: 'Save a card' }).click()
  await page.waitForURL(`${stripe.url}/setup/**`)
  await page.goto(`${gateway.url}/dashboard/${organisationId}/billing?card=saved`)
  await page.getByText('Waiting for the confirmation of your card').waitFor()
  await take(t, gateway, [stripe.saveCard(organisationId, 'declined')])
  await page.getByText('visa ending in 4242, expires 03/2031').waitFor()
  await page.getByLabel('Charge').fill('20')
  await page.getByLabel('At most per month').fill('60')
  await page.getByRole('switch', { name: 'Top up automatically' }).click()
  await page.getByRole('button', { name: 'Save settings' }).click()
  await page.getByText('$0.00 of $60.00').waitFor()
  await gateway.services.topUps.charges!.run()
  await page.reload()
  await page.getByText('The card has insufficient funds.').first().waitFor()
  const row = page.getByRole('table', { name: 'Payments' }).getByRole('row').nth(1)
  t.regex(await row.innerText(), /automatic[\s\S]*\$20\.00/)
  await page.getByRole('button', { name: 'Remove card' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click()
  await page.getByText('No card is saved.').waitFor()
})
