// Usage and Members as finance and admins use them, in a real browser.
import { isDeepStrictEqual } from 'node:util'
import pg from 'pg'
import type { Page } from 'playwright-core'
import { fillMonth } from '../../../bench/lib/month.ts'
import { join, type SignedUp, signUp } from '../../support/dashboard/dashboard.ts'
import { eventually } from '../../support/gateway.ts'
import { findBarriers } from '../../support/io/barriers.ts'
import { newPage, showInColors, startBrowser } from '../../support/io/chromium.ts'
import { download } from '../../support/io/download.ts'
import { type ExecutionContext, test } from '../../support/test.ts'
import { use, useGateway, useStores } from '../../support/use.ts'

const requests = 3_000
const stores = useStores(test)
const gateway = useGateway(test, { DEV_OUTBOX: 'true' }, { stores })
const owner = use(test, () => signUp(gateway))
const member = use(test, () => signUp(gateway, { name: 'Grace' }))
const browser = use(test, startBrowser)
test.before(async () => {
  const db = new pg.Client({ connectionString: stores.databaseUrl })
  await db.connect()
  await fillMonth(db, owner.organisationId, owner.userId, requests, Date.now()).finally(() => db.end())
  await join(gateway, member.userId, owner.organisationId, 'member')
  await gateway.key(owner.organisationId, 'live', { name: 'Of Grace' })
  await gateway.services.db.apiKey.updateMany({ where: { name: 'Of Grace' }, data: { createdById: member.userId } })
})

async function open(t: ExecutionContext, path: string, who: SignedUp = owner): Promise<Page> {
  const page = await newPage(browser, gateway.url, { visitor: who.visitor, t, viewport: { width: 1440, height: 900 } })
  await page.goto(`${gateway.url}/dashboard/${owner.organisationId}/${path}`)
  return page
}

async function isAccessible(t: ExecutionContext, page: Page): Promise<void> {
  for (const colorScheme of ['light', 'dark'] as const) {
    await showInColors(page, colorScheme)
    t.deepEqual(await findBarriers(page), [], colorScheme)
  }
}

const groups = (page: Page) => page.getByRole('table', { name: 'Usage by group' })
/** The texts of a column, without those of the header and the total. */
async function columnOf(page: Page, header: string): Promise<string[]> {
  const headers = await groups(page).getByRole('columnheader').allInnerTexts()
  const at = headers.findIndex(text => text.replace(/ [↑↓]$/, '') === header)
  return groups(page)
    .locator(`tbody tr > :nth-child(${at + 1})`)
    .allInnerTexts()
}
const numbersOf = async (page: Page, header: string) =>
  (await columnOf(page, header)).map(text => Number(text.replace(/[$,]/g, '')))

async function choose(page: Page, label: string, option: string): Promise<void> {
  await page.getByRole('combobox', { name: label, exact: true }).last().click()
  await page.getByRole('option', { name: option, exact: true }).click()
}

test.serial(
  'usage is one level deep, sorts by every column in the address, and adds up to its total and its file',
  async t => {
    const page = await open(t, 'usage?span=90d')
    await groups(page).getByText('Web app').first().waitFor()
    const total = groups(page).locator('tfoot').getByRole('row')
    const sum = (await numbersOf(page, 'Requests')).reduce((all, one) => all + one, 0)
    t.true((await total.innerText()).includes(sum.toLocaleString('en-US')), await total.innerText())

    await groups(page).getByRole('button', { name: 'Requests' }).click()
    await page.waitForURL(/sort=-requests/)
    const header = groups(page).getByRole('columnheader', { name: /^Requests/ })
    const isSorted = async (direction: string, order: (a: number, b: number) => number) => {
      const shown = await numbersOf(page, 'Requests')
      return (await header.getAttribute('aria-sort')) === direction && isDeepStrictEqual(shown, shown.toSorted(order))
    }
    await eventually(() => isSorted('descending', (a, b) => b - a), 'the most requests are first')
    const falling = await numbersOf(page, 'Requests')
    await groups(page)
      .getByRole('button', { name: /^Requests/ })
      .click()
    await page.waitForURL(/sort=requests/)
    await eventually(() => isSorted('ascending', (a, b) => a - b), 'the most requests are last')
    t.deepEqual(await numbersOf(page, 'Requests'), falling.toReversed())
    await page.reload()
    await groups(page).getByText('Web app').first().waitFor()
    t.deepEqual(await numbersOf(page, 'Requests'), falling.toReversed(), 'the address keeps the order')

    await choose(page, 'Group by', 'Model')
    await page.waitForURL(/rows=model/)
    await groups(page)
      .getByRole('columnheader', { name: /^Model/ })
      .waitFor()
    await groups(page).getByText('Web app').first().waitFor({ state: 'detached' })
    await eventually(
      async () => (await numbersOf(page, 'Requests')).reduce((all, one) => all + one, 0) === sum,
      'the models have the same requests',
    )
    for (const cost of await columnOf(page, 'Cost')) t.regex(cost, /^(?:\$[\d,]+\.\d{2}|<\$0\.01|\$0\.0\d+)$/)

    const { name: file, bytes } = await download(page, () => page.getByRole('link', { name: 'CSV' }).last().click())
    const [names, ...lines] = bytes.toString().trim().split('\r\n')
    const at = names!.split(',').indexOf('requests')
    t.is(
      lines.reduce((all, line) => all + Number(line.split(',')[at]), 0),
      sum,
    )
    t.regex(file, /ada/i)
    await isAccessible(t, page)
  },
)

test.serial('a period of days is chosen, and one that ends before it begins is refused', async t => {
  const page = await open(t, 'usage')
  await choose(page, 'Time', 'Custom days')
  const [first, last] = [page.getByLabel('First day (UTC)'), page.getByLabel('Last day (UTC)')]
  const day = (days: number) => new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10)
  await first.fill(day(3))
  await last.fill(day(9))
  await page.getByText('Ends before it begins').waitFor()
  await first.fill(day(9))
  await last.fill(day(3))
  await last.press('Enter')
  await page.waitForURL(url => url.searchParams.get('from')?.startsWith(day(9)) === true)
  await groups(page).getByText('Web app').first().waitFor()
  t.true((await numbersOf(page, 'Requests')).every(number => number > 0))
})

test.serial('members: many are invited, a fault stays in the field, an invitation is revoked', async t => {
  const page = await open(t, 'members')
  await page.getByLabel('Email').fill(`one@example.com, two@example.com\n${member.visitor.email}`)
  await page.getByRole('button', { name: 'Invite 3' }).click()
  await page.getByText('2 invitations sent').waitFor()
  await page
    .getByRole('alert')
    .getByText(`${member.visitor.email}: User is already a member of this organisation`)
    .waitFor()
  t.is(await page.getByLabel('Email').inputValue(), member.visitor.email)
  await page.getByText('one@example.com as member').waitFor()
  await page.getByRole('button', { name: 'Revoke the invitation of two@example.com' }).click()
  await page.getByText('two@example.com as member').waitFor({ state: 'detached' })
  await isAccessible(t, page)
})

test.serial('members: a long list is searched, and the button above it leads to the invitations', async t => {
  const { db } = gateway.services
  const people = Array.from({ length: 12 }, (_, i) => ({
    id: `user_${i}`,
    name: `Person ${i}`,
    email: `p${i}@example.com`,
  }))
  await db.user.createMany({ data: people })
  const { organisationId } = owner
  const rows = people.map(({ id }) => ({ id: `mem_${id}`, organisationId, userId: id, role: 'member' }))
  await db.membership.createMany({ data: rows })
  const page = await open(t, 'members')
  const listed = page.getByRole('table', { name: 'Members' }).getByRole('rowheader')
  await page.getByLabel('Search members').fill('P7@')
  await eventually(async () => (await listed.count()) === 1, 'one is found')
  t.regex(await listed.innerText(), /Person 7/)
  t.regex(page.url(), /search=P7/)
  await page.getByLabel('Search members').fill('nobody')
  await page.getByText('No members found').waitFor()
  await page.getByRole('button', { name: 'Invite members' }).click()
  t.is(await page.evaluate('document.activeElement.labels[0].textContent'), 'Email *')
  await db.membership.deleteMany({ where: { id: { in: rows.map(({ id }) => id) } } })
})

test.serial('members: a fault of a budget is named at its field', async t => {
  const page = await open(t, 'members')
  await page.getByRole('button', { name: 'Budget of the organisation' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Limit in USD').fill('25')
  for (const wrong of ['0', '50, 1.5', '1001', 'x']) {
    await dialog.getByLabel('Alert at percent of the limit').fill(wrong)
    await dialog.getByText('Enter whole numbers from 1 to 1,000').waitFor()
    t.true(await dialog.getByRole('button', { name: 'Save budget' }).isDisabled())
  }
})

test.serial('members: a budget, a role, and a removal that transfers the keys', async t => {
  const { db } = gateway.services
  const page = await open(t, 'members')
  const row = page.getByRole('table', { name: 'Members' }).getByRole('row').filter({ hasText: 'Grace' })
  await row.getByRole('link', { name: '1 API keys of Grace' }).waitFor()
  await row.getByRole('button', { name: 'Budget of Grace' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Limit in USD').fill('25')
  await dialog.getByRole('button', { name: 'Save budget' }).click()
  await row.getByText('$0.00 of $25.00').waitFor()

  await row.getByRole('combobox', { name: `Role of ${member.visitor.email}` }).click()
  await page.getByRole('option', { name: 'owner' }).click()
  await dialog.getByText(/remove any owner, including you/).waitFor()
  await dialog.getByRole('button', { name: 'Cancel' }).click()
  await row.getByRole('combobox').click()
  await page.getByRole('option', { name: 'admin' }).click()
  const where = { organisationId: owner.organisationId, userId: member.userId }
  await eventually(async () => (await db.membership.findFirstOrThrow({ where })).role === 'admin', 'an admin')

  await row.getByRole('button', { name: `Remove ${member.visitor.email}` }).click()
  await dialog.getByRole('radio', { name: 'Transfer them to the admins' }).check()
  await dialog.getByRole('button', { name: 'Remove', exact: true }).click()
  await row.waitFor({ state: 'detached' })
  t.is((await db.apiKey.findFirstOrThrow({ where: { name: 'Of Grace' } })).revokedAt, null)
})
