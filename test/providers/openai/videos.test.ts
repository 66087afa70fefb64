import { APIError, OpenAI } from 'openai'
import { openai } from '../../../shared/providers/adapters/openai/protocol.ts'
import { ProviderError } from '../../../shared/providers/provider-error.ts'
import { fieldsOf, openAiVideoError, startOpenAiVideos } from '../../emulators/openai-videos.ts'
import { shapedCall, shapedProtocol } from '../../support/jobs/openai-videos-calls.ts'
import { queuedConformance } from '../../support/jobs/queued-adapter.ts'
import { assertReports, bench } from '../../support/jobs/slow-work.ts'
import { hiddenImage, imageSource, videoSource } from '../../support/jobs/sources.ts'
import { test } from '../../support/test.ts'

const protocol = shapedProtocol('openai')
queuedConformance(test, {
  name: 'openai videos',
  provider: 'openai',
  protocol,
  kind: 'video',
  start: startOpenAiVideos,
  call: shapedCall,
  replies: {
    invalid: openAiVideoError(400, "Invalid value for 'seconds'.", 'invalid_value'),
    rateLimited: openAiVideoError(429, 'Rate limit reached', 'rate_limit_exceeded'),
    quota: openAiVideoError(429, 'You exceeded your current quota', 'insufficient_quota'),
  },
})

const { adapter, using, shown, refused } = bench('openai', protocol, 'video', startOpenAiVideos)

test('started: the exact multipart fields of every mode', async t => {
  const common = { model: 'acme/films', prompt: 'a fox', seconds: '8' }
  const calls: [Parameters<typeof shapedCall>, object][] = [
    [[], { ...common, size: '1280x720' }],
    [[{ resolution: null }], common],
    [[{ aspectRatio: '9:16', seconds: 4 }], { ...common, seconds: '4', size: '720x1280' }],
    [[{ aspectRatio: '9:16', resolution: '1080p' }], { ...common, size: '1080x1920' }],
    [
      [{ mode: 'image', audio: true }, { start_image_url: hiddenImage }],
      { ...common, size: '1280x720', input_reference: 'file face.png image/png 5' },
    ],
  ]
  for (const [given, fields] of calls)
    await using(async ({ emulator }, connection) => {
      await adapter.start(shapedCall(...given), connection, null)
      const [request] = emulator.requests
      t.deepEqual([request!.method, request!.path], ['POST', '/v1/videos'])
      t.is(request!.headers.authorization, 'Bearer secret-key-of-the-gateway:and-its-other-half')
      t.deepEqual(await fieldsOf(request!), fields as Record<string, string>)
    })
})

test('400 for what this form has no field for, before anything is sent', async t => {
  const refusals: [Parameters<typeof shapedCall>, string][] = [
    [[{ prompt: null, mode: 'image' }, { start_image_url: imageSource }], 'prompt'],
    [[{ negativePrompt: 'dogs' }], 'negative_prompt'],
    [[{ seed: 7 }], 'seed'],
    [[{ aspectRatio: '9:16', resolution: null }], 'aspect_ratio'],
    [[{ audio: false }], 'audio'],
    [[{ mode: 'image' }, { start_image_url: imageSource, end_image_url: imageSource }], 'end_image_url'],
    [[{ mode: 'reference' }, { 'input_references.0': imageSource }], 'input_references'],
    [[{ mode: 'video' }, { input_video_url: videoSource }], 'input_video_url'],
  ]
  for (const [given, param] of refusals) t.is(await refused(t, shapedCall(...given)), param)
})

test('reported by OpenAI: every status', async t => {
  const operation = { id: 'video_1' }
  await assertReports(t, answer => shown(answer, operation), [
    [{ id: 'video_1', status: 'queued', progress: 0 }, 'pending'],
    [{ id: 'video_1', status: 'completed', seconds: '8' }, 'completed'],
    [
      { id: 'video_1', status: 'failed', error: { code: 'moderation_blocked', message: 'no' } },
      'failed: content_filter',
    ],
    [{ id: 'video_1', status: 'failed', error: { code: 'x', message: 'no' } }, 'failed: server_error'],
    [{ id: 'video_1', status: 'failed' }, 'failed: server_error'],
    [{ id: 'video_1', status: 'dreaming' }, 'throws invalid_response'],
    [{ status: 'completed' }, 'throws invalid_response'],
    ['text', 'throws invalid_response'],
  ])
  const progress = async (given: unknown) => shown({ status: 'in_progress', progress: given }, operation)
  t.deepEqual(await progress(33), { status: 'pending', progress: 33 })
  t.deepEqual(await progress(100), { status: 'pending', progress: 99 })
  t.deepEqual(await progress(undefined), { status: 'pending', progress: 0 })
  await using(async ({ finish }, connection) => {
    const started = await adapter.start(shapedCall(), connection, null)
    finish()
    t.deepEqual(await adapter.check(started, connection), {
      status: 'completed',
      output: { files: [{ role: 'video', url: `${connection.baseUrl}/videos/${started.id}/content` }], durationS: 8 },
      invoice: { seconds: 8, credits: null },
    })
  })
})

test('a server without videos is not asked', async t => {
  const plain = bench('groq', openai, 'video', startOpenAiVideos)
  await plain.using(async ({ emulator }, connection) => {
    const error = await t.throwsAsync(plain.adapter.start(shapedCall(), connection, null), {
      instanceOf: ProviderError,
    })
    t.deepEqual([error!.reason, error!.unsent], ['model_unavailable', true])
    t.is(emulator.requests.length, 0)
  })
})

// The official SDK is the judge of the emulator.
test('200 the SDK creates, looks, lists, downloads and deletes; 400 and 404 as errors', async t => {
  const started = await startOpenAiVideos()
  const sdk = new OpenAI({ apiKey: 'sk-test', baseURL: `${started.url}/v1`, maxRetries: 0 })
  const input_reference = new File([Buffer.from('bytes')], 'a.png', { type: 'image/png' })
  const { id, status } = await sdk.videos.create({ model: 'sora-2', prompt: 'a fox', seconds: '8', input_reference })
  t.is(status, 'queued')
  await sdk.videos.retrieve(id)
  t.is((await sdk.videos.retrieve(id)).status, 'in_progress')
  started.finish()
  t.is((await sdk.videos.retrieve(id)).progress, 100)
  t.is((await sdk.videos.list()).data[0]!.id, id)
  const content = await sdk.videos.downloadContent(id)
  t.is(content.headers.get('content-type'), 'video/mp4')
  t.true((await sdk.videos.delete(id)).deleted)
  const gone = await t.throwsAsync(sdk.videos.retrieve(id), { instanceOf: APIError })
  t.is(gone!.status, 404)
  const wrong = await t.throwsAsync(sdk.videos.create({ prompt: 'x', seconds: '5' as '4' }), { instanceOf: APIError })
  t.is(wrong!.status, 400)
  await started.close()
})
