// Forms and switches that once did more than was meant, in a real browser: access that widens, addresses that die, live for test.
import type { Page } from 'playwright-core'
import { operatorActor } from '../../../shared/io/audit.ts'
import { hashSecret } from '../../../shared/keys/secret.ts'
import { setSuspension } from '../../../shared/keys/suspensions.ts'
import { type SignedUp, signUp } from '../../support/dashboard/dashboard.ts'
import { eventually } from '../../support/gateway.ts'
import { newPage, startBrowser } from '../../support/io/chromium.ts'
import { type ExecutionContext, test } from '../../support/test.ts'
import { use, useGateway } from '../../support/use.ts'

const gateway = useGateway(test, { SUPPORT_CONTACT: 'support@example.com' })
const owner = use(test, () => signUp(gateway))
const browser = use(test, startBrowser)
test.before(async () => {
  await gateway.services.db.user.update({ where: { id: owner.userId }, data: { operator: true } })
})

/** A page of the owner, or of another person. `~` in the path is their organisation. */
async function open(t: ExecutionContext, path: string, who: SignedUp = owner): Promise<Page> {
  const page = await newPage(browser, gateway.url, { visitor: who.visitor, t, viewport: { width: 1280, height: 900 } })
  await page.goto(`${gateway.url}/dashboard${path.replace('~', `/${who.organisationId}`)}`)
  return page
}

const keyNamed = (name: string) => gateway.services.db.apiKey.findFirstOrThrow({ where: { name } })

test('taking the last endpoint, model or provider away is a fault of the form, and grants nothing', async t => {
  const policy = { scopes: 'chat', model_allowlist: ['gpt-4o'], provider: { only: ['openai'] } }
  await gateway.key(owner.organisationId, 'test', { name: 'Narrow', ...policy })
  const { id } = await keyNamed('Narrow')
  const page = await open(t, `~/keys?key=${id}`)
  const form = page.getByRole('dialog', { name: 'Narrow' })
  const save = form.getByRole('button', { name: 'Save changes' })
  await form.getByRole('checkbox', { name: 'Chat', exact: true }).uncheck()
  await save.click()
  await form.getByRole('alert').getByText('Choose at least one endpoint').waitFor()
  await form.getByRole('checkbox', { name: 'Embeddings' }).check()
  for (const list of ['Only these models', 'Only these providers']) {
    await form.getByLabel(list, { exact: true }).last().press('Backspace')
    await form
      .getByText(list === 'Only these models' ? /at least one model/ : /at least one provider/)
      .first()
      .waitFor()
  }
  await save.click()
  await form.getByRole('alert').getByText('Name at least one provider').waitFor()
  t.like(await keyNamed('Narrow'), { scopes: ['chat'], modelAllowlist: ['gpt-4o'] })

  for (const all of ['All models', 'All providers']) await form.getByRole('radio', { name: all }).check()
  await save.click()
  await page.getByText('API key saved').waitFor()
  t.like(await keyNamed('Narrow'), { scopes: ['embeddings'], modelAllowlist: [], provider: null })
})

test('the page of a key keeps its address when it is rolled there, and links with an old hash lead to it', async t => {
  const secret = await gateway.key(owner.organisationId, 'test', { name: 'Bookmarked' })
  const { id } = await keyNamed('Bookmarked')
  const address = (path: string) => `${gateway.url}/dashboard/${owner.organisationId}/keys/${path}`
  const page = await open(t, `~/keys/${id}`)
  await page.getByRole('tab', { name: 'Code' }).click()
  await page.getByRole('region', { name: 'curl example' }).getByText(gateway.url).waitFor()
  await page.getByRole('button', { name: 'Roll secret' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Roll secret' }).click()
  await page.getByRole('button', { name: 'I have copied it' }).click()
  t.is(page.url(), address(`${id}?tab=code`))
  await page.goto(address(`${hashSecret(secret)}?tab=policy`))
  await page.getByRole('heading', { level: 1, name: 'Bookmarked' }).waitFor()
  t.is(page.url(), address(`${id}?tab=policy`))
  await page.getByRole('button', { name: 'Disable' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Disable key' }).click()
  await page.getByRole('button', { name: 'Enable', exact: true }).waitFor()
  await page.getByRole('button', { name: 'Revoke' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke key' }).click()
  await eventually(async () => (await keyNamed('Bookmarked')).revokedAt !== null, 'it is revoked')
})

test('a new key is live or test as it is said, and a name that another has is noticed', async t => {
  await gateway.key(owner.organisationId, 'live', { name: 'Production API' })
  const page = await open(t, '~/keys?key=new')
  const form = page.getByRole('dialog')
  await form.getByLabel('Name', { exact: true }).fill('production api')
  await form.getByRole('status').getByText('A live key has this name already').waitFor()
  t.is(
    await form
      .getByRole('radio', { name: 'Test' })
      .or(form.getByRole('radio', { name: 'Live' }))
      .count(),
    2,
  )
  t.is(await form.locator('input[name=environment]:checked').count(), 0)
  await form.getByRole('button', { name: 'Create key' }).click()
  t.is(await gateway.services.db.apiKey.count({ where: { name: 'production api' } }), 0)
  await form.getByRole('radio', { name: 'Live' }).check()
  await form.getByRole('button', { name: 'Create key' }).click()
  await page.getByRole('region', { name: 'Secret' }).getByText('svc_sk_live_').waitFor()
  t.is((await keyNamed('production api')).environment, 'live')
})

test('the playground names the environment of each key, and finds keys beyond the first hundred', async t => {
  const who = await signUp(gateway)
  await gateway.key(who.organisationId, 'live', { name: 'The oldest' })
  await gateway.services.db.apiKey.updateMany({ where: { name: 'The oldest' }, data: { createdById: who.userId } })
  for (let i = 0; i < 100; i++) await gateway.key(who.organisationId, 'test', { name: `Key ${i}` })
  const page = await open(t, '~/playground/chat', who)
  const picker = page.getByRole('combobox', { name: 'API key' })
  await eventually(async () => /^Key \d+ \(test, …\w{4}\)$/.test(await picker.inputValue()), 'a test key is chosen')
  await picker.fill('the oldest')
  await page.getByRole('option', { name: /^The oldest \(live, / }).click()
  await page.getByText('Live: real providers').waitFor()
  await page.reload()
  await eventually(async () => /^The oldest \(live, /.test(await picker.inputValue()), 'it is remembered')
  t.pass()
})

test('a first key whose secret was lost with the page is rolled from the first steps', async t => {
  const who = await signUp(gateway)
  const made = await who.visitor.json<{ data: { id: string }; key: string }>(`${who.base}/first-key`, {
    method: 'POST',
  })
  const page = await open(t, '~/overview', who)
  const steps = page.getByRole('region', { name: 'Getting started' })
  await steps.getByText('was shown once and is not stored').waitFor()
  await steps.getByRole('button', { name: 'Roll the key' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Roll secret' }).click()
  const secret = (await steps.getByRole('region', { name: 'Secret' }).innerText()).trim()
  t.regex(secret, /^svc_sk_test_/)
  t.not(secret, made.key)
  await steps.getByRole('button', { name: 'I have copied it' }).click()
  await steps.getByText('Copy your test key (done)').waitFor()
  await page.reload()
  await steps.getByText('Copy your test key (done)').waitFor()
})

test('a model is disabled for everybody after a question only', async t => {
  const page = await open(t, '/operator/models?search=gpt-4o-mini')
  const toggle = page.getByRole('switch', { name: 'gpt-4o-mini is enabled' })
  await toggle.click()
  const asked = page.getByRole('dialog', { name: 'Disable model: gpt-4o-mini' })
  await asked.getByText('for every organisation').waitFor()
  await asked.getByRole('button', { name: 'Cancel' }).click()
  t.true(await toggle.isChecked())
  await toggle.click()
  await asked.getByRole('button', { name: 'Disable model' }).click()
  await eventually(async () => !(await toggle.isChecked()), 'it is disabled')
})

test('a suspended organisation says why and whom to ask, and offers nothing that would fail', async t => {
  const who = await signUp(gateway)
  await gateway.key(who.organisationId, 'test', { name: 'Idle' })
  await setSuspension(gateway.services, who.organisationId, 'An invoice is open', operatorActor)
  const page = await open(t, '~/keys', who)
  const notice = page.getByRole('alert', { name: 'This organisation is suspended' })
  await notice.getByText('Reason: An invoice is open').waitFor()
  t.is(await notice.getByRole('link').getAttribute('href'), 'mailto:support@example.com')
  t.true(await page.getByRole('button', { name: 'Create key' }).isDisabled())
  await page.getByRole('link', { name: 'Idle' }).click()
  await page.getByRole('heading', { level: 1, name: 'Idle' }).waitFor()
  for (const name of ['Roll secret', 'Disable', 'Revoke'])
    t.is(await page.getByRole('button', { name, exact: true }).count(), 0, name)
  for (const [path, name] of [
    ['presets', 'Create preset'],
    ['alerts', 'Create rule'],
    ['log-exports', 'Add export'],
    ['webhooks?tab=endpoints', 'Add endpoint'],
    ['settings', 'Clear cache'],
    ['settings', 'Add provider key'],
  ] as const) {
    await page.goto(`${gateway.url}/dashboard/${who.organisationId}/${path}`)
    t.true(await page.getByRole('button', { name }).isDisabled(), name)
  }
  for (const button of await page.getByRole('main').getByRole('button', { name: 'Save', exact: true }).all())
    t.true(await button.isDisabled())
})
