import { SyncClient } from '@sync.so/sdk'
import { sync } from '../../../shared/providers/adapters/sync/protocol.ts'
import { ProviderError } from '../../../shared/providers/provider-error.ts'
import { json } from '../../emulators/emulator.ts'
import { startSync, syncError } from '../../emulators/sync.ts'
import { callOf, queuedConformance } from '../../support/jobs/queued-adapter.ts'
import { assertFailures, assertReports, bench } from '../../support/jobs/slow-work.ts'
import { audioSource, imageSource, videoSource } from '../../support/jobs/sources.ts'
import { test } from '../../support/test.ts'

const input = { takes: 'video', prompt: null, resolution: null, seconds: 10.5, audioSeconds: 8 } as const
const call = (model = 'lipsync-2', more: object = {}) =>
  callOf<'lipsync'>('sync', model, { ...input, ...more }, { video_url: videoSource, audio_url: audioSource })
const { adapter, using, started, shown, refused } = bench('sync', sync, 'lipsync', startSync)

queuedConformance(test, {
  name: 'sync',
  provider: 'sync',
  protocol: sync,
  kind: 'lipsync',
  start: startSync,
  call,
  replies: {
    invalid: syncError(400, ['model must be known', 'input must include one video input item']),
    rateLimited: syncError(429, 'Too many requests'),
    quota: syncError(402, 'Payment required'),
  },
})

test('started at Sync: the exact request of every model', async t => {
  for (const model of ['sync-3', 'lipsync-2', 'lipsync-2-pro']) {
    const { operation, path, headers, body } = await started(call(model))
    t.is(path, '/v2/generate')
    t.is(headers['x-api-key'], 'secret-key-of-the-gateway:and-its-other-half')
    t.deepEqual(body, {
      model,
      input: [
        { type: 'video', url: 'https://files.example/clip.mp4' },
        { type: 'audio', url: 'https://files.example/voice.mp3' },
      ],
      options: { sync_mode: 'loop' },
      outputFileName: 'job_conformance0',
    })
    t.deepEqual(Object.keys(operation), ['id'])
  }
})

test('started: an emotion of a model that takes one, another way of fitting', async t => {
  const whole = call('lipsync-2', { prompt: 'happy' })
  const deployment = { ...whole.target.deployment, upstream_model: 'react-1', traits: { sync_mode: 'remap' } }
  const { body } = await started({ ...whole, target: { ...whole.target, deployment } })
  t.deepEqual([body.model, body.options], ['react-1', { sync_mode: 'remap', prompt: 'happy' }])
})

test('400 for a row that lets callers choose a resolution, before anything is sent', async t => {
  const whole = call()
  const model = { ...whole.target.model, kind: { takes: 'video' as const, resolutions: ['720p', '1080p'] } }
  t.is(await refused(t, { ...whole, target: { ...whole.target, model } }), 'resolution')
})

test('400 for a still, before anything is sent', async t => {
  const still = callOf<'lipsync'>('sync', 'lipsync-2', { ...input, takes: 'image' }, { image_url: imageSource })
  t.is(await refused(t, still), 'image_url')
})

test('reported by Sync: every status', async t => {
  const done = { status: 'COMPLETED', outputUrl: 'https://o.example/a.mp4', outputDuration: 3.2 }
  await assertReports(t, answer => shown(answer, { id: 'a' }), [
    [{ status: 'PENDING' }, 'pending'],
    [{ status: 'PROCESSING' }, 'pending'],
    [done, 'completed'],
    [{ ...done, outputUrl: undefined, outputMediaUrl: done.outputUrl }, 'completed'],
    [{ ...done, outputUrl: null }, 'failed: invalid_response'],
    [{ ...done, outputUrl: 'ftp://o.example/a' }, 'failed: invalid_response'],
    [{ status: 'FAILED', error: 'Something broke', error_code: 'generation_pipeline_failed' }, 'failed: server_error'],
    [{ status: 'FAILED', error: 'No face in the video' }, 'failed: invalid_request'],
    [{ status: 'FAILED', error_code: 'generation_input_audio_invalid' }, 'failed: invalid_request'],
    [{ status: 'FAILED', errorCode: 'generation_audio_length_exceeded' }, 'failed: invalid_request'],
    [{ status: 'FAILED', errorCode: 'generation_media_metadata_missing' }, 'failed: invalid_request'],
    [{ status: 'FAILED', errorCode: 'generation_input_face_selection_invalid' }, 'failed: invalid_request'],
    // The file was served by this gateway.
    [
      { status: 'FAILED', error: 'The video is invalid', errorCode: 'generation_input_video_inaccessible' },
      'failed: server_error',
    ],
    [{ status: 'FAILED', errorCode: 'generation_timeout' }, 'failed: timeout'],
    [{ status: 'REJECTED', errorCode: 'generation_infra_storage_error' }, 'failed: server_error'],
    [{ status: 'FAILED' }, 'failed: server_error'],
    [{ status: 'REJECTED', error: 'Rejected by moderation' }, 'failed: content_filter'],
    [{ status: 'REJECTED', error: null }, 'failed: invalid_request'],
    [{ status: 'CANCELLED' }, 'throws invalid_response'],
    [{}, 'throws invalid_response'],
    ['?', 'throws invalid_response'],
  ])
  t.deepEqual(await shown(done, { id: 'a' }), {
    status: 'completed',
    output: { files: [{ role: 'video', url: 'https://o.example/a.mp4' }], durationS: 3.2 },
    invoice: { seconds: 3.2, credits: null },
  })
})

test('refused: every error of the documentation', t => {
  assertFailures(t, sync, [
    [400, { message: ['a', 'b'], statusCode: 400 }, 'invalid_request', 'a; b'],
    [400, { message: 'Your plan has not enough credits' }, 'quota'],
    [
      401,
      { message: 'key sk-123 is wrong' },
      'auth',
      "The provider refused the gateway's credentials. Tell the operator of this service.",
    ],
    [
      402,
      { message: 'no credits' },
      'quota',
      "The gateway's account at the provider has no credit left. Tell the operator of this service.",
    ],
    [402, { message: 'Too long', errorCode: 'generation_plan_duration_exceeded' }, 'invalid_request', 'Too long'],
    [429, { message: 'Too many', errorCode: 'concurrency_limit_reached' }, 'rate_limited'],
    [404, { message: 'Not found' }, 'model_unavailable'],
    [422, { message: 'x'.repeat(5_000) }, 'invalid_request'],
    [429, { message: 'Slow down' }, 'rate_limited'],
    [500, '<html>', 'server_error', 'The provider answered with status 500.'],
    [503, {}, 'overloaded'],
  ])
})

test('the official SDK works with the emulator', async t => {
  const { url, finish, fail, close } = await startSync()
  t.teardown(close)
  const client = new SyncClient({ apiKey: 'sk-1', environment: url })
  const asked = {
    model: 'lipsync-2' as const,
    input: [
      { type: 'video' as const, url: 'https://v.example/a' },
      { type: 'audio' as const, url: 'https://a.example/b' },
    ],
  }
  const { id, status } = await client.generations.create(asked)
  t.is(status, 'PENDING')
  t.is((await client.generations.get(id)).status, 'PROCESSING')
  finish(id)
  const done = await client.generations.get(id)
  t.is(done.status, 'COMPLETED')
  t.is(done.outputDuration, 3.2)
  t.regex((await (await fetch(done.outputUrl!)).bytes()).subarray(4, 8).toString(), /^102,116,121,112$/)
  const other = await client.generations.create(asked)
  fail(other.id)
  t.is((await client.generations.get(other.id)).error_code, 'generation_pipeline_failed')
  t.is((await client.generations.list()).length, 2)
  t.is((await client.generations.estimateCost(asked)).length, 1)
  await t.throwsAsync(client.generations.create({ ...asked, input: [] }), { message: /400/ })
  await t.throwsAsync(client.generations.get('nothing'), { message: /404/ })
  const stranger = new SyncClient({ apiKey: 'invalid', environment: url })
  await t.throwsAsync(stranger.generations.get(id), { message: /401/ })
})

test('finished at the second look, for those who cannot end it themselves', async t => {
  const { url, close } = await startSync({ autoFinish: 2 })
  t.teardown(close)
  const client = new SyncClient({ apiKey: 'sk-1', environment: url })
  const { id } = await client.generations.create({
    model: 'sync-3',
    input: [
      { type: 'video', url: 'https://v.example/a' },
      { type: 'audio', url: 'https://a.example/b' },
    ],
  })
  t.deepEqual(
    [(await client.generations.get(id)).status, (await client.generations.get(id)).status],
    ['PROCESSING', 'COMPLETED'],
  )
})

test('refused: a handle that would lead to another address', async t => {
  await using(async ({ emulator }, connection) => {
    emulator.next(json(201, { id: '../v2/assets?x=' }))
    const error = await t.throwsAsync(adapter.start(call(), connection, null), { instanceOf: ProviderError })
    t.is(error!.reason, 'invalid_response')
  })
})
