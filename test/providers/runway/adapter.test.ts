import { runway } from '../../../shared/providers/adapters/runway/protocol.ts'
import { json, type Reply, text } from '../../emulators/emulator.ts'
import { invalidBody, noCredits, type RunwayOptions, rateLimited, startRunway } from '../../emulators/runway.ts'
import { connectionTo, providerFault, queuedConformance, refusedField } from '../../support/jobs/queued-adapter.ts'
import { assertReports } from '../../support/jobs/slow-work.ts'
import { hidden, hiddenImage, imageSource, otherImage, sourceOf, videoSource } from '../../support/jobs/sources.ts'
import { created, videoAdapter, videoCall } from '../../support/jobs/video-calls.ts'
import { test } from '../../support/test.ts'

type Sources = Parameters<typeof videoCall>[3]
type Input = Parameters<typeof videoCall>[2]

const adapter = videoAdapter(runway)
const prompt = 'A heron on a lake'
const first = { start_image_url: imageSource }
const motion = { start_image_url: imageSource, input_video_url: videoSource }

const replies = { invalid: invalidBody('ratio', 'Required'), rateLimited, quota: noCredits }
const common = { provider: 'runway', protocol: runway, kind: 'video', start: startRunway, replies } as const
queuedConformance(test, { ...common, name: 'text', call: () => videoCall('runway', 'runway-gen4.5') })
queuedConformance(test, {
  ...common,
  name: 'motion control',
  call: () => videoCall('runway', 'runway-act-two', { mode: 'motion_control', prompt: null, seconds: 4.2 }, motion),
})

const bodies: [string, string, Input, Sources, string, object][] = [
  [
    'text',
    'runway-gen4.5',
    { aspectRatio: '9:16', resolution: '720p', seconds: 10, seed: 7, audio: false },
    {},
    '/v1/text_to_video',
    { model: 'gen4.5', promptText: prompt, ratio: '720:1280', duration: 10, seed: 7 },
  ],
  [
    'an image',
    'runway-gen4-turbo',
    { mode: 'image', prompt: null },
    first,
    '/v1/image_to_video',
    { model: 'gen4_turbo', promptImage: 'https://files.example/face.png', ratio: '1280:720', duration: 5 },
  ],
  [
    'an image with a prompt, as bytes',
    'runway-gen4.5',
    { mode: 'image', aspectRatio: '21:9' },
    { start_image_url: hiddenImage },
    '/v1/image_to_video',
    {
      model: 'gen4.5',
      promptText: prompt,
      promptImage: 'data:image/png;base64,Ynl0ZXM=',
      ratio: '1584:672',
      duration: 5,
    },
  ],
  [
    'a video',
    'runway-gen4-aleph',
    { mode: 'video', seconds: 4.2, seed: 0 },
    { input_video_url: videoSource },
    '/v1/video_to_video',
    { model: 'gen4_aleph', promptText: prompt, videoUri: 'https://files.example/clip.mp4', seed: 0 },
  ],
  [
    'a performance',
    'runway-act-two',
    { mode: 'motion_control', prompt: null, seconds: 4.2, aspectRatio: '1:1' },
    motion,
    '/v1/character_performance',
    {
      model: 'act_two',
      character: { type: 'image', uri: 'https://files.example/face.png' },
      reference: { type: 'video', uri: 'https://files.example/clip.mp4' },
      ratio: '960:960',
    },
  ],
]
for (const [title, model, input, sources, path, body] of bodies)
  test(`started: ${title}`, async t => {
    const { emulator, url, works, close } = await startRunway()
    const operation = await adapter.start(
      videoCall('runway', model, input, sources),
      connectionTo('runway', runway, url),
      null,
    )
    const sent = created(emulator.requests)
    t.is(sent.path, path)
    t.is(sent.headers['x-runway-version'], '2024-11-06')
    t.deepEqual(sent.body, body)
    t.deepEqual(operation, { task: [...works.keys()][0]! })
    await close()
  })

test('started: frames and aspect ratios that an operator’s own rows may have', async t => {
  const { emulator, url, close } = await startRunway()
  const connection = connectionTo('runway', runway, url)
  emulator.next(json(200, { id: 'a-task' }))
  const frames = { start_image_url: imageSource, end_image_url: otherImage }
  const own = { upstream_model: 'veo3.1', traits: {} }
  await adapter.start(videoCall('runway', 'runway-gen4.5', { mode: 'image' }, frames, own), connection, null)
  t.deepEqual(created(emulator.requests).body.promptImage, [
    { uri: 'https://files.example/face.png', position: 'first' },
    { uri: 'https://files.example/other.jpg', position: 'last' },
  ])
  emulator.reset()
  const aleph = { upstream_model: 'aleph2', traits: {} }
  const wide = { mode: 'video', prompt: null, aspectRatio: '21:9' } as const
  await adapter.start(
    videoCall('runway', 'runway-gen4-aleph', wide, { input_video_url: videoSource }, aleph),
    connection,
    null,
  )
  t.deepEqual(created(emulator.requests).body, {
    model: 'aleph2',
    videoUri: 'https://files.example/clip.mp4',
    targetAspectRatio: '21:9',
  })
  await close()
})

const large = hidden(sourceOf('https://files.example/large.png', 'image/png', null, Buffer.alloc(4 * 1024 * 1024)))
const refusals: [string, string, Input, Sources, string][] = [
  ['text in 4:3', 'runway-gen4.5', { aspectRatio: '4:3' }, {}, 'aspect_ratio'],
  ['an unknown aspect ratio', 'runway-gen4.5', { mode: 'image', aspectRatio: '5:4' }, first, 'aspect_ratio'],
  ['1080p', 'runway-gen4.5', { resolution: '1080p' }, {}, 'resolution'],
  ['sound', 'runway-gen4.5', { audio: true }, {}, 'audio'],
  ['a negative prompt', 'runway-gen4.5', { negativePrompt: 'rain' }, {}, 'negative_prompt'],
  ['a long prompt', 'runway-gen4.5', { prompt: 'x'.repeat(1_001) }, {}, 'prompt'],
  ['an image without the prompt it needs', 'runway-gen4.5', { mode: 'image', prompt: null }, first, 'prompt'],
  ['references', 'runway-gen4.5', { mode: 'reference' }, { 'input_references.0': imageSource }, 'input_references'],
  ['a large image as bytes', 'runway-gen4-turbo', { mode: 'image' }, { start_image_url: large }, 'start_image_url'],
  ['a performance with a prompt', 'runway-act-two', { mode: 'motion_control', seconds: 4 }, motion, 'prompt'],
  [
    'a short performance',
    'runway-act-two',
    { mode: 'motion_control', prompt: null, seconds: 2.9 },
    motion,
    'input_video_url',
  ],
]
for (const [title, model, input, sources, field] of refusals)
  test(`400 before anything is sent: ${title}`, async t => {
    const { emulator, url, close } = await startRunway()
    const start = adapter.start(videoCall('runway', model, input, sources), connectionTo('runway', runway, url), null)
    t.is(await refusedField(start), field)
    t.is(emulator.requests.length, 0)
    await close()
  })

/** One look at a task that the emulator reports so. */
async function look(answer: unknown) {
  const { emulator, url, close } = await startRunway()
  emulator.next(json(200, answer))
  return adapter.check({ task: 'a-task' }, connectionTo('runway', runway, url)).finally(close)
}

const pending: [object, number | null][] = [
  [{ status: 'PENDING' }, null],
  [{ status: 'THROTTLED' }, null],
  [{ status: 'RUNNING' }, null],
  [{ status: 'RUNNING', progress: 0 }, 0],
  [{ status: 'RUNNING', progress: 0.42 }, 42],
  [{ status: 'RUNNING', progress: 1 }, 99],
]
for (const [answer, progress] of pending)
  test(`pending: ${JSON.stringify(answer)}`, async t => {
    t.deepEqual(await look({ id: 'a-task', ...answer }), { status: 'pending', progress })
  })

test('completed: the addresses as they are, the credits as invoiced', async t => {
  const { url, works, close } = await startRunway({ autoFinish: 1 })
  const connection = connectionTo('runway', runway, url)
  const operation = await adapter.start(videoCall('runway', 'runway-gen4.5'), connection, null)
  t.deepEqual(await adapter.check(operation, connection), {
    status: 'completed',
    output: {
      files: [{ role: 'video', url: `${url}/files/${[...works.keys()][0]}/video.mp4?_jwt=signed` }],
      durationS: null,
    },
    invoice: { seconds: null, credits: 25 },
  })
  await close()
})

const failures: [string | undefined, string][] = [
  ['SAFETY.INPUT.TEXT', 'content_filter'],
  ['SAFETY.OUTPUT.VIDEO', 'content_filter'],
  ['INPUT_PREPROCESSING.SAFETY.TEXT', 'content_filter'],
  ['INPUT_PREPROCESSING.INTERNAL', 'server_error'],
  ['INPUT_PREPROCESSING.VIDEO', 'invalid_request'],
  ['ASSET.INVALID', 'invalid_request'],
  ['INTERNAL', 'server_error'],
  ['INTERNAL.BAD_OUTPUT.CODE01', 'server_error'],
  ['THIRD_PARTY.UNAVAILABLE', 'server_error'],
  ['INTERNALLY_NEW', 'server_error'],
  [undefined, 'server_error'],
]
for (const [failureCode, reason] of failures)
  test(`failed: ${failureCode ?? 'without a code'} is ${reason}`, async t => {
    const failure: RunwayOptions['failure'] = { failure: 'It went wrong.', ...(failureCode && { failureCode }) }
    const { url, fail, close } = await startRunway({ failure })
    const connection = connectionTo('runway', runway, url)
    const operation = await adapter.start(videoCall('runway', 'runway-gen4.5'), connection, null)
    fail()
    const report = await adapter.check(operation, connection)
    if (report.status !== 'failed') return void t.fail(report.status)
    t.is(report.error.reason, reason as typeof report.error.reason)
    t.regex(report.error.message, /It went wrong\./)
    await close()
  })

test('failed: a task that was cancelled at the provider', async t => {
  t.is((await look({ id: 'a-task', status: 'CANCELLED' })).status, 'failed')
})

test('reported: answers that tell no end, and ends without a video', async t => {
  await assertReports(t, look, [
    [{ status: 'SUCCEEDED', output: ['https://files.test/a.mp4', 'https://files.test/b.mp4'] }, 'completed'],
    [{ status: 'SUCCEEDED' }, 'failed: invalid_response'],
    [{ status: 'SUCCEEDED', output: [] }, 'failed: invalid_response'],
    [{ status: 'SUCCEEDED', output: ['not an address'] }, 'failed: invalid_response'],
    [{ status: 'SUCCEEDED', output: [{ url: 'https://files.test/a.mp4' }] }, 'failed: invalid_response'],
    [{}, 'throws invalid_response'],
    [[], 'throws invalid_response'],
    [{ status: 'DONE' }, 'throws invalid_response'],
    [{ status: 'succeeded', output: ['https://files.test/a.mp4'] }, 'throws invalid_response'],
  ])
})

const errors: [string, Reply, string, RegExp][] = [
  ['400', invalidBody('promptText', 'Too long'), 'invalid_request', /Validation of body failed: promptText: Too long/],
  ['400 for want of credits', noCredits, 'quota', /account at the provider/],
  [
    '401',
    json(401, { error: 'Key key_abc is wrong' }),
    'auth',
    /^The provider refused the gateway's credentials\. Tell the operator/,
  ],
  ['403', json(403, { error: 'Forbidden' }), 'auth', /credentials/],
  ['403 of a model', json(403, { error: 'Model variant gen4 is not available' }), 'model_unavailable', /gen4/],
  ['404', json(404, { error: 'Not found' }), 'model_unavailable', /Not found/],
  ['405', json(405, { error: 'Method not allowed' }), 'model_unavailable', /Method/],
  ['415', json(415, {}), 'invalid_request', /status 415/],
  ['429', json(429, { error: 'Daily limit' }, { 'retry-after': '7' }), 'rate_limited', /Daily limit/],
  [
    '400 of a file that Runway could not fetch',
    invalidBody('promptImage', 'Failed to fetch asset. Received HTTP response code "503".'),
    'server_error',
    /promptImage: Failed to fetch asset/,
  ],
  [
    '400 of a file that came too late',
    json(400, { error: 'Invalid asset for `videoUri`. Timeout while fetching asset.' }),
    'server_error',
    /Timeout while fetching/,
  ],
  ['502 of Runway', json(502, { error: 'The service is shedding load' }), 'overloaded', /shedding load/],
  ['504 of Runway', json(504, { error: 'The service is overloaded' }), 'overloaded', /overloaded/],
  ['502', json(502, 'Bad gateway'), 'server_error', /status 502/],
  ['503', json(503, {}), 'overloaded', /status 503/],
  // Not Runway's own words: a proxy's, which may have passed the request on.
  ['503 as a page', text(503, '<html>Service Unavailable'), 'server_error', /status 503/],
  ['504', json(504, {}), 'server_error', /status 504/],
]
for (const [title, reply, reason, message] of errors)
  test(`${title} at the start is ${reason}`, async t => {
    const { emulator, url, close } = await startRunway()
    emulator.next(reply)
    const start = adapter.start(videoCall('runway', 'runway-gen4.5'), connectionTo('runway', runway, url), null)
    const error = await providerFault(start)
    t.is(error.reason, reason as typeof error.reason)
    t.regex(error.message, message)
    t.is(error.retryAfterMs, title === '429' ? 7_000 : null)
    await close()
  })

test('invalid_response: a handle that would lead elsewhere', async t => {
  const { emulator, url, close } = await startRunway()
  for (const id of ['../organization', 'a/b', 'a?b', '', null, { id: 'a' }]) {
    emulator.next(json(200, { id }))
    const start = adapter.start(videoCall('runway', 'runway-gen4.5'), connectionTo('runway', runway, url), null)
    t.is((await providerFault(start)).reason, 'invalid_response')
  }
  await close()
})

test('cancelled: by DELETE; a task that is gone is no fault', async t => {
  const { emulator, url, finish, works, close } = await startRunway()
  const connection = connectionTo('runway', runway, url)
  const operation = await adapter.start(videoCall('runway', 'runway-gen4.5'), connection, null)
  finish()
  await adapter.cancel!(operation, connection)
  await adapter.cancel!(operation, connection)
  t.is(works.size, 0)
  const { path, headers } = emulator.requests.find(({ method }) => method === 'DELETE')!
  t.is(path, `/v1/tasks/${operation.task}`)
  t.is(headers['x-runway-version'], '2024-11-06')
  await close()
})
