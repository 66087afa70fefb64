import { callOf } from './queued-adapter.ts'
import { audioSource, imageSource } from './slow-work.ts'

/** Calls of the catalog's models at fal, ready to be sent. */

const video = {
  mode: 'text',
  prompt: 'a fox',
  seconds: 5,
  resolution: '1080p',
  aspectRatio: null,
  negativePrompt: null,
  seed: null,
  audio: null,
} as const
export const videoCall = (model: string, more: object = {}, sources = {}, callbackUrl: string | null = null) =>
  callOf<'video'>('fal', model, { ...video, ...more }, sources, callbackUrl)
export const lipsyncCall = (more: object = {}) =>
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
export const meshCall = (model: string, more: object = {}, sources = {}) =>
  callOf<'mesh'>('fal', model, { ...mesh, ...more }, sources)
