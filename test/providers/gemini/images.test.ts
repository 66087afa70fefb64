import { setImmediate } from 'node:timers/promises'
import { GoogleGenAI } from '@google/genai'
import OpenAI, { toFile } from 'openai'
import sharp from 'sharp'
import { type ImageInput, type ImageRequest, image, imageRequest } from '../../../shared/kinds/image.ts'
import { performWork } from '../../../shared/media/work.ts'
import { gemini } from '../../../shared/providers/adapters/gemini/protocol.ts'
import type { Source, SyncCall } from '../../../shared/providers/contract.ts'
import { json, type Reply } from '../../emulators/emulator.ts'
import { blockedPrompt, countTokens, finished, geminiError, tokenCounts } from '../../emulators/gemini.ts'
import { caption, startGeminiMedia } from '../../emulators/gemini-media.ts'
import { chargedNano, expectedNano, upstreamSecret, type World } from '../../support/chat/gateway.ts'
import { upload } from '../../support/jobs/gateway.ts'
import { connectionTo, providerFault, refusedField } from '../../support/jobs/queued-adapter.ts'
import { sourceOf } from '../../support/jobs/sources.ts'
import { inlineFiles, syncCallOf } from '../../support/media/adapter.ts'
import { png } from '../../support/media/png.ts'
import { test } from '../../support/test.ts'
import { use, useGateway } from '../../support/use.ts'

const adapter = gemini.synchronous!.image!
const emulator = use(test, startGeminiMedia)
const gateway = useGateway(test, () => ({ GEMINI_API_KEY: upstreamSecret, GEMINI_BASE_URL: emulator.url }))
test.beforeEach(() => emulator.reset())

const nano = 'gemini-2.5-flash-image'
const flash = 'gemini-3.1-flash-image'

/** What Gemini is asked for, for a request of ours. */
function callOf(model: string, fields: Partial<ImageRequest> = {}, sources: Record<string, Source> = {}) {
  const call = syncCallOf<'image'>('gemini', model, {} as ImageInput, sources)
  const body = imageRequest.parse({ prompt: 'A heron', ...fields })
  return { ...call, input: image.input(body, call.target.model, null) }
}

function made(call: SyncCall<'image'>) {
  const connection = connectionTo('gemini', gemini, emulator.url)
  return performWork({ adapter, call, connection, files: inlineFiles(call), maxMs: 10_000 })
}

function make(model: string, fields?: Partial<ImageRequest>, sources?: Record<string, Source>) {
  return made(callOf(model, fields, sources))
}

const sdk = () => new GoogleGenAI({ apiKey: 'k', httpOptions: { baseUrl: emulator.url } })

test.serial('200 to the official SDK: images of each shape and tier, drafts apart, counted by modality', async t => {
  const shapes: [model: string, imageConfig: object, sides: [number, number], tokens: number][] = [
    [nano, {}, [1024, 1024], 1290],
    [nano, { aspectRatio: '3:2' }, [1248, 832], 1290],
    [flash, { aspectRatio: '8:1', imageSize: '512' }, [1536, 192], 747],
    [flash, { aspectRatio: '16:9', imageSize: '2K' }, [2752, 1536], 1680],
    ['gemini-3-pro-image', { aspectRatio: '21:9' }, [1584, 672], 1120],
  ]
  for (const [model, imageConfig, sides, tokens] of shapes) {
    const config = { responseModalities: ['TEXT', 'IMAGE'], imageConfig }
    const { candidates, usageMetadata } = await sdk().models.generateContent({ model, contents: 'A heron', config })
    const parts = candidates![0]!.content!.parts!
    const drawn = parts.filter(part => part.inlineData && !part.thought)
    t.is(drawn.length, 1, model)
    const { width, height } = await sharp(Buffer.from(drawn[0]!.inlineData!.data!, 'base64')).metadata()
    t.deepEqual([width, height], sides, model)
    t.is(
      parts.some(part => part.thought),
      model !== nano,
    )
    t.deepEqual(usageMetadata!.candidatesTokensDetails, [{ modality: 'IMAGE', tokenCount: tokens }] as never)
  }
})

test.serial('400 to the official SDK: a ratio, a tier or a model that there is not', async t => {
  for (const [model, imageConfig, message] of [
    [nano, { aspectRatio: '7:4' }, /aspect_ratio 7:4 is not supported/],
    [nano, { imageSize: '2K' }, /image_size 2K is not supported/],
    [flash, { imageSize: '2k' }, /image_size 2k is not supported/],
  ] as const) {
    const asked = sdk().models.generateContent({ model, contents: 'A heron', config: { imageConfig } })
    await t.throwsAsync(asked, { message })
  }
  await t.throwsAsync(sdk().models.generateContent({ model: 'gemini-none-image', contents: 'A heron' }), {
    message: /NOT_FOUND/,
  })
})

const usual = { responseModalities: ['TEXT', 'IMAGE'] }
const bodies: [string, string, Partial<ImageRequest>, object][] = [
  ['nothing but a prompt', flash, {}, usual],
  ['a square of the usual tier', flash, { size: '1024x1024' }, { ...usual, imageConfig: { aspectRatio: '1:1' } }],
  ['OpenAI’s landscape', nano, { size: '1536x1024' }, { ...usual, imageConfig: { aspectRatio: '3:2' } }],
  ['OpenAI’s portrait', nano, { size: '1024x1536' }, { ...usual, imageConfig: { aspectRatio: '2:3' } }],
  ['a large square', flash, { size: '2048x2048' }, { ...usual, imageConfig: { aspectRatio: '1:1', imageSize: '2K' } }],
  ['a tier as size', flash, { size: '4K' }, { ...usual, imageConfig: { imageSize: '4K' } }],
  [
    'ratio and tier',
    flash,
    { aspect_ratio: '1:8', resolution: '512' },
    { ...usual, imageConfig: { aspectRatio: '1:8', imageSize: '512' } },
  ],
  [
    'what changes nothing, and a seed',
    flash,
    { background: 'opaque', moderation: 'auto', quality: 'auto', size: 'auto', user: 'someone', seed: 7 },
    { ...usual, seed: 7 },
  ],
]
for (const [what, model, fields, generationConfig] of bodies) {
  test.serial(`200 when asked for ${what}`, async t => {
    await make(model, fields)
    const [request] = emulator.requests
    t.is(request!.path, `/v1beta/models/${model}:generateContent`)
    t.is(request!.headers['x-goog-api-key'], 'secret-key-of-the-gateway:and-its-other-half')
    t.deepEqual(request!.body, { contents: [{ role: 'user', parts: [{ text: 'A heron' }] }], generationConfig })
  })
}

test.serial('200 when asked to edit: the references stand behind the prompt, in their order', async t => {
  const reference = sourceOf('https://files.example/face.png', 'image/png', null, Buffer.from('a png'))
  const other = sourceOf('https://files.example/other.webp', 'image/webp', null, Buffer.from('a webp'))
  const fields = { input_references: ['https://a.example/1', 'https://a.example/2'] }
  const { usage } = await make(flash, fields, { 'input_references.1': other, 'input_references.0': reference })
  t.deepEqual(emulator.requests[0]!.body.contents[0].parts, [
    { text: 'A heron' },
    { inlineData: { mimeType: 'image/png', data: Buffer.from('a png').toString('base64') } },
    { inlineData: { mimeType: 'image/webp', data: Buffer.from('a webp').toString('base64') } },
  ])
  t.is(usage!.prompt_tokens_details!.image_tokens, 2 * tokenCounts.imageInput)
})

const refused: [field: string, model: string, Partial<ImageRequest>, Record<string, Source>?][] = [
  ['size', flash, { size: '1792x1024' }],
  ['size', flash, { size: '1280x720' }],
  ['size', nano, { size: '2048x2048' }],
  ['size', nano, { size: '1536x512' }],
  ['background', flash, { background: 'transparent' }],
  ['output_format', flash, { output_format: 'webp' }],
  ['output_format', nano, { output_format: 'png' }],
  ['input_fidelity', flash, { input_fidelity: 'high' }],
  ['moderation', flash, { moderation: 'low' }],
  ['seed', flash, { seed: 2 ** 31 }],
  ['input_references.0', flash, {}, { 'input_references.0': sourceOf('https://a.example/1.gif', 'image/gif') }],
]
for (const [field, model, fields, sources] of refused) {
  test.serial(`400 naming ${field}, unsent: ${JSON.stringify(fields)} of ${model}`, async t => {
    t.is(await refusedField(make(model, fields, sources)), field)
    t.is(emulator.requests.length, 0)
  })
}

test.serial('400 for more references than one request may hold, before any is read', async t => {
  const large = { ...sourceOf('https://files.example/large.png', 'image/png'), bytes: 10 * 1024 * 1024 }
  const sources = Object.fromEntries(Array.from({ length: 8 }, (_, i) => [`input_references.${i}`, large]))
  t.is(await refusedField(make(flash, { input_references: Object.keys(sources) }, sources)), 'input_references')
  t.is(emulator.requests.length, 0)
})

test.serial('400 naming mask and quality, which the rows do not offer, from adapter and row alike', async t => {
  const call = callOf(flash)
  for (const [field, input] of [
    ['mask', { masked: true }],
    ['quality', { quality: 'high' }],
  ] as const)
    t.is(await refusedField(made({ ...call, input: { ...call.input, ...input } })), field)
  t.is(emulator.requests.length, 0)
})

const drawn = (parts: object[], usageMetadata?: object) =>
  json(200, { candidates: [{ content: { role: 'model', parts }, finishReason: 'STOP' }], usageMetadata })
const data = png(4).toString('base64')
const endings: [string, Reply, string][] = [
  ['a refused prompt', blockedPrompt('PROHIBITED_CONTENT'), 'content_filter'],
  ['an image kept back for safety', finished('IMAGE_SAFETY'), 'content_filter'],
  ['an image kept back for its content', finished('IMAGE_PROHIBITED_CONTENT', 'No.'), 'content_filter'],
  ['no image', finished('NO_IMAGE'), 'content_filter'],
  ['words alone', finished('STOP', 'I would rather not.'), 'content_filter'],
  ['a draft alone', drawn([{ thought: true, inlineData: { mimeType: 'image/png', data } }]), 'invalid_response'],
  ['a blank answer', json(200, {}), 'invalid_response'],
  ['no JSON', json(200, 'hello'), 'invalid_response'],
  ['our account', geminiError(400, 'FAILED_PRECONDITION', 'Enable billing.'), 'quota'],
]
for (const [what, reply, reason] of endings) {
  test.serial(`${reason} when the answer is ${what}`, async t => {
    emulator.next(reply)
    t.is((await providerFault(make(flash))).reason, reason as never)
  })
}

test.serial('200: what was drawn is counted apart from words and thoughts, told or not', async t => {
  const { images, usage } = await make(flash)
  t.is(images.length, 1)
  t.is(images[0]!.revisedPrompt, null)
  t.deepEqual(usage, {
    prompt_tokens: countTokens('A heron'),
    completion_tokens: 1120 + countTokens(caption) + tokenCounts.thoughts,
    total_tokens: countTokens('A heron') + 1120 + countTokens(caption) + tokenCounts.thoughts,
    completion_tokens_details: { reasoning_tokens: tokenCounts.thoughts, image_tokens: 1120 },
  })
  const image = { inlineData: { mimeType: 'image/png', data } }
  emulator.next(drawn([image], { promptTokenCount: 3, candidatesTokenCount: 1290, thoughtsTokenCount: 10 }))
  t.deepEqual((await make(flash)).usage!.completion_tokens_details, { reasoning_tokens: 10, image_tokens: 1290 })
  emulator.next(drawn([image]))
  t.is((await make(flash)).usage, null)
})

const world = () => ({ gateway }) as World
const openai = (apiKey: string) => new OpenAI({ apiKey, baseURL: `${gateway.url}/v1`, maxRetries: 0 })
/** What an image of the usual tier costs as a whole. */
const usageOf = (text: string, references: number, tokens: number, thoughts: number) => ({
  prompt_tokens: countTokens(text) + references * tokenCounts.imageInput,
  completion_tokens: tokens + countTokens(caption) + thoughts,
  total_tokens: 0,
  completion_tokens_details: { image_tokens: tokens },
})

test.serial('200 to OpenAI’s SDK: images.generate, each image a call of its own, billed by the token', async t => {
  const account = await gateway.account()
  const { data = [], usage } = await openai(account.live).images.generate({
    model: flash,
    prompt: 'A heron on a lake',
    n: 3,
    size: '1536x1024',
  })
  t.is(data.length, 3)
  t.is(emulator.requests.length, 3)
  for (const { b64_json } of data) {
    const { width, height, format } = await sharp(Buffer.from(b64_json!, 'base64')).metadata()
    t.deepEqual([width, height, format], [1264, 848, 'jpeg'])
  }
  const one = usageOf('A heron on a lake', 0, 1120, tokenCounts.thoughts)
  t.is(usage!.output_tokens, 3 * one.completion_tokens)
  t.is(usage!.input_tokens, 3 * one.prompt_tokens)
  const all = {
    prompt_tokens: 3 * one.prompt_tokens,
    completion_tokens: 3 * one.completion_tokens,
    total_tokens: 0,
    completion_tokens_details: { image_tokens: 3 * 1120 },
  }
  t.is(await chargedNano(world(), account), expectedNano(flash, all))
})

test.serial(
  '200 with large uploads, whose bytes each call has in memory: in turn, and counted while a call runs',
  async t => {
    const { live, organisationId } = await gateway.account()
    const budget = gateway.services.budgets.remoteFiles
    const large = Buffer.concat([png(8), Buffer.alloc(9 * 1024 * 1024)])
    const urls = [await upload(gateway, live, large, 'image/png'), await upload(gateway, live, large, 'image/png')]
    const parts = [{ inlineData: { mimeType: 'image/png', data: png(8).toString('base64') } }]
    let underWay = 0
    const seen: { underWay: number; heldBytes: number }[] = []
    const reply: Reply = async (request, response) => {
      seen.push({ underWay: ++underWay, heldBytes: budget.bytes })
      for (let turn = 0; turn < 100; turn++) await setImmediate()
      underWay--
      json(200, { candidates: [{ content: { parts }, finishReason: 'STOP' }] })(request, response)
    }
    emulator.next(reply, reply, reply)
    const body = { model: flash, prompt: 'A heron', n: 3, input_references: urls }
    const { status } = await gateway.fetch('/v1/images', { key: live, body })
    t.is(status, 200)
    t.deepEqual(
      seen,
      Array.from({ length: 3 }, () => ({ underWay: 1, heldBytes: 2 * 4 * large.length })),
    )
    t.is(budget.bytes, 0)

    const others = budget.open(organisationId)
    others.hold(64 * 1024 * 1024)
    const refused = await gateway.fetch('/v1/images', { key: live, body: { ...body, n: 1 } })
    t.is(refused.status, 429)
    others.release()
    t.is(budget.bytes, 0)
  },
)

test.serial('200 to OpenAI’s SDK: images.edit with two files', async t => {
  const account = await gateway.account()
  const files = [
    await toFile(png(8), 'a.png', { type: 'image/png' }),
    await toFile(png(9), 'b.png', { type: 'image/png' }),
  ]
  const { data = [] } = await openai(account.live).images.edit({ model: nano, prompt: 'Bluer', image: files })
  const { width, format } = await sharp(Buffer.from(data[0]!.b64_json!, 'base64')).metadata()
  t.deepEqual([width, format], [1024, 'png'])
  const { parts } = emulator.requests[0]!.body.contents[0]
  t.deepEqual(
    parts.slice(1).map((part: { inlineData: { data: string } }) => Buffer.from(part.inlineData.data, 'base64')),
    [png(8), png(9)],
  )
  t.is(await chargedNano(world(), account), expectedNano(nano, usageOf('Bluer', 2, 1290, 0)))
})

test.serial('400 and free: a size Gemini does not draw, and a prompt it refuses', async t => {
  const account = await gateway.account()
  const generate = (fields: object) =>
    gateway.fetch('/v1/images', { key: account.live, body: { model: flash, prompt: 'A heron', ...fields } })
  const refusedSize = await generate({ size: '1792x1024' })
  t.is(refusedSize.status, 400)
  t.like(await refusedSize.json(), { error: { code: 'unsupported_capability', param: 'size' } })
  t.is(emulator.requests.length, 0)
  emulator.next(finished('IMAGE_SAFETY'))
  const refusedPrompt = await generate({})
  t.is(refusedPrompt.status, 400)
  t.like(await refusedPrompt.json(), {
    error: { code: 'invalid_request', message: 'Gemini drew nothing: IMAGE_SAFETY.' },
  })
  t.is(await chargedNano(world(), account), 0)
})

// Answers of `gemini-3.1-flash-image` and its predecessors, as clients recorded them.
const withoutImage: [what: string, candidate: object, said: string][] = [
  [
    'IMAGE_OTHER with Google’s sentence',
    {
      content: {},
      finishReason: 'IMAGE_OTHER',
      finishMessage: 'Unable to show the generated image. Try rephrasing the prompt.',
    },
    'Unable to show the generated image. Try rephrasing the prompt.',
  ],
  ['NO_IMAGE', { content: {}, finishReason: 'NO_IMAGE' }, 'NO_IMAGE.'],
  [
    'IMAGE_PROHIBITED_CONTENT with Google’s sentence',
    { content: {}, finishReason: 'IMAGE_PROHIBITED_CONTENT', finishMessage: 'The prompt is not allowed.' },
    'The prompt is not allowed.',
  ],
  [
    'text alone',
    { content: { role: 'model', parts: [{ text: 'I do not draw real people.' }] }, finishReason: 'STOP' },
    'I do not draw real people.',
  ],
]
for (const [what, candidate, said] of withoutImage)
  test.serial(
    `400 with the model’s reason, at once, again and again, for an answer without an image: ${what}`,
    async t => {
      const account = await gateway.account()
      // A circuit would open at three failures.
      for (let round = 1; round <= 4; round++) {
        emulator.next(json(200, { candidates: [{ index: 0, ...candidate }], usageMetadata: { promptTokenCount: 8 } }))
        const answer = await gateway.fetch('/v1/images', {
          key: account.live,
          body: { model: flash, prompt: 'A heron' },
        })
        t.is(answer.status, 400)
        t.like(await answer.json(), { error: { code: 'invalid_request', message: `Gemini drew nothing: ${said}` } })
        t.is(emulator.requests.length, round)
      }
      t.is(await chargedNano(world(), account), 0)
    },
  )
