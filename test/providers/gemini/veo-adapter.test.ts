import { gemini } from '../../../shared/providers/adapters/gemini/protocol.ts'
import { json } from '../../emulators/emulator.ts'
import { geminiError, invalidApiKey, rateLimited } from '../../emulators/gemini.ts'
import { startVeo } from '../../emulators/veo.ts'
import { connectionTo, providerFault, queuedConformance, refusedField } from '../../support/jobs/queued-adapter.ts'
import { assertReports, bench } from '../../support/jobs/slow-work.ts'
import { imageSource, otherImage, videoSource } from '../../support/jobs/sources.ts'
import { created, videoAdapter, videoCall } from '../../support/jobs/video-calls.ts'
import { test } from '../../support/test.ts'

const veo = videoAdapter(gemini)
const base64 = (text: string) => Buffer.from(text).toString('base64')
const image = { bytesBase64Encoded: base64('bytes'), mimeType: 'image/png' }
const last = { bytesBase64Encoded: base64('other'), mimeType: 'image/jpeg' }

queuedConformance(test, {
  name: 'veo',
  provider: 'gemini',
  protocol: gemini,
  kind: 'video',
  start: startVeo,
  call: () => videoCall('gemini', 'veo-3.1', { seconds: 8 }),
  replies: {
    invalid: geminiError(400, 'INVALID_ARGUMENT', '`aspectRatio` must be 16:9 or 9:16.'),
    rateLimited: rateLimited(),
    quota: geminiError(400, 'FAILED_PRECONDITION', 'Veo needs billing to be enabled.'),
  },
})

const bodies: [string, Parameters<typeof videoCall>[2], Parameters<typeof videoCall>[3], object, object][] = [
  [
    'text, with every option',
    { seconds: 8, resolution: '1080p', aspectRatio: '9:16', negativePrompt: 'rain', audio: true },
    {},
    { prompt: 'A heron on a lake' },
    { sampleCount: 1, durationSeconds: 8, resolution: '1080p', aspectRatio: '9:16', negativePrompt: 'rain' },
  ],
  [
    'an image without a prompt',
    { mode: 'image', prompt: null, seconds: 4, resolution: '720p' },
    { start_image_url: imageSource },
    { image },
    { sampleCount: 1, durationSeconds: 4, resolution: '720p' },
  ],
  [
    'a first and a last frame',
    { mode: 'image', seconds: 8 },
    { start_image_url: imageSource, end_image_url: otherImage },
    { prompt: 'A heron on a lake', image, lastFrame: last },
    { sampleCount: 1, durationSeconds: 8 },
  ],
  [
    'references',
    { mode: 'reference', seconds: 8 },
    // Their places count, not how they are kept.
    { 'input_references.1': otherImage, 'input_references.0': imageSource },
    {
      prompt: 'A heron on a lake',
      referenceImages: [
        { image, referenceType: 'asset' },
        { image: last, referenceType: 'asset' },
      ],
    },
    { sampleCount: 1, durationSeconds: 8 },
  ],
]
for (const [title, input, sources, instance, parameters] of bodies)
  test(`started: ${title}`, async t => {
    const { emulator, url, close } = await startVeo()
    const operation = await veo.start(
      videoCall('gemini', 'veo-3.1', input, sources),
      connectionTo('gemini', gemini, url),
      null,
    )
    const { path, headers, body } = created(emulator.requests)
    t.is(path, '/v1beta/models/veo-3.1-generate-preview:predictLongRunning')
    t.truthy(headers['x-goog-api-key'])
    t.deepEqual(body, { instances: [instance], parameters })
    t.regex(String(operation.name), /^models\/veo-3\.1-generate-preview\/operations\/[\w-]+$/)
    await close()
  })

const refusals: [string, Parameters<typeof videoCall>[2], Parameters<typeof videoCall>[3], string][] = [
  ['1080p of 4 seconds', { seconds: 4, resolution: '1080p' }, {}, 'seconds'],
  ['4k of 6 seconds', { seconds: 6, resolution: '4k' }, {}, 'seconds'],
  ['references and 4 seconds', { mode: 'reference', seconds: 4 }, { 'input_references.0': imageSource }, 'seconds'],
  [
    'a last frame and 6 seconds',
    { mode: 'image', seconds: 6 },
    { start_image_url: imageSource, end_image_url: otherImage },
    'seconds',
  ],
  ['silence', { seconds: 8, audio: false }, {}, 'audio'],
  ['a seed', { seconds: 8, seed: 7 }, {}, 'seed'],
  ['a video', { mode: 'video', seconds: 8 }, { input_video_url: videoSource }, 'input_video_url'],
]
for (const [title, input, sources, field] of refusals)
  test(`400 before anything is sent: ${title}`, async t => {
    const { emulator, url, close } = await startVeo()
    const start = veo.start(videoCall('gemini', 'veo-3.1', input, sources), connectionTo('gemini', gemini, url), null)
    t.is(await refusedField(start), field)
    t.is(emulator.requests.length, 0)
    await close()
  })

test('completed: the address is handed on as it is, nothing is invoiced', async t => {
  const { url, works, close } = await startVeo({ autoFinish: 2 })
  const connection = connectionTo('gemini', gemini, url)
  const operation = await veo.start(videoCall('gemini', 'veo-3.1', { seconds: 8 }), connection, null)
  t.deepEqual(await veo.check(operation, connection), { status: 'pending', progress: null })
  const uri = `${url}/v1beta/files/${[...works.keys()][0]}:download?alt=media`
  t.deepEqual(await veo.check(operation, connection), {
    status: 'completed',
    output: { files: [{ role: 'video', url: uri }], durationS: null },
    invoice: { seconds: null, credits: null },
  })
  await close()
})

test('failed: a filtered video is a content filter, in the words of the filter', async t => {
  const { url, filter, close } = await startVeo()
  const connection = connectionTo('gemini', gemini, url)
  const operation = await veo.start(videoCall('gemini', 'veo-3.1', { seconds: 8 }), connection, null)
  filter()
  const report = await veo.check(operation, connection)
  if (report.status !== 'failed') return void t.fail(report.status)
  t.is(report.error.reason, 'content_filter')
  t.regex(report.error.message, /Support codes: 58061214/)
  await close()
})

const failures: [number, string, string][] = [
  [3, 'Unable to process the image.', 'invalid_request'],
  [3, 'The prompt violates our usage guidelines.', 'content_filter'],
  [4, 'Deadline exceeded.', 'server_error'],
  [5, 'Model is gone.', 'model_unavailable'],
  [7, 'Denied for project 1234567.', 'auth'],
  [8, 'Quota exceeded.', 'rate_limited'],
  [13, 'Internal.', 'server_error'],
  [14, 'Overloaded.', 'overloaded'],
  [16, 'Bad key AIzaSyA0123456789abcdef.', 'auth'],
  [99, 'New.', 'server_error'],
  [429, 'As an HTTP status.', 'rate_limited'],
]
for (const [code, message, reason] of failures)
  test(`failed: code ${code} "${message}" is ${reason}`, async t => {
    const { url, fail, close } = await startVeo({ error: { code, message } })
    const connection = connectionTo('gemini', gemini, url)
    const operation = await veo.start(videoCall('gemini', 'veo-3.1', { seconds: 8 }), connection, null)
    fail()
    const report = await veo.check(operation, connection)
    if (report.status !== 'failed') return void t.fail(report.status)
    t.is(report.error.reason, reason as typeof report.error.reason)
    t.notRegex(report.error.message, /1234567|AIza/)
    await close()
  })

const name = 'models/veo-3.1-generate-preview/operations/an-operation'
const done = (response?: object) => ({ name, done: true, response })
const samples = (...generatedSamples: object[]) => done({ generateVideoResponse: { generatedSamples } })

test('reported: answers that tell no end, and ends without a video', async t => {
  const { shown } = bench('gemini', gemini, 'video', startVeo)
  await assertReports(t, answer => shown(answer, { name }), [
    [{ name }, 'pending'],
    [{ name, done: false, metadata: {} }, 'pending'],
    [samples({ video: { uri: 'https://files.test/a' } }, { video: { uri: 'https://files.test/b' } }), 'completed'],
    [done(), 'failed: invalid_response'],
    [done({}), 'failed: invalid_response'],
    [done({ generateVideoResponse: {} }), 'failed: invalid_response'],
    [samples(), 'failed: invalid_response'],
    [samples({}), 'failed: invalid_response'],
    [samples({ video: { uri: 'gs://bucket/a' } }), 'failed: invalid_response'],
    [done({ generateVideoResponse: { raiMediaFilteredCount: 1 } }), 'failed: content_filter'],
    [{ name: `${name}2`, done: false }, 'throws invalid_response'],
    [[], 'throws invalid_response'],
  ])
})

test('invalid_response: a handle that would lead elsewhere', async t => {
  const { emulator, url, close } = await startVeo()
  for (const odd of ['models/x/operations/../../files', 'operations/a?key=b', 'models/a/b/operations/c', 7]) {
    emulator.next(json(200, { name: odd }))
    const start = veo.start(videoCall('gemini', 'veo-3.1', { seconds: 8 }), connectionTo('gemini', gemini, url), null)
    t.is((await providerFault(start)).reason, 'invalid_response')
  }
  await close()
})

test('auth and model_unavailable: an invalid key, an operation that is gone', async t => {
  const { emulator, url, close } = await startVeo()
  const connection = connectionTo('gemini', gemini, url)
  t.is((await providerFault(veo.check({ name }, connection))).reason, 'model_unavailable')
  emulator.next(invalidApiKey)
  t.is((await providerFault(veo.check({ name }, connection))).reason, 'auth')
  await close()
})
