import { png } from '../support/media/png.ts'
import { file, type Model, sizes } from './fal-rules.ts'
import type { Json } from './slow-work.ts'

/** The models of images, music and sound effects, from the schemas that fal publishes. */

type Size = { width: number; height: number }

const jpegOrPng = ['jpeg', 'png']
const anyFormat = ['jpeg', 'png', 'webp']
const ratios = ['21:9', '16:9', '3:2', '4:3', '5:4', '1:1', '4:5', '3:4', '2:3', '9:16']
const tolerance = ['1', '2', '3', '4', '5', '6']
const usual = { prompt: 'text!', num_images: [1, 4], seed: 'seed', sync_mode: 'boolean' } as const

const flux = {
  ...usual,
  image_size: 'size',
  num_inference_steps: [1, 50],
  guidance_scale: [1, 20],
  output_format: jpegOrPng,
  acceleration: ['none', 'regular', 'high'],
  enable_safety_checker: 'boolean',
} as const
const fluxPro = {
  ...usual,
  image_size: 'size',
  output_format: jpegOrPng,
  safety_tolerance: tolerance,
  enhance_prompt: 'boolean',
} as const
const { image_size: _, ...fluxUltra } = fluxPro
const banana = {
  ...usual,
  aspect_ratio: ratios,
  output_format: anyFormat,
  safety_tolerance: tolerance,
  limit_generations: 'boolean',
} as const
const gptImage = {
  prompt: 'text!',
  num_images: [1, 4],
  image_size: ['1024x1024', '1536x1024', '1024x1536'],
  quality: ['low', 'medium', 'high'],
  background: ['auto', 'transparent', 'opaque'],
  output_format: anyFormat,
} as const

/** Every image of a prompt with the word `blackened` is flagged, the first one of a prompt with `half blackened`. */
const checked = (sizeOf: (body: Json) => Size, format: string) => (files: string, body: Json) => {
  const { images } = unchecked(sizeOf, format)(files, body)
  const isFlagged = (i: number) => /blackened/.test(body.prompt) && (i === 0 || !/half blackened/.test(body.prompt))
  return { images, seed: 7, prompt: body.prompt, has_nsfw_concepts: images.map((_, i) => isFlagged(i)), timings: {} }
}

const unchecked = (sizeOf: (body: Json) => Size, format: string) => (files: string, body: Json) => {
  const { width, height } = sizeOf(body)
  const type = body.output_format ?? format
  const address = (i: number) =>
    body.sync_mode
      ? `data:image/png;base64,${png(64).toString('base64')}`
      : `${files}/image-${width}x${height}-${i}.${type}`
  const images = Array.from({ length: body.num_images ?? 1 }, (_, i) => file(address(i), `image/${type}`))
  return { images: images.map(image => ({ ...image, width, height })) }
}

const bySize =
  (name: string) =>
  ({ image_size }: Json): Size =>
    typeof image_size === 'object' ? image_size : sizes[image_size ?? name]!
const byText = ({ image_size = '1024x1024' }: Json): Size => {
  const [width, height] = image_size.split('x').map(Number)
  return { width, height }
}
/** About a megapixel. */
const byRatio =
  (ratio: string) =>
  ({ aspect_ratio = ratio }: Json): Size => {
    const [x, y] = aspect_ratio.split(':').map(Number)
    const side = (share: number) => Math.round((1024 * Math.sqrt(share)) / 8) * 8
    return { width: side(x / y), height: side(y / x) }
  }

/** ElevenLabs' names of formats: `mp3_44100_128`. */
const elevenLabsFormats = ['mp3_22050_32', 'mp3_44100_128', 'pcm_24000', 'pcm_44100', 'opus_48000_64', 'opus_48000_128']
const elevenLabs = (secondsOf: (body: Json) => number) => (files: string, body: Json) => {
  const [format] = (body.output_format ?? 'mp3_44100_128').split('_')
  return { audio: file(`${files}/sound-${secondsOf(body)}.${format}`, 'audio/mpeg') }
}
const cassette: Model = {
  input: { prompt: 'text!', duration: 'number!' },
  output: (files, { duration }) => ({ audio_file: file(`${files}/sound-${duration}.wav`, 'audio/wav') }),
}

export const syncMediaModels: Record<string, Model> = {
  'fal-ai/flux/schnell': { input: flux, output: checked(bySize('landscape_4_3'), 'jpeg') },
  'fal-ai/flux-pro/v1.1': { input: fluxPro, output: checked(bySize('landscape_4_3'), 'jpeg') },
  'fal-ai/flux-pro/v1.1-ultra': {
    input: { ...fluxUltra, aspect_ratio: 'text', image_url: 'file', image_prompt_strength: [0, 1], raw: 'boolean' },
    output: checked(byRatio('16:9'), 'jpeg'),
  },
  'fal-ai/ideogram/v3': {
    input: {
      ...usual,
      image_size: 'size',
      image_urls: 'file[]',
      negative_prompt: 'text',
      rendering_speed: ['TURBO', 'BALANCED', 'QUALITY'],
      style: ['AUTO', 'GENERAL', 'REALISTIC', 'DESIGN'],
      expand_prompt: 'boolean',
    },
    output: unchecked(bySize('square_hd'), 'png'),
  },
  'fal-ai/recraft/v3/text-to-image': {
    input: { prompt: 'text!', image_size: 'size', style: 'text', style_id: 'text', enable_safety_checker: 'boolean' },
    output: unchecked(bySize('square_hd'), 'webp'),
  },
  'fal-ai/nano-banana': { input: banana, output: unchecked(byRatio('1:1'), 'png') },
  'fal-ai/nano-banana/edit': {
    input: { ...banana, aspect_ratio: ['auto', ...ratios], image_urls: 'file[]!' },
    output: unchecked(byRatio('1:1'), 'png'),
  },
  'fal-ai/bytedance/seedream/v3/text-to-image': {
    input: { ...usual, image_size: 'size', guidance_scale: [1, 10], enable_safety_checker: 'boolean' },
    output: unchecked(bySize('square_hd'), 'png'),
  },
  'fal-ai/gpt-image-1.5': { input: gptImage, output: unchecked(byText, 'png') },
  'fal-ai/gpt-image-1.5/edit': {
    input: { ...gptImage, image_urls: 'file[]!', mask_image_url: 'file', input_fidelity: ['low', 'high'] },
    output: unchecked(byText, 'png'),
  },
  'fal-ai/elevenlabs/music': {
    input: {
      prompt: 'text',
      music_length_ms: [3_000, 600_000],
      force_instrumental: 'boolean',
      output_format: elevenLabsFormats,
    },
    output: elevenLabs(({ music_length_ms = 3_000 }) => music_length_ms / 1_000),
  },
  'fal-ai/minimax-music/v2': {
    input: { prompt: 'text!', lyrics_prompt: 'text!' },
    output: files => ({ audio: file(`${files}/sound-2.mp3`, 'audio/mpeg') }),
  },
  'sonauto/v2/text-to-music': {
    input: {
      prompt: 'text',
      lyrics_prompt: 'text',
      num_songs: [1, 2],
      output_format: ['flac', 'mp3', 'wav', 'ogg', 'm4a'],
    },
    output: (files, { output_format = 'wav' }) => ({
      audio: [file(`${files}/sound-2.${output_format}`, 'audio/wav')],
      seed: 7,
      tags: [],
      lyrics: '',
    }),
  },
  'CassetteAI/music-generator': cassette,
  'cassetteai/sound-effects-generator': cassette,
  'fal-ai/elevenlabs/sound-effects/v2': {
    input: {
      text: 'text!',
      duration_seconds: [0.5, 22],
      loop: 'boolean',
      prompt_influence: [0, 1],
      output_format: elevenLabsFormats,
    },
    output: elevenLabs(({ duration_seconds = 1 }) => duration_seconds),
  },
}
