import { z } from 'zod'
import { GatewayError } from '../base/errors.ts'
import type { ModelRow } from '../catalog/schema.ts'
import {
  checkLength,
  chooseOption,
  common,
  fieldOf,
  fieldsOf,
  lengthOf,
  listOf,
  maxReferences,
  notOffered,
  type QueuedKindRow,
  type References,
  referenceTo,
  resolution,
  secondsNano,
  unsupported,
} from './media.ts'

const defaultSeconds = 5
const seconds = z
  .union([
    z.number().meta({ minimum: 1, maximum: 600 }),
    z
      .string()
      .regex(/^\d{1,3}(\.\d+)?$/, 'must be a number')
      .transform(Number),
  ])
  .pipe(z.number().min(1).max(600))
const references = (type: 'image' | 'video' | 'audio') => z.array(referenceTo(type)).min(1).max(maxReferences)

/** An image reference in the form of OpenAI's SDK. */
const openAiReference = z.strictObject({ image_url: referenceTo('image') }).transform(({ image_url }) => image_url)

const videoRequest = z
  .strictObject({
    ...common,
    prompt: z.string().min(1).max(10_000).optional().describe('What the video shows.'),
    seconds: seconds
      .optional()
      .meta({ 'x-default': defaultSeconds, description: 'Or the model’s length nearest to it.' }),
    size: z
      .string()
      .regex(/^\d{2,4}x\d{2,4}$/, 'must be WIDTHxHEIGHT')
      .optional()
      .describe('In pixels, such as `1280x720`.'),
    resolution: resolution.optional().describe('Such as `720p`, `1080p`, `4k`; without it, the model’s first.'),
    aspect_ratio: z
      .string()
      .regex(/^\d{1,2}:\d{1,2}$/, 'such as 16:9')
      .optional()
      .describe('Such as `16:9`; without it, the model’s own.'),
    start_image_url: referenceTo('image')
      .optional()
      .describe('First frame; or the character of a motion-control model.'),
    input_reference: z
      .union([referenceTo('image'), openAiReference])
      .optional()
      .describe('OpenAI’s name for `start_image_url`; in its form, a file.'),
    end_image_url: referenceTo('image').optional().describe('Last frame.'),
    input_references: references('image').optional().describe('People, things and styles to keep to.'),
    input_video_references: references('video').optional().describe('Videos to keep to.'),
    input_audio_references: references('audio').optional().describe('Sounds to keep to.'),
    input_video_url: referenceTo('video').optional().describe('The video to change, or the motion to copy.'),
    negative_prompt: z.string().min(1).max(10_000).optional().describe('What the video must not show.'),
    seed: z.int().min(0).max(4_294_967_295).optional().describe('For videos that can be repeated.'),
    audio: z.boolean().optional().describe('Whether the video has sound.'),
  })
  .meta({ id: 'CreateVideoRequest' })
type VideoRequest = z.infer<typeof videoRequest>

type VideoMode = 'text' | 'image' | 'reference' | 'motion_control' | 'video'

/** Adapter input of a video; its references are passed separately, by field. */
export type VideoInput = {
  mode: VideoMode
  prompt: string | null
  /** The billed length. For a motion-control or video-to-video model, the length of `input_video_url`. */
  seconds: number
  resolution: string | null
  /** Null = the model's default, usually that of the image. */
  aspectRatio: string | null
  negativePrompt: string | null
  seed: number | null
  /** Null = the model's default. */
  audio: boolean | null
}

export const video: QueuedKindRow<VideoRequest, VideoInput> = {
  object: 'video.job',
  idPrefix: 'job',
  path: '/v1/videos',
  modelsPath: '/v1/videos/models',
  type: 'video',
  request: videoRequest,
  listed: [],
  references: body => [
    ...fieldOf('start_image_url', firstFrame(body), 'image'),
    ...fieldOf('end_image_url', body.end_image_url, 'image'),
    ...fieldsOf('input_references', body.input_references, 'image'),
    ...fieldsOf('input_video_references', body.input_video_references, 'video'),
    ...fieldsOf('input_audio_references', body.input_audio_references, 'audio'),
    ...fieldOf('input_video_url', body.input_video_url, 'video', true),
  ],
  input(request, row, references) {
    const body = { ...request, start_image_url: firstFrame(request) }
    const mode = modeOf(body, row)
    const model = inMode(row, mode)
    if (model.kind?.prompt === 'required' && !body.prompt)
      throw missingField('prompt', `\`prompt\` is required by ${model.id}`)
    if (model.kind?.prompt === 'none' && body.prompt) throw unsupported(model, 'prompt', 'does not take `prompt`')
    const { resolution, aspectRatio } = frameOf(body, model)
    if (body.end_image_url && !model.kind?.end_image) throw unsupported(model, 'end_image_url', 'takes no last frame')
    for (const field of ['negative_prompt', 'seed'] as const)
      if (body[field] !== undefined && !model.kind?.[field])
        throw unsupported(model, field, `does not take \`${field}\``)
    if (body.audio && !model.kind?.audio) throw unsupported(model, 'audio', 'gives videos without sound')
    if (body.audio === false && model.kind?.audio === 'always') throw unsupported(model, 'audio', 'always gives sound')
    return {
      mode,
      prompt: body.prompt ?? null,
      seconds:
        mode === 'motion_control' || mode === 'video'
          ? referenceLength(body, model, references)
          : secondsOf(body, model, resolution),
      resolution,
      aspectRatio,
      negativePrompt: body.negative_prompt ?? null,
      seed: body.seed ?? null,
      audio: body.audio ?? null,
    }
  },
  quote: (input, deployment, marginPpm) => ({
    chargeNano: secondsNano(deployment, input.resolution, input.seconds, marginPpm),
  }),
}

/** The first frame, under either field name. Throws 400 if both are set. */
function firstFrame({ start_image_url, input_reference }: VideoRequest): string | undefined {
  if (start_image_url === undefined || input_reference === undefined) return start_image_url ?? input_reference
  const problem = 'Send either `start_image_url` or `input_reference`.'
  throw new GatewayError('invalid_request', problem, { param: 'input_reference' })
}

/** The row with the overrides of one mode applied to its `kind`, e.g. `reference_durations`. */
function inMode(model: ModelRow, mode: VideoMode): ModelRow {
  const own = Object.entries(model.kind ?? {}).filter(([name]) => name.startsWith(`${mode}_`))
  if (own.length === 0) return model
  return {
    ...model,
    kind: { ...model.kind, ...Object.fromEntries(own.map(([name, value]) => [name.slice(mode.length + 1), value])) },
  }
}

const fieldOfMode: Record<VideoMode, keyof VideoRequest> = {
  text: 'prompt',
  image: 'start_image_url',
  reference: 'input_references',
  motion_control: 'input_video_url',
  video: 'input_video_url',
}

function modeOf(body: VideoRequest, model: ModelRow): VideoMode {
  const modes = listOf<VideoMode>(model, 'modes')
  const many = body.input_references ?? body.input_video_references ?? body.input_audio_references
  const moving = body.start_image_url ? 'motion_control' : 'video'
  const mode = body.input_video_url ? moving : many ? 'reference' : body.start_image_url ? 'image' : 'text'
  if (body.end_image_url && mode !== 'image')
    throw missingField('start_image_url', '`end_image_url` needs `start_image_url`')
  if (!modes.includes(mode)) throw unsupported(model, fieldOfMode[mode], problemOf(mode, modes))
  if (mode === 'text' && !body.prompt) throw missingField('prompt', '`prompt` is required')
  if (mode === 'reference') checkReferences(body, model)
  return mode
}

function problemOf(mode: VideoMode, modes: VideoMode[]): string {
  if (modes.includes('motion_control'))
    return 'needs a character as `start_image_url` and a motion as `input_video_url`'
  if (modes.includes('video')) return 'changes a video: it needs `input_video_url`'
  return mode === 'text' ? 'needs an image as `start_image_url`' : `does not take \`${fieldOfMode[mode]}\``
}

/**
 * Asserts that the model accepts these types and numbers of references. Its row lists the types as `references` (by
 * default images).
 */
function checkReferences(body: VideoRequest, model: ModelRow): void {
  const taken = listOf(model, 'references')
  const max = model.kind?.max_references ?? maxReferences
  const given = { image: body.input_references, video: body.input_video_references, audio: body.input_audio_references }
  for (const [type, urls] of Object.entries(given)) {
    const field = type === 'image' ? 'input_references' : `input_${type}_references`
    if (urls && !(taken.length > 0 ? taken : ['image']).includes(type))
      throw unsupported(model, field, `does not take \`${field}\``)
    if (urls && urls.length > max) throw unsupported(model, field, `takes at most ${max} references`)
  }
  if (body.start_image_url) throw unsupported(model, 'start_image_url', 'takes either a first frame or references')
}

/**
 * The requested length, or the model's length nearest to 5 s. Some models support fewer lengths at a resolution, or
 * with a last frame.
 */
function secondsOf(body: VideoRequest, model: ModelRow, resolution: string | null): number {
  const narrower = [`durations_${resolution}`, ...(body.end_image_url ? ['durations_end_image'] : [])]
  const durations = listOf<number>(model, 'durations').filter(length =>
    narrower.every(name => !(name in (model.kind ?? {})) || listOf<number>(model, name).includes(length)),
  )
  const wanted = body.seconds
  if (wanted !== undefined) {
    if (durations.length > 0 && !durations.includes(wanted))
      throw unsupported(model, 'seconds', notOffered('seconds', durations))
    return checkLength(model, 'seconds', wanted)
  }
  if (durations.length === 0) return defaultSeconds
  const distance = (length: number) => Math.abs(length - defaultSeconds)
  return durations.reduce((best, length) => (distance(length) < distance(best) ? length : best))
}

function referenceLength(body: VideoRequest, model: ModelRow, references: References | null): number {
  if (body.seconds !== undefined)
    throw unsupported(model, 'seconds', 'gives a video as long as `input_video_url`; leave `seconds` out')
  return checkLength(model, 'input_video_url', lengthOf(references, 'input_video_url'))
}

/** Resolution and aspect ratio, from `size` or from their own fields. */
function frameOf(body: VideoRequest, model: ModelRow): { resolution: string | null; aspectRatio: string | null } {
  if (body.size) {
    for (const field of ['resolution', 'aspect_ratio'] as const)
      if (body[field])
        throw new GatewayError('invalid_request', `Send either \`size\` or \`${field}\`.`, { param: field })
    return frameOfSize(body.size, model)
  }
  const resolution = chooseOption(model, 'resolutions', 'resolution', body.resolution)
  return {
    resolution,
    aspectRatio: body.aspect_ratio ? chooseOption(model, 'aspect_ratios', 'aspect_ratio', body.aspect_ratio) : null,
  }
}

/** The size in pixels of a resolution and a ratio, in the format of `size`; null if either is the model's choice. */
export function pixelsOf(resolution: string | null, aspectRatio: string | null): string | null {
  const [, lines] = /^(\d+)p$/.exec(resolution ?? '') ?? []
  const [across, down] = (aspectRatio ?? '').split(':').map(Number)
  const short = lines === undefined ? linesOf[resolution ?? ''] : Number(lines)
  if (!short || !across || !down) return null
  // Videos have even sides.
  const long = 2 * Math.round((short * Math.max(across, down)) / Math.min(across, down) / 2)
  return across >= down ? `${long}x${short}` : `${short}x${long}`
}

const linesOf: Readonly<Record<string, number>> = { '2k': 1440, '4k': 2160, '8k': 4320 }

function frameOfSize(size: string, model: ModelRow): { resolution: string; aspectRatio: string } {
  const [width, height] = size.split('x').map(Number) as [number, number]
  const short = Math.min(width, height)
  const resolution = short >= 2160 ? '4k' : `${short}p`
  const ratio = (text: string) => {
    const [w, h] = text.split(':').map(Number) as [number, number]
    return w / h
  }
  const near = listOf(model, 'aspect_ratios').find(text => Math.abs(ratio(text) - width / height) < 0.02)
  if (near && listOf(model, 'resolutions').includes(resolution)) return { resolution, aspectRatio: near }
  const [resolutions, ratios] = [listOf(model, 'resolutions').join(', '), listOf(model, 'aspect_ratios').join(', ')]
  if (ratios === '') throw unsupported(model, 'size', `takes no size in pixels, but resolution ${resolutions}`)
  throw unsupported(model, 'size', `takes resolution ${resolutions} and aspect ratio ${ratios}`)
}

function missingField(param: string, problem: string): GatewayError {
  return new GatewayError('missing_field', `${problem}.`, { param })
}
