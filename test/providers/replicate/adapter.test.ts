import { readFileSync } from 'node:fs'
import { catalogFile, type Deployment } from '../../../shared/catalog/schema.ts'
import type { QueuedKind } from '../../../shared/kinds/index.ts'
import { video } from '../../../shared/kinds/video.ts'
import { replicate } from '../../../shared/providers/adapters/replicate/protocol.ts'
import type { ProviderCallback, QueuedAdapter, QueuedCall } from '../../../shared/providers/contract.ts'
import { json } from '../../emulators/emulator.ts'
import { accountSecret, replicateError, signed, startReplicate } from '../../emulators/replicate.ts'
import { falLipsync, falMesh, falVideo } from '../../support/jobs/fal-calls.ts'
import { connectionTo, queuedConformance } from '../../support/jobs/queued-adapter.ts'
import { assertFailures, assertReports, bench } from '../../support/jobs/slow-work.ts'
import { audioSource, hiddenImage, imageSource } from '../../support/jobs/sources.ts'
import { test } from '../../support/test.ts'

/** A call of a model that an operator describes: the shipped catalog has none at Replicate. */
function at<K extends QueuedKind>(call: QueuedCall<K>, upstream_model: string, traits: Deployment['traits'] = {}) {
  const provider = { ...call.target.provider, name: 'replicate', protocol: 'replicate' }
  const deployment = { ...call.target.deployment, provider: 'replicate', upstream_model, traits }
  return { ...call, target: { ...call.target, provider, deployment } }
}

const traits = { image_field: 'image', duration_format: 'number', resolution_field: 'resolution' } as const
const version = 'a'.repeat(64)
const first = { start_image_url: imageSource }
const call = () => at(falVideo('seedance-1.5-pro'), 'acme/films', traits)

const replies = {
  invalid: replicateError(422, '- input.prompt: prompt is required\n'),
  rateLimited: replicateError(429, 'Request was throttled. Your rate limit resets in ~30s.'),
  quota: replicateError(402, 'You have insufficient credit to run this model.'),
}
const common = { provider: 'replicate', protocol: replicate, replies }
queuedConformance(test, { ...common, name: 'replicate video', kind: 'video', start: startReplicate, call })
queuedConformance(test, {
  ...common,
  name: 'replicate mesh',
  kind: 'mesh',
  start: () => startReplicate({ output: files => ({ model_file: `${files}/model.glb`, video: `${files}/video.mp4` }) }),
  call: () =>
    at(falMesh('trellis', { from: 'image', prompt: null }, { image_url: imageSource }), 'acme/meshes', {
      image_field: 'image',
    }),
})
queuedConformance(test, {
  ...common,
  name: 'replicate lip sync',
  kind: 'lipsync',
  start: startReplicate,
  call: () => at(falLipsync(), 'acme/lips', { image_field: 'face', audio_field: 'voice' }),
})

const { adapter, using, started, shown, refused } = bench('replicate', replicate, 'video', startReplicate)

test('started: a model, a version, a deployment', async t => {
  const input = { prompt: 'a fox', duration: 5, resolution: '1080p' }
  const models: [string, Deployment['traits'], string, object][] = [
    ['acme/films', traits, '/v1/models/acme/films/predictions', { input }],
    [`acme/films:${version}`, traits, '/v1/predictions', { version, input }],
    ['acme/mine', { ...traits, deployment: true }, '/v1/deployments/acme/mine/predictions', { input }],
  ]
  for (const [model, named, path, body] of models) {
    const sent = await started(at(falVideo('seedance-1.5-pro'), model, named))
    t.deepEqual([sent.method, sent.path, sent.body], ['POST', path, body])
    t.is(sent.headers.authorization, 'Bearer secret-key-of-the-gateway:and-its-other-half')
    t.is(sent.headers.prefer, undefined)
  }
})

test('started: a start image, where to report the end', async t => {
  const callback = 'https://gateway.example/callbacks/job_1/token'
  const film = at(falVideo('seedance-1.5-pro', { mode: 'image' }, first, callback), 'acme/films', traits)
  const { body } = await started(film)
  t.deepEqual(body, {
    webhook: callback,
    webhook_events_filter: ['completed'],
    input: { prompt: 'a fox', image: 'https://files.example/face.png', duration: 5, resolution: '1080p' },
  })
  const hidden = await started({ ...film, sources: new Map([['start_image_url', hiddenImage]]) })
  t.regex(hidden.body.input.image, /^data:image\/png;base64,/)
  const large = { ...hiddenImage, bytes: 300 * 1024 }
  const addressed = await started({ ...film, sources: new Map([['start_image_url', large]]) })
  t.is(addressed.body.input.image, 'https://files.example/face.png')
})

test('started: the model described in docs/providers.md', async t => {
  const page = readFileSync(new URL('../../../docs/providers.md', import.meta.url), 'utf8')
  const [, example] = /## Replicate[\s\S]*?```json\n([\s\S]*?)```/.exec(page) ?? []
  const { models } = catalogFile.parse(JSON.parse(example!))
  const model = models[0]!
  const { provider } = call().target
  const target = { model, deployment: model.providers[0]!, provider }
  const input = video.input(video.request.parse({ prompt: 'a fox', start_image_url: 'data:,' }), model, null)
  const sent = await started({
    target,
    jobId: 'job_1',
    attempt: 1,
    input,
    sources: new Map(Object.entries(first)),
    callbackUrl: null,
  })
  t.is(sent.path, '/v1/models/acme/films/predictions')
  t.deepEqual(sent.body.input, {
    prompt: 'a fox',
    first_frame: 'https://files.example/face.png',
    duration: 5,
    resolution: '720p',
  })
})

test('400 for what the traits do not name, before anything is sent', async t => {
  t.is(await refused(t, at(falVideo('seedance-1.5-pro', { seed: 7 }), 'acme/films', traits)), 'seed')
  t.is(
    await refused(t, at(falVideo('seedance-1.5-pro', { mode: 'image' }, first), 'acme/films', {})),
    'start_image_url',
  )
  t.is(await refused(t, at(falVideo('seedance-1.5-pro'), 'acme/films', { duration_format: 'number' })), 'resolution')
  t.is(await refused(t, at(falVideo('seedance-1.5-pro'), 'acme/films', { resolution_field: 'resolution' })), 'seconds')
})

const operation = { id: 'p1', output: null }
const file = 'https://replicate.delivery/a/b.mp4'

test('reported by Replicate: every status and form of output', async t => {
  await assertReports(t, answer => shown(answer, operation), [
    [{ status: 'starting' }, 'pending'],
    [{ status: 'processing' }, 'pending'],
    [{ status: 'succeeded', output: file }, 'completed'],
    [{ status: 'succeeded', output: [file, file] }, 'completed'],
    [{ status: 'succeeded', output: { video: file } }, 'completed'],
    [{ status: 'succeeded', output: { film: file } }, 'failed: invalid_response'],
    [{ status: 'succeeded', output: null }, 'failed: invalid_response'],
    [{ status: 'succeeded', output: null, data_removed: true }, 'failed: invalid_response'],
    [{ status: 'failed', error: 'CUDA out of memory' }, 'failed: server_error'],
    [{ status: 'failed', error: 'The input or output was flagged as sensitive. (E005)' }, 'failed: content_filter'],
    [{ status: 'failed', error: 'Failure to pass the risk control system' }, 'failed: content_filter'],
    [
      {
        status: 'failed',
        error: 'Image aspect ratio (0.30) is outside the allowed range [0.40 (1:2.5), 2.50 (2.5:1)]',
      },
      'failed: invalid_request',
    ],
    [{ status: 'failed', error: 'Prediction interrupted; please retry (code: PA)' }, 'failed: server_error'],
    [{ status: 'failed', error: null }, 'failed: server_error'],
    [{ status: 'canceled' }, 'failed: server_error'],
    [{ status: 'aborted' }, 'failed: server_error'],
    [{ status: 'in_cooldown' }, 'throws invalid_response'],
    [{}, 'throws invalid_response'],
  ])
  const named = await shown({ status: 'succeeded', output: { film: file } }, { id: 'p1', output: 'film' })
  t.is(named.status, 'completed')
})

test('reported: predict_time as the invoice, a removed output as a failure', async t => {
  const started = await startReplicate()
  const connection = connectionTo('replicate', replicate, started.url)
  const done = await adapter.start(call(), connection, null)
  started.finish()
  const report = await adapter.check(done, connection)
  t.deepEqual(report.status === 'completed' && report.invoice, { seconds: null, credits: 12.5 })
  for (const ending of ['aborted', 'removed'] as const) {
    const { id } = await adapter.start(call(), connection, null)
    started.endAs(String(id), ending)
    t.is((await adapter.check({ id: id!, output: null }, connection)).status, 'failed', ending)
  }
  await started.close()
})

test('reported: a face swap and the parts of a mesh', async t => {
  const url = 'https://replicate.delivery/a/model.glb'
  await using(async ({ emulator }, connection) => {
    const output = { mesh: url, textures: ['https://replicate.delivery/a/t.png', {}], rendered_image: file }
    emulator.next(json(200, { status: 'succeeded', output }))
    const report = await replicate.queued!.mesh!.check(operation, connection)
    if (report.status !== 'completed') return t.fail(report.status)
    t.deepEqual(report.output.files, [
      { role: 'glb', url },
      { role: 'texture', url: 'https://replicate.delivery/a/t.png' },
      { role: 'thumbnail', url: file },
    ])
    const swap = replicate.queued!.face_swap as QueuedAdapter<'face_swap'>
    const { target } = at(falVideo('seedance-1.5-pro'), 'acme/faces', { video_field: 'target', face_field: 'face' })
    const sources = new Map([
      ['video_url', audioSource],
      ['face_image_url', imageSource],
    ])
    const input = { seconds: 5, maxSeconds: 60, sourceFaceConsent: true } as const
    await swap.start({ target, jobId: 'job_1', attempt: 1, input, sources, callbackUrl: null }, connection, null)
    t.deepEqual(emulator.requests.at(-1)!.body.input, {
      target: 'https://files.example/voice.mp3',
      face: 'https://files.example/face.png',
    })
  })
})

test('callbacks are verified with the account’s secret, the configured one before the one that is asked for', async t => {
  const nowMs = 1_795_132_800_000
  const started = await startReplicate()
  const connection = connectionTo('replicate', replicate, started.url)
  const { id } = await adapter.start(call(), connection, null)
  started.finish()
  const { body: raw, headers } = started.callback(String(id), nowMs)
  const callback = (more: Partial<ProviderCallback> = {}): ProviderCallback => ({
    headers,
    raw,
    nowMs,
    secret: null,
    connection,
    remember: (_name, load) => load(),
    ...more,
  })
  t.true(await replicate.verify!(callback()))
  t.is(started.emulator.requests.at(-1)!.path, '/v1/webhooks/default/secret')
  const asked = started.emulator.requests.length
  t.true(await replicate.verify!(callback({ secret: accountSecret })))
  t.true(await replicate.verify!(callback({ secret: accountSecret, nowMs: nowMs + 299_000 })), 'again')
  t.is(started.emulator.requests.length, asked)
  const rotated = `v1,AAAA ${headers['webhook-signature']}`
  t.true(await replicate.verify!(callback({ headers: { ...headers, 'webhook-signature': rotated } })))

  const other = `whsec_${Buffer.from('another secret').toString('base64')}`
  const wrong: Record<string, Partial<ProviderCallback>> = {
    'another secret': { secret: other },
    'signed by another': { headers: signed(String(id), raw, nowMs, other) },
    'another body': { raw: Buffer.from('{}') },
    'another id': { headers: { ...headers, 'webhook-id': 'msg_x' } },
    'another version': {
      headers: { ...headers, 'webhook-signature': headers['webhook-signature']!.replace('v1', 'v2') },
    },
    'no signature': { headers: { ...headers, 'webhook-signature': undefined } },
    'no time': { headers: { ...headers, 'webhook-timestamp': undefined } },
    old: { nowMs: nowMs + 301_000 },
    'of the future': { nowMs: nowMs - 301_000 },
  }
  for (const [what, more] of Object.entries(wrong)) t.false(await replicate.verify!(callback(more)), what)
  await started.close()
})

test('failed: the reason and message of every form of failure', t => {
  assertFailures(t, replicate, [
    [400, { detail: 'Bad' }, 'invalid_request', 'Bad'],
    [
      401,
      { title: 'Unauthenticated', detail: 'token r8_abcdefghijk' },
      'auth',
      "The provider refused the gateway's credentials. Tell the operator of this service.",
    ],
    [402, { title: 'Insufficient credit' }, 'quota'],
    [404, { detail: 'The requested resource could not be found.' }, 'model_unavailable'],
    [422, { title: 'Input validation failed' }, 'invalid_request', 'Input validation failed'],
    [422, { title: 'Invalid version or not permitted', detail: 'The version does not exist' }, 'model_unavailable'],
    [429, { detail: 'Request was throttled. Your rate limit resets in ~30s.' }, 'rate_limited'],
    [500, 'oops', 'server_error', 'The provider answered with status 500.'],
    [503, {}, 'overloaded'],
  ])
  const throttled = '{"detail":"Request was throttled. Your rate limit resets in ~30s."}'
  t.is(replicate.failure(429, {}, throttled).retryAfterMs, 30_000)
})
