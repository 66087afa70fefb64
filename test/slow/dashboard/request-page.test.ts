// What the page of a request says of the response cache, of provider keys and of a wrong address of a provider; a cache is cleared;
// all in a real browser.
import type { Page } from 'playwright-core'
import { nanoFromUsd } from '../../../shared/base/money.ts'
import { operatorActor } from '../../../shared/io/audit.ts'
import { Emulator } from '../../emulators/emulator.ts'
import { failure, reply } from '../../emulators/openai.ts'
import { signUp } from '../../support/dashboard/dashboard.ts'
import { eventually } from '../../support/gateway.ts'
import { findBarriers } from '../../support/io/barriers.ts'
import { newPage, startBrowser } from '../../support/io/chromium.ts'
import { type ExecutionContext, test } from '../../support/test.ts'
import { use, useGateway } from '../../support/use.ts'

const openai = use(test, () => Emulator.start(reply))
/** A web server that is no provider. */
const elsewhere = use(test, () => Emulator.start(failure(404, 'Not Found', 'invalid_request_error', null)))
const gateway = useGateway(test, () => ({
  ENCRYPTION_KEY: 'a key for the tests of the page of a request',
  OPENAI_API_KEY: 'sk-of-the-operator',
  OPENAI_BASE_URL: `${openai.url}/v1`,
  MISTRAL_API_KEY: 'sk-of-the-operator',
  MISTRAL_BASE_URL: `${elsewhere.url}/v1`,
}))
const owner = use(test, () => signUp(gateway))
const browser = use(test, startBrowser)
test.before(async () => {
  const { organisationId } = owner
  await gateway.services.wallets.deposit({ organisationId, amountNano: nanoFromUsd('10'), method: 'grant' })
})

async function open(t: ExecutionContext, path: string, colorScheme: 'light' | 'dark' = 'light'): Promise<Page> {
  const page = await newPage(browser, gateway.url, { visitor: owner.visitor, t, colorScheme })
  await page.goto(`${gateway.url}/dashboard/${owner.organisationId}/${path}`)
  return page
}

/** Sends a chat request; returns the id of its record, which is there. */
async function send(key: string, model: string, headers: Record<string, string> = {}): Promise<string> {
  const body = { model, messages: [{ role: 'user', content: 'Hello gateway' }] }
  const answer = await gateway.fetch('/v1/chat/completions', { key, body, headers })
  await answer.text()
  await gateway.settled()
  return answer.headers.get('x-generation-id') ?? answer.headers.get('x-request-id')!
}

const details = (page: Page) => page.getByRole('region', { name: 'Details' })

test.serial('the request page says whether the cache answered, and a cleared cache is audited', async t => {
  const key = await gateway.key(owner.organisationId, 'live', { cache: { ttl_s: 600 } })
  const first = await send(key, 'gpt-4o-mini')
  const { redis } = gateway.services
  const listed = () => redis.zcard(`cache:lru:${owner.organisationId}`)
  await eventually(async () => (await listed()) === 1, 'the answer is stored')
  const second = await send(key, 'gpt-4o-mini')
  const third = await send(key, 'gpt-4o-mini', { 'x-gateway-cache': 'off' })
  for (const [id, words] of [
    [first, 'miss: the answer was stored for equal requests'],
    [second, 'hit: answered from the cache, free'],
    [third, 'bypassed'],
  ] as const) {
    const page = await open(t, `requests/${id}`)
    await details(page).getByText(words).waitFor()
    if (id !== second) await details(page).getByText('of this service').waitFor()
    await page.context().close()
  }

  for (const scheme of ['light', 'dark'] as const) {
    const page = await open(t, 'settings', scheme)
    await page.getByRole('button', { name: 'Clear cache' }).waitFor()
    await page.getByText('Add provider key').waitFor()
    t.deepEqual(await findBarriers(page), [], scheme)
    await page.context().close()
  }
  const page = await open(t, 'settings')
  await page.getByRole('button', { name: 'Clear cache' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Clear cache' }).click()
  await page.getByText('One cached answer was removed').waitFor()
  t.is(await listed(), 0)
  await page.goto(`${gateway.url}/dashboard/${owner.organisationId}/audit`)
  await page.getByRole('table', { name: 'Audit log' }).getByText('cleared the response cache').waitFor()
})

test.serial('the request page names the own provider key that was used, and its cost there', async t => {
  const { providerKeys } = gateway.services
  const stored = { provider: 'openai', name: 'Our account', secret: 'own-secret-of-ours-7f3a' }
  const row = await providerKeys.create(owner.organisationId, stored, operatorActor)
  const key = await gateway.key(owner.organisationId, 'live', { own_keys: 'own' })
  const id = await send(key, 'gpt-4o-mini')
  const page = await open(t, `requests/${id}`)
  await details(page).getByText('own: Our account (…7f3a)').waitFor()
  await details(page).getByText('Cost at the provider').waitFor()
  await providerKeys.delete(owner.organisationId, row.id, operatorActor)
  await page.reload()
  await details(page).getByText('own key, deleted since').waitFor()
  t.pass()
})

test.serial('a 404 of a provider is told as a model or a base URL that is unknown there', async t => {
  const key = await gateway.key(owner.organisationId, 'live')
  const id = await send(key, 'mistral-large-latest')
  const page = await open(t, `requests/${id}`)
  const timeline = page.getByRole('region', { name: 'Timeline' })
  await timeline.getByText('answered 404: the model or the base URL is unknown there').first().waitFor()
  t.false((await timeline.innerText()).includes('model unavailable'))
})
