import { buffer } from 'node:stream/consumers'
import { APIError, OpenAI, toFile } from 'openai'
import { examineImage } from '../../../shared/io/media/images.ts'
import type { ImageInput, ImageOutput } from '../../../shared/kinds/image.ts'
import { openai } from '../../../shared/providers/adapters/openai/protocol.ts'
import type { Source, SyncCall } from '../../../shared/providers/contract.ts'
import { ProviderError } from '../../../shared/providers/provider-error.ts'
import { json, type Recorded, type Reply } from '../../emulators/emulator.ts'
import { blockedWord, openAiImageError, startOpenAiImages } from '../../emulators/openai-images.ts'
import { fieldsOf } from '../../emulators/openai-videos.ts'
import { connectionTo, providerFault, refusedField } from '../../support/jobs/queued-adapter.ts'
import { sourceOf } from '../../support/jobs/sources.ts'
import { conforms, syncCallOf } from '../../support/media/adapter.ts'
import { imageInput, pictureSource } from '../../support/media/image-calls.ts'
import { test } from '../../support/test.ts'

const one = { 'input_references.0': pictureSource('a.png') }
const two = { ...one, 'input_references.1': pictureSource('b.png') }
const mask = pictureSource('mask.png')

function callOf(more: Partial<ImageInput> = {}, sources: Record<string, Source> = {}, model = 'gpt-image-1.5') {
  return syncCallOf<'image'>('openai', model, imageInput(more, sources), sources)
}

conforms(test, {
  name: 'openai images',
  provider: 'openai',
  protocol: openai,
  kind: 'image',
  start: startOpenAiImages,
  call: () => callOf({ n: 2 }),
  others: { 'an edit': () => callOf({ n: 3, format: 'webp' }, { ...two, mask }) },
  error: openAiImageError,
})

const adapter = openai.synchronous!.image!

/** What a call sends, and what it gives; `reply` in place of the emulator's own answer. */
async function made(call: SyncCall<'image'>, reply?: Reply, provider = 'openai') {
  if (!('make' in adapter)) throw new Error('expected an adapter of one exchange')
  const emulator = await startOpenAiImages()
  if (reply) emulator.next(reply)
  try {
    const output = await adapter.make(call, connectionTo(provider, openai, emulator.url))
    return { output, request: emulator.requests[0]! }
  } finally {
    await emulator.close()
  }
}

async function answered(reply: Reply): Promise<ImageOutput> {
  return (await made(callOf(), reply)).output
}

test('200 a generation: JSON with what was asked for and nothing else', async t => {
  const { request, output } = await made(callOf())
  t.deepEqual([request.method, request.path], ['POST', '/v1/images/generations'])
  t.is(request.headers.authorization, 'Bearer secret-key-of-the-gateway:and-its-other-half')
  t.deepEqual(request.body, { model: 'gpt-image-1.5', prompt: 'a fox in the snow' })
  t.is(output.images.length, 1)
  t.deepEqual(output.usage, {
    prompt_tokens: 5,
    completion_tokens: 1_056,
    total_tokens: 1_061,
    prompt_tokens_details: { image_tokens: 0 },
    completion_tokens_details: { image_tokens: 1_056 },
  })
  const full = await made(
    callOf({
      n: 4,
      size: { width: 1536, height: 1024 },
      quality: 'high',
      background: 'transparent',
      format: 'webp',
      compression: 60,
      moderation: 'low',
      user: 'u-1',
      safetyIdentifier: 's-1',
    }),
  )
  t.deepEqual(full.request.body, {
    model: 'gpt-image-1.5',
    prompt: 'a fox in the snow',
    n: 4,
    size: '1536x1024',
    quality: 'high',
    background: 'transparent',
    output_format: 'webp',
    output_compression: 60,
    moderation: 'low',
    user: 'u-1',
    safety_identifier: 's-1',
  })
  const [image] = full.output.images
  const facts = image && 'bytes' in image ? await examineImage(image.bytes) : null
  t.is(facts?.contentType, 'image/webp')
})

test('200 images as `data:` URIs, as servers of the dialect have them', async t => {
  const bytes = await buffer(await pictureSource('a.png').open())
  const uri = `data:image/png;base64,${bytes.toString('base64')}`
  for (const image of [{ b64_json: uri }, { url: uri }]) {
    const { images } = await answered(json(200, { created: 1, data: [image] }))
    t.true('bytes' in images[0]! && bytes.equals(images[0].bytes))
  }
})

test('200 an edit: a form with `image` for one picture, `image[]` for several, and the mask', async t => {
  const common = { model: 'gpt-image-1.5', prompt: 'a fox in the snow' }
  const single = await made(callOf({ fidelity: 'high', size: { width: 1024, height: 1536 } }, one))
  t.deepEqual([single.request.method, single.request.path], ['POST', '/v1/images/edits'])
  const bytes = one['input_references.0'].bytes
  const file = `file a.png image/png ${bytes}`
  t.deepEqual(await fieldsOf(single.request), { ...common, input_fidelity: 'high', size: '1024x1536', image: file })
  t.is(single.output.usage?.prompt_tokens_details?.image_tokens, 323)
  for (const moderation of ['auto', 'low'] as const)
    t.is((await fieldsOf((await made(callOf({ moderation }, one))).request)).moderation, moderation)
  const several = await made(callOf({ n: 2 }, { ...two, mask }))
  t.deepEqual(await namesOf(several.request), ['model', 'prompt', 'n', 'image[]', 'image[]', 'mask'])
  t.deepEqual((await fieldsOf(several.request)).n, '2')
  t.is(several.output.images.length, 2)
})

async function namesOf({ raw, headers }: Recorded): Promise<string[]> {
  const type = headers['content-type']!
  return [...(await new Response(new Uint8Array(raw), { headers: { 'content-type': type } }).formData()).keys()]
}

test('200 a resolution and a ratio as the one size in pixels that they are', async t => {
  const sizes: [Partial<ImageInput>, string, string][] = [
    [{ aspectRatio: '3:2' }, 'gpt-image-1.5', '1536x1024'],
    [{ aspectRatio: '2:3', resolution: '1K' }, 'gpt-image-1-mini', '1024x1536'],
    [{ resolution: '1K' }, 'gpt-image-1.5', '1024x1024'],
    [{ aspectRatio: '5:4' }, 'gpt-image-2', '1280x1024'],
    [{ aspectRatio: '3:1' }, 'gpt-image-2', '3072x1024'],
    [{ aspectRatio: '2:3', resolution: '2K' }, 'gpt-image-2', '2048x3072'],
    [{ size: { width: 1536, height: 864 } }, 'gpt-image-2', '1536x864'],
  ]
  for (const [more, model, size] of sizes) t.is((await made(callOf(more, {}, model))).request.body.size, size)
})

test('200 a transparent background of gpt-image-2, which supports it in preview', async t => {
  for (const sources of [{}, one]) {
    const { output } = await made(callOf({ background: 'transparent' }, sources, 'gpt-image-2'))
    t.is(output.settings?.background, 'transparent')
  }
  const input = imageInput({ background: 'transparent' })
  const atAzure = made(syncCallOf<'image'>('azure', 'gpt-image-2', input, {}), undefined, 'azure')
  t.is(await refusedField(atAzure), 'background')
})

test('streamed: previews as they come, at most as many as were requested', async t => {
  const shown: number[] = []
  const onPreview = async ({ index }: { index: number }) => void shown.push(index)
  const { output, request } = await made({ ...callOf({ previews: 2 }), onPreview })
  t.deepEqual(shown, [0, 1])
  t.like(request.body, { stream: true, partial_images: 2 })
  t.is(output.usage?.completion_tokens, 1_256)
  t.deepEqual(output.settings, { quality: 'medium', background: 'opaque' })
  const endless = { type: 'image_generation.partial_image', b64_json: 'AAAA', partial_image_index: 0 }
  const many: Reply = (_request, response) => void response.end(`data: ${JSON.stringify(endless)}\n\n`.repeat(3))
  const error = await providerFault(made({ ...callOf({ previews: 2 }), onPreview }, many))
  t.is(error.reason, 'invalid_response')
})

test('400 for what OpenAI has no field for, before anything is sent', async t => {
  const gif = { 'input_references.0': sourceOf('https://files.example/a.gif', 'image/gif') }
  const refusals: [Partial<ImageInput>, Record<string, Source>, string, string][] = [
    [{ seed: 7 }, {}, 'gpt-image-2', 'seed'],
    [{ fidelity: 'high' }, {}, 'gpt-image-2', 'input_fidelity'],
    [{ fidelity: 'high' }, one, 'gpt-image-1-mini', 'input_fidelity'],
    [{ resolution: '512' }, {}, 'gpt-image-2', 'resolution'],
    [{ resolution: '512', aspectRatio: '16:9' }, {}, 'gpt-image-2', 'aspect_ratio'],
    [{}, gif, 'gpt-image-2', 'input_references.0'],
    [{}, { ...one, mask: gif['input_references.0'] }, 'gpt-image-2', 'mask'],
    [{ resolution: '2K' }, one, 'gpt-image-2', 'resolution'],
    [{ resolution: '4K' }, {}, 'gpt-image-2', 'resolution'],
    [{ resolution: '2K' }, {}, 'gpt-image-1.5', 'resolution'],
    [{ aspectRatio: '16:9' }, {}, 'gpt-image-1.5', 'aspect_ratio'],
    [{ aspectRatio: '16:9' }, {}, 'gpt-image-2', 'aspect_ratio'],
    [{ aspectRatio: '4:1' }, {}, 'gpt-image-2', 'aspect_ratio'],
    [{ aspectRatio: '0:3' }, {}, 'gpt-image-2', 'aspect_ratio'],
  ]
  for (const [more, sources, model, param] of refusals)
    t.is(await refusedField(made(callOf(more, sources, model))), param, JSON.stringify(more))
})

test('a server without images is not asked', async t => {
  for (const provider of ['groq', 'together', 'mistral', 'deepseek', 'ollama']) {
    const error = await t.throwsAsync(made(callOf(), undefined, provider), { instanceOf: ProviderError })
    t.deepEqual([error!.reason, error!.unsent], ['model_unavailable', true])
  }
})

test('a refusal names the field of ours, and content that is blocked is told from other faults', async t => {
  const faults: [Reply, string, string | null][] = [
    [
      openAiImageError(400, 'Invalid image file.', 'invalid_image_file', 'image'),
      'invalid_request',
      'input_references',
    ],
    [openAiImageError(400, 'Invalid image file.', null, 'image[]'), 'invalid_request', 'input_references'],
    [openAiImageError(400, 'Invalid mask.', 'invalid_image_file', 'mask'), 'invalid_request', 'mask'],
    [openAiImageError(400, 'Invalid size.', 'invalid_value', 'size'), 'invalid_request', 'size'],
    [openAiImageError(400, 'Unknown parameter.', 'unknown_parameter', 'style'), 'invalid_request', null],
    [openAiImageError(400, 'Rejected by the safety system.', 'moderation_blocked'), 'content_filter', null],
    [openAiImageError(429, 'You exceeded your quota.', 'insufficient_quota'), 'quota', null],
    [openAiImageError(404, 'No such model.', 'model_not_found'), 'model_unavailable', null],
  ]
  for (const [reply, reason, param] of faults) {
    const error = await providerFault(answered(reply))
    t.deepEqual([error.reason, error.param], [reason as ProviderError['reason'], param])
  }
  const blocked = await providerFault(made(callOf({ prompt: `something ${blockedWord}` })))
  t.is(blocked.reason, 'content_filter')
})

test('200 images by address, revised prompts, and one that is missing', async t => {
  const data = [
    { url: 'https://images.example/1.png', revised_prompt: 'A red fox' },
    { b64_json: 'AAAA' },
    { url: 'file:///etc/passwd' },
    {},
    null,
  ]
  t.deepEqual(await answered(json(200, { data })), {
    images: [
      { url: 'https://images.example/1.png', revisedPrompt: 'A red fox' },
      { bytes: Buffer.alloc(3), revisedPrompt: null },
    ],
    usage: null,
  })
})

test('usage: cached tokens and words are told from pictures; what does not add up is put right', async t => {
  const usages: [object, object | null][] = [
    [
      {
        input_tokens: 50,
        output_tokens: 1_100,
        total_tokens: 1_150,
        input_tokens_details: { text_tokens: 10, image_tokens: 40, cached_tokens: 8 },
        output_tokens_details: { text_tokens: 44, image_tokens: 1_056 },
      },
      {
        prompt_tokens: 50,
        completion_tokens: 1_100,
        total_tokens: 1_150,
        prompt_tokens_details: { image_tokens: 40, cached_tokens: 8 },
        completion_tokens_details: { image_tokens: 1_056 },
      },
    ],
    [
      { input_tokens: 5, output_tokens: 100, output_tokens_details: { text_tokens: 30 } },
      {
        prompt_tokens: 5,
        completion_tokens: 100,
        total_tokens: 105,
        completion_tokens_details: { image_tokens: 70 },
      },
    ],
    [{ input_tokens: 5 }, null],
    [{}, null],
  ]
  for (const [usage, expected] of usages)
    t.deepEqual((await answered(json(200, { data: [{ b64_json: 'AAAA' }], usage }))).usage as object | null, expected)
})

// The official SDK is the judge of the emulator.
test('200 the SDK generates and edits; 400 and 401 as errors', async t => {
  const emulator = await startOpenAiImages()
  const baseURL = `${emulator.url}/v1`
  const sdk = new OpenAI({ apiKey: 'sk-test', baseURL, maxRetries: 0 })
  const common = { model: 'gpt-image-2', prompt: 'a fox' } as const
  const { data, usage, output_format } = await sdk.images.generate({ ...common, n: 2, output_format: 'jpeg' })
  t.deepEqual([data!.length, usage!.output_tokens, output_format], [2, 2_112, 'jpeg'])
  const facts = await examineImage(Buffer.from(data![0]!.b64_json!, 'base64'))
  t.is(facts?.contentType, 'image/jpeg')
  const events = []
  for await (const event of await sdk.images.generate({ ...common, stream: true, partial_images: 1 }))
    events.push(event)
  t.like(events, [{ type: 'image_generation.partial_image', partial_image_index: 0 }, { size: '1024x1024' }] as object)
  const image = await toFile(Buffer.from('bytes'), 'a.png', { type: 'image/png' })
  const edited = await sdk.images.edit({ ...common, image: [image, image], mask: image, size: '1536x1024' })
  t.is(edited.usage!.input_tokens_details.image_tokens, 3 * 323)
  t.is((await sdk.images.edit({ ...common, image })).data!.length, 1)
  const wrong: [Promise<unknown>, number, string | null][] = [
    [sdk.images.generate({ ...common, response_format: 'url' }), 400, 'response_format'],
    [sdk.images.generate({ ...common, size: '1000x1000' }), 400, 'size'],
    [sdk.images.generate({ ...common, model: 'dall-e-9' }), 400, 'model'],
    [sdk.images.generate({ ...common, n: 11 }), 400, 'n'],
    [sdk.images.edit({ ...common, image: [] }), 400, 'image'],
    [sdk.images.edit({ ...common, image, input_fidelity: 'high' }), 400, 'input_fidelity'],
    [new OpenAI({ apiKey: 'invalid', baseURL, maxRetries: 0 }).images.generate(common), 401, null],
  ]
  for (const [work, status, param] of wrong) {
    const error = await t.throwsAsync(work, { instanceOf: APIError })
    t.deepEqual([error!.status, error!.param], [status, param])
  }
  await emulator.close()
})
