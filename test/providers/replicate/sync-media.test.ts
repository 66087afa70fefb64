import Replicate from 'replicate'
import { examineImage } from '../../../shared/io/media/images.ts'
import { replicate } from '../../../shared/providers/adapters/replicate/protocol.ts'
import type { SyncCall } from '../../../shared/providers/contract.ts'
import { replicateError, startReplicate } from '../../emulators/replicate.ts'
import type { Json } from '../../emulators/slow-work.ts'
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
import { decodedSeconds } from '../../support/media/sounds.ts'
import { test } from '../../support/test.ts'

const prompt = 'a fox in the snow'
const two = { 'input_references.0': pictureSource('a.png'), 'input_references.1': pictureSource('b.png') }
const flux = (more: Parameters<typeof imageCall>[2] = {}) => imageCall('replicate', 'flux-schnell', more)
/** An editor whose output is one address. */
const editor = (more = {}, sources = {}) =>
  imageCallWith('replicate', 'acme/editor', { images_field: 'input_images' }, more, sources)

const startEditor = () => startReplicate({ output: files => `${files}/image-96x64.png` })
const startSongs = () =>
  startReplicate({
    output: (files, { duration = 2, output_format = 'mp3' }: Json) => `${files}/sound-${duration}.${output_format}`,
  })
const startNoises = () =>
  startReplicate({
    output: (files, { seconds = 1 }: Json) => ({ noise: `${files}/sound-${seconds}.mp3`, audio: `${files}/video.mp4` }),
  })

const common = { provider: 'replicate', protocol: replicate, error: replicateError }
conforms(test, {
  ...common,
  name: 'replicate images',
  kind: 'image',
  start: startReplicate,
  call: () => flux({ n: 2 }),
  others: { 'as JPEG': () => flux({ format: 'jpeg' }) },
})
conforms(test, {
  ...common,
  name: 'replicate edits',
  kind: 'image',
  start: startEditor,
  call: () => editor({}, two),
})
conforms(test, {
  ...common,
  name: 'replicate music',
  kind: 'music',
  start: startSongs,
  call: () => musicCall('replicate-music', { durationS: 2 }),
  others: { 'in WAV': () => musicCall('replicate-music', { format: 'wav' }) },
})
conforms(test, {
  ...common,
  name: 'replicate sound effects',
  kind: 'sfx',
  start: startNoises,
  call: () => sfxCall('replicate-sfx', { durationS: 1.5 }),
})

const images = syncMediaBench('replicate', replicate, 'image', startReplicate)
const edits = syncMediaBench('replicate', replicate, 'image', startEditor)
const music = syncMediaBench('replicate', replicate, 'music', startSongs)
const effects = syncMediaBench('replicate', replicate, 'sfx', startNoises)

test('started and completed: the exact request, and images of the shape and format asked for', async t => {
  const requests: [SyncCall<'image'>, input: object, file: string][] = [
    [flux(), { num_outputs: 1 }, 'image-1024x1024-0.webp'],
    [
      flux({ n: 4, aspectRatio: '16:9', format: 'jpeg', compression: 90, seed: 7 }),
      { num_outputs: 4, aspect_ratio: '16:9', output_format: 'jpg', output_quality: 90, seed: 7 },
      'image-1344x768-0.jpeg',
    ],
    [
      flux({ size: { width: 1024, height: 1024 }, format: 'png', background: 'opaque' }),
      { num_outputs: 1, aspect_ratio: '1:1', output_format: 'png' },
      'image-1024x1024-0.png',
    ],
  ]
  for (const [call, input, file] of requests) {
    const { request, report } = await images.done(call)
    t.deepEqual([request.method, request.path], ['POST', '/v1/models/black-forest-labs/flux-schnell/predictions'])
    t.deepEqual(request.body, { input: { prompt, ...input } })
    const drawn = outputOf(report).images
    t.is(drawn.length, call.input.n)
    t.true('url' in drawn[0]! && drawn[0].url.endsWith(`/${file}`), JSON.stringify(drawn))
  }
})

test('started: references in a list, small ones of a hidden gateway in the input', async t => {
  const { request, report } = await edits.done(editor({}, two))
  const addresses = ['https://files.example/a.png', 'https://files.example/b.png']
  t.deepEqual(request.body.input, { prompt, input_images: addresses })
  t.is(outputOf(report).images.length, 1)
  const hidden = await edits.done(editor({}, { 'input_references.0': hiddenImage }))
  t.regex(hidden.request.body.input.input_images[0], /^data:image\/png;base64,/)
})

test('400 for what a model does not take, before anything is sent', async t => {
  const refusals: [SyncCall<'image'>, string][] = [
    [flux({ size: { width: 1000, height: 900 } }), 'size'],
    [flux({ size: { width: 2048, height: 2048 } }), 'size'],
    [flux({ aspectRatio: '7:4' }), 'aspect_ratio'],
    [flux({ quality: 'high' }), 'quality'],
    [flux({ background: 'transparent' }), 'background'],
    [editor({ format: 'png' }, two), 'output_format'],
    [editor({ n: 2 }, two), 'n'],
  ]
  for (const [call, param] of refusals) t.is(await images.refused(call), param)
  t.is(await music.refused(musicCall('replicate-music', { format: 'flac' })), 'output_format')
  t.is(await effects.refused(sfxCall('replicate-sfx', { format: 'wav' })), 'output_format')
})

test('400 for what Replicate finds wrong with an input, about our field', async t => {
  const traits = { n_field: 'num_outputs', prompt_field: 'text' }
  await images.using(async (_world, connection) => {
    const strange = imageCallWith('replicate', 'black-forest-labs/flux-schnell', traits)
    const unknown = await providerFault(images.adapter.start(strange, connection, null))
    t.deepEqual([unknown.reason, unknown.param], ['invalid_request', null])
    const named = { ...traits, prompt_field: 'prompt' }
    const many = imageCallWith('replicate', 'black-forest-labs/flux-schnell', named, { n: 9 })
    const fault = await providerFault(images.adapter.start(many, connection, null))
    t.deepEqual([fault.reason, fault.param, fault.status], ['invalid_request', 'n', 422])
  })
})

test('completed: every form of output; failed without any', async t => {
  const file = 'https://replicate.delivery/a/b.webp'
  const shown = (output: unknown, field: string | null = null) =>
    images.shown({ id: 'p1', output: field }, { status: 'succeeded', output })
  for (const output of [file, [file], { image: file }, { images: [file] }, { output: [file] }])
    t.deepEqual(outputOf(await shown(output)).images, [{ url: file, revisedPrompt: null }])
  t.is(outputOf(await shown([file, file, file])).images.length, 3)
  t.is(outputOf(await shown({ drawing: file }, 'drawing')).images.length, 1)
  const inline = outputOf(await shown('data:image/webp;base64,AQID')).images
  t.deepEqual(inline, [{ bytes: Buffer.from([1, 2, 3]), revisedPrompt: null }])
  for (const output of [null, '', [], {}, 'no address', 'data:text/plain,abc'])
    t.is(reasonOf(await shown(output)), 'invalid_response')
  const nsfw = { status: 'failed', error: 'NSFW content detected. Try running it again, or try a different prompt.' }
  t.is(reasonOf(await images.shown({ id: 'p1', output: null }, nsfw)), 'content_filter')
})

test('started and completed: music and sound effects under the names that their rows give', async t => {
  const lyrics = 'La la la'
  const song = await music.done(musicCall('replicate-music', { lyrics, durationS: 3, format: 'wav' }))
  t.is(song.request.path, '/v1/predictions')
  t.deepEqual(song.request.body, {
    version: 'b'.repeat(64),
    input: { prompt: 'a slow waltz', lyrics, instrumental: false, duration: 3, output_format: 'wav' },
  })
  const { sound } = outputOf(song.report)
  t.true('url' in sound && sound.url.endsWith('/sound-3.wav'))
  const instrumental = await music.done(musicCall('replicate-music', { instrumental: true }))
  t.is(instrumental.request.body.input.instrumental, true)
  const noise = await effects.done(sfxCall('replicate-sfx', { durationS: 1.5 }))
  t.deepEqual(noise.request.body.input, { prompt: 'a door', seconds: 1.5 })
  const named = outputOf(noise.report).sound
  t.true('url' in named && named.url.endsWith('/sound-1.5.mp3'))
})

// The official SDK is the judge of the emulator.
test('200 images and sound for the official SDK, 422 for what the model does not take', async t => {
  const started = await startReplicate({ autoFinish: 2, output: files => `${files}/sound-1.mp3` })
  const sdk = new Replicate({ auth: 'r8_test', baseUrl: `${started.url}/v1`, useFileOutput: false })
  const wait = { mode: 'poll', interval: 10 } as const
  const model = 'black-forest-labs/flux-schnell'
  const input = { prompt, num_outputs: 2, output_format: 'jpg', aspect_ratio: '3:2' }
  const output = (await sdk.run(model, { input, wait })) as string[]
  const facts = await Promise.all(output.map(async url => examineImage(await (await fetch(url)).bytes())))
  t.deepEqual(facts, Array(2).fill({ contentType: 'image/jpeg', width: 1216, height: 832 }))
  const song = await sdk.run('acme/songs', { input: { prompt }, wait })
  t.true(Math.abs((await decodedSeconds(await (await fetch(String(song))).bytes())) - 1) < 0.2)
  for (const wrong of [{}, { ...input, num_outputs: 9 }, { ...input, size: 'huge' }])
    await t.throwsAsync(sdk.predictions.create({ model, input: wrong }), { message: /422/ })
  await started.close()
})
