import { file, type Model } from './fal-rules.ts'
import { syncMediaModels } from './fal-sync-models.ts'

const upTo = (max: number, min = 1) => Array.from({ length: max - min + 1 }, (_, i) => String(min + i))
const video = (files: string) => ({ video: file(`${files}/video.mp4`, 'video/mp4') })
const hunyuan = (files: string) => ({
  model_glb: file(`${files}/model.glb`, 'model/gltf-binary'),
  model_urls: {
    glb: file(`${files}/model.glb`, 'model/gltf-binary'),
    obj: file(`${files}/model.obj`, 'text/plain'),
    mtl: file(`${files}/model.mtl`, 'text/plain'),
    texture: file(`${files}/texture.png`, 'image/png'),
  },
  thumbnail: file(`${files}/thumbnail.png`, 'image/png'),
  seed: 7,
})

/** “Either prompt or multi_prompt must be provided”: of the two only `prompt` is known here. */
const kling = { prompt: 'text!', negative_prompt: 'text', generate_audio: 'boolean', duration: upTo(15, 3) } as const
const seedance = {
  prompt: 'text!',
  duration: upTo(12, 4),
  resolution: ['480p', '720p', '1080p'],
  aspect_ratio: ['21:9', '16:9', '4:3', '1:1', '3:4', '9:16', 'auto'],
  generate_audio: 'boolean',
  seed: 'seed',
} as const
const hunyuanOptions = { enable_pbr: 'boolean', face_count: [40_000, 1_500_000] } satisfies Model['input']

/** The models of the catalog and some that operators may add, from the schemas that fal publishes. */
export const models: Record<string, Model> = {
  ...syncMediaModels,
  'fal-ai/kling-video/v3/pro/text-to-video': {
    input: { ...kling, aspect_ratio: ['16:9', '9:16', '1:1'] },
    output: video,
  },
  'fal-ai/kling-video/v3/pro/image-to-video': {
    input: { ...kling, start_image_url: 'file!', end_image_url: 'file' },
    output: video,
  },
  'fal-ai/kling-video/v2.5-turbo/pro/image-to-video': {
    input: {
      prompt: 'text!',
      image_url: 'file!',
      tail_image_url: 'file',
      duration: ['5', '10'],
      negative_prompt: 'text',
    },
    output: video,
  },
  'fal-ai/kling-video/v3/pro/motion-control': {
    input: {
      prompt: 'text',
      image_url: 'file!',
      video_url: 'file!',
      character_orientation: ['image', 'video'],
      keep_original_sound: 'boolean',
    },
    output: video,
  },
  'fal-ai/bytedance/seedance/v1.5/pro/text-to-video': { input: seedance, output: video },
  'fal-ai/bytedance/seedance/v1.5/pro/image-to-video': {
    input: { ...seedance, image_url: 'file!', end_image_url: 'file' },
    output: video,
  },
  'fal-ai/minimax/hailuo-2.3/standard/text-to-video': {
    input: { prompt: 'text!', duration: ['6', '10'] },
    output: video,
  },
  'fal-ai/minimax/hailuo-2.3/standard/image-to-video': {
    input: { prompt: 'text!', image_url: 'file!', duration: ['6', '10'] },
    output: video,
  },
  'fal-ai/minimax/hailuo-2.3/pro/text-to-video': { input: { prompt: 'text!' }, output: video },
  'fal-ai/minimax/hailuo-2.3/pro/image-to-video': { input: { prompt: 'text!', image_url: 'file!' }, output: video },
  'fal-ai/bytedance/seedance/v1/lite/reference-to-video': {
    input: { prompt: 'text!', reference_image_urls: 'file[]!', duration: upTo(12, 2) },
    output: video,
  },
  'fal-ai/heygen/avatar4/image-to-video': {
    input: { prompt: 'text', voice: 'text', image_url: 'file!', audio_url: 'file' },
    output: video,
  },
  'half-moon-ai/ai-face-swap/faceswapvideo': {
    input: { source_face_url: 'file!', target_video_url: 'file!' },
    output: video,
  },
  'fal-ai/bytedance/omnihuman/v1.5': {
    input: { prompt: 'text', image_url: 'file!', audio_url: 'file!', resolution: ['720p', '1080p'] },
    output: files => ({ ...video(files), duration: 3.2 }),
  },
  'fal-ai/hunyuan3d-v3/text-to-3d': { input: { ...hunyuanOptions, prompt: 'text!' }, output: hunyuan },
  'fal-ai/hunyuan3d-v3/image-to-3d': {
    input: {
      ...hunyuanOptions,
      input_image_url: 'file!',
      back_image_url: 'file',
      left_image_url: 'file',
      right_image_url: 'file',
    },
    output: hunyuan,
  },
  'fal-ai/trellis': {
    input: { image_url: 'file!', seed: 'seed' },
    output: files => ({ model_mesh: file(`${files}/model.glb`, 'model/gltf-binary'), timings: {} }),
  },
}
