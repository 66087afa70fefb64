import { z } from 'zod'
import dialects from './dialects.json' with { type: 'json' }
import { servedTraits } from './provider-quirks.ts'

const flag = z.boolean()
const text = z.string().min(1)
const texts = z.array(text)
const field = (what: string) => text.describe(`The model's field for ${what}.`)

/** Traits of chat models; what the model accepts in a request is its profile (`chat-profile.ts`). */
const chatTraits = {
  reasoning: flag.describe('True: the model may reason, which may be hidden. Implied by `thinking`.'),
  thinking: z
    .enum(['adaptive', 'budget', 'level'])
    .describe('How it takes an effort: Anthropic `adaptive` or `budget`, Gemini `budget` or `level`.'),
  thinking_off: flag.describe('False: its thinking cannot be turned off.'),
  min_thinking: z.literal('low').describe('The lowest level of its thinking (Gemini).'),
  min_thinking_budget: z.int().positive().describe('The lowest budget of its thinking, in tokens (Gemini).'),
  effort: flag.describe('True: it takes `output_config.effort` (Anthropic).'),
  max_output_tokens: z
    .int()
    .positive()
    .describe("The longest answer at this provider, if that is shorter than the row's."),
  web_searches: z
    .int()
    .min(1)
    .max(20)
    .describe('It searches the web by itself, in one request at most so often; `web_search` is the price of each.'),
  context_length: z.int().positive().describe("The longest prompt at this provider, if that is longer than the row's."),
}

/** Names of request fields, for providers of media whose models differ in their fields. */
const modelFields = {
  model: text.describe('The model that is called instead of `upstream_model`.'),
  prompt_field: text.describe("The model's field for the prompt; `prompt` by default."),
  needs_prompt: flag.describe('True: a request without a prompt is refused (also Runway).'),
  image_field: field('the image, or the first frame'),
  end_image_field: field('the last frame'),
  video_field: field('the video'),
  audio_field: field('the audio'),
  face_field: field('the image of a face'),
  mask_field: field('the mask of an image'),
  images_field: field('a list of images: references, or the views of a mesh'),
  videos_field: field('a list of reference videos'),
  audios_field: field('a list of reference audios'),
  view_fields: texts.describe("The model's fields for further views of a mesh, one field each."),
  duration_format: z
    .enum(['string', 'string_s', 'number', 'number_ms'])
    .describe('A length as `"5"`, `"5s"`, `5`, or in milliseconds; without it the model must have one length.'),
  duration_field: text.describe("The model's field for the length; `duration` by default."),
  resolution_field: field('the resolution'),
  aspect_ratio_field: field('the aspect ratio'),
  aspect_ratios: texts.describe(
    "The aspect ratios of an image that it takes; by default the row's `kind.aspect_ratios`.",
  ),
  negative_prompt_field: field('the negative prompt'),
  seed_field: field('the seed'),
  sound_field: field('whether a video has sound'),
  n_field: field('the number of images; without it the gateway sends a request per image, concurrently'),
  size_field: field('the size of an image in pixels, in the form of `size_format`'),
  size_format: z
    .enum(['object', 'text'])
    .describe('A size as `{"width": 1024, "height": 768}` (default) or `"1024x768"`.'),
  width_field: field('the width of an image, instead of `size_field`'),
  height_field: field('the height of an image, instead of `size_field`'),
  most_pixels: z.int().positive().describe('Larger images are refused, as they cost more than the price.'),
  pixels: z
    .int()
    .positive()
    .describe(
      'The pixels of its images, 1,048,576 by default. Without a field for it, a size of half to twice as many becomes its aspect ratio.',
    ),
  quality_field: field('the quality of an image'),
  background_field: field('the background of an image'),
  compression_field: field('the compression of an image'),
  fidelity_field: field('the fidelity to the input images'),
  moderation_field: field('the moderation of an image'),
  formats: texts.describe(
    "The file formats that it gives, its default first. Without a list, the format of an image cannot be chosen, and sound has the first of the row's `kind.formats`, else MP3.",
  ),
  format_names: z.record(z.string(), text).describe('Its own names of these formats, e.g. `{"jpeg": "jpg"}`.'),
  format_field: field('the file format; without it only the default is available'),
  lyrics_field: field('the lyrics of a song'),
  needs_lyrics: flag.describe('True: a request without lyrics is refused.'),
  instrumental_field: field('whether a song is instrumental'),
  avatar_field: field('the id of an avatar'),
  script_field: field('the text that an avatar speaks'),
  voice_field: field('the id of a voice'),
  texture_field: field('whether a mesh has a texture'),
  pbr_field: field('whether a mesh has maps for physically based rendering'),
  texture_prompt_field: field('the prompt of a texture'),
  target_polycount_field: field('the number of polygons'),
  topology_field: field('the topology of a mesh'),
}

const fieldTraits = z.strictObject(modelFields).partial()
export type FieldTraits = z.infer<typeof fieldTraits>

/** The modes that the fields of a model may differ by (`by_mode`). */
const fieldModes = z
  .strictObject({
    text: fieldTraits,
    image: fieldTraits,
    reference: fieldTraits,
    motion_control: fieldTraits,
    video: fieldTraits,
    avatar: fieldTraits,
    multi_image: fieldTraits,
    edit: fieldTraits,
  })
  .partial()
export type FieldMode = keyof z.infer<typeof fieldModes>

/** Traits of models that are not of chat. */
const mediaTraits = {
  dialect: z.enum(dialects.realtime).describe('The events of its realtime sessions.'),
  transcription: flag.describe('True: its realtime sessions may only transcribe (`intent=transcription`).'),
  diarizes: flag.describe('True: it tells speakers apart, without word timestamps (OpenAI).'),
  max_prompt_characters: z
    .int()
    .positive()
    .describe("The end of a longer prompt of a transcription is sent (OpenAI's protocol)."),
  any_language: text.describe('The language of a transcription without one, for a model without detection (Deepgram).'),
  api: z.literal('interactions').describe('Speech by `POST /interactions`; else by `generateContent` (Gemini).'),
  transparency: flag.describe("False: it draws no transparent background (OpenAI's protocol)."),
  fidelity: flag.describe("False: it takes no `input_fidelity` (OpenAI's protocol)."),
  most_images: z.int().positive().describe("The most images of a request; 10 by default (OpenAI's protocol)."),
  mode: text.describe("The provider's mode: Kling `std` or `pro`, HeyGen's lip sync `speed` or `precision` (default)."),
  orientation: z
    .enum(['image', 'video'])
    .describe('Which input a moved character faces as; `video` by default (Kling).'),
  sound: flag.describe('Whether a video has sound if the request does not say so (Kling).'),
  sync_mode: text.describe('How a lip sync handles audio and video of different lengths; `loop` by default (Sync).'),
  version: text.describe('The `style.version` of a face swap; `default` by default (Magic Hour).'),
  model_style: z
    .enum(['realistic', 'beautify', 'lossless'])
    .describe('The style of a face swap; `realistic` by default (Akool).'),
  face_enhance: flag.describe('Whether a face swap enhances the face (Akool).'),
  deployment: flag.describe('True: `upstream_model` names a deployment (Replicate).'),
  output_field: text.describe("The field of the result's main file, if it is not a usual one (fal, Replicate)."),
  input: z
    .record(z.string(), z.union([z.string(), z.number(), z.boolean()]))
    .describe('Fields that are sent in every request, with their values (fal, Replicate).'),
  by_mode: fieldModes.describe('Fields of the model that differ by the mode (fal, Replicate).'),
}

/** Facts of one model at one provider, for adapters. The tables in docs/providers.md are made of these. */
export const deploymentTraits = z
  .strictObject({ ...servedTraits, ...chatTraits, ...mediaTraits, ...modelFields })
  .partial()
export type DeploymentTraits = z.infer<typeof deploymentTraits>

/** The traits that are not quirks as well, by what they describe. */
export const traitGroups = { chat: chatTraits, media: mediaTraits, fields: modelFields } as const

const chatNames: ReadonlySet<string> = new Set(Object.keys({ ...servedTraits, ...chatTraits }))

/** The names among a chat model's traits that only other models have. */
export function foreignToChat(traits: DeploymentTraits): string[] {
  return Object.keys(traits).filter(name => !chatNames.has(name))
}
