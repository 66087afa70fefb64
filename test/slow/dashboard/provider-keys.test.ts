// Own provider keys in the settings of an organisation, in a real browser.
import { Emulator } from '../../emulators/emulator.ts'
import { failure, reply } from '../../emulators/openai.ts'
import { signUp } from '../../support/dashboard/dashboard.ts'
import { newPage, startBrowser } from '../../support/io/chromium.ts'
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
    await gateway.key(owner.organisationId, 'live', { name: 'Shop' })
    const page = await newPage(browser, gateway.url, {
      visitor: owner.visitor,
      t,
      viewport: { width: 1440, height: 900 },
    })
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

    await row.getByText('everything').waitFor()
    await row.getByRole('button', { name: 'Edit' }).click()
    await dialog.getByRole('radio', { name: 'Only these models' }).check()
    t.true(await dialog.getByRole('button', { name: 'Save' }).isDisabled(), 'no model is not all models')
    await dialog.getByLabel('Only these models', { exact: true }).last().fill('gpt-4o-mini')
    await page.getByRole('option', { name: /\(gpt-4o-mini\)/ }).click()
    await page.keyboard.press('Tab')
    await dialog.getByRole('radio', { name: 'Only these API keys' }).check()
    await dialog.getByLabel('Only these API keys', { exact: true }).last().fill('Shop')
    await page.getByRole('option', { name: /^Shop/ }).click()
    await page.keyboard.press('Tab')
    await dialog.getByRole('button', { name: 'Save' }).click()
    await row.getByText('1 model, 1 API key').waitFor()
    const { id } = await gateway.services.db.apiKey.findFirstOrThrow({ where: { name: 'Shop' } })
    const restricted = await gateway.services.db.providerKey.findFirstOrThrow({ where: { name: 'Production' } })
    t.like(restricted, { models: ['gpt-4o-mini'], keyIds: [id] })
    await row.getByRole('button', { name: 'Edit' }).click()
    await dialog.getByText(/^Shop \(…/).waitFor()
    await dialog.getByRole('radio', { name: 'All of the provider' }).check()
    await dialog.getByRole('radio', { name: 'All that use own keys' }).check()
    await dialog.getByRole('button', { name: 'Save' }).click()
    await row.getByText('everything').waitFor()

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

test.serial('a key of Azure comes with its resource and deployments', async t => {
  const page = await newPage(browser, gateway.url, {
    visitor: owner.visitor,
    t,
    viewport: { width: 1440, height: 900 },
  })
  await page.goto(`${gateway.url}/dashboard/${owner.organisationId}/settings`)
  await page.getByRole('button', { name: 'Add provider key' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('combobox', { name: 'Provider' }).click()
  await page.getByRole('option', { name: 'azure', exact: true }).click()
  await dialog.getByLabel('Name').fill('Contoso')
  await dialog.getByRole('textbox', { name: 'Secret' }).fill('own-secret-of-azure-9b1c')
  await dialog.getByLabel('Resource').fill('contoso-sweden')
  await dialog.getByLabel('Deployments').fill('no-such-model=prod\ngpt-4o=omni@eu')
  const sent = page.waitForRequest(request => request.method() === 'POST' && request.url().endsWith('/provider-keys'))
  await dialog.getByRole('button', { name: 'Test and add' }).click()
  t.like(JSON.parse((await sent).postData()!), {
    provider: 'azure',
    resource: {
      name: 'contoso-sweden',
      deployments: [
        { model: 'no-such-model', name: 'prod' },
        { model: 'gpt-4o', name: 'omni', zone: 'eu' },
      ],
    },
  })
  await dialog.getByText(/there is no model `?no-such-model/).waitFor()
})
