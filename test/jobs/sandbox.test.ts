import { ALL_FORMATS, BufferSource, Input } from 'mediabunny'
import OpenAI, { toFile } from 'openai'
import { dayMs } from '../../shared/base/time.ts'
import { forgetJobs } from '../../shared/jobs/retention.ts'
import { textureFile } from '../../shared/providers/sandbox/media/mesh-files.ts'
import { runMaintenance } from '../../workers/maintenance.ts'
import { type MediaPath, mediaBodies } from '../support/jobs/calls.ts'
import { answerOf, audio, image, over, rowOf, running, submit } from '../support/jobs/gateway.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'
import { runJobHousekeeping, startWorkers } from '../support/workers.ts'

const gateway = useGateway(test)
use(test, () => startWorkers(gateway.services))
const account = use(test, () => gateway.account({ usd: '0' }))

for (const path of Object.keys(mediaBodies) as MediaPath[]) {
  test(`completed for free, without credits: a test key’s job of ${path}`, async t => {
    const body = await mediaBodies[path]()
    const created = await gateway.fetch(path, { key: account.test, body })
    t.is(created.status, 202)
    t.is(created.headers.get('x-sandbox'), 'true')
    const job = await answerOf(created)
    t.is(created.headers.get('x-generation-id'), job.id)
    const done = await over(gateway, account.test, path, job.id)
    t.like(done, { status: 'completed', progress: 100, cost_usd: 0, error: null })
    t.true(
      done.started_at >= done.created_at && done.completed_at >= done.started_at && done.expires_at > done.completed_at,
    )
    const file = await fetch(done.url)
    t.is(file.status, 200)
    t.is((await file.arrayBuffer()).byteLength, done.outputs[0].bytes)
    t.deepEqual(await gateway.services.db.ledgerEntry.count({ where: { organisationId: account.organisationId } }), 0)
  })
}

test('failed by a magic word, expired by another, and both are free', async t => {
  const failing = await submit(gateway, '/v1/videos', account.test, { prompt: 'sandbox:fail' })
  t.like(await over(gateway, account.test, '/v1/videos', failing.id), { status: 'failed', cost_usd: 0, url: null })
  const endless = await submit(gateway, '/v1/meshes', account.test, { prompt: 'sandbox:timeout' })
  await running(gateway, endless.id)
  await gateway.services.db.job.update({ where: { id: endless.id }, data: { deadlineAt: new Date(0) } })
  await runJobHousekeeping(gateway.services)
  t.like(await over(gateway, account.test, '/v1/meshes', endless.id), { status: 'expired', cost_usd: 0 })
})

test('the OpenAI SDK makes a video from a first frame and downloads it', async t => {
  const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: account.test })
  const frame = await toFile(textureFile(), 'frame.png', { type: 'image/png' })
  const created = await client.videos.create({
    model: 'veo-3.1' as 'sora-2',
    prompt: 'A lighthouse at dusk',
    seconds: '8',
    size: '1280x720',
    input_reference: frame,
  })
  t.is(created.status, 'queued')
  t.like((await rowOf(gateway, created.id)).input as object, {
    input: { mode: 'image', seconds: 8, aspectRatio: '16:9' },
  })
  await over(gateway, account.test, '/v1/videos', created.id)
  t.like(await client.videos.retrieve(created.id), { status: 'completed', progress: 100 })
  const content = await client.videos.downloadContent(created.id)
  t.is(content.headers.get('content-type'), 'video/mp4')
  const input = new Input({ formats: ALL_FORMATS, source: new BufferSource(await content.arrayBuffer()) })
  t.is(Math.round(await input.computeDuration()), 8)
  const track = (await input.getPrimaryVideoTrack())!
  t.deepEqual([track.displayWidth, track.displayHeight], [1280, 720])
  const part = await gateway.fetch(`/v1/videos/${created.id}/content`, {
    key: account.test,
    headers: { range: 'bytes=4-7' },
  })
  t.is(part.status, 206)
  t.is(await part.text(), 'ftyp')
  const missing = await t.throwsAsync(client.videos.downloadContent(created.id, { variant: 'thumbnail' }))
  t.like(missing, { status: 400, code: 'unsupported_capability', param: 'variant' })
})

test('the OpenAI SDK reads, lists and deletes its videos', async t => {
  const own = await gateway.account({ usd: '0' })
  const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: own.test, maxRetries: 0 })
  const asked = {
    model: 'veo-3.1' as 'sora-2',
    prompt: 'A lighthouse at dusk',
    seconds: '8',
    size: '1280x720',
  } as const
  const image_url = `data:image/png;base64,${textureFile().toString('base64')}`
  const slow = await client.videos.create({ ...asked, prompt: 'sandbox:slow=60000', input_reference: { image_url } })
  t.like((await rowOf(gateway, slow.id)).input as object, { input: { mode: 'image' } })
  const first = await client.videos.create(asked)
  const second = await client.videos.create({ ...asked, size: '720x1280' })
  t.like(first, { seconds: '8', size: '1280x720', prompt: asked.prompt, remixed_from_video_id: null, error: null })
  t.is(second.size, '720x1280')
  for (const { id } of [first, second]) await over(gateway, own.test, '/v1/videos', id)
  const ids = []
  for await (const video of client.videos.list({ limit: 1, order: 'asc' })) ids.push(video.id)
  t.deepEqual(ids, [slow.id, first.id, second.id])
  const page = await client.videos.list({ limit: 2 })
  t.deepEqual([page.data.map(({ id }) => id), page.has_more, page.last_id], [[second.id, first.id], true, first.id])
  const early = await t.throwsAsync(client.videos.delete(slow.id))
  t.like(early, { status: 409, code: 'not_deletable' })
  t.true((await gateway.services.db.file.count({ where: { organisationId: own.organisationId } })) > 0)
  await gateway.fetch(`/v1/videos/${slow.id}/cancel`, { key: own.test, method: 'POST' })
  for (const { id } of [slow, first, second])
    t.deepEqual(await client.videos.delete(id), { id, object: 'video.deleted', deleted: true })
  t.is(await gateway.services.db.file.count({ where: { organisationId: own.organisationId } }), 0)
  t.like(await rowOf(gateway, first.id), { input: {}, metadata: {}, result: null })
  for (const work of [client.videos.retrieve(first.id), client.videos.delete(first.id)])
    t.like(await t.throwsAsync(work), { status: 404, code: 'not_found' })
  t.deepEqual((await client.videos.list()).data, [])
  const after = await t.throwsAsync(client.videos.list({ after: 'job_nobody' }).then(() => {}))
  t.like(after, { status: 404, param: 'after' })
})

test('409 for a repeated request whose job was deleted: nothing is started again', async t => {
  const own = await gateway.account({ usd: '0' })
  const send = async () => {
    const body = { model: 'veo-3.1', prompt: 'A secret' }
    const response = await gateway.fetch('/v1/videos', { key: own.test, body, headers: { 'idempotency-key': 'video' } })
    return (await response.json()) as { id: string; error?: { code: string } }
  }
  const { id } = await send()
  t.is((await gateway.fetch(`/v1/videos/${id}/cancel`, { key: own.test, method: 'POST' })).status, 200)
  t.is((await send()).id, id)
  t.is((await gateway.fetch(`/v1/videos/${id}`, { key: own.test, method: 'DELETE' })).status, 200)
  t.is((await send()).error?.code, 'idempotency_key_reused')
  t.is(await gateway.services.db.job.count({ where: { organisationId: own.organisationId } }), 1)
})

test('what a job was asked for is dropped with its results, and the job stays', async t => {
  const metadata = { secret: 'kept for a week' }
  const prompt = 'A lighthouse at dusk'
  const { id } = await submit(gateway, '/v1/videos', account.test, { prompt, metadata })
  const done = await over(gateway, account.test, '/v1/videos', id)
  t.like(done, { prompt, metadata })
  const { services } = gateway
  await forgetJobs(services.db, new Date(done.completed_at * 1_000 - 60_000), services.clock.now())
  t.like(await rowOf(gateway, id), { metadata, forgottenAt: null })
  // Seven days later.
  const keptMs = services.config.resultRetentionDays * dayMs
  await services.db.job.update({ where: { id }, data: { completedAt: new Date(services.clock.now() - keptMs - 1) } })
  await runMaintenance('expire', {}, services)
  t.like(await rowOf(gateway, id), { input: {}, metadata: {}, result: null, status: 'completed' })
  t.like(await answerOf(await gateway.fetch(`/v1/videos/${id}`, { key: account.test })), {
    id,
    prompt: null,
    seconds: null,
    size: null,
    url: null,
    outputs: [],
    metadata: {},
    status: 'completed',
  })
})

test('400 and 415 for forms that are not what they should be: nothing is stored', async t => {
  const headers = { authorization: `Bearer ${account.test}` }
  const send = (body: FormData) => fetch(`${gateway.url}/v1/videos`, { method: 'POST', headers, body })
  const text = new FormData()
  text.append('prompt', 'x')
  text.append('input_reference', new Blob(['no image']), 'frame.png')
  const refused = await send(text)
  t.is(refused.status, 415)
  t.is((await answerOf(refused)).error.param, 'input_reference')
  const odd = new FormData()
  odd.append('prompt', 'x')
  odd.append('colour', 'red')
  t.like((await answerOf(await send(odd))).error, { code: 'unknown_field', param: 'colour' })
  const audio = new FormData()
  audio.append('prompt', 'x')
  audio.append('audio', 'loud')
  t.like((await answerOf(await send(audio))).error, { code: 'invalid_request', param: 'audio' })
})

test('400 without a model when none of the allowed ones takes the length of the audio', async t => {
  const said = { image_url: image, audio_url: audio(31) }
  const allowed = { model_allowlist: ['omnihuman-1.5'] }
  const key = await gateway.key(account.organisationId, 'test', allowed)
  const refused = await gateway.fetch('/v1/lipsync', { key, body: said })
  t.like((await answerOf(refused)).error, { code: 'unsupported_capability', param: 'audio_url' })
  t.is((await submit(gateway, '/v1/lipsync', key, { ...said, audio_url: audio(29) })).model, 'omnihuman-1.5')
})

test('404 for the content of a job that has none', async t => {
  const job = await submit(gateway, '/v1/videos', account.test, { prompt: 'sandbox:fail' })
  await over(gateway, account.test, '/v1/videos', job.id)
  t.is((await gateway.fetch(`/v1/videos/${job.id}/content`, { key: account.test })).status, 404)
})
