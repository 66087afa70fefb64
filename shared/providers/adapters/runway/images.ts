import { listOf, notOffered } from '../../../kinds/media.ts'
import type { QueuedCall } from '../../contract.ts'
import { hasRatio } from '../../toolkit/aspect-ratio.ts'
import { maxPrompt, unsupportedField, uriOf } from './request.ts'

type Call = QueuedCall<'image'>

/** The default sizes of a row, the first one being the default size: those of 720p. */
const usualSizes = ['1280x720', '720x1280', '720x720', '960x720', '720x960', '1680x720']

/**
 * The create request of an image (types of Runway's official client). A prompt refers to the references as `@image1`,
 * `@image2` … Throws a GatewayError 400 naming the field that Runway cannot express.
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
    [input.prompt.length > maxPrompt, 'prompt', `takes prompts of at most ${maxPrompt} characters`],
    [input.resolution !== null, 'resolution', 'takes sizes in pixels and aspect ratios, no `resolution`'],
    [input.quality !== null, 'quality', 'does not take `quality`'],
    [input.background === 'transparent', 'background', 'draws no transparent background'],
    [input.format !== null, 'output_format', 'does not take `output_format`'],
    [input.masked, 'mask', 'does not take `mask`'],
    [input.fidelity !== null, 'input_fidelity', 'does not take `input_fidelity`'],
    [input.moderation === 'low', 'moderation', 'does not take `moderation`'],
  ]
  const match = problems.find(([isSet]) => isSet)
  if (match) throw unsupportedField(call, match[1], match[2])
}

/** The requested size, or the row's first one with the requested aspect ratio. */
function sizeOf(call: Call): string {
  const { size, aspectRatio } = call.input
  const listed = listOf(call.target.model, 'sizes')
  const sizes = listed.length > 0 ? listed : usualSizes
  const requested = size && `${size.width}x${size.height}`
  const match = sizes.find(name =>
    requested ? name === requested : !aspectRatio || hasRatio(sizeIn(name), aspectRatio),
  )
  if (match) return match
  throw requested
    ? unsupportedField(call, 'size', notOffered('size', sizes))
    : unsupportedField(call, 'aspect_ratio', `gives no image of ${aspectRatio}`)
}

function sizeIn(name: string): { width: number; height: number } {
  const [width, height] = name.split('x').map(Number)
  return { width: width!, height: height! }
}
