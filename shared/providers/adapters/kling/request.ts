import type { GatewayError } from '../../../base/errors.ts'
import { unsupported } from '../../../kinds/media.ts'
import type { VideoInput } from '../../../kinds/video.ts'
import type { QueuedCall, Source } from '../../contract.ts'
import { assertOneResolution } from '../../toolkit/assert-one-resolution.ts'
import { sourcesIn } from '../../toolkit/list-sources.ts'

type Call = QueuedCall<'video'>
type Body = Record<string, unknown>

const maxPrompt = 2_500
const maxImages = 4
const maxBytes = { image: 10 * 1024 * 1024, video: 100 * 1024 * 1024 }
const motionSeconds = { min: 3, max: { video: 30, image: 10 } }

/** The path segment of a mode, for creating and for polling, and its request body. */
const routes: { [M in VideoInput['mode']]?: { name: string; body(call: Call): Promise<Body> } } = {
  text: { name: 'text2video', body: fromText },
  image: { name: 'image2video', body: fromImage },
  reference: { name: 'multi-image2video', body: fromReferences },
  motion_control: { name: 'motion-control', body: fromMotion },
}

/** The path segment of a call's task. Throws a GatewayError 400 for an unsupported mode. */
export function routeOf(call: Call): string {
  return ruleOf(call).name
}

function ruleOf(call: Call) {
  const route = routes[call.input.mode]
  if (!route) throw unsupportedField(call, 'input_video_url', 'does not change videos')
  return route
}

/** The body of the create request. Throws a GatewayError 400 naming the field that Kling cannot express. */
export async function createBody(call: Call): Promise<Body> {
  const { input, target, jobId } = call
  const { upstream_model, traits } = target.deployment
  const { body } = ruleOf(call)
  assertOneResolution(target)
  if (input.seed !== null) throw unsupportedField(call, 'seed', 'does not take `seed`')
  for (const [field, text] of [
    ['prompt', input.prompt],
    ['negative_prompt', input.negativePrompt],
  ] as const)
    if (text !== null && text.length > maxPrompt)
      throw unsupportedField(call, field, `takes at most ${maxPrompt} characters`)
  return {
    model_name: upstream_model,
    ...(input.prompt !== null && { prompt: input.prompt }),
    ...(traits?.mode !== undefined && { mode: traits.mode }),
    ...(await body(call)),
    external_task_id: jobId,
  }
}

async function fromText(call: Call): Promise<Body> {
  return { ...durationFields(call), ...soundField(call), ...ratioField(call) }
}

async function fromImage(call: Call): Promise<Body> {
  if (call.input.aspectRatio !== null)
    throw unsupportedField(call, 'aspect_ratio', 'takes the aspect ratio from the image; leave `aspect_ratio` out')
  return {
    ...durationFields(call),
    ...soundField(call),
    image: await imageOf(call, 'start_image_url'),
    ...(call.sources.has('end_image_url') && { image_tail: await imageOf(call, 'end_image_url') }),
  }
}

async function fromReferences(call: Call): Promise<Body> {
  const sources = sourcesIn(call.sources, 'input_references')
  const unsupportedFile = [...call.sources.keys()].find(field => !field.startsWith('input_references.'))
  if (unsupportedFile) throw unsupportedField(call, unsupportedFile, 'takes images as references only')
  if (call.input.audio) throw unsupportedField(call, 'audio', 'gives videos from references without sound')
  if (sources.length > maxImages)
    throw unsupportedField(call, 'input_references', `takes at most ${maxImages} references`)
  if (call.input.prompt === null) throw unsupportedField(call, 'prompt', 'needs `prompt` with references')
  const images = await Promise.all(sources.map((_, i) => imageOf(call, `input_references.${i}`)))
  return { ...durationFields(call), ...ratioField(call), image_list: images.map(image => ({ image })) }
}

async function fromMotion(call: Call): Promise<Body> {
  const { aspectRatio, audio, negativePrompt, seconds } = call.input
  const orientation = call.target.deployment.traits?.orientation ?? 'video'
  const { min, max } = motionSeconds
  if (seconds < min || seconds > max[orientation])
    throw unsupportedField(call, 'input_video_url', `takes motions of ${min} to ${max[orientation]} s`)
  if (aspectRatio !== null) throw unsupportedField(call, 'aspect_ratio', 'does not take `aspect_ratio` with a motion')
  if (negativePrompt !== null)
    throw unsupportedField(call, 'negative_prompt', 'does not take `negative_prompt` with a motion')
  return {
    image_url: await imageOf(call, 'start_image_url'),
    video_url: await videoOf(call, 'input_video_url'),
    character_orientation: orientation,
    ...(audio !== null && { keep_original_sound: audio ? 'yes' : 'no' }),
  }
}

function durationFields({ input }: Call): Body {
  const { seconds, negativePrompt } = input
  return { duration: String(seconds), ...(negativePrompt !== null && { negative_prompt: negativePrompt }) }
}

/** The deployment's `sound` states what its price includes; `null` (older models) has no such field. */
function soundField({ input, target }: Call): Body {
  const sound = input.audio ?? target.deployment.traits?.sound
  return sound === undefined ? {} : { sound: sound ? 'on' : 'off' }
}

function ratioField({ input }: Call): Body {
  return input.aspectRatio === null ? {} : { aspect_ratio: input.aspectRatio }
}

/** A URL, or the bytes in base64 without the prefix of a `data:` URI. */
async function imageOf(call: Call, field: string): Promise<string> {
  const link = await sourceOf(call, field, 'image').link()
  return link.startsWith('data:') ? link.slice(link.indexOf(',') + 1) : link
}

/** Videos are accepted by URL only. */
function videoOf(call: Call, field: string): Promise<string> {
  return sourceOf(call, field, 'video').url()
}

function sourceOf(call: Call, field: string, type: keyof typeof maxBytes): Source {
  const source = call.sources.get(field) as Source
  if (source.bytes > maxBytes[type])
    throw unsupportedField(call, field, `takes files of at most ${maxBytes[type] / 1024 / 1024} MB`)
  return source
}

function unsupportedField({ target }: Call, field: string, problem: string): GatewayError {
  return unsupported(target.model, field, `${problem} at this provider`)
}
