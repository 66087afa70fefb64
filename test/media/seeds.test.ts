import { startGeminiMedia } from '../emulators/gemini-media.ts'
import { upstreamSecret } from '../support/chat/gateway.ts'
import type { Account } from '../support/gateway.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

/** Gemini draws one image in a call, so that a request for several needs several calls. */

const gemini = use(test, startGeminiMedia)
const gateway = useGateway(test, () => ({ GEMINI_API_KEY: upstreamSecret, GEMINI_BASE_URL: gemini.url }))
let account: Account
test.before(async () => {
  account = await gateway.account()
})
test.beforeEach(() => gemini.reset())

/** The seeds of the calls that a request takes. */
async function seedsOf(seed: number | undefined, n: number): Promise<unknown[]> {
  const body = { model: 'gemini-3.1-flash-image', prompt: 'A heron', n, seed }
  const response = await gateway.fetch('/v1/images', { key: account.live, body })
  const { data } = (await response.json()) as { data: object[] }
  if (data.length !== n) throw new Error(`${data.length} images in place of ${n}`)
  return gemini.requests.map(({ body }) => body.generationConfig.seed).sort((a, b) => a - b)
}

test.serial(
  '200 each call of a request has its own seed: one for all would draw, and charge, one image often',
  async t => {
    t.deepEqual(await seedsOf(7, 3), [7, 8, 9])
  },
)

test.serial('200 a single image has the seed that was sent', async t => {
  t.deepEqual(await seedsOf(0, 1), [0])
})

test.serial('200 without a seed none is sent', async t => {
  t.deepEqual(await seedsOf(undefined, 2), [undefined, undefined])
})

test.serial('200 the seeds after the largest that the provider takes begin at 0', async t => {
  const largest = 2 ** 31 - 1
  t.deepEqual(await seedsOf(largest, 3), [0, 1, largest])
})
