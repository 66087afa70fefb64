import { OpenRouter } from '@openrouter/sdk'
import { loadCatalog } from '../../../shared/catalog/catalog.ts'
import type { Deployment } from '../../../shared/catalog/schema.ts'
import { examineImage } from '../../../shared/io/media/images.ts'
import type { ImageInput } from '../../../shared/kinds/image.ts'
import { openai } from '../../../shared/providers/adapters/openai/protocol.ts'
import type { Source, SyncCall } from '../../../shared/providers/contract.ts'
import type { ProviderError } from '../../../shared/providers/provider-error.ts'
import { json, type Reply } from '../../emulators/emulator.ts'
import { openRouterImageError, startOpenRouterImages } from '../../emulators/openrouter-images.ts'
import { connectionTo, providerFault, refusedField } from '../../support/jobs/queued-adapter.ts'
import { hidden } from '../../support/jobs/sources.ts'
import { conforms, syncCallOf } from '../../support/media/adapter.ts'
import { imageInput, pictureSource } from '../../support/media/image-calls.ts'
import { test } from '../../support/test.ts'

const provider = loadCatalog().providers.get('openrouter')!

/** A call of a model that an operator describes: the shipped catalog has no prices for images at OpenRouter. */
function callOf(
  more: Partial<ImageInput> = {},
  sources: Record<string, Source> = {},
  traits: NonNullable<Deployment['traits']> = {},
): SyncCall<'image'> {
  const call = syncCallOf<'image'>('openai', 'gpt-image-2', imageInput(more, sources), sources)
  const deployment = { ...call.target.deployment, provider: 'openrouter', upstream_model: 'acme/paints', traits }
  return { ...call, target: { ...call.target, provider, deployment } }
}
const fox = pictureSource('fox.png')
const part = { type: 'image_url', image_url: { url: 'https://files.example/fox.png' } }

conforms(test, {
  name: 'openrouter images',
  provider: 'openrouter',
  protocol: openai,
  kind: 'image',
  start: startOpenRouterImages,
  call: () => callOf({ n: 2 }),
  others: { 'an edit': () => callOf({ format: 'webp' }, { 'input_references.0': hidden(fox) }) },
  error: openRouterImageError,
})

const adapter = openai.synchronous!.image!

/** What a call sends, and what it gives; `reply` in place of the emulator's own answer. */
async function made(call: SyncCall<'image'>, reply?: Reply) {
  if (!('make' in adapter)) throw new Error('expected an adapter of one exchange')
  const emulator = await startOpenRouterImages()
  if (reply) emulator.next(reply)
  try {
    const output = await adapter.make(call, connectionTo('openrouter', openai, emulator.url))
    return { output, request: emulator.requests[0]! }
  } finally {
    await emulator.close()
  }
}

test('200 the exact request, with references at their addresses or in it', async t => {
  const common = { model: 'acme/paints', prompt: 'a fox in the snow' }
  const data = `data:image/png;base64,${await fox.base64()}`
  const calls: [SyncCall<'image'>, object][] = [
    [callOf(), common],
    [
      callOf({ n: 3, resolution: '2K', aspectRatio: '16:9', quality: 'high', seed: 7 }),
      { ...common, n: 3, resolution: '2K', aspect_ratio: '16:9', quality: 'high', seed: 7 },
    ],
    [
      callOf({ size: { width: 2048, height: 2048 }, background: 'transparent', format: 'webp', compression: 60 }),
      { ...common, size: '2048x2048', background: 'transparent', output_format: 'webp', output_compression: 60 },
    ],
    [
      callOf(
        { user: 'u-1' },
        {
          'input_references.0': fox,
          'input_references.1': hidden(fox),
          'input_references.2': { ...hidden(fox), bytes: 5 * 1024 * 1024 },
        },
      ),
      { ...common, user: 'u-1', input_references: [part, { ...part, image_url: { url: data } }, part] },
    ],
  ]
  for (const [call, body] of calls) {
    const { request } = await made(call)
    t.deepEqual([request.method, request.path], ['POST', '/api/v1/images'])
    t.is(request.headers.authorization, 'Bearer secret-key-of-the-gateway:and-its-other-half')
    t.deepEqual(request.body, body)
  }
})

test('200 images and tokens, whatever else is counted', async t => {
  const { output } = await made(callOf({ n: 2 }))
  t.is(output.images.length, 2)
  t.deepEqual(output.usage, {
    prompt_tokens: 5,
    completion_tokens: 2_580,
    total_tokens: 2_585,
    completion_tokens_details: { image_tokens: 2_580, reasoning_tokens: 0 },
  })
  const usage = {
    prompt_tokens: 12,
    completion_tokens: 1_400,
    total_tokens: 1_412,
    cost: 0.04,
    prompt_tokens_details: { cached_tokens: 4 },
    completion_tokens_details: { reasoning_tokens: 110 },
  }
  const untold = await made(callOf(), json(200, { data: [{ b64_json: 'AAAA' }], usage }))
  t.deepEqual(untold.output.usage, {
    prompt_tokens: 12,
    completion_tokens: 1_400,
    total_tokens: 1_412,
    prompt_tokens_details: { cached_tokens: 4 },
    completion_tokens_details: { reasoning_tokens: 110, image_tokens: 1_290 },
  })
})

test('400 for what OpenRouter has no field for, before anything is sent', async t => {
  const refusals: [SyncCall<'image'>, string][] = [
    [callOf({}, { 'input_references.0': fox, mask: fox }), 'mask'],
    [callOf({ fidelity: 'high' }, { 'input_references.0': fox }), 'input_fidelity'],
    [callOf({ moderation: 'low' }), 'moderation'],
    [callOf({ quality: 'hd' }), 'quality'],
    [callOf({ background: 'transparent' }, {}, { transparency: false }), 'background'],
  ]
  for (const [call, param] of refusals) t.is(await refusedField(made(call)), param)
})

test('as many images a call as the deployment says', t => {
  t.is(adapter.maxPieces!(callOf().target), 10)
  t.is(adapter.maxPieces!(callOf({}, {}, { most_images: 1 }).target), 1)
})

test('a prompt that is flagged is told from a refused key', async t => {
  const faults: [Reply, ProviderError['reason']][] = [
    [openRouterImageError(403, 'Flagged', { reasons: ['violence'], flagged_input: 'a…' }), 'content_filter'],
    [openRouterImageError(403, 'Key limit exceeded'), 'auth'],
    [openRouterImageError(402, 'Insufficient credits'), 'quota'],
    [openRouterImageError(502, 'Provider returned error', { error_type: 'provider_overloaded' }), 'overloaded'],
  ]
  for (const [reply, reason] of faults) t.is((await providerFault(made(callOf(), reply))).reason, reason)
})

// The official SDK is the judge of the emulator.
test('200 the SDK generates and edits; 400 and 401 as errors', async t => {
  const emulator = await startOpenRouterImages()
  const serverURL = `${emulator.url}/api/v1`
  const sdk = new OpenRouter({ apiKey: 'sk-or-test', serverURL })
  const common = { model: 'acme/paints', prompt: 'a fox' }
  const generate = async (more: object) => {
    const answer = await sdk.images.generate({ imageGenerationRequest: { ...common, ...more } })
    if (!('data' in answer)) throw new Error('expected a whole answer')
    return answer
  }
  const { data, usage } = await generate({ n: 2, aspectRatio: '16:9', resolution: '2K', outputFormat: 'webp', seed: 1 })
  t.deepEqual([data.length, usage?.completionTokens, usage?.cost], [2, 2_580, 0.0782])
  const facts = await examineImage(Buffer.from(data[0]!.b64Json, 'base64'))
  t.deepEqual([facts?.contentType, data[0]!.mediaType], ['image/webp', 'image/webp'])
  const reference = { type: 'image_url', imageUrl: { url: 'https://files.example/fox.png' } }
  t.is((await generate({ inputReferences: [reference] })).data.length, 1)
  t.deepEqual(emulator.requests.at(-1)!.body.input_references, [part])
  await t.throwsAsync(generate({ resolution: '3K' }), { message: /resolution/ })
  await t.throwsAsync(generate({ size: '64x64', aspectRatio: '1:1' }), { message: /size/ })
  const stranger = new OpenRouter({ apiKey: 'invalid', serverURL })
  await t.throwsAsync(stranger.images.generate({ imageGenerationRequest: common }), { message: /credentials/ })
  await emulator.close()
})
