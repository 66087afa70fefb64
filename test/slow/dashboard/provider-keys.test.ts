// Own provider keys in the settings of an organisation, in a real browser.
import { Emulator } from '../../emulators/emulator.ts'
import { failure, reply } from '../../emulators/openai.ts'
import { signUp } from '../../support/dashboard/dashboard.ts'
import { startBrowser } from '../../support/io/chromium.ts'
import { test } from '../../support/test.ts'
import { use, useGateway } from '../../support/use.ts'

const bad = 'own-secret-refused-1c9e'
const openai = use(test, () =>
  Emulator.start((request, response) => {
    const isBad = request.headers.authorization === `Bearer ${bad}`
    const refused = failure(401, 'Incorrect API key provided.', 'invalid_request_error', 'invalid_api_key')
    return (isBad ? refused : reply)(request, response)
  }),
)
const gateway = useGateway(test, () => ({ OPENAI_BASE_URL: `${openai.url}/v1` }))
const owner = use(test, () => signUp(gateway))
const browser = use(test, startBrowser)

test.serial(
  'a provider key is tested, added, replaced, disabled and deleted, and its secret is never shown',
  async t => {
    const context = await browser.newContext({ viewport: { width: 1440, height: 900 } })
    t.teardown(() => context.close())
    await context.addCookies(owner.visitor.cookies.map(([name, value]) => ({ name, value, url: gateway.url })))
    const page = await context.newPage()
    page.setDefaultTimeout(30_000)
    await page.goto(`${gateway.url}/dashboard/${owner.organisationId}/settings`)
    await page.getByRole('button', { name: 'Add provider key' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByRole('combobox', { name: 'Provider' }).click()
    await page.getByRole('option', { name: 'openai', exact: true }).click()
    await dialog.getByLabel('Name').fill('Production')
    await dialog.getByRole('textbox', { name: 'Secret' }).fill(bad)
    await dialog.getByRole('button', { name: 'Test and add' }).click()
    await dialog.getByText(/openai refused this key/).waitFor()
    await dialog.getByRole('textbox', { name: 'Secret' }).fill('own-secret-first-7f3a')
    await dialog.getByRole('button', { name: 'Test and add' }).click()
    await dialog.waitFor({ state: 'detached' })
    const table = page.getByRole('table', { name: 'Provider keys' })
    const row = table.getByRole('row').filter({ hasText: 'Production' })
    await row.getByText('…7f3a').waitFor()
    await row.getByText('The provider accepts it.').waitFor()
    t.false((await page.content()).includes('own-secret-first'))

    await row.getByRole('button', { name: 'Replace' }).click()
    await dialog.getByRole('textbox', { name: 'Secret' }).fill('own-secret-second-2e8d')
    await dialog.getByRole('button', { name: 'Test and replace' }).click()
    await row.getByText('…2e8d').waitFor()
    await row.getByRole('button', { name: 'Disable' }).click()
    await row.getByRole('button', { name: 'Enable' }).waitFor()
    await row.getByRole('button', { name: 'Delete' }).click()
    await dialog.getByRole('button', { name: 'Delete key' }).click()
    await page.getByText('No provider keys yet').waitFor()
    t.deepEqual(await gateway.services.db.providerKey.count({ where: { organisationId: owner.organisationId } }), 0)
  },
)
