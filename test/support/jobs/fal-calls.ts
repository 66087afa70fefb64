import type { VideoInput } from '../../../shared/kinds/video.ts'
import type { QueuedCall, Source } from '../../../shared/providers/contract.ts'
import { callOf } from './queued-adapter.ts'
import { audioSource, imageSource } from './sources.ts'
import { videoCall } from './video-calls.ts'

/** Calls of the catalog's models at fal, ready to be sent. */

/** From text, of 5 seconds in 1080p. */
export const falVideo = (
  model: string,
  more: Partial<VideoInput> = {},
  sources: Record<string, Source> = {},
  callbackUrl: string | null = null,
): QueuedCall<'video'> => ({
  ...videoCall('fal', model, { prompt: 'a fox', resolution: '1080p', ...more }, sources),
  callbackUrl,
})
export const falLipsync = (more: object = {}) =>
  callOf<'lipsync'>(
    'fal',
    'omnihuman-1.5',
    { takes: 'image', prompt: null, resolution: null, seconds: 8, audioSeconds: 8, ...more },
    { image_url: imageSource, audio_url: audioSource },
  )
const mesh = {
  from: 'text',
  prompt: 'a chair',
  images: 0,
  texture: true,
  pbr: false,
  texturePrompt: null,
  targetPolycount: null,
  topology: null,
  seed: null,
} as const
export const falMesh = (model: string, more: object = {}, sources = {}) =>
  callOf<'mesh'>('fal', model, { ...mesh, ...more }, sources)
