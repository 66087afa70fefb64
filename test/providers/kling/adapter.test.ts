import { kling } from '../../../shared/providers/adapters/kling/protocol.ts'
import { json } from '../../emulators/emulator.ts'
import { klingError, startKling } from '../../emulators/kling.ts'
import { connectionTo, providerFault, queuedConformance, refusedField } from '../../support/jobs/queued-adapter.ts'
import { assertReports } from '../../support/jobs/slow-work.ts'
import { hiddenImage, imageSource, otherImage, sourceOf, videoSource } from '../../support/jobs/sources.ts'
import { created, videoAdapter, videoCall } from '../../support/jobs/video-calls.ts'
import { test } from '../../support/test.ts'

type Input = Parameters<typeof videoCall>[2]
type Sources = Parameters<typeof videoCall>[3]
type Changes = Parameters<typeof videoCall>[4]

const adapter = videoAdapter(kling)
const prompt = 'A heron on a lake'
const pro = 'kling-v3-pro'
const external_task_id = 'job_conformance0'
const motion = { start_image_url: imageSource, input_video_url: videoSource }
/** Their places count, not how they are kept. */
const references = { 'input_references.1': otherImage, 'input_references.0': imageSource }
const motionInput = { mode: 'motion_control', prompt: null, seconds: 4.2 } as const
const old = { upstream_model: 'kling-v1-6', traits: { mode: 'std' } }

const replies = {
  invalid: klingError(400, 1201, 'duration is invalid'),
  rateLimited: klingError(429, 1302, 'API requests are too fast'),
  quota: klingError(429, 1102, 'Resource pack depleted'),
}
const common = { provider: 'kling', protocol: kling, kind: 'video', start: startKling, replies } as const
queuedConformance(test, { ...common, name: 'text', call: () => videoCall('kling', pro) })
queuedConformance(test, {
  ...common,
  name: 'image',
  call: () => videoCall('kling', pro, { mode: 'image' }, { start_image_url: imageSource }),
})
queuedConformance(test, {
  ...common,
  name: 'references',
  call: () => videoCall('kling', pro, { mode: 'reference' }, references, old),
})
queuedConformance(test, {
  ...common,
  name: 'motion control',
  call: () => videoCall('kling', pro, motionInput, motion),
})

const bodies: [string, string, Input, Sources, Changes, string, object][] = [
  [
    'text with every option',
    pro,
    { aspectRatio: '9:16', resolution: '1080p', seconds: 15, negativePrompt: 'rain', audio: false },
    {},
    {},
    'text2video',
    { mode: 'pro', prompt, aspect_ratio: '9:16', duration: '15', negative_prompt: 'rain', sound: 'off' },
  ],
  [
    'text with the sound of its price',
    pro,
    {},
    {},
    {},
    'text2video',
    { mode: 'pro', prompt, duration: '5', sound: 'on' },
  ],
  ['silent text', 'kling-v3-standard', {}, {}, {}, 'text2video', { mode: 'std', prompt, duration: '5', sound: 'off' }],
  ['text for an older model', pro, {}, {}, old, 'text2video', { mode: 'std', prompt, duration: '5' }],
  [
    'an image',
    pro,
    { mode: 'image', prompt: null },
    { start_image_url: imageSource },
    {},
    'image2video',
    { mode: 'pro', image: 'https://files.example/face.png', duration: '5', sound: 'on' },
  ],
  [
    'a first and a last frame, as bytes',
    pro,
    { mode: 'image' },
    { start_image_url: hiddenImage, end_image_url: otherImage },
    {},
    'image2video',
    {
      mode: 'pro',
      prompt,
      image: 'Ynl0ZXM=',
      image_tail: 'https://files.example/other.jpg',
      duration: '5',
      sound: 'on',
    },
  ],
  [
    'references',
    pro,
    { mode: 'reference', aspectRatio: '1:1' },
    references,
    old,
    'multi-image2video',
    {
      mode: 'std',
      prompt,
      image_list: [{ image: 'https://files.example/face.png' }, { image: 'https://files.example/other.jpg' }],
      aspect_ratio: '1:1',
      duration: '5',
    },
  ],
  [
    'a motion',
    pro,
    { ...motionInput, prompt, audio: false },
    motion,
    {},
    'motion-control',
    {
      mode: 'pro',
      prompt,
      image_url: 'https://files.example/face.png',
      video_url: 'https://files.example/clip.mp4',
      character_orientation: 'video',
      keep_original_sound: 'no',
    },
  ],
  [
    'a motion in the direction of the image',
    pro,
    motionInput,
    motion,
    { traits: { mode: 'std', orientation: 'image' } },
    'motion-control',
    {
      mode: 'std',
      image_url: 'https://files.example/face.png',
      video_url: 'https://files.example/clip.mp4',
      character_orientation: 'image',
    },
  ],
]
for (const [title, model, input, sources, changes, route, body] of bodies)
  test(`started: ${title}`, async t => {
    const { emulator, url, works, close } = await startKling()
    const call = videoCall('kling', model, input, sources, changes)
    const operation = await adapter.start(call, connectionTo('kling', kling, url), null)
    const sent = created(emulator.requests)
    t.is(sent.path, `/v1/videos/${route}`)
    const model_name = changes?.upstream_model ?? 'kling-v3'
    t.deepEqual(sent.body, { model_name, ...body, external_task_id })
    t.deepEqual(operation, { route, task: [...works.keys()][0]! })
    await close()
  })

const heavy = { ...imageSource, bytes: 10 * 1024 * 1024 + 1 }
const many = Object.fromEntries(Array.from({ length: 5 }, (_, i) => [`input_references.${i}`, imageSource]))
const refusals: [string, Input, Sources, string][] = [
  ['a video to change', { mode: 'video' }, { input_video_url: videoSource }, 'input_video_url'],
  ['a seed', { seed: 7 }, {}, 'seed'],
  ['a long prompt', { prompt: 'x'.repeat(2_501) }, {}, 'prompt'],
  ['a long negative prompt', { negativePrompt: 'x'.repeat(2_501) }, {}, 'negative_prompt'],
  [
    'an image with an aspect ratio',
    { mode: 'image', aspectRatio: '1:1' },
    { start_image_url: imageSource },
    'aspect_ratio',
  ],
  ['a heavy image', { mode: 'image' }, { start_image_url: heavy }, 'start_image_url'],
  ['five references', { mode: 'reference' }, many, 'input_references'],
  ['references with sound', { mode: 'reference', audio: true }, references, 'audio'],
  ['references without a prompt', { mode: 'reference', prompt: null }, references, 'prompt'],
  ['video references', { mode: 'reference' }, { 'input_video_references.0': videoSource }, 'input_video_references.0'],
  ['a short motion', { ...motionInput, seconds: 2.9 }, motion, 'input_video_url'],
  ['a long motion', { ...motionInput, seconds: 30.1 }, motion, 'input_video_url'],
  ['a motion with an aspect ratio', { ...motionInput, aspectRatio: '1:1' }, motion, 'aspect_ratio'],
  ['a motion with a negative prompt', { ...motionInput, negativePrompt: 'rain' }, motion, 'negative_prompt'],
]
for (const [title, input, sources, field] of refusals)
  test(`400 before anything is sent: ${title}`, async t => {
    const { emulator, url, close } = await startKling()
    const start = adapter.start(videoCall('kling', pro, input, sources), connectionTo('kling', kling, url), null)
    t.is(await refusedField(start), field)
    t.is(emulator.requests.length, 0)
    await close()
  })

test('400 before anything is sent: a motion of 11 s in the direction of the image', async t => {
  const { emulator, url, close } = await startKling()
  const traits = { mode: 'std', orientation: 'image' } as const
  const call = videoCall('kling', pro, { ...motionInput, seconds: 11 }, motion, { traits })
  t.is(await refusedField(adapter.start(call, connectionTo('kling', kling, url), null)), 'input_video_url')
  t.is(emulator.requests.length, 0)
  await close()
})

test('400 for a row that lets callers choose a resolution: Kling is told a mode, not that', async t => {
  const { emulator, url, close } = await startKling()
  const call = videoCall('kling', pro, { resolution: '720p' })
  const model = { ...call.target.model, kind: { ...call.target.model.kind, resolutions: ['720p', '1080p'] } }
  const start = adapter.start({ ...call, target: { ...call.target, model } }, connectionTo('kling', kling, url), null)
  t.is(await refusedField(start), 'resolution')
  t.is(emulator.requests.length, 0)
  await close()
})

test('completed: address, length and credits, which come as texts', async t => {
  const { url, close } = await startKling({ autoFinish: 2 })
  const connection = connectionTo('kling', kling, url)
  const operation = await adapter.start(videoCall('kling', pro), connection, null)
  t.deepEqual(await adapter.check(operation, connection), { status: 'pending', progress: null })
  t.deepEqual(await adapter.check(operation, connection), {
    status: 'completed',
    output: { files: [{ role: 'video', url: `${url}/files/${operation.task}/video.mp4` }], durationS: 5.1 },
    invoice: { seconds: null, credits: 3.5 },
  })
  await close()
})

/** One look at a task of which Kling answers this. */
async function look(answer: unknown) {
  const { emulator, url, close } = await startKling()
  emulator.next(json(200, answer))
  return adapter.check({ route: 'text2video', task: '1' }, connectionTo('kling', kling, url)).finally(close)
}

test('pending: submitted and processing', async t => {
  for (const task_status of ['submitted', 'processing'])
    t.deepEqual(await look({ code: 0, data: { task_id: '1', task_status } }), { status: 'pending', progress: null })
})

const failures: [string | undefined, string, RegExp][] = [
  ['Failure to pass the risk control system', 'content_filter', /risk control/],
  ['The prompt contains sensitive words', 'content_filter', /sensitive/],
  ['Image pixel is invalid', 'invalid_request', /pixel/],
  ['The resolution or aspect ratio of the input image is invalid.', 'invalid_request', /resolution/],
  ['Generation failed, please try again.', 'server_error', /try again/],
  [undefined, 'server_error', /reported a failure/],
]
for (const [task_status_msg, reason, words] of failures)
  test(`failed: ${task_status_msg ?? 'without a reason'} is ${reason}`, async t => {
    const report = await look({ code: 0, data: { task_id: '1', task_status: 'failed', task_status_msg } })
    if (report.status !== 'failed') return void t.fail(report.status)
    t.is(report.error.reason, reason as typeof report.error.reason)
    t.regex(report.error.message, words)
  })

const over = (task_result?: object) => ({
  code: 0,
  message: 'SUCCEED',
  data: { task_id: '1', task_status: 'succeed', task_result },
})
const videos = [{ id: 'a', url: 'https://files.test/a' }]

test('reported: answers that tell no end, and ends without a video', async t => {
  await assertReports(t, look, [
    [over({ videos }), 'completed'],
    [over(), 'failed: invalid_response'],
    [over({ videos: [] }), 'failed: invalid_response'],
    [over({ videos: [{ id: 'a' }] }), 'failed: invalid_response'],
    [{ code: 0, data: null }, 'throws invalid_response'],
    [{ code: 0, data: { task_id: '1', task_status: 'succeeded' } }, 'throws invalid_response'],
    [{ ...over({ videos }), code: undefined }, 'throws invalid_response'],
    [{ ...over({ videos }), code: 7 }, 'throws invalid_response'],
  ])
})

const codes: [number, number, string][] = [
  [401, 1000, 'auth'],
  [401, 1001, 'auth'],
  [401, 1002, 'auth'],
  [401, 1003, 'auth'],
  [401, 1004, 'auth'],
  [429, 1100, 'auth'],
  [429, 1101, 'quota'],
  [429, 1102, 'quota'],
  [403, 1103, 'auth'],
  [400, 1200, 'invalid_request'],
  [400, 1201, 'invalid_request'],
  [404, 1202, 'model_unavailable'],
  [404, 1203, 'model_unavailable'],
  [400, 1300, 'content_filter'],
  [400, 1301, 'content_filter'],
  [429, 1302, 'rate_limited'],
  [429, 1303, 'rate_limited'],
  [429, 1304, 'auth'],
  [500, 5000, 'server_error'],
  [503, 5001, 'overloaded'],
  [504, 5002, 'server_error'],
]
for (const [status, code, reason] of codes)
  test(`${code} at the start is ${reason}, with status ${status} and with 200`, async t => {
    const { emulator, url, works, close } = await startKling()
    const connection = connectionTo('kling', kling, url)
    for (const given of [status, 200]) {
      emulator.next(klingError(given, code, 'Account of AK123 says no'))
      const error = await providerFault(adapter.start(videoCall('kling', pro), connection, null))
      t.is(error.reason, reason as typeof error.reason)
      t.is(error.message.includes('AK123'), !['auth', 'quota'].includes(reason))
    }
    t.is(works.size, 0)
    await close()
  })

test('source that cannot be fetched: a motion needs an address', async t => {
  const { url, close } = await startKling()
  const broken = { ...sourceOf('', 'video/mp4', 4.2), url: async () => Promise.reject(new RangeError('no address')) }
  const call = videoCall('kling', pro, motionInput, { ...motion, input_video_url: broken })
  await t.throwsAsync(adapter.start(call, connectionTo('kling', kling, url), null), { instanceOf: RangeError })
  await close()
})
