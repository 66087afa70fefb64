import OpenAI, { toFile } from 'openai'
import type { Usage } from '../../../shared/base/usage.ts'
import {
  startOpenAiImages,
  streamedImage,
  tokensPerImage,
  tokensPerPreview,
  tokensPerReference,
} from '../../emulators/openai-images.ts'
import { chargedNano, expectedNano, upstreamSecret, type World } from '../../support/chat/gateway.ts'
import type { Account } from '../../support/gateway.ts'
import { png } from '../../support/media/png.ts'
import { test } from '../../support/test.ts'
import { use, useGateway } from '../../support/use.ts'

let account: Account
let sdk: OpenAI

const emulator = use(test, startOpenAiImages)
const gateway = useGateway(test, () => ({ OPENAI_API_KEY: upstreamSecret, OPENAI_BASE_URL: `${emulator.url}/v1` }))
test.beforeEach(async () => {
  emulator.reset()
  account = await gateway.account()
  sdk = new OpenAI({ apiKey: account.live, baseURL: `${gateway.url}/v1`, maxRetries: 0 })
})

const charged = () => chargedNano({ gateway } as World, account)
const prompt = 'A heron on a lake'
const model = 'gpt-image-1.5'

/** What these tokens cost: of the prompt, of given images and of drawn ones. */
function costOf(text: number, given: number, drawn: number): { nano: number; usage: object } {
  const input = text + given
  const usage: Usage = {
    prompt_tokens: input,
    completion_tokens: drawn,
    total_tokens: input + drawn,
    prompt_tokens_details: { image_tokens: given },
    completion_tokens_details: { image_tokens: drawn },
  }
  // A token of a given image costs USD 8 in place of 5 per million, and a margin of 5 %.
  const nano = expectedNano(model, usage) + given * 3_150
  return {
    nano,
    usage: {
      input_tokens: input,
      input_tokens_details: { text_tokens: text, image_tokens: given },
      output_tokens: drawn,
      output_tokens_details: { text_tokens: 0, image_tokens: drawn },
      total_tokens: input + drawn,
      prompt_tokens: input,
      completion_tokens: drawn,
      cost: nano / 1e9,
    },
  }
}

test.serial('200 for DALL·E’s qualities in the words of its successors, which is named', async t => {
  for (const [quality, word] of [
    ['standard', 'medium'],
    ['hd', 'high'],
    ['high', 'high'],
    ['auto', undefined],
  ] as const) {
    const { response } = await sdk.images.generate({ model, prompt, quality, style: 'vivid' }).withResponse()
    t.is(emulator.requests.at(-1)!.body.quality, word, quality)
    t.is(response.headers.get('x-gateway-adjusted'), quality === 'standard' || quality === 'hd' ? 'quality' : null)
    t.is(response.headers.get('x-gateway-dropped'), 'style')
  }
  const body = { model: 'flux-schnell', prompt, quality: 'standard' }
  const other = await gateway.fetch('/v1/images', { key: account.test, body })
  t.is(other.status, 200, await other.clone().text())
  t.is(other.headers.get('x-gateway-dropped'), 'quality')
  t.is(other.headers.get('x-gateway-adjusted'), null)
  t.is((await gateway.fetch('/v1/images', { key: account.test, body: { ...body, quality: 'hd' } })).status, 400)
})

test.serial('200 an answer says what was drawn and counts tokens by both names', async t => {
  const fields = { style: 'vivid', output_compression: 100, moderation: 'low', user: 'u-1' } as const
  const { data: answer, response } = await sdk.images
    .generate({ model, prompt, ...fields, size: '1024x1024', response_format: 'b64_json' })
    .withResponse()
  t.is(response.headers.get('x-gateway-dropped'), 'style')
  const { nano, usage } = costOf(5, 0, tokensPerImage)
  const { data, created, ...about } = answer
  t.is(data!.length, 1)
  t.true(Math.abs(created - Date.now() / 1_000) < 60)
  // The emulator draws a tenth as large; what is told is what the bytes are.
  const look = { size: '103x103', quality: 'medium', background: 'opaque', output_format: 'png' }
  t.deepEqual(about as object, { ...look, model, provider: 'openai', usage })
  t.deepEqual(emulator.requests[0]!.body, { model, prompt, size: '1024x1024', moderation: 'low', user: 'u-1' })
  t.is(await charged(), nano)
})

test.serial('200 without `input_fidelity: high` at a model that always keeps to its images; 400 for `low`', async t => {
  const inline = `data:image/png;base64,${png(8).toString('base64')}`
  const body = { model: 'gpt-image-2', prompt, input_references: [inline] }
  const edit = (more: object) => gateway.fetch('/v1/images', { key: account.live, body: { ...body, ...more } })
  const high = await edit({ input_fidelity: 'high', style: 'vivid' })
  t.is(high.status, 200, await high.clone().text())
  t.is(high.headers.get('x-gateway-dropped'), 'style,input_fidelity')
  t.false(emulator.requests[0]!.raw.toString('latin1').includes('input_fidelity'))
  const low = await edit({ input_fidelity: 'low' })
  t.is(low.status, 400)
  t.like(((await low.json()) as { error: object }).error, { code: 'unsupported_capability', param: 'input_fidelity' })
  t.is(emulator.requests.length, 1)
  const older = await edit({ model, input_fidelity: 'low' })
  t.is(older.status, 200, await older.clone().text())
  t.is(older.headers.get('x-gateway-dropped'), null)
})

test.serial('200 a stream has each preview before the next is drawn, and events with their names', async t => {
  const { promise, resolve } = Promise.withResolvers<void>()
  emulator.next(streamedImage({ hold: { after: 1, until: promise } }))
  const asked = { model, prompt, stream: true, partial_images: 2, output_format: 'webp', quality: 'low' } as const
  const events = []
  for await (const event of await sdk.images.generate(asked)) {
    events.push(event)
    resolve() // Only now may the provider go on.
  }
  const { nano, usage } = costOf(5, 0, tokensPerImage + 2 * tokensPerPreview)
  const look = { quality: 'low', background: 'opaque', output_format: 'webp' }
  t.like(events, [
    { type: 'image_generation.partial_image', partial_image_index: 0, size: '1024x1024', ...look },
    { type: 'image_generation.partial_image', partial_image_index: 1, size: '1024x1024', ...look },
    { type: 'image_generation.completed', size: '103x103', ...look, usage },
  ] as object)
  t.true(events.every(event => event.b64_json.length > 0 && event.created_at > 0))
  t.is(await charged(), nano)
  const raw = await gateway.fetch('/v1/images/generations', { key: account.live, body: asked })
  const named = [...(await raw.text()).matchAll(/^event: (.*)\ndata: \{"type":"([^"]*)"/gm)]
  t.is(named.length, 3)
  for (const [, name, type] of named) t.is(name, type)
})

test.serial('200 an edit with several files and a mask, whole and streamed', async t => {
  const file = (name: string) => toFile(png(8), name, { type: 'image/png' })
  const image = [await file('a.png'), await file('b.png')]
  const asked = { model, prompt, image, mask: await file('mask.png') }
  const whole = await sdk.images.edit({ ...asked, n: 2 })
  const { nano, usage } = costOf(5, 3 * tokensPerReference, 2 * tokensPerImage)
  t.is(whole.data!.length, 2)
  t.deepEqual(whole.usage as object, usage)
  const types = []
  for await (const { type } of await sdk.images.edit({ ...asked, stream: true, partial_images: 1 })) types.push(type)
  t.deepEqual(types, ['image_edit.partial_image', 'image_edit.completed'])
  t.is(await charged(), nano + costOf(5, 3 * tokensPerReference, tokensPerImage + tokensPerPreview).nano)
})

test.serial('200 an edit in OpenAI’s JSON: addresses, data: URIs and ids of uploads, and a mask', async t => {
  const form = new FormData()
  form.append('file', new Blob([new Uint8Array(png(8))]), 'a.png')
  const headers = { authorization: `Bearer ${account.live}` }
  const uploaded = await fetch(`${gateway.url}/v1/uploads`, { method: 'POST', headers, body: form })
  const { id, url } = (await uploaded.json()) as { id: string; url: string }
  const inline = `data:image/png;base64,${png(8).toString('base64')}`
  const edit = (body: object) =>
    gateway.fetch('/v1/images/edits', { key: account.live, body: { model, prompt, ...body } })
  const images = [{ image_url: inline }, { file_id: id, image_url: null }, { image_url: url }, url]
  for (const mask of [{ image_url: inline }, { file_id: id }, { type: 'image_url', image_url: { url: inline } }]) {
    const answer = await edit({ images, mask })
    t.is(answer.status, 200, await answer.clone().text())
    const sent = emulator.requests.at(-1)!.raw.toString('latin1')
    t.is(sent.match(/name="image\[\]"/g)?.length, 4)
    t.is(sent.match(/name="mask"/g)?.length, 1)
  }
  const { length } = emulator.requests
  const refusals: [body: object, code: string, param: string][] = [
    [{ images: [{ file_id: 'upl_unknown' }] }, 'url_not_allowed', 'images.0'],
    [{ images: [{ image_url: inline }, { image_url: 'data:image/png,x' }] }, 'invalid_request', 'images.1'],
    [{ images: [{ image_url: inline, file_id: id }] }, 'invalid_request', 'images.0'],
    [{ images: [{ file_id: 'https://example.com' }] }, 'invalid_request', 'images.0.file_id'],
    [{ images: [{}] }, 'invalid_request', 'images.0'],
    [{ images: [] }, 'invalid_request', 'images'],
    [{ images: [{ image_url: inline }], input_references: [inline] }, 'invalid_request', 'images'],
    [{ images: [{ image_url: inline }], mask: { image_url: `${inline}!` } }, 'invalid_request', 'mask'],
    [{ images: [{ image_url: inline }], seed: 3 }, 'unsupported_capability', 'seed'],
  ]
  for (const [body, code, param] of refusals) {
    const answer = await edit(body)
    t.is(answer.status, 400, JSON.stringify(body).slice(0, 80))
    t.like(((await answer.json()) as { error: object }).error, { code, param })
  }
  t.is(emulator.requests.length, length)
})

test.serial('200 several images with previews are drawn one by one, each charged in full', async t => {
  const types: string[] = []
  const asked = { model, prompt, n: 2, stream: true, partial_images: 1 } as const
  for await (const { type } of await sdk.images.generate(asked)) types.push(type)
  const of = (name: string) => types.filter(type => type === `image_generation.${name}`).length
  t.deepEqual([of('partial_image'), of('completed')], [2, 2])
  t.deepEqual(
    emulator.requests.map(({ body }) => body.n),
    [undefined, undefined],
  )
  t.is(await charged(), costOf(10, 0, 2 * (tokensPerImage + tokensPerPreview)).nano)
})

test.serial('502 what breaks off after a preview ends with an error, and costs nothing', async t => {
  emulator.next(streamedImage({ cutAfter: 1 }))
  const types: string[] = []
  const read = async () => {
    for await (const { type } of await sdk.images.generate({ model, prompt, stream: true, partial_images: 2 }))
      types.push(type)
  }
  await t.throwsAsync(read(), { instanceOf: OpenAI.APIError })
  t.deepEqual(types, ['image_generation.partial_image'])
  t.is(await charged(), 0)
})
