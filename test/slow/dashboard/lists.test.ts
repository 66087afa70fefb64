// The lists of jobs, members, keys, changes and failed queue entries as people use them, in a real browser.
import { Worker } from 'bullmq'
import type { Locator, Page } from 'playwright-core'
import type { AuditEvent } from '../../../api/dashboard/wire/audit.ts'
import { nanoFromUsd } from '../../../shared/base/money.ts'
import { newKey } from '../../../shared/keys/key-requests.ts'
import { join, type SignedUp, signUp } from '../../support/dashboard/dashboard.ts'
import { eventually } from '../../support/gateway.ts'
import { newPage, startBrowser } from '../../support/io/chromium.ts'
import { download } from '../../support/io/download.ts'
import { over, submit } from '../../support/jobs/gateway.ts'
import { test } from '../../support/test.ts'
import { use, useGateway } from '../../support/use.ts'
import { startWorkers } from '../../support/workers.ts'

let page: Page

const gateway = useGateway(test, { FAL_API_KEY: 'unused', FAL_BASE_URL: 'http://127.0.0.1:9' })
const owner = use(test, () => signUp(gateway))
const grace = use(test, () => signUp(gateway, { name: 'Grace' }))
test.before(async () => {
  await join(gateway, grace.userId, owner.organisationId, 'admin')
  await gateway.services.db.user.update({ where: { id: owner.userId }, data: { operator: true } })
})
const browser = use(test, startBrowser)
test.afterEach.always(async t => {
  if (!t.passed) t.log(page.url(), await main().ariaSnapshot())
  await page.context().close()
})

async function open(path: string): Promise<void> {
  page = await newPage(browser, gateway.url, { visitor: owner.visitor, viewport: { width: 1280, height: 900 } })
  await page.goto(`${gateway.url}/dashboard${path.replace('~', `/${owner.organisationId}`)}`)
}

const main = () => page.getByRole('main')
const table = (name: string) => page.getByRole('table', { name })
const search = () => new URL(page.url()).searchParams
const keyBy = ({ userId }: SignedUp, fields: object) =>
  gateway.services.keys.create(owner.organisationId, newKey.parse(fields), { kind: 'user', id: userId, name: 'Ada' })
/** How many rows a table shows below its header. */
const countRows = (of: Locator) =>
  of
    .getByRole('row')
    .filter({ has: page.getByRole('rowheader') })
    .count()

test.serial('a job is found by its id and its request’s id, and shows the first frame of its video', async t => {
  const { secret } = await keyBy(owner, { environment: 'test' })
  const workers = startWorkers(gateway.services)
  t.teardown(() => workers.stop())
  const { id } = await submit(gateway, '/v1/videos', secret, { prompt: 'A lock' })
  await submit(gateway, '/v1/meshes', secret, { prompt: 'A stone' })
  await over(gateway, secret, '/v1/videos', id)
  const { requestId } = await gateway.services.db.job.findUniqueOrThrow({ where: { id } })
  await open('~/jobs')
  await table('Jobs').getByText('3D mesh').waitFor()
  const field = main().getByLabel('ID', { exact: true })
  for (const text of [id, requestId]) {
    await field.fill(text)
    await table('Jobs').getByText('3D mesh').waitFor({ state: 'detached' })
    await table('Jobs').getByText(id).waitFor()
    await field.fill('')
    await table('Jobs').getByText('3D mesh').waitFor()
  }
  const film = table('Jobs').locator('video')
  await film.waitFor()
  type Film = { videoWidth: number }
  await eventually(() => film.evaluate(element => (element as unknown as Film).videoWidth > 0), 'a frame is there')
  await field.fill('job_unknown')
  await main().getByRole('button', { name: 'Clear filters' }).click()
  await table('Jobs').getByText('3D mesh').waitFor()
  await main().getByRole('radiogroup', { name: 'Time' }).getByText('24h').click()
  await page.waitForURL(/span=24h/)
  t.deepEqual([search().get('q'), search().get('span')], [null, '24h'])
})

test.serial('a member’s keys and spend are a click away; an owner is appointed after a confirmation', async t => {
  await keyBy(grace, { environment: 'test', name: 'Notebook' })
  await open('~/members')
  const row = table('Members').getByRole('row').filter({ hasText: grace.visitor.email })
  await row.getByText('no', { exact: true }).waitFor()
  await row.getByRole('link', { name: '1 API keys of Grace' }).click()
  await table('API keys').getByText('Notebook').waitFor()
  t.is(await countRows(table('API keys')), 1)
  await page.goBack()
  await row.getByRole('link', { name: 'spent by the API keys of Grace' }).click()
  await page.getByRole('heading', { level: 1, name: 'Usage' }).waitFor()
  t.is(search().get('member'), grace.userId)
  t.is(await main().getByRole('combobox', { name: 'Member', exact: true }).inputValue(), 'Grace')
  await page.goBack()

  const roleOf = async () =>
    (
      await gateway.services.db.membership.findFirstOrThrow({
        where: { userId: grace.userId, organisationId: owner.organisationId },
      })
    ).role
  const appoint = async () => {
    await page.getByRole('combobox', { name: `Role of ${grace.visitor.email}` }).click()
    await page.getByRole('option', { name: 'owner' }).click()
    return page.getByRole('dialog', { name: 'Make Grace an owner' })
  }
  await (await appoint()).getByRole('button', { name: 'Cancel' }).click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  t.is(await roleOf(), 'admin')
  await (await appoint()).getByRole('button', { name: 'Make owner' }).click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  t.is(await roleOf(), 'owner')
})

test.serial('the audit log names where changes came from, and is exported as it is filtered', async t => {
  await open('~/audit')
  const changed = table('Audit log').getByRole('row').filter({ hasText: 'changed the role of' })
  await changed.getByText('in the dashboard').waitFor()
  await changed.getByText('127.0.0.1').waitFor()
  await changed.getByText('Chrome on Linux').waitFor()
  await main().getByLabel('Actor').fill(owner.visitor.email)
  await page.waitForURL(/actor=/)
  await main().getByRole('radiogroup', { name: 'Time' }).getByText('1h').click()
  await page.waitForURL(/span=1h/)
  const { bytes } = await download(page, () => main().getByRole('link', { name: 'JSON' }).click())
  const lines = bytes.toString().trim().split('\n')
  const events = lines.map(line => JSON.parse(line) as { actor: string; action: AuditEvent['action'] })
  await eventually(async () => (await countRows(table('Audit log'))) === events.length, 'as many are listed')
  t.true(events.every(({ actor }) => actor === owner.visitor.email))
})

test.serial('a key whose cap refuses requests says so, in the list and on its page', async t => {
  const { wallets, refusalLog } = gateway.services
  await wallets.deposit({ organisationId: owner.organisationId, amountNano: nanoFromUsd('25'), method: 'grant' })
  const { secret, row } = await keyBy(owner, { environment: 'live', name: 'Small', monthly_spend_cap_usd: 1 })
  const body = { model: 'kling-v3-pro', prompt: 'A lock' }
  const statuses = [1, 2].map(async () => (await gateway.fetch('/v1/videos', { key: secret, body })).status)
  t.deepEqual((await Promise.all(statuses)).sort(), [202, 402])
  await refusalLog.flush()
  await open('~/keys')
  const listed = table('API keys').getByRole('row').filter({ hasText: 'Small' })
  await listed.getByText('cap nearly reached').waitFor()
  await listed.getByText(/^refused a request /).waitFor()
  await listed.getByRole('link', { name: 'Small' }).click()
  await page.waitForURL(new RegExp(row.id))
  await main().getByText('cap nearly reached').waitFor()
})

test.serial('failed entries of a queue are removed after a confirmation, and no others', async t => {
  const { maintenance } = gateway.services.queues
  await maintenance.add('broken', null, { jobId: 'entry-1' })
  const { connection, prefix } = maintenance.opts
  const worker = new Worker(maintenance.name, null, { connection, prefix: prefix!, autorun: false })
  t.teardown(() => worker.close())
  await (await worker.getNextJob('token'))!.moveToFailed(new Error('the store is away'), 'token')
  await maintenance.add('later', null, { jobId: 'entry-2', delay: 3_600_000 })

  await open('/operator/queues')
  await table('Queues').getByRole('button', { name: 'Entries of maintenance' }).click()
  const entries = page.getByRole('region', { name: 'Entries of maintenance' })
  await entries.getByText('the store is away').waitFor()
  const ask = async () => {
    await entries.getByRole('button', { name: 'Remove all' }).click()
    return page.getByRole('dialog', { name: 'Remove 1 failed entry of maintenance' })
  }
  await (await ask()).getByRole('button', { name: 'Cancel' }).click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  t.is(await maintenance.getJobState('entry-1'), 'failed')
  await (await ask()).getByRole('button', { name: 'Remove all' }).click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await page.getByText('1 entry removed').waitFor()
  t.deepEqual(
    [await maintenance.getJobState('entry-1'), await maintenance.getJobState('entry-2')],
    ['unknown', 'delayed'],
  )
  const where = { action: 'queue.entries_removed', actorKind: 'operator' }
  t.is(await gateway.services.db.auditEvent.count({ where }), 1)
})

test.serial('a name that is written from right to left is cut off at its end', async t => {
  const name = 'مفتاح الإنتاج الرئيسي للفريق'
  const { secret } = await keyBy(owner, { environment: 'test', name })
  const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/json' }
  const body = JSON.stringify({ model: 'auto', messages: [{ role: 'user', content: 'Hello' }] })
  await fetch(`${gateway.url}/v1/chat/completions`, { method: 'POST', headers, body })
  await gateway.settled()
  await open('~/requests')
  await main().getByText(name).waitFor()
  // The box of its first letter lies within that of the cell.
  const isShown = await page.evaluate<boolean>(`(() => {
    const cell = document.querySelector('p[title^="${name}"]')
    const letter = document.createRange()
    letter.setStart(cell.firstChild, 0)
    letter.setEnd(cell.firstChild, 1)
    return letter.getBoundingClientRect().right <= cell.getBoundingClientRect().right
  })()`)
  t.true(isShown)
})
