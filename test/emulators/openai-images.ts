import type { ServerResponse } from 'node:http'
import sharp from 'sharp'
import { Emulator, json, type Recorded, type Reply } from './emulator.ts'

// biome-ignore lint/suspicious/noExplicitAny: bodies are checked before they are read
type Json = any
/** The fields of a request, JSON or form; `images` are the types of its files. */
type Wanted = { fields: Json; images: string[]; mask: string | null }
type Fault = { message: string; param: string; code: string }

const models = ['gpt-image-2', 'gpt-image-1.5', 'gpt-image-1-mini']
const fixedSizes = ['1024x1024', '1536x1024', '1024x1536']
const maxImageBytes = 50 * 1024 * 1024
const maxMaskBytes = 4 * 1024 * 1024
/** Images are drawn at a tenth of the requested width to save time. */
const scale = 10
/** A prompt with this word is blocked. */
export const blockedWord = 'forbidden'

/** OpenAI's `/v1/images/generations` and `/v1/images/edits` on a local port; the API key `invalid` is refused. */
export function startOpenAiImages(): Promise<Emulator> {
  return Emulator.start(openAiImages)
}

/** What OpenAI's image routes answer. */
export const openAiImages: Reply = async (request, response) => {
  const reply = await answerTo(request)
  return reply(request, response)
}

/** An error as OpenAI writes it. */
export function openAiImageError(
  status: number,
  message: string,
  code: string | null = null,
  param: string | null = null,
): Reply {
  const type = status >= 500 ? 'server_error' : 'invalid_request_error'
  return json(status, { error: { message, type, param, code } }, { 'x-request-id': 'req_emulated' })
}

async function answerTo(request: Recorded): Promise<Reply> {
  const { method, path, headers } = request
  const [, key] = /^Bearer (\S+)$/.exec(headers.authorization ?? '') ?? []
  if (!key || key === 'invalid') return openAiImageError(401, `Incorrect API key provided: ${key}.`, 'invalid_api_key')
  const [, route] = /^\/v1\/images\/(generations|edits)$/.exec(path) ?? []
  if (!route || method !== 'POST') return openAiImageError(404, `Invalid URL (${method} ${path})`)
  const wanted = route === 'edits' ? await formOf(request) : jsonOf(request)
  if (!wanted) return openAiImageError(400, 'We could not parse the body of your request.')
  const isEdit = route === 'edits'
  const fault = unknownFault(wanted, isEdit) ?? valueFault(wanted) ?? modelFault(wanted) ?? fileFault(wanted, isEdit)
  if (fault) return openAiImageError(400, fault.message, fault.code, fault.param)
  if (wanted.fields.prompt.includes(blockedWord))
    return openAiImageError(400, 'Your request was rejected by the safety system.', 'moderation_blocked')
  if (wanted.fields.stream) return streamedImage()
  return json(200, await answerOf(wanted), { 'x-request-id': 'req_emulated' })
}

function jsonOf({ headers, body }: Recorded): Wanted | null {
  const isJson = headers['content-type']?.startsWith('application/json') && typeof body === 'object' && body !== null
  return isJson ? { fields: body, images: [], mask: null } : null
}

const numbers = ['n', 'output_compression', 'partial_images']

/** A form; one that mixes `image` and `image[]`, or repeats another field, is none. */
async function formOf({ raw, headers }: Recorded): Promise<Wanted | null> {
  const type = headers['content-type'] ?? ''
  const form = await new Response(new Uint8Array(raw), { headers: { 'content-type': type } })
    .formData()
    .catch(() => null)
  if (!form || (form.has('image') && form.has('image[]'))) return null
  const wanted: Wanted = { fields: {}, images: [], mask: null }
  for (const [name, value] of form) {
    if (typeof value !== 'string') {
      const [kind, max] = name === 'mask' ? ['mask', maxMaskBytes] : ['image', maxImageBytes]
      const described = value.size > 0 && value.size < Number(max) && value.name !== '' ? value.type : 'unreadable'
      if (kind === 'mask') wanted.mask = described
      else if (name === 'image[]' || (name === 'image' && wanted.images.length === 0)) wanted.images.push(described)
      else return null
    } else if (name in wanted.fields) return null
    else wanted.fields[name] = numbers.includes(name) ? Number(value) : value === 'true' ? true : value
  }
  return wanted
}

const common = [
  'model',
  'prompt',
  'n',
  'size',
  'quality',
  'background',
  'output_format',
  'output_compression',
  'user',
  'safety_identifier',
  // Of edits as well, vercel/ai#20745.
  'moderation',
]
const streaming = ['stream', 'partial_images']
const more = {
  generations: [...common, ...streaming],
  edits: [...common, ...streaming, 'input_fidelity'],
}

function unknownFault({ fields }: Wanted, isEdit: boolean): Fault | null {
  const known = isEdit ? more.edits : more.generations
  const unknown = Object.keys(fields).find(name => !known.includes(name))
  return unknown ? { message: `Unknown parameter: '${unknown}'.`, param: unknown, code: 'unknown_parameter' } : null
}

const whole = (min: number, max: number) => (value: unknown) =>
  Number.isInteger(value) && Number(value) >= min && Number(value) <= max
const oneOf =
  (...values: string[]) =>
  (value: unknown) =>
    values.includes(value as string)
const checks: Record<string, (value: unknown) => boolean> = {
  model: oneOf(...models),
  prompt: value => typeof value === 'string' && value.length > 0 && value.length <= 32_000,
  n: whole(1, 10),
  size: value => typeof value === 'string',
  quality: oneOf('auto', 'low', 'medium', 'high'),
  background: oneOf('auto', 'transparent', 'opaque'),
  output_format: oneOf('png', 'jpeg', 'webp'),
  output_compression: whole(0, 100),
  user: value => typeof value === 'string',
  safety_identifier: value => typeof value === 'string',
  moderation: oneOf('auto', 'low'),
  input_fidelity: oneOf('high', 'low'),
  stream: value => typeof value === 'boolean',
  partial_images: whole(0, 3),
}

function valueFault({ fields }: Wanted): Fault | null {
  for (const name of ['model', 'prompt'])
    if (fields[name] === undefined)
      return { message: `Missing required parameter: '${name}'.`, param: name, code: 'missing_required_parameter' }
  const wrong = Object.keys(fields).find(name => !checks[name]!(fields[name]))
  return wrong ? invalidValue(wrong, fields[wrong]) : null
}

function invalidValue(param: string, value: unknown): Fault {
  return { message: `Invalid value: '${value}' for '${param}'.`, param, code: 'invalid_value' }
}

/** What one model takes and another does not. */
function modelFault({ fields }: Wanted): Fault | null {
  const { model, size = 'auto', background, output_format, input_fidelity } = fields
  if (size !== 'auto' && !isDrawn(model, size)) return invalidValue('size', size)
  // Of gpt-image-2 in preview, openai/openai-python#3703.
  if (background === 'transparent' && output_format === 'jpeg') return invalidValue('background', background)
  if (fields.output_compression !== undefined && !['jpeg', 'webp'].includes(output_format))
    return invalidValue('output_compression', fields.output_compression)
  if (input_fidelity === undefined) return null
  if (model === 'gpt-image-1-mini') return invalidValue('input_fidelity', input_fidelity)
  if (model !== 'gpt-image-2') return null
  // vulca-org/vulca-visual-control-sdk#12, pydantic/pydantic-ai#5413
  const message = "The model 'gpt-image-2' does not support the 'input_fidelity' parameter."
  return { message, param: 'input_fidelity', code: 'invalid_input_fidelity_model' }
}

function isDrawn(model: string, size: string): boolean {
  if (model !== 'gpt-image-2') return fixedSizes.includes(size)
  const [, width = 0, height = 0] = (/^(\d+)x(\d+)$/.exec(size) ?? []).map(Number)
  const [shorter, longer] = [Math.min(width, height), Math.max(width, height)]
  const isWhole = width % 16 === 0 && height % 16 === 0
  const pixels = width * height
  return isWhole && longer <= 3 * shorter && longer <= 3840 && pixels >= 655_360 && pixels <= 3840 * 2160
}

function fileFault({ images, mask }: Wanted, isEdit: boolean): Fault | null {
  if (isEdit && images.length === 0)
    return { message: "Missing required parameter: 'image'.", param: 'image', code: 'missing_required_parameter' }
  if (images.length > 16 || !images.every(type => /^image\/(?:png|jpeg|webp)$/.test(type)))
    return { message: 'Invalid image file or mode.', param: 'image', code: 'invalid_image_file' }
  if (mask === null || mask === 'image/png') return null
  return { message: 'Invalid mask file.', param: 'mask', code: 'invalid_image_file' }
}

export const tokensPerImage = 1_056
export const tokensPerReference = 323

/** What each preview adds to the tokens of an image. */
export const tokensPerPreview = 100

/** Departures of an answer in events from the ordinary one. */
export type ImageReplyOptions = {
  /** Wait after this many events. */
  hold?: { after: number; until: Promise<void> }
  /** Break the connection after this many events. */
  cutAfter?: number
}

/** Answers with one image in events, each preview a smaller picture; `options` bend them. */
export function streamedImage(options: ImageReplyOptions = {}): Reply {
  return async (request, response) => {
    const isEdit = request.path.endsWith('/edits')
    const wanted = isEdit ? await formOf(request) : jsonOf(request)
    await inEvents(wanted!, isEdit, response, options)
  }
}

async function inEvents(wanted: Wanted, isEdit: boolean, response: ServerResponse, options: ImageReplyOptions) {
  const { data, created: created_at, usage, ...settings } = await answerOf(wanted)
  const { partial_images: previews = 0 } = wanted.fields
  const name = isEdit ? 'image_edit' : 'image_generation'
  const preview = await sharp({ create: { width: 8, height: 8, channels: 3, background: '#999' } })
    .toFormat(settings.output_format)
    .toBuffer()
  const events: object[] = Array.from({ length: previews }, (_, partial_image_index) => {
    const type = `${name}.partial_image`
    return { type, created_at, ...settings, b64_json: preview.toString('base64'), partial_image_index }
  })
  const tokens = previews * tokensPerPreview
  const counted = {
    ...usage,
    output_tokens: usage.output_tokens + tokens,
    total_tokens: usage.total_tokens + tokens,
    output_tokens_details: { image_tokens: usage.output_tokens + tokens, text_tokens: 0 },
  }
  events.push({ type: `${name}.completed`, created_at, ...settings, b64_json: data[0]!.b64_json, usage: counted })
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'x-request-id': 'req_emulated' })
  for (const [i, event] of events.entries()) {
    if (i === options.hold?.after) await options.hold.until
    if (i === options.cutAfter) return void response.destroy()
    const text = `event: ${(event as { type: string }).type}\ndata: ${JSON.stringify(event)}\n\n`
    await new Promise(resolve => response.write(text, resolve))
  }
  response.end()
}

/** Images of the wanted format and shape, and what they took. */
async function answerOf({ fields, images, mask }: Wanted) {
  const { n = 1, size = 'auto', quality = 'auto', background = 'auto', output_format: format = 'png' } = fields
  const [, width, height] = (/^(\d+)x(\d+)$/.exec(size) ?? []).map(Number)
  const shape = { width: Math.ceil((width ?? 1024) / scale), height: Math.ceil((height ?? 1024) / scale) }
  const picture = await sharp({ create: { ...shape, channels: 3, background: '#c60' } })
    .toFormat(format)
    .toBuffer()
  const text = Math.ceil(fields.prompt.length / 4)
  const shown = (images.length + (mask ? 1 : 0)) * tokensPerReference
  return {
    created: 1_795_132_800,
    background: background === 'auto' ? 'opaque' : background,
    output_format: format,
    quality: quality === 'auto' ? 'medium' : quality,
    size: size === 'auto' ? '1024x1024' : size,
    data: Array.from({ length: n }, () => ({ b64_json: picture.toString('base64') })),
    usage: {
      total_tokens: text + shown + n * tokensPerImage,
      input_tokens: text + shown,
      output_tokens: n * tokensPerImage,
      input_tokens_details: { text_tokens: text, image_tokens: shown },
      output_tokens_details: { image_tokens: n * tokensPerImage, text_tokens: 0 },
    },
  }
}
