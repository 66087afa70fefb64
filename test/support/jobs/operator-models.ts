import {
  type Deployment,
  type ModelRow,
  modelRow,
  type ProviderRow,
  providerRow,
} from '../../../shared/catalog/schema.ts'

/** Models as an operator describes them (`MODEL_CATALOG`), for providers of which the shipped catalog has none. */

type Described = { type: ModelRow['type']; kind: ModelRow['kind'] } & Pick<Deployment, 'price' | 'traits'>

/** A row of a model at one provider. */
export function described(id: string, provider: string, upstream_model: string, row: Described): ModelRow {
  const { type, kind, price, traits } = row
  return modelRow.parse({
    id,
    name: id,
    type,
    kind,
    owned_by: 'acme',
    created: 0,
    description: '',
    context_length: null,
    max_output_tokens: null,
    input_modalities: [],
    output_modalities: [],
    supported_parameters: [],
    quality: null,
    expires_on: null,
    price_source: 'the operator',
    price_as_of: '2026-11-20',
    providers: [{ provider, upstream_model, price, ...(traits && { traits }) }],
  })
}

const second = (usd: string) => ({ unit: 'second', usd }) as const
const credit = (usd: string, max_credits: number) => ({ unit: 'credit', usd, max_credits }) as const
const clip = { durations: [4, 5, 8], resolutions: ['720p'], aspect_ratios: ['16:9', '9:16'] }
const duration_format = 'number'

/** A server in OpenAI's form. */
export const acmeProvider: ProviderRow = providerRow.parse({
  name: 'acme',
  protocol: 'openai',
  base_url: 'https://acme.example/v1',
  auth: 'bearer',
  quirks: { videos: 'openai' },
})

export const operatorModels: ModelRow[] = [
  described('fal-references', 'fal', 'fal-ai/bytedance/seedance/v1/lite/reference-to-video', {
    type: 'video',
    kind: { modes: ['reference'], durations: [5, 10] },
    price: second('0.05'),
    traits: { images_field: 'reference_image_urls', duration_format: 'string' },
  }),
  described('fal-avatar', 'fal', 'fal-ai/heygen/avatar4/image-to-video', {
    type: 'avatar',
    kind: { sources: ['image_url'] },
    price: second('0.05'),
    traits: { image_field: 'image_url', audio_field: 'audio_url', script_field: 'prompt', voice_field: 'voice' },
  }),
  described('fal-face-swap', 'fal', 'half-moon-ai/ai-face-swap/faceswapvideo', {
    type: 'face_swap',
    kind: { max_duration_s: 60 },
    price: credit('0.1', 60),
    traits: { video_field: 'target_video_url', face_field: 'source_face_url' },
  }),
  described('replicate-video', 'replicate', 'acme/films', {
    type: 'video',
    kind: { ...clip, modes: ['text', 'image', 'video'], end_image: true, seed: true, audio: true },
    price: second('0.05'),
    traits: {
      image_field: 'first_frame',
      end_image_field: 'last_frame',
      video_field: 'video',
      duration_format,
      aspect_ratio_field: 'aspect_ratio',
      seed_field: 'seed',
      sound_field: 'sound',
      input: { fps: 24 },
    },
  }),
  described('replicate-lipsync', 'replicate', `acme/lips:${'a'.repeat(64)}`, {
    type: 'lipsync',
    kind: { takes: 'video' },
    price: second('0.01'),
    traits: { video_field: 'face', audio_field: 'voice' },
  }),
  described('replicate-face-swap', 'replicate', 'acme/faces', {
    type: 'face_swap',
    kind: { max_duration_s: 60 },
    price: credit('0.01', 360),
    traits: { video_field: 'target', face_field: 'face', deployment: true },
  }),
  described('replicate-mesh', 'replicate', 'acme/meshes', {
    type: 'mesh',
    kind: { inputs: ['text', 'multi_image'], options: [] },
    price: { unit: 'flat', usd: '0.1' },
    traits: { images_field: 'images', output_field: 'model_file' },
  }),
  described('kling-references', 'kling', 'kling-v1-6', {
    type: 'video',
    kind: { modes: ['reference'], durations: [5, 10], aspect_ratios: ['16:9'] },
    price: second('0.1'),
    traits: { mode: 'std' },
  }),
  described('kling-motion', 'kling', 'kling-v2-6', {
    type: 'video',
    kind: { modes: ['motion_control'], audio: true },
    price: second('0.1'),
    traits: { mode: 'pro' },
  }),
  described('akool', 'akool', 'faceswap-plus', {
    type: 'face_swap',
    kind: { max_duration_s: 60 },
    price: credit('0.01', 600),
  }),
  described('openrouter-video', 'openrouter', 'acme/films', {
    type: 'video',
    kind: {
      ...clip,
      modes: ['text', 'image', 'reference'],
      references: ['image', 'video', 'audio'],
      end_image: true,
      seed: true,
      audio: true,
    },
    price: second('0.05'),
  }),
  described('acme-video', 'acme', 'films-2', {
    type: 'video',
    kind: { ...clip, modes: ['text', 'image'] },
    price: second('0.05'),
  }),
]
