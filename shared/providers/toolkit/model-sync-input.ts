import type { ImageInput } from '../../kinds/image.ts'
import { listOf, notOffered } from '../../kinds/media.ts'
import type { QueuedCall, Target } from '../contract.ts'
import { hasRatio } from './aspect-ratio.ts'
import { type InputOptions, type ModelInput, ModelInputBuilder } from './model-fields.ts'

/** The inputs of synchronous media, under the names that a deployment's traits give (model-fields.ts). */

export async function imageInput(call: QueuedCall<'image'>, options: InputOptions): Promise<ModelInput> {
  const { input } = call
  const fields = new ModelInputBuilder(call, input.references > 0 ? 'edit' : 'text', options)
  fields.prompt(input.prompt)
  if (input.references === 1 && fields.has('image_field')) await fields.file('image_field', 'input_references.0')
  else await fields.files('images_field', 'input_references')
  await fields.file('mask_field', 'mask')
  fields.value('n_field', 'n', input.n, 1)
  size(fields, call)
  aspectRatio(fields, call, options)
  fields.choice('resolution_field', 'resolution', input.resolution)
  fields.value('quality_field', 'quality', input.quality)
  fields.value('background_field', 'background', input.background, 'opaque')
  fields.format(input.format)
  fields.value('compression_field', 'output_compression', input.compression)
  fields.value('fidelity_field', 'input_fidelity', input.fidelity)
  fields.value('moderation_field', 'moderation', input.moderation, 'auto')
  fields.value('seed_field', 'seed', input.seed)
  return fields.result()
}

export async function musicInput(call: QueuedCall<'music'>, options: InputOptions): Promise<ModelInput> {
  const { input } = call
  const fields = new ModelInputBuilder(call, 'text', options)
  fields.prompt(input.prompt)
  if (input.lyrics === null && fields.trait('needs_lyrics')) throw fields.unsupported('lyrics', 'needs `lyrics`')
  fields.value('lyrics_field', 'lyrics', input.lyrics)
  fields.value('instrumental_field', 'instrumental', input.instrumental, false)
  if (input.durationS !== null) fields.duration(input.durationS, 'duration_s')
  fields.format(input.format, usualFormat(call.target))
  return fields.result()
}

export async function sfxInput(call: QueuedCall<'sfx'>, options: InputOptions): Promise<ModelInput> {
  const { input } = call
  const fields = new ModelInputBuilder(call, 'text', options)
  fields.prompt(input.prompt)
  if (input.durationS !== null) fields.duration(input.durationS, 'duration_s')
  fields.format(input.format, usualFormat(call.target))
  return fields.result()
}

/** Maximum images per call: one where no field sets the number. */
export function maxPieces({ model, deployment }: Target): number {
  return deployment.traits?.n_field === undefined ? 1 : (model.kind?.max_n ?? 10)
}

/** Rows without a list default to MP3. */
function usualFormat({ model }: Target): string {
  return listOf(model, 'formats')[0] ?? 'mp3'
}

function size(fields: ModelInputBuilder<'image'>, { input, target }: QueuedCall<'image'>): void {
  if (input.size === null) return
  const { width, height } = input.size
  const max = fields.trait('most_pixels') ?? Number.POSITIVE_INFINITY
  if (width * height > max) throw fields.unsupported('size', `gives at most ${max} pixels`)
  const [widthField, heightField] = [fields.trait('width_field'), fields.trait('height_field')]
  if (widthField !== null && heightField !== null) {
    fields.set(widthField, 'size', width)
    fields.set(heightField, 'size', height)
  } else if (!fields.has('size_field')) {
    const ratio = isOfUsualSize(fields, input.size) && ratiosOf(fields, target).find(one => hasRatio(input.size!, one))
    if (!ratio) throw fields.unsupported('size', `does not take size ${width}x${height}`)
    fields.value('aspect_ratio_field', 'size', ratio)
  } else {
    const isText = fields.trait('size_format') === 'text'
    fields.value('size_field', 'size', isText ? `${width}x${height}` : { width, height })
  }
}

function aspectRatio(
  fields: ModelInputBuilder<'image'>,
  { input, target }: QueuedCall<'image'>,
  options: InputOptions,
): void {
  const { aspectRatio: ratio } = input
  if (ratio === null) return
  const name = options.sizeNames?.[ratio]
  const takesNames = fields.has('size_field') && fields.trait('size_format') !== 'text'
  const isNamed = takesNames && !fields.has('aspect_ratio_field')
  if (isNamed && name) {
    fields.value('size_field', 'aspect_ratio', name)
    return
  }
  const offered = ratiosOf(fields, target)
  if (offered.length > 0 && !offered.includes(ratio))
    throw fields.unsupported('aspect_ratio', notOffered('aspect_ratio', offered))
  fields.value('aspect_ratio_field', 'aspect_ratio', ratio)
}

function ratiosOf(fields: ModelInputBuilder<'image'>, { model }: Target): string[] {
  return fields.trait('aspect_ratios') ?? listOf(model, 'aspect_ratios')
}

const usualPixels = 1024 * 1024

/** Whether a model that only takes a ratio draws a similar number of pixels: between half and twice as many. */
function isOfUsualSize(
  fields: ModelInputBuilder<'image'>,
  { width, height }: NonNullable<ImageInput['size']>,
): boolean {
  const share = (width * height) / (fields.trait('pixels') ?? usualPixels)
  return share >= 1 / 2 && share <= 2
}
