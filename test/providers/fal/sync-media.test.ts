import type { DeploymentTraits } from '../../../shared/catalog/deployment-traits.ts'
import type { ImageInput } from '../../../shared/kinds/image.ts'
import { fal } from '../../../shared/providers/adapters/fal/protocol.ts'
import type { Source, SyncCall } from '../../../shared/providers/contract.ts'
import { falError, startFal } from '../../emulators/fal.ts'
import { providerFault } from '../../support/jobs/queued-adapter.ts'
import { hiddenImage } from '../../support/jobs/sources.ts'
import { conforms } from '../../support/media/adapter.ts'
import { pictureSource } from '../../support/media/image-calls.ts'
import {
  imageCall,
  imageCallWith,
  musicCall,
  outputOf,
  reasonOf,
  sfxCall,
  syncMediaBench,
} from '../../support/media/model-calls.ts'
import { test } from '../../support/test.ts'

const one = { 'input_references.0': pictureSource('a.png') }
const two = { ...one, 'input_references.1': pictureSource('b.png') }
const [a, b] = ['https://files.example/a.png', 'https://files.example/b.png']
const prompt = 'a fox in the snow'

const common = {
  provider: 'fal',
  protocol: fal,
  start: () => startFal(),
  error: (status: number, message: string) => falError(status, message),
}
conforms(test, {
  ...common,
  name: 'fal images',
  kind: 'image',
  call: () => imageCall('fal', 'flux-schnell', { n: 2, format: 'png' }),
  others: {
    'an edit': () => imageCall('fal', 'nano-banana', {}, two),
    'in the answer itself': () => imageCallWith('fal', 'fal-ai/flux/schnell', { input: { sync_mode: true } }),
  },
})
conforms(test, {
  ...common,
  name: 'fal music',
  kind: 'music',
  call: () => musicCall('fal-eleven-music', { durationS: 3.5 }),
  others: {
    'in Opus': () => musicCall('fal-eleven-music', { format: 'opus' }),
    'in FLAC, a list': () => musicCall('fal-sonauto', { format: 'flac' }),
    'in WAV': () => musicCall('fal-cassette-music', { format: 'wav', durationS: 2 }),
  },
})
conforms(test, { ...common, name: 'fal sound effects', kind: 'sfx', call: () => sfxCall('fal-eleven-sfx') })

const images = syncMediaBench('fal', fal, 'image', startFal)
const music = syncMediaBench('fal', fal, 'music', startFal)
const effects = syncMediaBench('fal', fal, 'sfx', startFal)
const drawn = (model: string, more: Parameters<typeof imageCall>[2] = {}, sources: Record<string, Source> = {}) =>
  imageCall('fal', model, more, sources)

/** Every way that the catalog's rows are asked for images. */
const requests: [call: SyncCall<'image'>, model: string, body: object, file: string][] = [
  [drawn('flux-schnell'), 'fal-ai/flux/schnell', { prompt, num_images: 1 }, 'image-1024x768-0.jpeg'],
  [
    drawn('flux-schnell', { n: 4, size: { width: 1024, height: 640 }, format: 'png', seed: 7 }),
    'fal-ai/flux/schnell',
    { prompt, num_images: 4, image_size: { width: 1024, height: 640 }, output_format: 'png', seed: 7 },
    'image-1024x640-0.png',
  ],
  [
    drawn('flux-1.1-pro', { aspectRatio: '9:16', format: 'jpeg', background: 'opaque', moderation: 'auto' }),
    'fal-ai/flux-pro/v1.1',
    { prompt, num_images: 1, image_size: 'portrait_16_9', output_format: 'jpeg' },
    'image-576x1024-0.jpeg',
  ],
  [
    drawn('flux-1.1-pro-ultra', { size: { width: 2688, height: 1152 } }, one),
    'fal-ai/flux-pro/v1.1-ultra',
    { prompt, num_images: 1, aspect_ratio: '21:9', image_url: a },
    'image-1568x672-0.jpeg',
  ],
  [
    drawn('ideogram-v3', { aspectRatio: '4:3', n: 2 }),
    'fal-ai/ideogram/v3',
    { prompt, num_images: 2, image_size: 'landscape_4_3' },
    'image-1024x768-0.png',
  ],
  [
    drawn('recraft-v3', { aspectRatio: '1:1' }),
    'fal-ai/recraft/v3/text-to-image',
    { prompt, image_size: 'square_hd' },
    'image-1024x1024-0.webp',
  ],
  [
    drawn('nano-banana', { aspectRatio: '5:4' }),
    'fal-ai/nano-banana',
    { prompt, num_images: 1, aspect_ratio: '5:4' },
    'image-1144x912-0.png',
  ],
  [
    drawn('nano-banana', { n: 2, format: 'webp' }, two),
    'fal-ai/nano-banana/edit',
    { prompt, num_images: 2, output_format: 'webp', image_urls: [a, b] },
    'image-1024x1024-0.webp',
  ],
  [
    drawn('seedream-v3', { size: { width: 1280, height: 720 }, seed: 1 }),
    'fal-ai/bytedance/seedream/v3/text-to-image',
    { prompt, num_images: 1, image_size: { width: 1280, height: 720 }, seed: 1 },
    'image-1280x720-0.png',
  ],
]

test('started and completed: the exact request of every row, and images of the size and format asked for', async t => {
  for (const [call, model, expected, file] of requests) {
    const { request, report } = await images.done(call)
    t.deepEqual([request.method, request.path, request.query.size], ['POST', `/${model}`, 0])
    t.deepEqual(request.body, expected, model)
    // The emulator holds every input against fal's own schema.
    const drawn = outputOf(report).images
    t.is(drawn.length, call.input.n, model)
    t.true('url' in drawn[0]! && drawn[0].url.endsWith(`/${file}`), JSON.stringify(drawn))
  }
})

test('started: an edit, a mask and everything else that an operator describes', async t => {
  const traits = {
    size_field: 'image_size',
    size_format: 'text',
    n_field: 'num_images',
    quality_field: 'quality',
    background_field: 'background',
    format_field: 'output_format',
    formats: ['png', 'jpeg', 'webp'],
    by_mode: { edit: { model: 'fal-ai/gpt-image-1.5/edit' } },
    images_field: 'image_urls',
    mask_field: 'mask_image_url',
    fidelity_field: 'input_fidelity',
  } as const satisfies DeploymentTraits
  const size = { width: 1536, height: 1024 }
  const asked = { n: 2, size, quality: 'high', background: 'transparent', format: 'webp', fidelity: 'high' } as const
  const call = imageCallWith('fal', 'fal-ai/gpt-image-1.5', traits, asked, { ...one, mask: pictureSource('mask.png') })
  const { request, report } = await images.done(call)
  t.is(request.path, '/fal-ai/gpt-image-1.5/edit')
  t.deepEqual(request.body, {
    prompt,
    image_urls: [a],
    mask_image_url: 'https://files.example/mask.png',
    num_images: 2,
    image_size: '1536x1024',
    quality: 'high',
    background: 'transparent',
    output_format: 'webp',
    input_fidelity: 'high',
  })
  t.is(outputOf(report).images.length, 2)
  const fields = {
    width_field: 'width',
    height_field: 'height',
    resolution_field: 'tier',
    moderation_field: 'safety',
  }
  const other = await images.done(
    imageCallWith(
      'fal',
      'fal-ai/trellis',
      { ...fields, compression_field: 'q' },
      {
        size: { width: 640, height: 480 },
        resolution: '2K',
        compression: 50,
        moderation: 'low',
      },
    ),
  )
  t.deepEqual(other.request.body, { prompt, width: 640, height: 480, tier: '2K', q: 50, safety: 'low' })
})

test('started: small references of a hidden gateway stand in the input', async t => {
  const { request } = await images.done(drawn('nano-banana', {}, { 'input_references.0': hiddenImage }))
  t.regex(request.body.image_urls[0], /^data:image\/png;base64,/)
})

test('400 for what a model does not take, before anything is sent', async t => {
  const refusals: [SyncCall<'image'>, string][] = [
    [drawn('flux-schnell', { size: { width: 2048, height: 2048 } }), 'size'],
    [drawn('flux-schnell', { aspectRatio: '5:4' }), 'aspect_ratio'],
    [drawn('flux-schnell', { format: 'webp' }), 'output_format'],
    [drawn('flux-schnell', { resolution: '1K' }), 'resolution'],
    [drawn('flux-schnell', { quality: 'high' }), 'quality'],
    [drawn('flux-schnell', { background: 'transparent' }), 'background'],
    [drawn('flux-schnell', { moderation: 'low' }), 'moderation'],
    [drawn('flux-schnell', { format: 'jpeg', compression: 50 }), 'output_compression'],
    [drawn('flux-schnell', {}, one), 'input_references'],
    [drawn('flux-1.1-pro-ultra', {}, two), 'input_references'],
    [drawn('flux-1.1-pro-ultra', { size: { width: 1000, height: 900 } }), 'size'],
    // It draws four megapixels, and the others one.
    [drawn('flux-1.1-pro-ultra', { size: { width: 1024, height: 1024 } }), 'size'],
    [drawn('nano-banana', { size: { width: 512, height: 512 } }), 'size'],
    [drawn('flux-1.1-pro-ultra', { aspectRatio: '5:4' }), 'aspect_ratio'],
    [drawn('nano-banana', {}, { ...one, mask: pictureSource('mask.png') }), 'mask'],
    [drawn('nano-banana', { fidelity: 'high' }, one), 'input_fidelity'],
    [drawn('recraft-v3', { seed: 7 }), 'seed'],
    [drawn('recraft-v3', { n: 2 }), 'n'],
    [drawn('recraft-v3', { format: 'png' }), 'output_format'],
  ]
  for (const [call, param] of refusals) t.is(await images.refused(call), param)
})

test('completed: flagged images are left out; content_filter when all are', async t => {
  const half = await images.done(drawn('flux-schnell', { prompt: 'half blackened', n: 3 }))
  t.is(outputOf(half.report).images.length, 2)
  const all = await images.done(drawn('flux-schnell', { prompt: 'blackened', n: 2 }))
  t.is(reasonOf(all.report), 'content_filter')
  const { report } = await images.done(drawn('flux-schnell', { prompt: 'forbidden' }))
  t.is(reasonOf(report), 'content_filter')
})

test('failed: what fal finds wrong with an input names our field', async t => {
  const upright = { size_field: 'image_size', n_field: 'num_images', images_field: 'image_urls' }
  const faults: [more: Partial<ImageInput>, sources: Record<string, Source>, param: string | null][] = [
    [{ n: 9 }, {}, 'n'],
    [{ size: { width: 0.5, height: 1 } }, {}, 'size'],
    // A field that this model does not have.
    [{}, one, 'input_references'],
  ]
  for (const [more, sources, param] of faults) {
    const { report } = await images.done(imageCallWith('fal', 'fal-ai/flux/schnell', upright, more, sources))
    t.is(reasonOf(report), 'invalid_request')
    t.is(report.status === 'failed' && report.error.param, param)
  }
})

test('400: what fal finds wrong with an input at once names our field', async t => {
  const seed = falError(422, [
    { loc: ['body', 'seed'], msg: 'Input should be less than 2147483647', type: 'less_than' },
  ])
  const start = images.using(({ emulator }, connection) => {
    emulator.next(seed)
    return images.adapter.start(drawn('flux-schnell', { seed: 2 ** 32 - 1 }), connection, null)
  })
  t.like(await providerFault(start), { reason: 'invalid_request', param: 'seed' })
})

test('completed: every form of output; failed without any', async t => {
  const operation = { app: 'fal-ai/flux', request: 'r1', output: null }
  const shown = (result: unknown, output: string | null = null) =>
    images.shown({ ...operation, output }, { status: 'COMPLETED' }, result)
  for (const result of [{ images: [{ url: a }] }, { image: { url: a } }, { images: [a, {}] }, { output: a }])
    t.deepEqual(outputOf(await shown(result)).images, [{ url: a, revisedPrompt: null }])
  t.deepEqual(outputOf(await shown({ images: [b], drawing: a }, 'drawing')).images, [{ url: a, revisedPrompt: null }])
  const inline = outputOf(await shown({ images: [{ url: 'data:image/png;base64,AQID' }] })).images
  t.deepEqual(inline, [{ bytes: Buffer.from([1, 2, 3]), revisedPrompt: null }])
  const useless = [
    {},
    { images: [] },
    { images: [{}] },
    { images: 'a' },
    { images: [{ url: 'data:image/svg+xml,<svg>' }] },
  ]
  for (const result of useless) t.is(reasonOf(await shown(result)), 'invalid_response')
  t.is(reasonOf(await music.shown(operation, { status: 'COMPLETED' }, { images: [a] })), 'invalid_response')
})

test('content_filter with the model’s words when it answers in them and draws nothing', async t => {
  const operation = { app: 'fal-ai/nano-banana', request: 'r1', output: null }
  const said = 'I can’t draw real people.'
  const report = await images.shown(operation, { status: 'COMPLETED' }, { images: [], description: said })
  t.like(report.status === 'failed' && report.error, { reason: 'content_filter' })
  t.regex(String(report.status === 'failed' && report.error.message), /drew nothing: I can’t draw real people\./)
  t.is(
    reasonOf(await images.shown(operation, { status: 'COMPLETED' }, { images: [], description: '' })),
    'invalid_response',
  )
})

test('started and completed: music and sound effects under the names that their rows give', async t => {
  const lyrics = 'La la la, and so on'
  const songs: [SyncCall<'music'>, model: string, body: object, seconds: number][] = [
    [
      musicCall('fal-eleven-music', { durationS: 4.25, instrumental: true }),
      'fal-ai/elevenlabs/music',
      { music_length_ms: 4_250, force_instrumental: true, output_format: 'mp3_44100_128' },
      4.25,
    ],
    [musicCall('fal-minimax-music', { lyrics }), 'fal-ai/minimax-music/v2', { lyrics_prompt: lyrics }, 2],
    [
      musicCall('fal-sonauto', { lyrics, format: 'flac' }),
      'sonauto/v2/text-to-music',
      { lyrics_prompt: lyrics, output_format: 'flac' },
      2,
    ],
    [musicCall('fal-cassette-music', { format: 'wav' }), 'CassetteAI/music-generator', { duration: 30 }, 30],
  ]
  for (const [call, model, body, seconds] of songs) {
    const { request, report } = await music.done(call)
    t.is(request.path, `/${model}`)
    t.deepEqual(request.body, { prompt: 'a slow waltz', ...body })
    const { sound, usage } = outputOf(report)
    t.true('url' in sound && sound.url.includes(`/sound-${seconds}.${call.input.format}`), model)
    t.is(usage(), null)
  }
  const noise = await effects.done(sfxCall('fal-eleven-sfx', { durationS: 1.5, format: 'opus' }))
  t.deepEqual(noise.request.body, { text: 'a door', duration_seconds: 1.5, output_format: 'opus_48000_128' })
  const cassette = await effects.done(sfxCall('fal-cassette-sfx', { durationS: 2, format: 'wav' }))
  t.deepEqual(cassette.request.body, { prompt: 'a door', duration: 2 })
})

test('400 for music and sound effects that a model does not make', async t => {
  const refusals: [SyncCall<'music'>, string][] = [
    [musicCall('fal-minimax-music'), 'lyrics'],
    [musicCall('fal-minimax-music', { lyrics: 'La', durationS: 30 }), 'duration_s'],
    [musicCall('fal-minimax-music', { lyrics: 'La', instrumental: true }), 'instrumental'],
    [musicCall('fal-minimax-music', { lyrics: 'La', format: 'wav' }), 'output_format'],
    [musicCall('fal-eleven-music', { lyrics: 'La' }), 'lyrics'],
    [musicCall('fal-eleven-music', { format: 'flac' }), 'output_format'],
    [musicCall('fal-cassette-music', { format: 'mp3' }), 'output_format'],
  ]
  for (const [call, param] of refusals) t.is(await music.refused(call), param)
  t.is(await effects.refused(sfxCall('fal-cassette-sfx', { format: 'mp3' })), 'output_format')
})

test('as many images a call as the model has a field for', t => {
  t.is(images.adapter.maxPieces!(drawn('flux-schnell').target), 4)
  t.is(images.adapter.maxPieces!(drawn('recraft-v3').target), 1)
})
