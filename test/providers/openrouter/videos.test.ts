import { OpenRouter } from '@openrouter/sdk'
import { openai } from '../../../shared/providers/adapters/openai/protocol.ts'
import type { ProviderCallback } from '../../../shared/providers/contract.ts'
import { json } from '../../emulators/emulator.ts'
import { openRouterError, signed, startOpenRouterVideos, workspaceSecret } from '../../emulators/openrouter-videos.ts'
import { shapedCall } from '../../support/jobs/openai-videos-calls.ts'
import { connectionTo, queuedConformance } from '../../support/jobs/queued-adapter.ts'
import { assertReports, bench } from '../../support/jobs/slow-work.ts'
import { audioSource, hiddenImage, imageSource, videoSource } from '../../support/jobs/sources.ts'
import { test } from '../../support/test.ts'

queuedConformance(test, {
  name: 'openrouter videos',
  provider: 'openrouter',
  protocol: openai,
  kind: 'video',
  start: startOpenRouterVideos,
  call: shapedCall,
  replies: {
    invalid: openRouterError(400, 'duration: Expected integer'),
    rateLimited: openRouterError(429, 'Rate limit exceeded'),
    quota: openRouterError(402, 'Insufficient credits'),
  },
})

const { adapter, using, started, shown, refused } = bench('openrouter', openai, 'video', startOpenRouterVideos)
const image = { type: 'image_url', image_url: { url: 'https://files.example/face.png' } }

test('started at OpenRouter: the exact request of every mode', async t => {
  const common = { model: 'acme/films', prompt: 'a fox', duration: 8, resolution: '720p' }
  const calls: [Parameters<typeof shapedCall>, object][] = [
    [[], common],
    [
      [{ aspectRatio: '9:16', resolution: '4k', seed: 7, audio: false }],
      { ...common, resolution: '4K', aspect_ratio: '9:16', seed: 7, generate_audio: false },
    ],
    [
      [{}, {}, 'https://gateway.example/callbacks/a/b'],
      { ...common, callback_url: 'https://gateway.example/callbacks/a/b' },
    ],
    [
      [
        { mode: 'image', resolution: null },
        { start_image_url: imageSource, end_image_url: imageSource },
      ],
      {
        model: 'acme/films',
        prompt: 'a fox',
        duration: 8,
        frame_images: [
          { ...image, frame_type: 'first_frame' },
          { ...image, frame_type: 'last_frame' },
        ],
      },
    ],
    [
      [
        { mode: 'reference' },
        {
          'input_references.0': imageSource,
          'input_references.1': { ...hiddenImage, bytes: 5 * 1024 * 1024 },
          'input_video_references.0': videoSource,
          'input_audio_references.0': audioSource,
        },
      ],
      {
        ...common,
        input_references: [
          image,
          image,
          { type: 'video_url', video_url: { url: 'https://files.example/clip.mp4' } },
          { type: 'audio_url', audio_url: { url: 'https://files.example/voice.mp3' } },
        ],
      },
    ],
  ]
  for (const [given, expected] of calls) {
    const { method, path, body, headers } = await started(shapedCall(...given))
    t.deepEqual([method, path], ['POST', '/api/v1/videos'])
    t.is(headers.authorization, 'Bearer secret-key-of-the-gateway:and-its-other-half')
    t.deepEqual(body, expected)
  }
})

test('400 for what this form has no field for, before anything is sent', async t => {
  t.is(await refused(t, shapedCall({ prompt: null, mode: 'image' }, { start_image_url: imageSource })), 'prompt')
  t.is(await refused(t, shapedCall({ negativePrompt: 'dogs' })), 'negative_prompt')
  t.is(await refused(t, shapedCall({ mode: 'video' }, { input_video_url: videoSource })), 'input_video_url')
})

/** Words of the models behind OpenRouter. */
const behind = [
  ['Failure to pass the risk control system', 'content_filter'],
  ['The request failed because the output video may contain sensitive information', 'content_filter'],
  ['The request failed because the input image may contain real person.', 'content_filter'],
  ['Your request was rejected by the safety system', 'content_filter'],
  ['Image pixel is invalid', 'invalid_request'],
  ['Error while downloading image, error: expected the width to be at least 300px', 'invalid_request'],
  ['invalid params, content[0].text too long: 13836 > 7000 characters', 'invalid_request'],
  ['failed to download media from the provided url', 'server_error'],
  ['JsonDecode response failed', 'server_error'],
]

test('reported by OpenRouter: every status', async t => {
  const id = 'gen-vid-1'
  await assertReports(t, answer => shown(answer, { id }), [
    [{ id, status: 'pending' }, 'pending'],
    [{ id, status: 'in_progress' }, 'pending'],
    [{ id, status: 'completed', unsigned_urls: ['https://x.example/v.mp4'] }, 'completed'],
    [{ id, status: 'completed', unsigned_urls: ['v.mp4'] }, 'failed: invalid_response'],
    [{ id, status: 'failed', error: 'The model failed' }, 'failed: server_error'],
    [{ id, status: 'failed', error: 'Blocked by content moderation' }, 'failed: content_filter'],
    ...behind.map(([words, reason]): [object, string] => [
      { id, status: 'failed', error: `task failed with status: FAIL, message: ${words}` },
      `failed: ${reason}`,
    ]),
    [{ id, status: 'failed' }, 'failed: server_error'],
    [{ id, status: 'failed', error: { code: 'content_policy_violation', message: 'no' } }, 'failed: content_filter'],
    [{ id, status: 'cancelled' }, 'failed: server_error'],
    [{ id, status: 'expired' }, 'failed: server_error'],
    [{ id, status: 'dreaming' }, 'throws invalid_response'],
    [{ id }, 'throws invalid_response'],
  ])
})

test('reported: the file where it is told, else at the provider’s own address; what it cost as information', async t => {
  await using(async ({ emulator, finish, url }, connection) => {
    const operation = await adapter.start(shapedCall(), connection, null)
    finish()
    const told = await adapter.check(operation, connection)
    t.deepEqual(told, {
      status: 'completed',
      output: { files: [{ role: 'video', url: `${url}/files/${operation.id}/video.mp4` }], durationS: null },
      invoice: { seconds: null, credits: 0.5 },
    })
    const several = ['https://x.example/1.mp4', 'https://x.example/2.mp4']
    emulator.next(json(200, { id: operation.id, status: 'completed', unsigned_urls: several }))
    const both = await adapter.check(operation, connection)
    t.deepEqual(both.status === 'completed' && both.output.files.map(file => 'url' in file && file.url), several)
    emulator.next(json(200, { id: operation.id, status: 'completed' }))
    const untold = await adapter.check(operation, connection)
    const own = `${connection.baseUrl}/videos/${operation.id}/content?index=0`
    t.deepEqual(untold.status === 'completed' && untold.output.files, [{ role: 'video', url: own }])
  })
})

test('callbacks are verified with the workspace’s secret over time, comma and body', async t => {
  const nowMs = 1_795_132_800_000
  const world = await startOpenRouterVideos()
  const connection = connectionTo('openrouter', openai, world.url)
  const { id } = await adapter.start(shapedCall(), connection, null)
  world.finish()
  const { body: raw, headers } = world.callback(String(id), nowMs)
  const callback = (more: Partial<ProviderCallback> = {}): ProviderCallback => ({
    headers,
    raw,
    nowMs,
    secret: workspaceSecret,
    connection,
    remember: () => Promise.reject(new Error('nothing to ask for')),
    ...more,
  })
  t.true(await openai.verify!(callback()))
  t.true(await openai.verify!(callback({ nowMs: nowMs + 299_000 })), 'again')
  const signature = headers['x-openrouter-signature']!
  const given = (value: string | undefined) => ({ headers: { 'x-openrouter-signature': value } })
  const wrong: Record<string, Partial<ProviderCallback>> = {
    'no secret': { secret: null },
    'another secret': { secret: 'another' },
    'signed by another': { headers: signed('k', raw, nowMs, 'another') },
    'another body': { raw: Buffer.from('{}') },
    'another time': given(signature.replace(/t=\d+/, `t=${nowMs / 1000 + 1}`)),
    'half a signature': given(signature.slice(0, -2)),
    'no signature': given(undefined),
    old: { nowMs: nowMs + 301_000 },
    'of the future': { nowMs: nowMs - 301_000 },
    'a provider of another form': {
      connection: { ...connection, provider: { ...connection.provider, quirks: { videos: 'openai' } } },
    },
  }
  for (const [what, more] of Object.entries(wrong)) t.false(await openai.verify!(callback(more)), what)
  await world.close()
})

// The official SDK is the judge of the emulator.
test('202 the SDK submits, looks and downloads; 400 as an error', async t => {
  const world = await startOpenRouterVideos()
  const sdk = new OpenRouter({ apiKey: 'sk-or-test', serverURL: `${world.url}/api/v1` })
  const videoGenerationRequest = { model: 'acme/films', prompt: 'a fox', duration: 8 }
  const { id, status } = await sdk.videoGeneration.generate({ videoGenerationRequest })
  t.is(status, 'pending')
  await sdk.videoGeneration.getGeneration({ jobId: id })
  t.is((await sdk.videoGeneration.getGeneration({ jobId: id })).status, 'in_progress')
  world.finish()
  const done = await sdk.videoGeneration.getGeneration({ jobId: id })
  t.deepEqual([done.status, done.usage?.cost, done.unsignedUrls?.length], ['completed', 0.5, 1])
  const bytes = await new Response(await sdk.videoGeneration.getVideoContent({ jobId: id })).bytes()
  t.is(Buffer.from(bytes.subarray(4, 8)).toString(), 'ftyp')
  const wrong = { videoGenerationRequest: { model: 'acme/films' } }
  await t.throwsAsync(sdk.videoGeneration.generate(wrong), { message: /prompt/ })
  await world.close()
})
