// Presets of an organisation and API keys of a provider, changed in a real browser.
import type { Page } from 'playwright-core'
import { Emulator } from '../../emulators/emulator.ts'
import { signUp } from '../../support/dashboard/dashboard.ts'
import { eventually } from '../../support/gateway.ts'
import { newPage, startBrowser } from '../../support/io/chromium.ts'
import { test } from '../../support/test.ts'
import { use, useGateway } from '../../support/use.ts'

const upstream = use(test, () =>
  Emulator.start((request, response) => {
    const isAccepted = !request.headers.authorization?.includes('wrong')
    response.writeHead(isAccepted ? 200 : 401, { 'content-type': 'application/json' })
    response.end(JSON.stringify(isAccepted ? { data: [] } : { error: { message: 'Incorrect API key provided.' } }))
  }),
)
const gateway = useGateway(test, () => ({
  ENCRYPTION_KEY: 'a key for the tests of presets and keys',
  OPENAI_API_KEY: 'sk-of-the-environment',
  OPENAI_BASE_URL: `${upstream.url}/v1`,
}))
const owner = use(test, () => signUp(gateway))
test.before(async () => {
  await gateway.services.db.user.update({ where: { id: owner.userId }, data: { operator: true } })
})
const browser = use(test, startBrowser)

async function open(path: string): Promise<Page> {
  const page = await newPage(browser, gateway.url, { visitor: owner.visitor, viewport: { width: 1440, height: 900 } })
  await page.goto(`${gateway.url}/dashboard${path}`)
  return page
}

test.serial('a preset is created, changed and set back to its first version', async t => {
  const page = await open(`/${owner.organisationId}/presets`)
  await page.getByRole('button', { name: 'Create preset' }).click()
  const drawer = page.getByRole('dialog')
  await drawer.getByLabel('Name').fill('support')
  await drawer.getByLabel('Model').fill('auto')
  await drawer.getByLabel('System prompt').fill('You are kind.')
  await drawer.getByLabel('Settings').fill('{"temperature": 3}')
  await drawer.getByRole('button', { name: 'Create preset' }).click()
  await drawer
    .getByText(/temperature/)
    .last()
    .waitFor()
  await drawer.getByLabel('Settings').fill('{"temperature": 0.3}')
  await drawer.getByRole('button', { name: 'Create preset' }).click()
  await page.getByText('@preset/support').first().waitFor()
  await page.getByRole('button', { name: 'Open' }).click()
  await page.getByRole('dialog').getByLabel('Model').fill('gpt-4o')
  await page.getByRole('button', { name: 'Save as new version' }).click()
  await page.getByText('Version 2').waitFor()
  await page.getByRole('button', { name: 'Use version 1' }).click()
  await page.getByRole('button', { name: 'Use version 2' }).waitFor()
  const { config, current } = await gateway.services.presets.get(owner.organisationId, 'support')
  t.deepEqual({ config, current }, { config: { model: 'auto', system: 'You are kind.', temperature: 0.3 }, current: 1 })
  await page.getByRole('button', { name: 'Delete preset' }).click()
  await page
    .getByRole('dialog', { name: /Delete @preset/ })
    .getByRole('button', { name: 'Delete preset' })
    .click()
  await page.getByText('No presets yet').waitFor()
  await page.context().close()
})

test.serial('an API key of a provider is refused, added and removed on its page', async t => {
  const page = await open('/operator/providers/openai')
  const { catalogOverrides } = gateway.services
  await page.getByRole('button', { name: 'Add API key' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('API key', { exact: false }).first().fill('sk-wrong-key-of-the-page')
  await dialog.getByRole('button', { name: 'Add API key' }).click()
  await dialog.getByText(/does not accept the API key/).waitFor()
  await dialog.getByLabel('API key', { exact: false }).first().fill('sk-right-key-of-the-page')
  await dialog.getByRole('button', { name: 'Add API key' }).click()
  await page.getByText('…page', { exact: true }).waitFor()
  await dialog.waitFor({ state: 'hidden' })
  t.deepEqual(catalogOverrides.keys.get('openai'), ['sk-right-key-of-the-page'])
  t.false((await page.content()).includes('sk-right-key'))
  await page.getByRole('button', { name: 'Remove' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Remove API key' }).click()
  await eventually(() => !catalogOverrides.keys.has('openai'), 'it is removed')
  await page.getByText('None: the provider is called').waitFor()
  await page.context().close()
})
