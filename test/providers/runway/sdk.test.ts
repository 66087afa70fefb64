import RunwayML, { APIError } from '@runwayml/sdk'
import { type RunwayOptions, startRunway } from '../../emulators/runway.ts'
import { test } from '../../support/test.ts'

// The official SDK is the judge of the emulator.

const image = 'https://files.test/a.png'

async function start(options: RunwayOptions = {}, apiKey = 'key_test') {
  const world = await startRunway(options)
  return { ...world, sdk: new RunwayML({ apiKey, baseURL: world.url, maxRetries: 0 }) }
}

test('200: a task of every kind, looked at until it is over', async t => {
  const { sdk, url, emulator, finish, close } = await start()
  const text = await sdk.textToVideo.create({ model: 'gen4.5', promptText: 'p', ratio: '1280:720', duration: 5 })
  const turbo = { model: 'gen4_turbo', promptImage: image, ratio: '1280:720', promptText: 'p', duration: 5 } as const
  const fromImage = await sdk.imageToVideo.create(turbo)
  t.deepEqual(emulator.requests[1]?.body, turbo)
  t.is(emulator.requests[1]?.headers['x-runway-version'], '2024-11-06')
  const fromVideo = await sdk.videoToVideo.create({ model: 'aleph2', videoUri: 'https://files.test/a.mp4' })
  const performance = await sdk.characterPerformance.create({
    model: 'act_two',
    character: { type: 'image', uri: image },
    reference: { type: 'video', uri: 'https://files.test/a.mp4' },
  })
  t.is(text.estimatedCost.credits, 25)
  const running = await sdk.tasks.retrieve(text.id)
  t.is(running.status === 'RUNNING' ? running.progress : null, 0.42)
  finish()
  for (const { id } of [text, fromImage, fromVideo, performance]) {
    const task = await sdk.tasks.retrieve(id)
    t.deepEqual(task.status === 'SUCCEEDED' && [task.output, task.cost], [
      [`${url}/files/${id}/video.mp4?_jwt=signed`],
      { credits: 25 },
    ])
    t.is((await fetch(`${url}/files/${id}/video.mp4?_jwt=signed`)).headers.get('content-type'), 'video/mp4')
  }
  await close()
})

test('throttled, failed, cancelled and deleted as Runway reports them', async t => {
  const { sdk, fail, finish, close } = await start({ running: 'THROTTLED' })
  const create = () => sdk.imageToVideo.create({ model: 'gen4_turbo', promptImage: image, ratio: '1280:720' })
  const { id } = await create()
  t.is((await sdk.tasks.retrieve(id)).status, 'THROTTLED')
  fail()
  const failed = await sdk.tasks.retrieve(id)
  t.is(failed.status === 'FAILED' ? failed.failureCode : null, 'INTERNAL.BAD_OUTPUT.CODE01')
  const second = await create()
  await sdk.tasks.delete(second.id)
  t.is((await sdk.tasks.retrieve(second.id)).status, 'CANCELLED')
  const third = await create()
  finish()
  await sdk.tasks.delete(third.id)
  t.is((await t.throwsAsync(sdk.tasks.retrieve(third.id), { instanceOf: APIError }))?.status, 404)
  await close()
})

test('400 and 401 as Runway gives them', async t => {
  const { sdk, url, close } = await start()
  const status = async (work: Promise<unknown>) => (await t.throwsAsync(work, { instanceOf: APIError }))?.status
  const turbo = { model: 'gen4_turbo', promptImage: image, ratio: '1280:720' } as const
  t.is(await status(sdk.imageToVideo.create({ ...turbo, promptImage: 'ftp://a/b' })), 400)
  t.is(await status(sdk.imageToVideo.create({ ...turbo, duration: 11 })), 400)
  t.is(await status(sdk.imageToVideo.create({ ...turbo, promptText: 'x'.repeat(1_001) })), 400)
  t.is(await status(sdk.imageToVideo.create({ ...turbo, ratio: '1:1' as '960:960' })), 400)
  const invalid = new RunwayML({ apiKey: 'invalid', baseURL: url, maxRetries: 0 })
  t.is(await status(invalid.imageToVideo.create(turbo)), 401)
  const headers = { authorization: 'Bearer key', 'content-type': 'application/json' }
  const versionless = await fetch(`${url}/v1/image_to_video`, { method: 'POST', headers, body: JSON.stringify(turbo) })
  t.is(versionless.status, 400)
  t.regex(((await versionless.json()) as { error: string }).error, /X-Runway-Version/)
  await close()
})
