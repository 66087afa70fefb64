import { loadCatalog } from '../../../shared/catalog/catalog.ts'
import type { DeploymentTraits } from '../../../shared/catalog/deployment-traits.ts'
import type { QueuedKind } from '../../../shared/kinds/index.ts'
import { video as videoKind } from '../../../shared/kinds/video.ts'
import { fal } from '../../../shared/providers/adapters/fal/protocol.ts'
import type { QueuedAdapter, QueuedCall } from '../../../shared/providers/contract.ts'
import { startFal } from '../../emulators/fal.ts'
import { falLipsync, falMesh, falVideo } from '../../support/jobs/fal-calls.ts'
import { callOf } from '../../support/jobs/queued-adapter.ts'
import { bench } from '../../support/jobs/slow-work.ts'
import { audioSource, hiddenImage, imageSource, sourceOf, videoSource } from '../../support/jobs/sources.ts'
import { test } from '../../support/test.ts'

const image = 'https://files.example/face.png'
const clip = 'https://files.example/clip.mp4'
const voice = 'https://files.example/voice.mp3'

const videos = bench('fal', fal, 'video', startFal)
const kling = 'fal-ai/kling-video/v3/pro'
const seedance = 'fal-ai/bytedance/seedance/v1.5/pro'
const hailuo = 'fal-ai/minimax/hailuo-2.3'
const hunyuan = 'fal-ai/hunyuan3d-v3'
const first = { start_image_url: imageSource }
const frames = { ...first, end_image_url: sourceOf('https://files.example/last.png', 'image/png') }
const last = 'https://files.example/last.png'
const side = (name: string) => sourceOf(`https://files.example/${name}.png`, 'image/png')

/** Every way that the catalog's rows are asked for. */
const cases: [kind: QueuedKind, call: QueuedCall<QueuedKind>, model: string, body: object][] = [
  ['video', falVideo('kling-v3-pro'), `${kling}/text-to-video`, { prompt: 'a fox', duration: '5' }],
  [
    'video',
    falVideo('kling-v3-pro', { seconds: 15, aspectRatio: '9:16', negativePrompt: 'dogs', audio: false }),
    `${kling}/text-to-video`,
    { prompt: 'a fox', duration: '15', aspect_ratio: '9:16', negative_prompt: 'dogs', generate_audio: false },
  ],
  [
    'video',
    falVideo('kling-v3-pro', { mode: 'image', audio: true }, frames),
    `${kling}/image-to-video`,
    { prompt: 'a fox', start_image_url: image, end_image_url: last, duration: '5', generate_audio: true },
  ],
  [
    'video',
    falVideo('kling-v2.5-turbo-pro', { mode: 'image', seconds: 10, negativePrompt: 'dogs' }, frames),
    'fal-ai/kling-video/v2.5-turbo/pro/image-to-video',
    { prompt: 'a fox', image_url: image, tail_image_url: last, duration: '10', negative_prompt: 'dogs' },
  ],
  [
    'video',
    falVideo(
      'kling-v3-pro-motion-control',
      { mode: 'motion_control', seconds: 10.5 },
      { ...first, input_video_url: videoSource },
    ),
    `${kling}/motion-control`,
    { character_orientation: 'video', prompt: 'a fox', image_url: image, video_url: clip },
  ],
  [
    'video',
    falVideo('seedance-1.5-pro', { resolution: '480p', aspectRatio: '21:9', seed: 7, audio: true, seconds: 12 }),
    `${seedance}/text-to-video`,
    { prompt: 'a fox', duration: '12', resolution: '480p', aspect_ratio: '21:9', seed: 7, generate_audio: true },
  ],
  [
    'video',
    falVideo('seedance-1.5-pro', { mode: 'image', resolution: '720p' }, frames),
    `${seedance}/image-to-video`,
    { prompt: 'a fox', image_url: image, end_image_url: last, duration: '5', resolution: '720p' },
  ],
  [
    'video',
    falVideo('hailuo-2.3-standard', { resolution: '768p', seconds: 6 }),
    `${hailuo}/standard/text-to-video`,
    { prompt: 'a fox', duration: '6' },
  ],
  [
    'video',
    falVideo('hailuo-2.3-pro', { mode: 'image', seconds: 6 }, first),
    `${hailuo}/pro/image-to-video`,
    { prompt: 'a fox', image_url: image },
  ],
  ['lipsync', falLipsync(), 'fal-ai/bytedance/omnihuman/v1.5', { image_url: image, audio_url: voice }],
  [
    'lipsync',
    falLipsync({ prompt: 'she smiles' }),
    'fal-ai/bytedance/omnihuman/v1.5',
    { image_url: image, audio_url: voice, prompt: 'she smiles' },
  ],
  ['mesh', falMesh('hunyuan3d-v3'), `${hunyuan}/text-to-3d`, { prompt: 'a chair', enable_pbr: false }],
  [
    'mesh',
    falMesh(
      'hunyuan3d-v3',
      { from: 'image', prompt: null, images: 1, pbr: true, targetPolycount: 50_000 },
      { image_url: imageSource },
    ),
    `${hunyuan}/image-to-3d`,
    { input_image_url: image, enable_pbr: true, face_count: 50_000 },
  ],
  [
    'mesh',
    falMesh(
      'hunyuan3d-v3',
      { from: 'multi_image', prompt: null, images: 3 },
      { 'image_urls.0': imageSource, 'image_urls.1': side('back'), 'image_urls.2': side('left') },
    ),
    `${hunyuan}/image-to-3d`,
    {
      input_image_url: image,
      back_image_url: 'https://files.example/back.png',
      left_image_url: 'https://files.example/left.png',
      enable_pbr: false,
    },
  ],
  [
    'mesh',
    falMesh('trellis', { from: 'image', prompt: null, images: 1, seed: 7 }, { image_url: imageSource }),
    'fal-ai/trellis',
    { image_url: image, seed: 7 },
  ],
]

test('started and completed: the exact request of every model and mode', async t => {
  for (const [kind, call, model, expected] of cases)
    await bench('fal', fal, kind, startFal).using(async ({ emulator, finish }, connection) => {
      const adapter = fal.queued![kind] as QueuedAdapter<QueuedKind>
      const operation = await adapter.start(call, connection, null)
      const { method, path, query, headers, body } = emulator.requests.at(-1)!
      t.deepEqual([method, path, query.size], ['POST', `/${model}`, 0])
      t.is(headers.authorization, 'Key secret-key-of-the-gateway:and-its-other-half')
      t.deepEqual(body, expected, model)
      finish()
      // The emulator holds every input against fal's own schema.
      t.is((await adapter.check(operation, connection)).status, 'completed', model)
      const app = model.split('/').slice(0, 2).join('/')
      t.is(emulator.requests.at(-1)!.path, `/${app}/requests/${operation.request}`)
    })
})

test('completed: every mode that the catalog promises of a video at fal', async t => {
  const catalog = loadCatalog()
  const bodies: Record<string, object> = {
    text: {},
    image: { start_image_url: image },
    motion_control: { start_image_url: image, input_video_url: clip },
  }
  let asked = 0
  for (const row of catalog.models.values()) {
    if (row.type !== 'video' || row.disabled || !row.providers.some(({ provider }) => provider === 'fal')) continue
    for (const mode of row.kind!.modes as string[]) {
      const request = {
        prompt: 'a fox',
        ...bodies[mode],
        ...(row.kind!.end_image === true && mode === 'image' && { end_image_url: image }),
      }
      const input = videoKind.input(videoKind.request.parse(request), row, null)
      const sources = Object.fromEntries(
        videoKind.references(request).map(({ field, type }) => [field, type === 'video' ? videoSource : imageSource]),
      )
      await videos.using(async ({ finish }, connection) => {
        const operation = await videos.adapter.start(callOf<'video'>('fal', row.id, input, sources), connection, null)
        finish()
        t.is((await videos.adapter.check(operation, connection)).status, 'completed', `${row.id} ${mode}`)
        asked += 1
      })
    }
  }
  t.true(asked >= 10)
})

test('started: where to report the end', async t => {
  const call = falVideo('kling-v3-pro', {}, {}, 'https://gateway.example/callbacks/job_1/token?x=1&y=2')
  await videos.using(async ({ emulator }, connection) => {
    await videos.adapter.start(call, connection, null)
    t.is(emulator.requests[0]!.query.get('fal_webhook'), call.callbackUrl)
  })
})

test('started: small files of a hidden gateway stand in the input, large ones do not', async t => {
  const { body } = await videos.started(
    falVideo('hailuo-2.3-pro', { mode: 'image', seconds: 6 }, { start_image_url: hiddenImage }),
  )
  t.regex(body.image_url, /^data:image\/png;base64,/)
  const large = { ...hiddenImage, bytes: 11 * 1024 * 1024 }
  const sent = await videos.started(
    falVideo('hailuo-2.3-pro', { mode: 'image', seconds: 6 }, { start_image_url: large }),
  )
  t.is(sent.body.image_url, image)
})

test('started: any model an operator describes', async t => {
  const call = falVideo(
    'kling-v3-pro',
    { mode: 'reference', seconds: 8, resolution: '720p' },
    {
      'input_references.0': imageSource,
      'input_references.1': side('back'),
      'input_video_references.0': videoSource,
      'input_audio_references.0': audioSource,
    },
  )
  const traits: DeploymentTraits = {
    prompt_field: 'text',
    images_field: 'image_urls',
    videos_field: 'clips',
    audios_field: 'voices',
    duration_format: 'string_s',
    duration_field: 'length',
    resolution_field: 'quality',
    input: { safety: 4 },
    by_mode: { reference: { model: 'fal-ai/trellis' } },
  }
  const deployment = { ...call.target.deployment, traits }
  const asked = async (more: object) =>
    await videos.started({
      ...call,
      target: { ...call.target, deployment: { ...deployment, traits: { ...traits, ...more } } },
    })
  const { path, body } = await asked({})
  t.is(path, '/fal-ai/trellis')
  t.deepEqual(body, {
    safety: 4,
    text: 'a fox',
    image_urls: [image, 'https://files.example/back.png'],
    clips: [clip],
    voices: [voice],
    length: '8s',
    quality: '720p',
  })
  t.is((await asked({ duration_format: 'number' })).body.length, 8)
})

test('started: talking avatars and face swaps that an operator describes', async t => {
  const traits = { image_field: 'image_url', audio_field: 'audio_url', script_field: 'text', voice_field: 'voice' }
  const more = {
    avatar_field: 'avatar_id',
    by_mode: { avatar: { model: 'fal-ai/trellis' } },
    resolution_field: 'resolution',
  }
  const { target } = falVideo('kling-v3-pro')
  const deployment = { ...target.deployment, traits: { ...traits, ...more, aspect_ratio_field: 'ratio' } }
  const avatar = { avatarId: null, script: null, voiceId: null, resolution: '720p', aspectRatio: null }
  const base = { target: { ...target, deployment }, jobId: 'job_1', attempt: 1, callbackUrl: null }
  const said = { ...avatar, estimatedSeconds: 9, sourceFaceConsent: true }
  const avatars = bench('fal', fal, 'avatar', startFal)
  const spoken = new Map([
    ['image_url', imageSource],
    ['audio_url', audioSource],
  ])
  const own = await avatars.started({ ...base, input: said, sources: spoken })
  t.deepEqual(own.body, { image_url: image, audio_url: voice, resolution: '720p' })
  const input = { ...said, avatarId: 'emily', script: 'Hello', voiceId: 'v1', aspectRatio: '16:9' }
  const listed = await avatars.started({ ...base, input, sources: new Map() })
  t.is(listed.path, '/fal-ai/trellis')
  t.deepEqual(listed.body, { avatar_id: 'emily', text: 'Hello', voice: 'v1', resolution: '720p', ratio: '16:9' })

  const swap = { ...target.deployment, traits: { video_field: 'video_url', face_field: 'face' } }
  const faces = await bench('fal', fal, 'face_swap', startFal).started({
    ...base,
    target: { ...target, deployment: swap },
    input: { seconds: 10.5, maxSeconds: 60, sourceFaceConsent: true },
    sources: new Map([
      ['video_url', videoSource],
      ['face_image_url', imageSource],
    ]),
  })
  t.deepEqual(faces.body, { video_url: clip, face: image })
})

test('400 for what a model does not take, before anything is sent', async t => {
  const refusals: [QueuedCall<'video'>, string][] = [
    [falVideo('kling-v3-pro', { mode: 'image', aspectRatio: '1:1' }, first), 'aspect_ratio'],
    [falVideo('kling-v3-pro', { mode: 'image', prompt: null }, first), 'prompt'],
    [falVideo('kling-v3-pro', { seed: 7 }), 'seed'],
    [falVideo('seedance-1.5-pro', { negativePrompt: 'dogs' }), 'negative_prompt'],
    [falVideo('hailuo-2.3-pro', { seconds: 6, audio: true }), 'audio'],
    [falVideo('hailuo-2.3-pro', { seconds: 10 }), 'seconds'],
    [falVideo('hailuo-2.3-pro', { mode: 'image', prompt: null, seconds: 6 }, first), 'prompt'],
    [falVideo('hailuo-2.3-pro', { mode: 'image', seconds: 6 }, frames), 'end_image_url'],
    [falVideo('kling-v3-pro', { mode: 'reference' }, { 'input_references.0': imageSource }), 'input_references'],
  ]
  for (const [call, param] of refusals) t.is(await videos.refused(t, call), param)
  t.is((await videos.started(falVideo('hailuo-2.3-pro', { seconds: 6, audio: false }))).body.generate_audio, undefined)

  const meshes = bench('fal', fal, 'mesh', startFal)
  const views = Object.fromEntries(['a', 'b', 'c', 'd', 'e'].map((name, i) => [`image_urls.${i}`, side(name)]))
  const many = falMesh('hunyuan3d-v3', { from: 'multi_image', prompt: null, images: 5 }, views)
  t.is(await meshes.refused(t, many), 'image_urls.4')
  t.is(await meshes.refused(t, falMesh('hunyuan3d-v3', { texture: false })), 'texture')
  t.is(await meshes.refused(t, falMesh('trellis', { pbr: true })), 'pbr')
})
