import { ApiError, createFalClient, ValidationError } from '@fal-ai/client'
import { examineImage } from '../../../shared/io/media/images.ts'
import { falError, startFal } from '../../emulators/fal.ts'
import { decodedSeconds } from '../../support/media/sounds.ts'
import { test } from '../../support/test.ts'

// The official SDK is the judge of the emulator. It has no base URL: its requests are sent on by their paths.

async function world(credentials = 'id:secret') {
  const started = await startFal()
  const sdk = createFalClient({
    credentials,
    fetch: (url, options) => {
      const { pathname, search } = new URL(String(url))
      return fetch(started.url + pathname + search, options)
    },
  })
  return { ...started, sdk }
}

const model = 'fal-ai/kling-video/v3/pro/text-to-video'

test('200 submit, status, result', async t => {
  const { sdk, finish, close } = await world()
  const queued = await sdk.queue.submit(model, { input: { prompt: 'a fox', duration: '5' } })
  t.is(queued.status, 'IN_QUEUE')
  t.is((await sdk.queue.status(model, { requestId: queued.request_id })).status, 'IN_QUEUE')
  t.is((await sdk.queue.status(model, { requestId: queued.request_id })).status, 'IN_PROGRESS')
  finish()
  t.is((await sdk.queue.status(model, { requestId: queued.request_id })).status, 'COMPLETED')
  const { data, requestId } = await sdk.queue.result(model, { requestId: queued.request_id })
  t.is(requestId, queued.request_id)
  t.regex(data.video.url, /\.mp4$/)
  const file = await fetch(data.video.url)
  t.is(file.headers.get('content-type'), 'video/mp4')
  t.is((await file.bytes()).length, Number(file.headers.get('content-length')))
  await close()
})

test('200 cancelled work has no result', async t => {
  const { sdk, close } = await world()
  const { request_id: requestId } = await sdk.queue.submit(model, { input: { prompt: 'a fox' } })
  await sdk.queue.cancel(model, { requestId })
  t.is((await sdk.queue.status(model, { requestId })).status, 'COMPLETED')
  await t.throwsAsync(sdk.queue.result(model, { requestId }), { instanceOf: ApiError })
  await close()
})

test('422 at the end for a wrong input, 401 without a key, 404 for another model', async t => {
  const { sdk, emulator, finish, close } = await world()
  const { request_id: requestId } = await sdk.queue.submit(model, { input: { prompt: 'a fox', duration: '99' as '5' } })
  finish()
  const error = await t.throwsAsync(sdk.queue.result(model, { requestId }), { instanceOf: ValidationError })
  t.deepEqual([error!.status, error!.fieldErrors[0]?.loc], [422, ['body', 'duration']])
  const unknown = await t.throwsAsync(sdk.queue.submit('fal-ai/none', { input: {} }), { instanceOf: ApiError })
  t.is(unknown!.status, 404)
  emulator.next(falError(401, 'Invalid key'))
  t.is((await t.throwsAsync(sdk.queue.submit(model, { input: {} }), { instanceOf: ApiError }))!.status, 401)
  await close()
})

test('200 the webhook address and the namespace of a workflow', async t => {
  const { sdk, emulator, works, close } = await world()
  const webhookUrl = 'https://gateway.example/callbacks/job_1/token'
  const { request_id: requestId } = await sdk.queue.submit(model, { input: { prompt: 'a fox' }, webhookUrl })
  t.is(emulator.requests.at(-1)!.query.get('fal_webhook'), webhookUrl)
  t.true(works.has(requestId))
  await close()
})

test('200 images and sound that can be decoded, of the size, format and length asked for', async t => {
  const { sdk, finish, close } = await world()
  const flux = 'fal-ai/flux/schnell'
  const input = {
    prompt: 'a fox',
    image_size: { width: 320, height: 200 },
    num_images: 2,
    output_format: 'png',
  } as const
  const { request_id: requestId } = await sdk.queue.submit(flux, { input })
  finish()
  const { data } = await sdk.queue.result(flux, { requestId })
  t.deepEqual(data.has_nsfw_concepts, [false, false])
  const facts = data.images.map(async ({ url }) => examineImage(await (await fetch(url)).bytes()))
  t.deepEqual(await Promise.all(facts), Array(2).fill({ contentType: 'image/png', width: 320, height: 200 }))

  const effects = 'fal-ai/elevenlabs/sound-effects/v2'
  const noise = await sdk.queue.submit(effects, { input: { text: 'a door', duration_seconds: 1.5 } })
  finish()
  const { audio } = (await sdk.queue.result(effects, { requestId: noise.request_id })).data
  t.true(Math.abs((await decodedSeconds(await (await fetch(audio.url)).bytes())) - 1.5) < 0.2)

  const wrong = await sdk.queue.submit(flux, { input: { ...input, image_size: 'huge' as 'square' } })
  finish()
  const error = await t.throwsAsync(sdk.queue.result(flux, { requestId: wrong.request_id }), {
    instanceOf: ValidationError,
  })
  t.deepEqual(error!.fieldErrors[0]?.loc, ['body', 'image_size'])
  await close()
})
