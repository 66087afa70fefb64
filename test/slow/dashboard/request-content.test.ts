import type { Page } from 'playwright-core'
import { newId } from '../../../shared/base/ids.ts'
import { hashSecret } from '../../../shared/keys/secret.ts'
import { signUp } from '../../support/dashboard/dashboard.ts'
import { eventually } from '../../support/gateway.ts'
import { findBarriers } from '../../support/io/barriers.ts'
import { newPage, startBrowser } from '../../support/io/chromium.ts'
import { type ExecutionContext, test } from '../../support/test.ts'
import { use, useGateway } from '../../support/use.ts'

/** Requests in a real browser: their list; their input and output switched on, viewed, replayed, opened in the playground; models compared. */

let key: string

const gateway = useGateway(test, { ENCRYPTION_KEY: 'an operator’s key '.repeat(3) })
const owner = use(test, () => signUp(gateway))
test.before(async () => {
  key = await gateway.key(owner.organisationId, 'test', { name: 'Logged key' })
})
const browser = use(test, startBrowser)

function openPage(t: ExecutionContext): Promise<Page> {
  return newPage(browser, gateway.url, { visitor: owner.visitor, t, viewport: { width: 1280, height: 900 } })
}

const addressOf = (path: string) => `${gateway.url}/dashboard/${owner.organisationId}/${path}`

test.serial('an admin logs a key’s requests, views one, replays it and opens it in the playground', async t => {
  const page = await openPage(t)
  await page.goto(addressOf(`keys/${hashSecret(key)}?tab=logging`))
  await page.getByRole('combobox', { name: 'Log input and output' }).click()
  await page.getByRole('option', { name: 'Of all requests' }).click()
  await page.getByRole('combobox', { name: 'Ends' }).click()
  await page.getByRole('option', { name: 'in 24 hours' }).click()
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByText('It applies to the next requests.').waitFor()

  const body = {
    model: 'gpt-5',
    temperature: 0.5,
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Tell me about herons' },
    ],
  }
  const answer = await gateway.fetch('/v1/chat/completions', { key, body })
  const id = answer.headers.get('x-generation-id')!
  const { db } = gateway.services
  await eventually(async () => (await db.requestContent.count({ where: { id } })) === 1, 'the content is stored')
  await eventually(async () => (await db.generation.count({ where: { id } })) === 1, 'the request is logged')

  await page.goto(addressOf(`requests/${id}`))
  await page.getByRole('button', { name: 'Show input and output' }).click()
  const section = page.getByRole('region', { name: 'Input and output' })
  await section.getByText('Tell me about herons').waitFor()
  t.deepEqual(await findBarriers(page), [])
  await page.getByRole('button', { name: 'Replay' }).click()
  await page.getByRole('dialog').getByText('this is free').waitFor()
  await page.getByRole('button', { name: 'Send again' }).click()
  await page.getByText('The request was sent again').waitFor()
  await eventually(async () => (await db.requestContent.count()) === 2, 'the replay is logged as well')
  const { id: replay } = await db.requestContent.findFirstOrThrow({ where: { id: { not: id } } })
  await eventually(async () => (await db.generation.count({ where: { id: replay } })) === 1, 'it is booked')

  await page.getByRole('button', { name: 'Open in playground' }).click()
  const message = page.getByRole('textbox', { name: 'Message' })
  await eventually(async () => (await message.inputValue()) === 'Tell me about herons', 'the question is there')
  t.is(await page.getByRole('textbox', { name: 'System' }).inputValue(), 'Be brief.')

  await page.goto(addressOf(`requests/${id}`))
  await page.getByRole('link', { name: 'Newer request' }).click()
  await page.waitForURL(address => !address.pathname.endsWith(id))
  await page.getByRole('link', { name: 'Older request' }).click()
  await page.waitForURL(address => address.pathname.endsWith(id))
  await page.getByRole('button', { name: 'Show input and output' }).click()
  await page.getByRole('button', { name: 'Delete input and output' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
  await page.getByText('They were logged, and deleted since.').waitFor()
})

test.serial('a request that left the model to the gateway has code and a playground that leave it, too', async t => {
  const failing = { model: 'auto', messages: [{ role: 'user', content: 'sandbox:fail' }] }
  const answer = await gateway.fetch('/v1/chat/completions', { key, body: failing })
  t.is(answer.status, 502)
  const id = answer.headers.get('x-generation-id')!
  const { db } = gateway.services
  await eventually(async () => (await db.generation.count({ where: { id } })) === 1, 'the request is logged')
  const page = await openPage(t)
  await page.goto(addressOf(`requests/${id}`))
  await page.getByText('What to do: Retry.').waitFor()
  await page.getByRole('region', { name: 'curl example' }).getByText('"model": "auto"').waitFor()
  await page.getByRole('button', { name: 'Open in playground' }).click()
  await page.waitForURL(/playground\/chat\?model=auto$/)
})

test.serial('models answer one prompt side by side', async t => {
  const page = await openPage(t)
  await page.goto(addressOf('playground/compare?models=auto,gpt-5,claude-haiku-4-5'))
  await page.getByRole('textbox', { name: 'Prompt' }).fill('Which bird is this?')
  await page.getByRole('button', { name: 'Compare' }).click()
  for (const model of ['auto', 'gpt-5', 'claude-haiku-4-5']) {
    const column = page.getByRole('region', { name: `Answer of ${model}` })
    await column.getByText('Completed').waitFor()
    await column.getByText('Which bird is this?').waitFor()
    await column.getByRole('link', { name: 'view in request log' }).waitFor()
  }
  await page.getByRole('link', { name: 'Why this model' }).waitFor()
  t.deepEqual(await findBarriers(page), [])
})

test.serial('answers are Markdown without HTML, pictures and scripts, or plain text', async t => {
  const page = await openPage(t)
  const elsewhere: string[] = []
  page.on('request', request => {
    if (new URL(request.url()).origin !== gateway.url && /^http/.test(request.url())) elsewhere.push(request.url())
  })
  await page.goto(addressOf('playground/compare?models=gpt-5,claude-haiku-4-5'))
  const prompt = [
    ...['**grey** herons', '', '| bird | size |', '|---|---|', '| heron | 1 m |', ''],
    ...[
      '<b id="raw">raw</b> ![picture](https://example.com/p.png) [bad](javascript:alert(1)) [good](https://example.com)',
    ],
  ].join('\n')
  await page.getByRole('textbox', { name: 'Prompt' }).fill(prompt)
  await page.getByRole('button', { name: 'Compare' }).click()
  const column = page.getByRole('region', { name: 'Answer of gpt-5' })
  await column.getByText('Completed').waitFor()
  await column.getByRole('cell', { name: 'heron' }).waitFor()
  t.is(await column.locator('strong').innerText(), 'grey')
  t.is(await column.locator('#raw, img, script').count(), 0)
  t.is(await column.locator('a[href^="javascript"]').count(), 0)
  t.is(await column.getByRole('link', { name: 'picture' }).getAttribute('rel'), 'noopener noreferrer')
  t.deepEqual(await findBarriers(page), [])
  await column.getByRole('button', { name: 'Plain text' }).click()
  await column.getByText('**grey** herons').waitFor()
  t.deepEqual(elsewhere, [])
})

test.serial('the list of requests is filtered, sorted, followed live, and remembers its columns', async t => {
  const { db } = gateway.services
  const {
    id: _,
    createdAt,
    routing: _routing,
    parameters: _parameters,
    metadata: _metadata,
    ...row
  } = await db.generation.findFirstOrThrow({ where: { organisationId: owner.organisationId, model: 'gpt-5' } })
  const older = Array.from({ length: 120 }, (_, i) => ({
    ...row,
    id: newId('chatcmpl'),
    createdAt: new Date(createdAt.getTime() - (i + 1) * 1_000),
    // Longer than a request of this test takes on a busy machine.
    durationMs: 200_000 + i,
  }))
  await db.generation.createMany({ data: older })
  const page = await openPage(t)
  await page.goto(addressOf('requests?model=gpt-5&end_user=nobody'))
  await page.getByText('No requests found').waitFor()
  const active = page.getByRole('group', { name: 'Active filters' })
  await active.getByRole('button', { name: 'Remove the filter End user' }).click()
  await page.getByText(/^Showing 50 of \d{3} requests$/).waitFor()
  t.deepEqual(await findBarriers(page), [])
  await active.getByRole('button', { name: 'Clear filters' }).click()
  await active.waitFor({ state: 'detached' })
  await page.getByRole('button', { name: 'Show more' }).click()
  await page.getByText(/^Showing 100 of \d{3} requests$/).waitFor()

  await page.getByRole('switch', { name: 'Live' }).click()
  const answer = await gateway.fetch('/v1/chat/completions', {
    key,
    body: { model: 'gpt-5-mini', messages: [{ role: 'user', content: 'Hello' }] },
  })
  const id = answer.headers.get('x-generation-id')!
  await page.locator(`a[href$="${id}"]`).waitFor()
  await page.getByText(/^Showing 101 of \d{3} requests$/).waitFor()

  await page.getByRole('combobox', { name: 'Sort' }).click()
  await page.getByRole('option', { name: 'Longest duration' }).click()
  const longest = older.at(-1)!.id
  await page.locator(`tbody tr:first-child a[href$="${longest}"]`).waitFor()
  t.true(await page.getByRole('switch', { name: 'Live' }).isDisabled())

  await page.getByRole('button', { name: 'Columns' }).click()
  await page.getByRole('checkbox', { name: 'Cost' }).uncheck()
  await page.reload()
  await page.locator(`a[href$="${longest}"]`).waitFor()
  t.is(await page.getByRole('columnheader', { name: 'Cost' }).count(), 0)
  await page.locator('tbody tr:first-child td').nth(1).click()
  await page.getByRole('dialog').getByRole('link', { name: 'code' }).click()
  await page.waitForURL(address => address.pathname.endsWith(longest) && address.hash === '#code')
  await page.getByRole('region', { name: 'Code', exact: true }).waitFor()
})

test.serial('an error of the playground links to its documentation, and to its request', async t => {
  const page = await openPage(t)
  await page.goto(addressOf('playground/chat'))
  await page.getByRole('textbox', { name: 'Message' }).fill('sandbox:fail')
  await page.getByRole('button', { name: 'Send' }).click()
  const links = page.getByRole('alert').getByRole('link')
  await links.getByText('Documentation').waitFor()
  const hrefs = await links.evaluateAll(all => all.map(link => link.getAttribute('href')))
  t.true(hrefs.includes('/docs/errors#upstream_error'), hrefs.join())
})

test.serial(
  'the list of requests fits its page, with the longest error code; an unknown id says which ids are known',
  async t => {
    const capped = await gateway.key(owner.organisationId, 'live', { monthly_spend_cap_usd: 0.000001 })
    const body = { model: 'auto', messages: [{ role: 'user', content: 'Hello' }] }
    const refused = await gateway.fetch('/v1/chat/completions', { key: capped, body })
    t.true(refused.status >= 400)
    await gateway.services.refusalLog.flush()
    const page = await openPage(t)
    await page.setViewportSize({ width: 1440, height: 900 })
    await page.goto(addressOf('requests'))
    const list = page.getByRole('group', { name: 'Requests' })
    await list.getByText('upstream_error').first().waitFor()
    t.deepEqual(
      await list.evaluate(group => [
        group.scrollWidth - group.clientWidth,
        [...group.querySelectorAll('td')]
          .filter(cell => cell.scrollWidth > cell.clientWidth)
          .map(cell => cell.innerText),
      ]),
      [0, []],
    )
    await page.goto(addressOf('requests/req_unknown'))
    await page.getByText('No request has this ID').waitFor()
    await page.getByRole('main').getByText('x-request-id').waitFor()
  },
)
