import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import OpenAI, { toFile } from 'openai'
import { examineImage } from '../../../shared/io/media/images.ts'
import { png } from '../../../shared/providers/sandbox/media/media.ts'
import { startFal } from '../../emulators/fal.ts'
import { startReplicate } from '../../emulators/replicate.ts'
import type { Json, WorkEmulator } from '../../emulators/slow-work.ts'
import { type Account, eventually } from '../../support/gateway.ts'
import { answerOf, wallet } from '../../support/jobs/gateway.ts'
import { filesIn } from '../../support/jobs/handed-on.ts'
import { operatorSounds } from '../../support/jobs/operator-sounds.ts'
import { decodedSeconds } from '../../support/media/sounds.ts'
import { test } from '../../support/test.ts'
import { use, useFolder, useGateway } from '../../support/use.ts'

/** Images, music and sound effects at fal and Replicate, through the whole gateway. */

const folder = useFolder(test)
let account: Account
let sdk: OpenAI

const soundsOf = (files: string, { duration, seconds, output_format = 'mp3' }: Json) =>
  seconds ? { noise: `${files}/sound-${seconds}.mp3` } : `${files}/sound-${duration}.${output_format}`

const catalog = join(folder, 'catalog.json')
test.before(async () => {
  await writeFile(catalog, JSON.stringify({ models: operatorSounds }))
})
const fal = use(test, startFal)
const replicate = use(test, () => startReplicate({ output: soundsOf }))
const gateway = useGateway(test, () => ({
  UPSTREAM_READ_ON_MS: '300',
  MODEL_CATALOG: catalog,
  ALLOW_PRIVATE_URLS: 'true',
  FAL_API_KEY: 'key:secret',
  // Its files have another origin, as they do at fal.
  FAL_BASE_URL: fal.url.replace('127.0.0.1', 'localhost'),
  REPLICATE_API_KEY: 'secret',
  REPLICATE_BASE_URL: `${replicate.url}/v1`,
}))
test.beforeEach(async () => {
  for (const { emulator, works } of [fal, replicate]) {
    emulator.reset()
    works.clear()
  }
  account = await gateway.account()
  sdk = new OpenAI({ apiKey: account.live, baseURL: `${gateway.url}/v1`, maxRetries: 0 })
})

const prompt = 'a fox in the snow'

/** Waits until so much work was started. */
function started({ works }: WorkEmulator, count = 1): Promise<void> {
  return eventually(() => works.size === count, `${count} pieces of work are started`)
}

/** Waits until all is booked; what the account has paid in USD. */
async function spent(): Promise<number> {
  const breaches = await gateway.settled()
  if (breaches.length > 0) throw new Error(breaches.join('\n'))
  const { balance_usd, reserved_usd } = await wallet(gateway, account)
  if (reserved_usd !== 0) throw new Error(`${reserved_usd} USD are still reserved`)
  return Math.round((25 - balance_usd) * 1e9) / 1e9
}

function facts({ data = [] }: OpenAI.ImagesResponse) {
  return Promise.all(data.map(({ b64_json }) => examineImage(Buffer.from(b64_json!, 'base64'))))
}

const generate = (body: OpenAI.ImageGenerateParamsNonStreaming) => sdk.images.generate(body)

test.serial('200: images of fal in the size and format asked for, at the price of each', async t => {
  const asked = { model: 'flux-schnell', prompt, n: 2, output_format: 'png' } as const
  const answer = generate({ ...asked, size: '640x480' as '1024x1024' })
  await started(fal)
  fal.finish()
  const images = await answer
  t.deepEqual(await facts(images), Array(2).fill({ contentType: 'image/png', width: 640, height: 480 }))
  // USD 0.003 each and a margin of 5 %.
  t.like(images, { provider: 'fal', model: 'flux-schnell', usage: { cost: 0.0063 } })
  t.is(await spent(), 0.0063)
})

test.serial('200: images of Replicate where fal fails, and where fal cannot express what is asked for', async t => {
  const answer = generate({ model: 'flux-schnell', prompt })
  await started(fal)
  fal.fail()
  await started(replicate)
  replicate.finish()
  const images = await answer
  t.like(images, { provider: 'replicate', usage: { cost: 0.00315 } })
  t.deepEqual(await facts(images), [{ contentType: 'image/webp', width: 1024, height: 1024 }])
  const webp = generate({ model: 'flux-schnell', prompt, output_format: 'webp' })
  await started(replicate, 2)
  replicate.finish()
  t.like(await webp, { provider: 'replicate' })
  t.is(fal.works.size, 1)
  t.is(await spent(), 0.0063)
})

test.serial('200: an edit, for which fal fetches the references', async t => {
  const pictures = [png(48), png(64)]
  const image = await Promise.all(pictures.map((bytes, i) => toFile(bytes, `${i}.png`, { type: 'image/png' })))
  const answer = sdk.images.edit({ model: 'nano-banana', prompt, image, n: 2, output_format: 'jpeg' })
  await started(fal)
  const [request] = fal.emulator.requests
  t.is(request!.path, '/fal-ai/nano-banana/edit')
  t.deepEqual(await filesIn(request!, gateway.url), pictures)
  fal.finish()
  const images = await answer
  t.deepEqual(await facts(images), Array(2).fill({ contentType: 'image/jpeg', width: 1024, height: 1024 }))
  // USD 0.039 each.
  t.like(images, { usage: { cost: 0.0819 } })
  t.is(await spent(), 0.0819)
})

test.serial('200: as many submissions as images where there is no count; one that fails is not billed', async t => {
  const answer = generate({ model: 'recraft-v3', prompt, n: 3 })
  await started(fal, 3)
  fal.fail([...fal.works.keys()][1])
  fal.finish()
  const images = await answer
  t.deepEqual(await facts(images), Array(2).fill({ contentType: 'image/webp', width: 1024, height: 1024 }))
  // USD 0.0398 each.
  t.like(images, { usage: { cost: 0.08358 } })
  t.is(await spent(), 0.08358)
})

test.serial('400: an image that fal blackens or refuses is not asked for elsewhere, and free', async t => {
  for (const word of ['blackened', 'forbidden']) {
    const answer = gateway.fetch('/v1/images', { key: account.live, body: { model: 'flux-schnell', prompt: word } })
    await eventually(() => [...fal.works.values()].some(({ status }) => status === 'pending'), 'it is started')
    fal.finish()
    const response = await answer
    t.is(response.status, 400)
    t.regex((await answerOf(response)).error.message, /safety checker|content checker/)
  }
  t.is(replicate.works.size, 0)
  t.is(await spent(), 0)
})

test.serial(
  '499: the work of a client that leaves is cancelled after a while, and charged as it was asked for',
  async t => {
    for (const [provider, body] of [
      [fal, { model: 'flux-schnell', prompt }],
      [replicate, { model: 'flux-schnell', prompt, output_format: 'webp' }],
    ] as const) {
      const left = new AbortController()
      const answer = gateway.fetch('/v1/images', { key: account.live, body, signal: left.signal })
      await started(provider)
      left.abort()
      await t.throwsAsync(answer)
      const [id] = provider.works.keys()
      const isCancelled = () => provider.emulator.requests.some(({ path }) => path.endsWith(`${id}/cancel`))
      await eventually(isCancelled, 'it is cancelled')
    }
    await eventually(async () => (await wallet(gateway, account)).reserved_usd === 0, 'nothing is reserved')
    t.is(await spent(), 2 * 0.00315)
  },
)

test.serial('200: music and sound effects of rows that an operator has priced', async t => {
  const calls: [path: string, body: object, provider: WorkEmulator, seconds: number, usd: number][] = [
    ['music', { model: 'fal-eleven-music', prompt, duration_s: 3 }, fal, 3, 0.84],
    ['music', { model: 'replicate-music', prompt, duration_s: 2, output_format: 'wav' }, replicate, 2, 0.042],
    ['sfx', { model: 'fal-cassette-sfx', prompt, duration_s: 1 }, fal, 1, 0.0105],
    ['sfx', { model: 'replicate-sfx', prompt, duration_s: 1.5 }, replicate, 1.5, 0.0021],
  ]
  let usdInAll = 0
  for (const [path, body, provider, seconds, usd] of calls) {
    provider.works.clear()
    const answer = gateway.fetch(`/v1/audio/${path}`, { key: account.live, body })
    await started(provider)
    provider.finish()
    const response = await answer
    t.is(response.status, 200)
    t.is(Number(response.headers.get('x-gateway-cost-usd')), usd)
    t.true(Math.abs((await decodedSeconds(await response.bytes())) - seconds) < 0.2)
    usdInAll += usd
  }
  t.is(await spent(), Math.round(usdInAll * 1e9) / 1e9)
})

test.serial('400: what a model of an operator does not take, with nothing sent', async t => {
  const refusals: [body: object, param: string][] = [
    [{ model: 'fal-cassette-music', prompt, output_format: 'mp3' }, 'output_format'],
    [{ model: 'fal-minimax-music', prompt }, 'lyrics'],
    [{ model: 'replicate-music', prompt, duration_s: 61 }, 'duration_s'],
  ]
  for (const [body, param] of refusals) {
    const response = await gateway.fetch('/v1/audio/music', { key: account.live, body })
    t.is(response.status, 400)
    t.like((await answerOf(response)).error, { code: 'unsupported_capability', param })
  }
  t.is(fal.works.size + replicate.works.size, 0)
  t.is(await spent(), 0)
})
