import type { GatewayError } from '../../base/errors.ts'
import { unsupported } from '../../kinds/media.ts'
import type { VideoInput } from '../../kinds/video.ts'
import type { QueuedCall, Source } from '../contract.ts'
import { assertOneResolution } from '../resolution.ts'
import { sourcesIn } from '../sources.ts'

type Call = QueuedCall<'video'>
type Body = Record<string, unknown>

const longestPrompt = 2_500
const mostImages = 4
const mostBytes = { image: 10 * 1024 * 1024, video: 100 * 1024 * 1024 }
const motionSeconds = { least: 3, most: { video: 30, image: 10 } }

/** What a mode is called in paths, for creating and for looking, and what it takes. */
const routes: { [M in VideoInput['mode']]?: { name: string; body(call: Call): Promise<Body> } } = {
  text: { name: 'text2video', body: fromText },
  image: { name: 'image2video', body: fromImage },
  reference: { name: 'multi-image2video', body: fromReferences },
  motion_control: { name: 'motion-control', body: fromMotion },
}

/** The part of the path that a call's task lies under. Throws a GatewayError 400 for a mode Kling has not. */
export function routeOf(call: Call): string {
  return ruleOf(call).name
}

function ruleOf(call: Call) {
  const route = routes[call.input.mode]
  if (!route) throw refused(call, 'input_video_url', 'does not change videos')
  return route
}

/** The body of the create request. Throws a GatewayError 400 naming the field when Kling cannot take it. */
export async function createBody(call: Call): Promise<Body> {
  const { input, target, jobId } = call
  const { upstream_model, traits } = target.deployment
  const { body } = ruleOf(call)
  assertOneResolution(target)
  if (input.seed !== null) throw refused(call, 'seed', 'does not take `seed`')
  for (const [field, text] of [
    ['prompt', input.prompt],
    ['negative_prompt', input.negativePrompt],
  ] as const)
    if (text !== null && text.length > longestPrompt)
      throw refused(call, field, `takes at most ${longestPrompt} characters`)
  return {
    model_name: upstream_model,
    ...(input.prompt !== null && { prompt: input.prompt }),
    ...(traits?.mode !== undefined && { mode: traits.mode }),
    ...(await body(call)),
    external_task_id: jobId,
  }
}

async function fromText(call: Call): Promise<Body> {
  return { ...timed(call), ...soundOf(call), ...ratioOf(call) }
}

async function fromImage(call: Call): Promise<Body> {
  if (call.input.aspectRatio !== null)
    throw refused(call, 'aspect_ratio', 'takes the aspect ratio from the image; leave `aspect_ratio` out')
  return {
    ...timed(call),
    ...soundOf(call),
    image: await imageOf(call, 'start_image_url'),
    ...(call.sources.has('end_image_url') && { image_tail: await imageOf(call, 'end_image_url') }),
  }
}

async function fromReferences(call: Call): Promise<Body> {
  const sources = sourcesIn(call.sources, 'input_references')
  const other = [...call.sources.keys()].find(field => !field.startsWith('input_references.'))
  if (other) throw refused(call, other, 'takes images as references only')
  if (call.input.audio) throw refused(call, 'audio', 'gives videos from references without sound')
  if (sources.length > mostImages) throw refused(call, 'input_references', `takes at most ${mostImages} references`)
  if (call.input.prompt === null) throw refused(call, 'prompt', 'needs `prompt` with references')
  const images = await Promise.all(sources.map((_, i) => imageOf(call, `input_references.${i}`)))
  return { ...timed(call), ...ratioOf(call), image_list: images.map(image => ({ image })) }
}

async function fromMotion(call: Call): Promise<Body> {
  const { aspectRatio, audio, negativePrompt, seconds } = call.input
  const orientation = call.target.deployment.traits?.orientation === 'image' ? 'image' : 'video'
  const { least, most } = motionSeconds
  if (seconds < least || seconds > most[orientation])
    throw refused(call, 'input_video_url', `takes motions of ${least} to ${most[orientation]} s`)
  if (aspectRatio !== null) throw refused(call, 'aspect_ratio', 'does not take `aspect_ratio` with a motion')
  if (negativePrompt !== null) throw refused(call, 'negative_prompt', 'does not take `negative_prompt` with a motion')
  return {
    image_url: await imageOf(call, 'start_image_url'),
    video_url: await videoOf(call, 'input_video_url'),
    character_orientation: orientation,
    ...(audio !== null && { keep_original_sound: audio ? 'yes' : 'no' }),
  }
}

function timed({ input }: Call): Body {
  const { seconds, negativePrompt } = input
  return { duration: String(seconds), ...(negativePrompt !== null && { negative_prompt: negativePrompt }) }
}

/** A deployment's `sound` says what its price includes; `null` (older models) takes no such field. */
function soundOf({ input, target }: Call): Body {
  const sound = input.audio ?? target.deployment.traits?.sound
  return sound === undefined ? {} : { sound: sound ? 'on' : 'off' }
}

function ratioOf({ input }: Call): Body {
  return input.aspectRatio === null ? {} : { aspect_ratio: input.aspectRatio }
}

/** An address, or the bytes in base64 without the head of a `data:` URI. */
async function imageOf(call: Call, field: string): Promise<string> {
  const link = await sourceOf(call, field, 'image').link()
  return link.startsWith('data:') ? link.slice(link.indexOf(',') + 1) : link
}

/** Videos go by address only. */
function videoOf(call: Call, field: string): Promise<string> {
  return sourceOf(call, field, 'video').url()
}

function sourceOf(call: Call, field: string, type: keyof typeof mostBytes): Source {
  const source = call.sources.get(field) as Source
  if (source.bytes > mostBytes[type])
    throw refused(call, field, `takes files of at most ${mostBytes[type] / 1024 / 1024} MB`)
  return source
}

function refused({ target }: Call, field: string, problem: string): GatewayError {
  return unsupported(target.model, field, `${problem} at this provider`)
}
