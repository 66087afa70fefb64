import { listOf } from '../../kinds/media.ts'
import type { QueuedCall } from '../contract.ts'
import { hasRatio } from '../ratio.ts'
import { longestPrompt, refused, uriOf } from './request.ts'

type Call = QueuedCall<'image'>

/** What a row gives that does not say, its usual one first: the sizes of 720p. */
const usualSizes = ['1280x720', '720x1280', '720x720', '960x720', '720x960', '1680x720']

/**
 * The create request of an image (types of Runway's official client). In a prompt the references are called `@image1`,
 * `@image2` … Throws a GatewayError 400 naming the field when Runway cannot take it.
 */
export async function imageRequest(call: Call): Promise<{ path: string; json: object }> {
  const { input, target } = call
  refuseUnsupported(call)
  const ratio = sizeOf(call).replace('x', ':')
  const names = Array.from({ length: input.references }, (_, i) => `input_references.${i}`)
  const uris = await Promise.all(names.map(name => uriOf(call, name)))
  const json = {
    model: target.deployment.upstream_model,
    promptText: input.prompt,
    ratio,
    ...(uris.length > 0 && { referenceImages: uris.map((uri, i) => ({ uri, tag: `image${i + 1}` })) }),
    ...(input.seed !== null && { seed: input.seed }),
  }
  return { path: '/text_to_image', json }
}

function refuseUnsupported(call: Call): void {
  const { input } = call
  const problems: [boolean, field: string, problem: string][] = [
    [input.prompt.length > longestPrompt, 'prompt', `takes prompts of at most ${longestPrompt} characters`],
    [input.resolution !== null, 'resolution', 'takes sizes in pixels and aspect ratios, no `resolution`'],
    [input.quality !== null, 'quality', 'does not take `quality`'],
    [input.background === 'transparent', 'background', 'draws no transparent background'],
    [input.format !== null, 'output_format', 'does not take `output_format`'],
    [input.masked, 'mask', 'does not take `mask`'],
    [input.fidelity !== null, 'input_fidelity', 'does not take `input_fidelity`'],
    [input.moderation === 'low', 'moderation', 'does not take `moderation`'],
  ]
  const found = problems.find(([isRefused]) => isRefused)
  if (found) throw refused(call, found[1], found[2])
}

/** The size that is asked for, or the first of the row with the aspect ratio that is. */
function sizeOf(call: Call): string {
  const { size, aspectRatio } = call.input
  const listed = listOf(call.target.model, 'sizes')
  const sizes = listed.length > 0 ? listed : usualSizes
  const wanted = size && `${size.width}x${size.height}`
  const found = sizes.find(name => (wanted ? name === wanted : !aspectRatio || hasRatio(sizeIn(name), aspectRatio)))
  if (found) return found
  throw wanted
    ? refused(call, 'size', `takes size ${sizes.join(', ')}`)
    : refused(call, 'aspect_ratio', `gives no image of ${aspectRatio}`)
}

function sizeIn(name: string): { width: number; height: number } {
  const [width, height] = name.split('x').map(Number)
  return { width: width!, height: height! }
}
