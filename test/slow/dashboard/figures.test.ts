// The figures of the overview and of requests as they are shown, in a real browser.
import type { Page } from 'playwright-core'
import { newId } from '../../../shared/base/ids.ts'
import type { Prisma } from '../../../shared/generated/prisma/client.ts'
import { hashSecret } from '../../../shared/keys/secret.ts'
import { type SignedUp, signUp } from '../../support/dashboard/dashboard.ts'
import { newPage, startBrowser } from '../../support/io/chromium.ts'
import { test } from '../../support/test.ts'
import { use, useGateway } from '../../support/use.ts'
import { requestLogRow } from '../../support/wallet/request-log-row.ts'

const minuteMs = 60_000
const dayMs = 86_400_000
let page: Page

const gateway = useGateway(test, {})
const owner = use(test, () => signUp(gateway))
const browser = use(test, startBrowser)
test.afterEach.always(async t => {
  if (!t.passed) t.log(page.url(), await main().ariaSnapshot())
  await page.context().close()
})

async function open(path: string, { visitor, organisationId }: SignedUp = owner): Promise<void> {
  page = await newPage(browser, gateway.url, { visitor, viewport: { width: 1440, height: 900 } })
  await page.goto(`${gateway.url}/dashboard/${organisationId}/${path}`)
}

const main = () => page.getByRole('main')
const region = (name: string) => main().getByRole('region', { name, exact: true })
const shortTime = (ms: number) => new Date(ms).toISOString().slice(11, 16)

type Logged = { agoMs: number; by?: SignedUp } & Partial<Prisma.GenerationCreateManyInput>

/** Writes rows of the request log. Returns the id of the last. */
async function log(count: number, { agoMs, by = owner, ...fields }: Logged): Promise<string> {
  const row = requestLogRow({
    createdAt: new Date(Date.now() - agoMs),
    organisationId: by.organisationId,
    promptTokens: 430,
    completionTokens: 400,
    costNano: 850n,
    firstByteMs: 300,
    durationMs: 334,
    ...fields,
  })
  const ids = Array.from({ length: count }, () => newId('chatcmpl'))
  await gateway.services.db.generation.createMany({ data: ids.map(id => ({ ...row, id })) })
  return ids.at(-1)!
}

test.serial('all columns of the requests are within a window of 1440 px', async t => {
  const secret = await gateway.key(owner.organisationId, 'live', { name: 'Nightly enrichment of products' })
  const { id: keyId } = await gateway.services.db.apiKey.findFirstOrThrow({ where: { hash: hashSecret(secret) } })
  const usual = { agoMs: minuteMs, keyId, durationMs: 14_700, firstByteMs: 1_120 }
  await log(5, { ...usual, streamed: true, model: 'qwen3-235b-a22b-2507', provider: 'openrouter', costNano: 8_800n })
  await log(5, { ...usual, kind: 'avatar', environment: 'test', model: 'heygen-photo-avatar-iv', provider: 'heygen' })
  await log(5, { ...usual, status: 502, errorCode: 'upstream_invalid_response', provider: null, attempts: 12 })
  await open('requests')
  const table = page.getByRole('group', { name: 'Requests' })
  await table.getByText('upstream_inval').first().waitFor()
  type Box = { scrollWidth: number; clientWidth: number }
  const widths = await table.evaluate(element => {
    const { scrollWidth, clientWidth } = element as unknown as Box
    return { scrollWidth, clientWidth }
  })
  t.true(widths.scrollWidth <= widths.clientWidth, JSON.stringify(widths))
})

test.serial('a request that was not streamed has no time to first token', async t => {
  const id = await log(1, { agoMs: minuteMs })
  await open(`requests/${id}`)
  await main().getByText('334 ms in total').waitFor()
  t.is(await main().getByText('TTFT').count(), 0)
  const streamed = await log(1, { agoMs: minuteMs, streamed: true })
  await open(`requests/${streamed}`)
  await main().getByText('TTFT 300 ms').waitFor()
})

test.serial('the chart of errors has errors alone', async t => {
  const other = await signUp(gateway)
  await log(3, { agoMs: minuteMs, by: other })
  await log(2, { agoMs: minuteMs, by: other, status: 502, errorCode: 'upstream_error' })
  await open('requests', other)
  await main().getByRole('img', { name: 'Requests over time: 3 Ok, 2 Failed' }).waitFor()
  await main().getByRole('button', { name: 'Errors, last 24 hours' }).click()
  await main().getByRole('img', { name: 'Requests over time: 2 Failed' }).waitFor()
  await main().getByText('Showing 2 requests').waitFor()
  await open('requests?status=502', other)
  await main().getByText('Showing 2 requests').waitFor()
  t.is(
    await main()
      .getByRole('img', { name: /^Requests over time/ })
      .count(),
    0,
  )
})

test.serial('an organisation with test requests or failures alone sees its requests', async t => {
  for (const fields of [{ environment: 'test' as const }, { status: 502, errorCode: 'upstream_error' }]) {
    const other = await signUp(gateway)
    await log(2, { agoMs: 8 * dayMs, by: other, costNano: 0n, ...fields })
    await log(8, { agoMs: minuteMs, by: other, costNano: 0n, ...fields })
    await open('overview', other)
    await region('Usage').getByRole('img', { name: 'Requests over time, 8 in total' }).waitFor()
    t.is(await main().getByText('No usage').count(), 0)
    await region('Requests').getByText('300 % more than the 7 days before').waitFor()
    await region('Usage').getByText('Cost', { exact: true }).click()
    await region('Usage').getByText('No cost in this period').waitFor()
  }
})

test.serial('tiles and lists agree on a request', async t => {
  const other = await signUp(gateway)
  await log(1, { agoMs: minuteMs, by: other })
  await open('overview', other)
  const latency = region('Latency, p50')
  await latency.getByText('334 ms').first().waitFor()
  await latency.getByText('p95 334 ms').waitFor()
  t.regex(await region('TTFT, p50').innerText(), /–/)
})

test.serial('an outage needs attention while it lasts, to the minute', async t => {
  const other = await signUp(gateway)
  const failed = { by: other, status: 502, errorCode: 'upstream_error', provider: 'groq' }
  const beganMs = Date.now() - 5 * minuteMs
  await log(12, { agoMs: Date.now() - beganMs, ...failed })
  await open('overview', other)
  const notice = region('Needs attention')
  await notice.getByText('groq fails').waitFor()
  const text = await notice.innerText()
  t.regex(text, /: all 12 requests since/)
  t.false(/:\d\d:\d\d/.test(text), text)
  t.regex(text, new RegExp(`:${shortTime(beganMs).slice(3)}`))
  await log(5, { agoMs: 4 * minuteMs, by: other, provider: 'groq' })
  await open('overview', other)
  await region('Recovered').getByText('groq failed').waitFor()
  t.is(await region('Needs attention').getByText('groq').count(), 0)
})

test.serial('a saved view is there in another browser, as are those that this browser had kept', async t => {
  const other = await signUp(gateway)
  await log(3, { agoMs: minuteMs, by: other })
  const views = () => main().getByRole('group', { name: 'Views' })
  await open('requests?status=ok', other)
  const kept = JSON.stringify([{ name: 'Kept here', query: 'status=502' }])
  await page.evaluate(`localStorage.setItem('headgate-views-${other.organisationId}', ${JSON.stringify(kept)})`)
  await page.reload()
  await views().getByRole('button', { name: 'Kept here', exact: true }).waitFor()
  await views().getByRole('button', { name: 'Save view' }).click()
  await views().getByLabel('Name of the view').fill('All is well')
  await page.keyboard.press('Enter')
  await views().getByRole('button', { name: 'All is well', exact: true }).waitFor()
  await page.context().close()
  await open('requests', other)
  await views().getByRole('button', { name: 'Kept here', exact: true }).waitFor()
  await views().getByRole('button', { name: 'All is well', exact: true }).click()
  await page.waitForURL(/status=ok/)
  await views().getByRole('button', { name: 'Delete the view “All is well”' }).click()
  await views().getByRole('button', { name: 'All is well', exact: true }).waitFor({ state: 'detached' })
  await main().getByRole('combobox', { name: 'Model' }).click()
  await page.getByRole('option', { name: 'gpt-5 3', exact: true }).waitFor()
  t.pass()
})
