import type { GatewayError } from '../../../base/errors.ts'
import { notOffered, unsupported } from '../../../kinds/media.ts'
import type { VideoInput } from '../../../kinds/video.ts'
import type { QueuedCall, Source, Target } from '../../contract.ts'

type Call = QueuedCall<'video'>
type Body = Record<string, unknown>

export const maxPrompt = 1_000
const maxDataUri = 5 * 1024 * 1024
const minMotionSeconds = 3

/** The sizes of 720p videos by aspect ratio. */
const ratios: Record<string, string> = {
  '16:9': '1280:720',
  '9:16': '720:1280',
  '4:3': '1104:832',
  '3:4': '832:1104',
  '1:1': '960:960',
  '21:9': '1584:672',
}
const ratiosOfText = ['16:9', '9:16']

/** Path and body of a video task (types of Runway's official client). */
const routes: { [M in VideoInput['mode']]?: { path: string; body(call: Call): Promise<Body> } } = {
  text: { path: '/text_to_video', body: fromText },
  image: { path: '/image_to_video', body: fromImage },
  video: { path: '/video_to_video', body: fromVideo },
  motion_control: { path: '/character_performance', body: performance },
}

/** The create request of a video. Throws a GatewayError 400 naming the field that Runway cannot express. */
export async function createRequest(call: Call): Promise<{ path: string; json: Body }> {
  const { input, target } = call
  const route = routes[input.mode]
  if (!route) throw unsupportedField(call, 'input_references', 'does not take references')
  if (input.negativePrompt !== null) throw unsupportedField(call, 'negative_prompt', 'does not take `negative_prompt`')
  if (input.audio) throw unsupportedField(call, 'audio', 'gives videos without sound')
  if (input.resolution !== null && input.resolution !== '720p')
    throw unsupportedField(call, 'resolution', 'gives videos of 720p only')
  const seed = input.seed === null ? {} : { seed: input.seed }
  return { path: route.path, json: { model: target.deployment.upstream_model, ...(await route.body(call)), ...seed } }
}

async function fromText(call: Call): Promise<Body> {
  const { aspectRatio } = call.input
  if (aspectRatio !== null && !ratiosOfText.includes(aspectRatio))
    throw unsupportedField(call, 'aspect_ratio', `makes videos from text in ${ratiosOfText.join(' and ')} only`)
  return { ...promptOf(call), ratio: ratioOf(call), duration: call.input.seconds }
}

async function fromImage(call: Call): Promise<Body> {
  const first = await uriOf(call, 'start_image_url')
  const last = call.sources.has('end_image_url') ? await uriOf(call, 'end_image_url') : null
  const frames = [
    { uri: first, position: 'first' },
    { uri: last, position: 'last' },
  ]
  return {
    ...promptOf(call),
    promptImage: last === null ? first : frames,
    ratio: ratioOf(call),
    duration: call.input.seconds,
  }
}

async function fromVideo(call: Call): Promise<Body> {
  const { aspectRatio } = call.input
  return {
    ...promptOf(call),
    videoUri: await uriOf(call, 'input_video_url'),
    ...(aspectRatio !== null && { targetAspectRatio: aspectRatio }),
  }
}

/** Act-Two: the character imitates the person in the video. */
async function performance(call: Call): Promise<Body> {
  const { prompt, aspectRatio, seconds } = call.input
  if (prompt !== null) throw unsupportedField(call, 'prompt', 'does not take `prompt`')
  if (seconds < minMotionSeconds)
    throw unsupportedField(call, 'input_video_url', `takes motions of at least ${minMotionSeconds} s`)
  return {
    character: { type: 'image', uri: await uriOf(call, 'start_image_url') },
    reference: { type: 'video', uri: await uriOf(call, 'input_video_url') },
    ...(aspectRatio !== null && { ratio: ratioOf(call) }),
  }
}

function promptOf(call: Call): { promptText?: string } {
  const { prompt, mode } = call.input
  const isRequired = mode === 'text' || call.target.deployment.traits?.needs_prompt === true
  if (prompt === null && isRequired) throw unsupportedField(call, 'prompt', 'needs `prompt`')
  if (prompt !== null && prompt.length > maxPrompt)
    throw unsupportedField(call, 'prompt', `takes prompts of at most ${maxPrompt} characters`)
  return prompt === null ? {} : { promptText: prompt }
}

/** Runway never derives the ratio from the picture: the default is 16:9. */
function ratioOf(call: Call): string {
  const aspectRatio = call.input.aspectRatio ?? '16:9'
  const ratio = ratios[aspectRatio]
  if (!ratio) throw unsupportedField(call, 'aspect_ratio', notOffered('aspect_ratio', Object.keys(ratios)))
  return ratio
}

/** A file as a URI. Throws a GatewayError 400 if it is too large to be inlined, and must be. */
export async function uriOf(call: Pick<QueuedCall<never>, 'target' | 'sources'>, field: string): Promise<string> {
  const uri = await (call.sources.get(field) as Source).link()
  if (uri.startsWith('data:') && uri.length > maxDataUri)
    throw unsupportedField(call, field, 'takes files of at most 5 MB (as base64) while it cannot fetch them from here')
  return uri
}

export function unsupportedField({ target }: { target: Target }, field: string, problem: string): GatewayError {
  return unsupported(target.model, field, `${problem} at this provider`)
}
