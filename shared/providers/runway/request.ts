import type { GatewayError } from '../../base/errors.ts'
import { unsupported } from '../../kinds/media.ts'
import type { VideoInput } from '../../kinds/video.ts'
import type { QueuedCall, Source, Target } from '../contract.ts'

type Call = QueuedCall<'video'>
type Body = Record<string, unknown>

export const longestPrompt = 1_000
const longestDataUri = 5 * 1024 * 1024
const shortestMotionSeconds = 3

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

/** Path and body of the task that makes a video (types of Runway's official client). */
const routes: { [M in VideoInput['mode']]?: { path: string; body(call: Call): Promise<Body> } } = {
  text: { path: '/text_to_video', body: fromText },
  image: { path: '/image_to_video', body: fromImage },
  video: { path: '/video_to_video', body: fromVideo },
  motion_control: { path: '/character_performance', body: performance },
}

/** The create request of a video. Throws a GatewayError 400 naming the field when Runway cannot take it. */
export async function createRequest(call: Call): Promise<{ path: string; json: Body }> {
  const { input, target } = call
  const route = routes[input.mode]
  if (!route) throw refused(call, 'input_references', 'does not take references')
  if (input.negativePrompt !== null) throw refused(call, 'negative_prompt', 'does not take `negative_prompt`')
  if (input.audio) throw refused(call, 'audio', 'gives videos without sound')
  if (input.resolution !== null && input.resolution !== '720p')
    throw refused(call, 'resolution', 'gives videos of 720p only')
  const seed = input.seed === null ? {} : { seed: input.seed }
  return { path: route.path, json: { model: target.deployment.upstream_model, ...(await route.body(call)), ...seed } }
}

async function fromText(call: Call): Promise<Body> {
  const { aspectRatio } = call.input
  if (aspectRatio !== null && !ratiosOfText.includes(aspectRatio))
    throw refused(call, 'aspect_ratio', `makes videos from text in ${ratiosOfText.join(' and ')} only`)
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

/** Act-Two: the character's picture does what the person in the video does. */
async function performance(call: Call): Promise<Body> {
  const { prompt, aspectRatio, seconds } = call.input
  if (prompt !== null) throw refused(call, 'prompt', 'does not take `prompt`')
  if (seconds < shortestMotionSeconds)
    throw refused(call, 'input_video_url', `takes motions of at least ${shortestMotionSeconds} s`)
  return {
    character: { type: 'image', uri: await uriOf(call, 'start_image_url') },
    reference: { type: 'video', uri: await uriOf(call, 'input_video_url') },
    ...(aspectRatio !== null && { ratio: ratioOf(call) }),
  }
}

function promptOf(call: Call): { promptText?: string } {
  const { prompt, mode } = call.input
  const isRequired = mode === 'text' || call.target.deployment.traits?.needs_prompt === true
  if (prompt === null && isRequired) throw refused(call, 'prompt', 'needs `prompt`')
  if (prompt !== null && prompt.length > longestPrompt)
    throw refused(call, 'prompt', `takes prompts of at most ${longestPrompt} characters`)
  return prompt === null ? {} : { promptText: prompt }
}

/** Runway never takes the ratio from the picture: without a wish it is 16:9. */
function ratioOf(call: Call): string {
  const aspectRatio = call.input.aspectRatio ?? '16:9'
  const ratio = ratios[aspectRatio]
  if (!ratio) throw refused(call, 'aspect_ratio', `takes aspect ratio ${Object.keys(ratios).join(', ')}`)
  return ratio
}

/** A file as Runway takes it. Throws a GatewayError 400 where it is too large to stand in the request, and must. */
export async function uriOf(call: Pick<QueuedCall<never>, 'target' | 'sources'>, field: string): Promise<string> {
  const uri = await (call.sources.get(field) as Source).link()
  if (uri.startsWith('data:') && uri.length > longestDataUri)
    throw refused(call, field, 'takes files of at most 5 MB (as base64) while it cannot fetch them from here')
  return uri
}

export function refused({ target }: { target: Target }, field: string, problem: string): GatewayError {
  return unsupported(target.model, field, `${problem} at this provider`)
}
