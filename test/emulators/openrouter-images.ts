import sharp from 'sharp'
import { Emulator, json, type Recorded, type Reply } from './emulator.ts'

// biome-ignore lint/suspicious/noExplicitAny: bodies are checked before they are read
type Json = any
type Check = (value: Json) => boolean

/** OpenRouter's `/api/v1/images` on a local port; the API key `invalid` is refused. */
export function startOpenRouterImages(): Promise<Emulator> {
  return Emulator.start(async (request, response) => {
    const reply = await answerTo(request)
    return reply(request, response)
  })
}

/** An error as OpenRouter writes it. */
export function openRouterImageError(status: number, message: string, metadata?: object): Reply {
  return json(status, { error: { code: status, message, ...(metadata && { metadata }) } })
}

async function answerTo({ method, path, headers, body }: Recorded): Promise<Reply> {
  const [, key] = /^Bearer (\S+)$/.exec(headers.authorization ?? '') ?? []
  if (!key || key === 'invalid') return openRouterImageError(401, 'No auth credentials found')
  if (method !== 'POST' || path !== '/api/v1/images') return openRouterImageError(404, 'Not found')
  const fault = faultOf(body)
  return fault ? openRouterImageError(400, fault) : drawn(body)
}

const ratios = [
  ...['1:1', '1:2', '1:4', '1:8', '2:1', '2:3', '2.35:1', '3:2', '3:4', '4:1', '4:3', '4:5', '5:2', '5:4', '8:1'],
  ...['9:16', '16:9', '9:19.5', '19.5:9', '9:20', '20:9', '9:21', '21:9', 'auto'],
]
const oneOf =
  (...values: string[]): Check =>
  value =>
    values.includes(value)
const whole =
  (min: number, max = Number.MAX_SAFE_INTEGER): Check =>
  value =>
    Number.isInteger(value) && value >= min && value <= max
const isText: Check = value => typeof value === 'string' && value !== ''
const checks: Record<string, Check> = {
  model: isText,
  prompt: isText,
  n: whole(1, 10),
  aspect_ratio: oneOf(...ratios),
  resolution: oneOf('512', '1K', '2K', '4K'),
  size: value => /^(?:512|[124]K|\d+x\d+)$/.test(value),
  quality: oneOf('auto', 'low', 'medium', 'high', 'xhigh', 'max'),
  background: oneOf('auto', 'transparent', 'opaque'),
  output_format: oneOf('png', 'jpeg', 'webp', 'svg'),
  output_compression: whole(0, 100),
  seed: whole(0),
  user: isText,
  stream: value => value === false,
  input_references: value =>
    Array.isArray(value) &&
    value.every(part => part?.type === 'image_url' && /^(?:https?:|data:image\/)/.test(part.image_url?.url)),
}

function faultOf(body: Json): string | null {
  if (typeof body !== 'object' || body === null) return 'Invalid JSON'
  for (const name of ['model', 'prompt']) if (body[name] === undefined) return `${name}: Required`
  for (const [name, value] of Object.entries(body)) {
    if (!checks[name]) return `Unrecognized key: ${name}`
    if (!checks[name](value)) return `${name}: Invalid input`
  }
  const isExact = /x/.test(body.size ?? '')
  if (isExact && (body.resolution || body.aspect_ratio)) return 'size: does not match resolution or aspect_ratio'
  return /^unknown\//.test(body.model) ? `${body.model} is not a valid model ID` : null
}

/** An image. */
export const tokensPerImage = 1_290

async function drawn({ n = 1, prompt, output_format = 'png' }: Json): Promise<Reply> {
  const picture = await sharp({ create: { width: 64, height: 64, channels: 3, background: '#06c' } })
    .toFormat(output_format)
    .toBuffer()
  const text = Math.ceil(prompt.length / 4)
  const image = { b64_json: picture.toString('base64'), media_type: `image/${output_format}` }
  return json(200, {
    created: 1_795_132_800,
    data: Array.from({ length: n }, () => image),
    usage: {
      prompt_tokens: text,
      completion_tokens: n * tokensPerImage,
      total_tokens: text + n * tokensPerImage,
      completion_tokens_details: { image_tokens: n * tokensPerImage, reasoning_tokens: 0 },
      cost: 0.0391 * n,
    },
  })
}
