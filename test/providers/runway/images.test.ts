import RunwayML, { APIError } from '@runwayml/sdk'
import { examineImage } from '../../../shared/io/media/images.ts'
import type { ImageInput } from '../../../shared/kinds/image.ts'
import { runway } from '../../../shared/providers/adapters/runway/protocol.ts'
import type { Source, SyncCall } from '../../../shared/providers/contract.ts'
import { json } from '../../emulators/emulator.ts'
import { invalidBody, startRunway } from '../../emulators/runway.ts'
import { providerFault } from '../../support/jobs/queued-adapter.ts'
import { hidden, hiddenImage, sourceOf } from '../../support/jobs/sources.ts'
import { conforms } from '../../support/media/adapter.ts'
import { pictureSource } from '../../support/media/image-calls.ts'
import { imageCall, outputOf, reasonOf, syncMediaBench } from '../../support/media/model-calls.ts'
import { test } from '../../support/test.ts'

const promptText = 'a fox in the snow'
const one = { 'input_references.0': pictureSource('a.png') }
const two = { ...one, 'input_references.1': pictureSource('b.png') }
const gen4 = (more: Partial<ImageInput> = {}, sources: Record<string, Source> = {}) =>
  imageCall('runway', 'runway-gen4-image', more, sources)
const turbo = (more: Partial<ImageInput> = {}, sources: Record<string, Source> = one) =>
  imageCall('runway', 'runway-gen4-image-turbo', more, sources)

conforms(test, {
  name: 'runway images',
  provider: 'runway',
  protocol: runway,
  kind: 'image',
  start: startRunway,
  call: () => gen4(),
  others: { 'with references': () => turbo({ size: { width: 1024, height: 1024 } }, two) },
  error: (status, message) => json(status, { error: message }),
  reasons: { 502: 'overloaded' },
})

const { done, refused, shown, adapter, using } = syncMediaBench('runway', runway, 'image', startRunway)

test('started and completed: the exact request, and an image of the size asked for', async t => {
  const image1 = { uri: 'https://files.example/a.png', tag: 'image1' }
  const image2 = { uri: 'https://files.example/b.png', tag: 'image2' }
  const requests: [SyncCall<'image'>, body: object, file: string][] = [
    [gen4(), { model: 'gen4_image', ratio: '1280:720' }, 'image-1280x720.png'],
    [gen4({ aspectRatio: '21:9', seed: 7 }), { model: 'gen4_image', ratio: '1680:720', seed: 7 }, 'image-1680x720.png'],
    [
      gen4({ size: { width: 720, height: 960 }, background: 'opaque', moderation: 'auto' }, two),
      { model: 'gen4_image', ratio: '720:960', referenceImages: [image1, image2] },
      'image-720x960.png',
    ],
    [
      turbo({ size: { width: 1920, height: 1080 } }),
      { model: 'gen4_image_turbo', ratio: '1920:1080', referenceImages: [image1] },
      'image-1920x1080.png',
    ],
  ]
  for (const [call, body, file] of requests) {
    const { request, report } = await done(call)
    t.deepEqual([request.method, request.path], ['POST', '/v1/text_to_image'])
    t.is(request.headers['x-runway-version'], '2024-11-06')
    t.deepEqual(request.body, { promptText, ...body })
    const { images } = outputOf(report)
    t.is(images.length, 1)
    t.true('url' in images[0]! && new URL(images[0].url).pathname.endsWith(`/${file}`))
  }
  t.is(adapter.maxPieces!(gen4().target), 1)
})

test('started: references of a hidden gateway stand in the request up to 5 MB', async t => {
  const { request } = await done(gen4({}, { 'input_references.0': hiddenImage }))
  t.regex(request.body.referenceImages[0].uri, /^data:image\/png;base64,/)
  const bytes = Buffer.alloc(4 * 1024 * 1024)
  const large = hidden(sourceOf('https://files.example/large.png', 'image/png', null, bytes))
  t.is(await refused(gen4({}, { 'input_references.0': large })), 'input_references.0')
})

test('400 for what Runway does not take, before anything is sent', async t => {
  const refusals: [SyncCall<'image'>, string][] = [
    [gen4({ prompt: 'x'.repeat(1_001) }), 'prompt'],
    [gen4({ size: { width: 1920, height: 1080 } }), 'size'],
    [gen4({ aspectRatio: '2:3' }), 'aspect_ratio'],
    [turbo({ resolution: '1K' }), 'resolution'],
    [gen4({ quality: 'high' }), 'quality'],
    [gen4({ background: 'transparent' }), 'background'],
    [gen4({ format: 'png' }), 'output_format'],
    [gen4({}, { ...one, mask: pictureSource('mask.png') }), 'mask'],
    [gen4({ fidelity: 'high' }, one), 'input_fidelity'],
    [gen4({ moderation: 'low' }), 'moderation'],
  ]
  for (const [call, param] of refusals) t.is(await refused(call), param)
})

test('400 for what Runway finds wrong with an input, about our field', async t => {
  await using(async ({ emulator }, connection) => {
    for (const [path, param] of [
      ['promptText', 'prompt'],
      ['referenceImages.0.uri', 'input_references'],
      ['ratio', null],
    ] as const) {
      emulator.next(invalidBody(path, 'Invalid'))
      const fault = await providerFault(adapter.start(gen4(), connection, null))
      t.deepEqual([fault.reason, fault.param], ['invalid_request', param])
    }
  })
})

test('failed: by the safety filter, without a file; cancelled by DELETE', async t => {
  const operation = { task: 't1' }
  const safety = { status: 'FAILED', failure: 'Moderated', failureCode: 'SAFETY.INPUT.TEXT' }
  t.is(reasonOf(await shown(operation, safety)), 'content_filter')
  t.is(reasonOf(await shown(operation, { status: 'SUCCEEDED', output: [] })), 'invalid_response')
  await using(async ({ emulator }, connection) => {
    const started = await adapter.start(gen4(), connection, null)
    await adapter.cancel!(started, connection)
    t.is(emulator.requests.at(-1)!.method, 'DELETE')
    t.is((await adapter.check(started, connection)).status, 'failed')
  })
})

// The official SDK is the judge of the emulator.
test('200 an image for the official SDK, 400 for what Runway does not take', async t => {
  const { url, finish, close } = await startRunway()
  const sdk = new RunwayML({ apiKey: 'key_test', baseURL: url, maxRetries: 0 })
  const references = [{ uri: 'https://files.test/a.png', tag: 'image1' }]
  const wanted = { model: 'gen4_image_turbo', promptText, ratio: '720:720', referenceImages: references } as const
  const { id } = await sdk.textToImage.create(wanted)
  t.is((await sdk.tasks.retrieve(id)).status, 'RUNNING')
  finish()
  const task = await sdk.tasks.retrieve(id)
  const [file] = task.status === 'SUCCEEDED' ? task.output : []
  const facts = await examineImage(await (await fetch(file!)).bytes())
  t.deepEqual(facts, { contentType: 'image/png', width: 720, height: 720 })
  const wrong = [
    { ...wanted, ratio: '1:1' as '720:720' },
    { ...wanted, referenceImages: [] },
    { ...wanted, referenceImages: [{ uri: 'https://files.test/a.png', tag: '1' }] },
    { ...wanted, promptText: '' },
  ]
  for (const body of wrong)
    t.is((await t.throwsAsync(sdk.textToImage.create(body), { instanceOf: APIError }))?.status, 400)
  await close()
})
