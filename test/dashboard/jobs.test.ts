import type { BatchDetail, BatchErrors, BatchesPage } from '../../api/dashboard/wire/batches.ts'
import type { JobDetail, JobsPage } from '../../api/dashboard/wire/jobs.ts'
import { nanoFromUsd } from '../../shared/base/money.ts'
import { newKey } from '../../shared/keys/key-requests.ts'
import { chatLine, createBatch, ended, jsonLines, uploadInput } from '../support/batches/gateway.ts'
import { join, type SignedUp, signUp } from '../support/dashboard/dashboard.ts'
import { eventually } from '../support/gateway.ts'
import { image, over, submit } from '../support/jobs/gateway.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'
import { startWorkers, type Workers } from '../support/workers.ts'

let workers: Workers | null = null

// No worker runs: live jobs wait until they are cancelled.
const gateway = useGateway(test, {
  FAL_API_KEY: 'unused',
  FAL_BASE_URL: 'http://127.0.0.1:9',
  ALLOW_PRIVATE_URLS: 'true',
})
const owner = use(test, () => signUp(gateway))
const admin = use(test, () => signUp(gateway))
const member = use(test, () => signUp(gateway))
const stranger = use(test, () => signUp(gateway))
test.before(async () => {
  await join(gateway, admin.userId, owner.organisationId, 'admin')
  await join(gateway, member.userId, owner.organisationId, 'member')
  const { organisationId } = owner
  await gateway.services.wallets.deposit({ organisationId, amountNano: nanoFromUsd('25'), method: 'grant' })
})
test.after.always(async () => {
  await workers?.stop()
})

/** A key as its creator would make it on the Keys page. */
async function keyBy({ userId }: SignedUp, environment: 'live' | 'test', name: string) {
  const actor = { kind: 'user', id: userId, name } as const
  return gateway.services.keys.create(owner.organisationId, newKey.parse({ environment, name }), actor)
}

const clip = (prompt: string, more: object = {}) => ({ model: 'kling-v3-pro', prompt, ...more })
const delayed = (content: string) => ({
  body: { model: 'gpt-4o-mini', messages: [{ role: 'user', content }] },
  completion_window: '1h',
})

/** Lists with filters, page by page. */
async function idsBy(visitor: SignedUp['visitor'], what: 'jobs' | 'batches', query: string, limit = 100) {
  const ids: string[] = []
  for (let after = ''; ; ) {
    const path = `${owner.base}/${what}?limit=${limit}${query}${after}`
    const page = await visitor.json<JobsPage | BatchesPage>(path)
    ids.push(...page.data.map(({ id }) => id))
    if (!page.has_more) return ids
    after = `&after=${page.last_id}`
  }
}

test.serial('queued: jobs of all kinds are one list, filtered and paged, and cancelled by those who may', async t => {
  const [ownersKey, membersKey, testKey] = await Promise.all([
    keyBy(owner, 'live', 'Production'),
    keyBy(member, 'live', 'Experiments'),
    keyBy(owner, 'test', 'Sandbox'),
  ])
  const ids: Record<string, string> = {}
  for (const [name, key, path, body] of [
    ['live', ownersKey, '/v1/videos', clip('A lake at dawn')],
    ['members', membersKey, '/v1/videos', clip('A river', { webhook_url: 'http://127.0.0.1:9/hook' })],
    ['test', testKey, '/v1/videos', clip('A pond', { seconds: 5 })],
    ['mesh', testKey, '/v1/meshes', { prompt: 'A stone' }],
    ['delayed', testKey, '/v1/jobs', delayed('Say something later')],
  ] as const)
    ids[name] = (await submit(gateway, path, key.secret, body)).id

  const newestFirst = Object.values(ids).reverse()
  const { requestId } = await gateway.services.db.job.findUniqueOrThrow({ where: { id: ids.mesh! } })
  for (const [query, expected] of [
    ['', newestFirst],
    ['&environment=live', [ids.members, ids.live]],
    ['&kind=mesh', [ids.mesh]],
    ['&kind=async', [ids.delayed]],
    ['&status=unfinished&kind=video', [ids.test, ids.members, ids.live]],
    ['&status=completed', []],
    [`&key=${membersKey.row.id}`, [ids.members]],
    [`&q=${ids.live}`, [ids.live]],
    [`&q=${requestId}`, [ids.mesh]],
    [`&q=${requestId}&kind=video`, []],
    [`&q=${ids.live!.slice(0, -1)}`, []],
    ['&span=1h', newestFirst],
    ['&from=2026-01-01T00:00:00Z', newestFirst],
    ['&from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z', []],
    [`&key=${testKey.row.hash}&status=queued&environment=test`, [ids.delayed, ids.mesh, ids.test]],
  ] as const) {
    t.deepEqual(await idsBy(member.visitor, 'jobs', query), expected as string[], query)
  }
  t.deepEqual(await idsBy(member.visitor, 'jobs', '', 2), newestFirst, 'no job is lost or twice between pages')
  for (const [query, status] of [
    [`key=${'0'.repeat(64)}`, 404],
    ['after=job_unknown', 404],
    ['kind=chat', 400],
    ['span=24h&to=2026-01-02T00:00:00Z', 400],
    ['from=2026-01-02T00:00:00Z&to=2026-01-02T00:00:00Z', 400],
    ['from=yesterday', 400],
    ['limit=101', 400],
  ] as const)
    t.is((await member.visitor.fetch(`${owner.base}/jobs?${query}`)).status, status, query)

  const shown = await member.visitor.json<JobDetail>(`${owner.base}/jobs/${ids.members}`)
  t.like(shown, {
    key: { name: 'Experiments' },
    held_usd: 0,
    may_cancel: true,
    webhook_url: 'http://127.0.0.1:9/hook',
    delivery: null,
  })
  t.true(shown.cost_usd! > 0)
  t.is(shown.inputs.find(({ field }) => field === 'prompt')!.value, 'A river')
  t.true(shown.inputs.some(({ field }) => field === 'aspect_ratio' || field === 'resolution'))
  t.false(
    shown.inputs.some(({ field }) => field === 'mode'),
    'what is made of it for a provider',
  )
  t.like(await member.visitor.json(`${owner.base}/jobs/${ids.live}`), { may_cancel: false })
  t.like(shown, { calls: [], next_attempt_at: null })
  const refusal = { provider: 'fal', model: 'kling-v3-pro', status: 503, fault: 'overloaded', durationMs: 20 }
  await gateway.services.jobs.noteAttempts(
    await gateway.services.db.job.findUniqueOrThrow({ where: { id: ids.members! } }),
    [{ ...refusal, startedMs: 5, message: 'Too busy.' }],
  )
  const { calls } = await member.visitor.json<JobDetail>(`${owner.base}/jobs/${ids.members}`)
  t.like(calls, [{ provider: 'fal', status: 503, fault: 'overloaded', started_ms: 5, message: 'Too busy.' }])
  const waiting = await member.visitor.json<JobDetail>(`${owner.base}/jobs/${ids.delayed}`)
  t.regex(waiting.request!, /Say something later/)

  const cancel = ({ visitor }: SignedUp, id: string, base = owner.base) =>
    visitor.fetch(`${base}/jobs/${id}/cancel`, { method: 'POST' })
  t.is((await cancel(member, ids.live!)).status, 403)
  for (const [who, name] of [
    [member, 'members'],
    [member, 'delayed'],
    [member, 'mesh'],
    [admin, 'live'],
  ] as const) {
    const answer = await cancel(who, ids[name]!)
    t.is(answer.status, 200, name)
    t.like(await answer.json(), { status: 'cancelled', may_cancel: false, cost_usd: 0 })
    t.is((await cancel(who, ids[name]!)).status, 409)
  }
  const { balanceNano, reservedNano } = await gateway.services.wallets.view(owner.organisationId)
  t.deepEqual([balanceNano, reservedNano], [nanoFromUsd('25'), 0n])

  for (const id of [ids.test!, ids.delayed!])
    for (const [method, path] of [
      ['GET', `/jobs/${id}`],
      ['POST', `/jobs/${id}/cancel`],
    ] as const) {
      t.is((await stranger.visitor.fetch(stranger.base + path, { method })).status, 404, path)
      t.is((await stranger.visitor.fetch(owner.base + path, { method })).status, 404, path)
    }
  t.is((await stranger.visitor.fetch(`${owner.base}/jobs`)).status, 404)
  t.is((await stranger.visitor.fetch(`${stranger.base}/jobs?after=${ids.test}`)).status, 404)
})

test.serial('completed: a job shows its files, what it was made from, and its answer', async t => {
  workers = startWorkers(gateway.services)
  const { secret } = await keyBy(owner, 'test', 'Sandbox')
  const video = await submit(gateway, '/v1/videos', secret, clip('From a picture', { start_image_url: image }))
  const answer = await submit(gateway, '/v1/jobs', secret, delayed('Echo this'))
  await over(gateway, secret, '/v1/videos', video.id)
  const shown = await member.visitor.json<JobDetail>(`${owner.base}/jobs/${video.id}`)
  t.like(shown, { status: 'completed', progress: 100, cost_usd: 0, may_cancel: false })
  const listed = async () => {
    const { data } = await member.visitor.json<JobsPage>(`${owner.base}/jobs?q=${video.id}`)
    return data[0]!.thumbnail
  }
  const picture = await listed()
  t.is(picture?.type, 'video')
  t.is((await fetch(gateway.url + picture!.url)).headers.get('content-type'), 'video/mp4')
  const [file] = shown.outputs
  t.regex(file!.url, /^\/files\//, 'of the host that the page came from')
  t.is((await fetch(gateway.url + file!.url)).headers.get('content-type'), 'video/mp4')
  const [reference] = shown.references
  t.like(reference, { field: 'start_image_url', content_type: 'image/png' })
  t.is((await fetch(gateway.url + reference!.url!)).status, 200)
  t.is((shown.object as { id: string }).id, video.id)
  await gateway.services.db.file.updateMany({
    where: { organisationId: owner.organisationId, purpose: 'reference' },
    data: { expiresAt: new Date(0) },
  })
  const later = await member.visitor.json<JobDetail>(`${owner.base}/jobs/${video.id}`)
  t.is(later.references[0]!.url, null)
  await gateway.services.db.job.update({ where: { id: video.id }, data: { expiresAt: new Date(0) } })
  t.is(await listed(), null, 'its files are deleted')

  const path = `${owner.base}/jobs/${answer.id}`
  await eventually(
    async () => (await member.visitor.json<JobDetail>(path)).status === 'completed',
    'the answer is there',
  )
  const done = await member.visitor.json<JobDetail>(path)
  t.is(done.request, null, 'the request is not kept')
  t.regex(JSON.stringify(done.object.result), /Echo this/)
  t.regex(await (await fetch(gateway.url + done.result_url)).text(), /Echo this/)
})

test.serial('completed: a batch shows its counts, its files and its first errors', async t => {
  workers ??= startWorkers(gateway.services)
  const { secret: key } = await keyBy(member, 'test', 'Bulk')
  const door = { url: gateway.url, key }
  const picture = { type: 'image_url', image_url: { url: image } }
  const lines = [
    chatLine('good', 'gpt-4o-mini', 'Hello'),
    chatLine('bad', 'devstral-2', '', { messages: [{ role: 'user', content: [picture] }] }),
  ]
  const { id } = await createBatch(door, await uploadInput(door, jsonLines(lines), 'questions.jsonl'))
  await ended(door, id)
  const path = `${owner.base}/batches/${id}`
  const shown = await member.visitor.json<BatchDetail>(path)
  t.like(shown, { status: 'completed', total: 2, completed: 1, failed: 1, cost_usd: 0, may_cancel: false })
  t.like(shown, { key: { name: 'Bulk' }, endpoint: '/v1/chat/completions', environment: 'test' })
  t.truthy(shown.ended_at)
  t.deepEqual(
    shown.files.map(({ file }) => file),
    ['input', 'output', 'errors'],
  )
  t.is(shown.files[0]!.filename, 'questions.jsonl')
  const contents = await Promise.all(
    shown.files.map(async ({ file }) => {
      const leads = await member.visitor.fetch(`${path}/files/${file}`)
      t.is(leads.status, 302)
      return (await fetch(new URL(leads.headers.get('location')!, gateway.url))).text()
    }),
  )
  t.is(contents[0], jsonLines(lines))
  t.regex(contents[1]!, /"custom_id":"good"/)
  const { data, has_more } = await member.visitor.json<BatchErrors>(`${path}/errors`)
  t.false(has_more)
  t.like(data, [{ custom_id: 'bad', status: 400, code: 'unsupported_capability' }])

  const broken = await createBatch(door, await uploadInput(door, 'not JSON\n'))
  await ended(door, broken.id)
  const failed = await member.visitor.json<BatchDetail>(`${owner.base}/batches/${broken.id}`)
  t.like(failed, { status: 'failed', faults: [{ line: 1 }] })
  t.is((await member.visitor.fetch(`${owner.base}/batches/${broken.id}/errors`)).status, 404)
  t.is((await member.visitor.fetch(`${owner.base}/batches/${broken.id}/files/other`)).status, 404)

  t.deepEqual(await idsBy(member.visitor, 'batches', '', 1), [broken.id, id])
  t.deepEqual(await idsBy(member.visitor, 'batches', '&status=completed'), [id])
  t.deepEqual(await idsBy(member.visitor, 'batches', '&environment=live'), [])
  const { requestId, createdAt } = await gateway.services.db.batch.findUniqueOrThrow({ where: { id } })
  for (const q of [id, requestId]) t.deepEqual(await idsBy(member.visitor, 'batches', `&q=${q}`), [id])
  t.deepEqual(await idsBy(member.visitor, 'batches', '&q=batch_none'), [])
  t.deepEqual(await idsBy(member.visitor, 'batches', '&span=1h'), [broken.id, id])
  t.deepEqual(await idsBy(member.visitor, 'batches', `&to=${createdAt.toISOString()}`), [])
  t.is(
    (await member.visitor.fetch(`${owner.base}/batches?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z`)).status,
    400,
  )

  for (const [method, rest] of [
    ['GET', ''],
    ['GET', '/errors'],
    ['GET', '/files/input'],
    ['POST', '/cancel'],
  ] as const)
    t.is((await stranger.visitor.fetch(`${stranger.base}/batches/${id}${rest}`, { method })).status, 404, rest)
  t.deepEqual((await stranger.visitor.json<BatchesPage>(`${stranger.base}/batches`)).data, [])
})

test.serial(
  'cancelling: a member cancels a batch of a test key, an administrator any, and none is cancelled twice',
  async t => {
    await workers?.stop()
    workers = null
    const keys = await Promise.all([keyBy(owner, 'live', 'Nightly'), keyBy(owner, 'test', 'Bulk')])
    const [live, free] = await Promise.all(
      keys.map(async ({ secret: key }) => {
        const door = { url: gateway.url, key }
        return createBatch(door, await uploadInput(door, jsonLines([chatLine('a', 'gpt-4o-mini', 'Hi')])))
      }),
    )
    t.deepEqual((await idsBy(member.visitor, 'batches', '&status=unfinished')).sort(), [live!.id, free!.id].sort())
    const cancel = ({ visitor }: SignedUp, { id }: { id: string }) =>
      visitor.fetch(`${owner.base}/batches/${id}/cancel`, { method: 'POST' })
    t.is((await cancel(member, live!)).status, 403)
    t.is((await cancel(admin, live!)).status, 200)
    const answer = await cancel(member, free!)
    t.like(await answer.json(), { status: 'cancelling', may_cancel: false, ended_at: null })
    workers = startWorkers(gateway.services)
    await ended({ url: gateway.url, key: keys[1]!.secret }, free!.id)
    t.is((await cancel(member, free!)).status, 409)
    t.like(await member.visitor.json(`${owner.base}/batches/${free!.id}`), { status: 'cancelled' })
  },
)
