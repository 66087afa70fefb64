import { mkdtemp, readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ApiError, GoogleGenAI, VideoGenerationReferenceType } from '@google/genai'
import { startVeo, type VeoOptions } from '../../emulators/veo.ts'
import { test } from '../../support/test.ts'

// The official SDK is the judge of the emulator.

const model = 'veo-3.1-generate-preview'
const image = { imageBytes: 'AAA=', mimeType: 'image/png' }

async function start(options: VeoOptions = {}, apiKey = 'AIza-test') {
  const world = await startVeo(options)
  return { ...world, sdk: new GoogleGenAI({ apiKey, httpOptions: { baseUrl: world.url } }) }
}

test('completed: created, looked at until done, downloaded with the key', async t => {
  const { sdk, emulator, works, close } = await start({ autoFinish: 2, redirect: true })
  let operation = await sdk.models.generateVideos({
    model,
    source: { prompt: 'p', image },
    config: { durationSeconds: 8, aspectRatio: '16:9', resolution: '720p', numberOfVideos: 1 },
  })
  t.deepEqual(emulator.requests[0]?.body, {
    instances: [{ prompt: 'p', image: { bytesBase64Encoded: 'AAA=', mimeType: 'image/png' } }],
    parameters: { sampleCount: 1, durationSeconds: 8, aspectRatio: '16:9', resolution: '720p' },
  })
  operation = await sdk.operations.getVideosOperation({ operation })
  t.falsy(operation.done)
  operation = await sdk.operations.getVideosOperation({ operation })
  t.true(operation.done)
  const video = operation.response?.generatedVideos?.[0]?.video
  t.truthy(video?.uri)
  const downloadPath = join(await mkdtemp(join(tmpdir(), 'veo-')), 'a.mp4')
  // The SDK takes an address for one of Google's only when it begins with https.
  await sdk.files.download({ file: `files/${[...works.keys()][0]}`, downloadPath })
  t.is((await readFile(downloadPath)).toString('latin1', 4, 8), 'ftyp')
  t.is((await fetch(video!.uri!)).status, 403)
  await close()
})

test('200 with a last frame and with references', async t => {
  const { sdk, emulator, close } = await start()
  await sdk.models.generateVideos({
    model,
    source: { prompt: 'p', image },
    config: { lastFrame: image, durationSeconds: 8 },
  })
  const referenceImages = [{ image, referenceType: VideoGenerationReferenceType.ASSET }]
  await sdk.models.generateVideos({ model, source: { prompt: 'p' }, config: { referenceImages, durationSeconds: 8 } })
  const wire = { bytesBase64Encoded: 'AAA=', mimeType: 'image/png' }
  t.deepEqual(emulator.requests[0]?.body.instances[0].lastFrame, wire)
  // What the SDK writes in capitals is what we write in small letters; Google's own examples have both.
  t.deepEqual(emulator.requests[1]?.body.instances[0].referenceImages[0], {
    image: wire,
    referenceType: VideoGenerationReferenceType.ASSET,
  })
  await close()
})

test('the SDK reads a failed and a filtered operation', async t => {
  const { sdk, fail, filter, close } = await start({ error: { code: 13, message: 'Internal.' } })
  let operation = await sdk.models.generateVideos({ model, source: { prompt: 'p' } })
  fail()
  operation = await sdk.operations.getVideosOperation({ operation })
  t.true(operation.done)
  t.deepEqual(operation.error, { code: 13, message: 'Internal.' })
  filter()
  operation = await sdk.operations.getVideosOperation({ operation })
  t.is(operation.response?.raiMediaFilteredCount, 1)
  t.is(operation.response?.raiMediaFilteredReasons?.length, 1)
  t.is(operation.response?.generatedVideos, undefined)
  await close()
})

test('400, 403 and 404 as Google gives them', async t => {
  const { sdk, url, close } = await start()
  const status = async (work: Promise<unknown>) => (await t.throwsAsync(work, { instanceOf: ApiError }))?.status
  t.is(await status(sdk.models.generateVideos({ model, source: { prompt: 'p' }, config: { durationSeconds: 5 } })), 400)
  t.is(
    await status(
      sdk.models.generateVideos({
        model,
        source: { prompt: 'p' },
        config: { resolution: '1080p', durationSeconds: 4 },
      }),
    ),
    400,
  )
  t.is(await status(sdk.models.generateVideos({ model, source: { prompt: 'p' }, config: { aspectRatio: '1:1' } })), 400)
  t.is(await status(sdk.models.generateVideos({ model, source: {} })), 400)
  const invalid = new GoogleGenAI({ apiKey: 'invalid', httpOptions: { baseUrl: url } })
  t.is(await status(invalid.models.generateVideos({ model, source: { prompt: 'p' } })), 400)
  t.is((await fetch(`${url}/v1beta/models/${model}:predictLongRunning`, { method: 'POST', body: '{}' })).status, 403)
  const headers = { 'x-goog-api-key': 'k' }
  t.is((await fetch(`${url}/v1beta/models/${model}/operations/none`, { headers })).status, 404)
  await close()
})
