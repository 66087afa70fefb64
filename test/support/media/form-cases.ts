import { videoFile } from '../../../shared/providers/sandbox/media/video-file.ts'
import { png } from './png.ts'
import { wav } from './sounds.ts'

/** The engine's requests by path: every provider, every kind it serves, every way to start. */

export type File = { bytes: Buffer; type: string }
type More = {
  /** Held at creation, charged at the end. */
  held?: true
  /** How often the provider is asked to start something. */
  parts?: number
  roles?: string[]
}
export type Case = More & {
  provider: string
  model: string
  what: string
  /** The price of the catalog per unit, with 5 % margin. */
  usd: number
  body: object
  /** The files of the body, by field; a list for a field that is one. */
  files: Record<string, File | File[]>
}

function row(
  provider: string,
  model: string,
  what: string,
  usd: number,
  body: object,
  files: Case['files'] = {},
  more: More = {},
): Case {
  return { provider, model, what, usd, body, files, ...more }
}

const picture = (side: number): File => ({ bytes: png(side), type: 'image/png' })
const [image, other, third] = [picture(8), picture(9), picture(10)]
const voice = (seconds: number): File => ({ bytes: wav(seconds * 1_000), type: 'audio/wav' })
const clip = async (seconds: number): Promise<File> => ({
  bytes: await videoFile({ seconds }),
  type: 'video/mp4',
})
const [short, long] = [await clip(3), await clip(4)]

const prompt = { prompt: 'A heron on a lake' }
const consent = { source_face_consent: true }
const speech = { avatar_id: 'look_0', script: 'Good morning to everybody.', voice_id: 'voice_0' }

const start = { start_image_url: image }
const frames = { start_image_url: image, end_image_url: other }
const motion = { start_image_url: image, input_video_url: long }
const change = { input_video_url: short }
const dub = { video_url: long, audio_url: voice(3) }
const still = { image_url: image, audio_url: voice(3) }
const swap = { video_url: short, face_image_url: image }
const views = { image_urls: [image, other, third] }
const several = { input_references: [image, other, third] }
const mixed = { input_references: [image], input_video_references: [short], input_audio_references: [voice(3)] }

const held = { held: true } as const
const meshy = ['glb', 'fbx', 'obj', 'mtl', 'texture', 'thumbnail']
const pbr = ['glb', 'fbx', 'obj', 'mtl', 'texture', 'texture', 'texture', 'texture', 'thumbnail']
const hunyuan = ['glb', 'obj', 'mtl', 'texture', 'thumbnail']

export const mediaCases: Record<string, Case[]> = {
  '/v1/videos': [
    row('fal', 'seedance-1.5-pro', 'text', 0.61236, { ...prompt, seconds: 5, resolution: '1080p', seed: 7 }),
    row('fal', 'kling-v2.5-turbo-pro', 'two frames', 0.3675, prompt, frames),
    row('fal', 'kling-v3-pro-motion-control', 'a motion', 0.5292, {}, motion),
    row('fal', 'fal-references', 'references', 0.2625, prompt, several),
    row('replicate', 'replicate-video', 'text', 0.42, { ...prompt, seconds: 8, aspect_ratio: '9:16', audio: true }),
    row('replicate', 'replicate-video', 'two frames', 0.2625, { ...prompt, seed: 1 }, frames),
    row('replicate', 'replicate-video', 'a video', 0.1575, prompt, change),
    row('gemini', 'veo-3.1-lite', 'text', 0.672, { ...prompt, seconds: 8, resolution: '1080p', negative_prompt: 'x' }),
    row('gemini', 'veo-3.1-fast', 'an image', 0.945, { ...prompt, seconds: 6, audio: true }, start),
    row('gemini', 'veo-3.1', 'two frames', 3.36, { seconds: 8 }, frames),
    row('gemini', 'veo-3.1-fast', 'references', 1.26, prompt, several),
    row('runway', 'runway-gen4.5', 'text', 0.63, { ...prompt, seconds: 5, aspect_ratio: '9:16' }),
    row('runway', 'runway-gen4-turbo', 'an image', 0.2625, { seconds: 5, aspect_ratio: '21:9' }, start),
    row('runway', 'runway-act-two', 'a motion', 0.21, {}, motion),
    row('runway', 'runway-gen4-aleph', 'a video', 0.4725, prompt, change),
    row('kling', 'kling-v3-standard', 'text', 0.441, { ...prompt, seconds: 5 }),
    row('kling', 'kling-v3-pro', 'two frames', 0.882, prompt, frames),
    row('kling', 'kling-references', 'references', 0.525, prompt, several),
    row('kling', 'kling-motion', 'a motion', 0.42, { audio: false }, motion),
    row('openrouter', 'openrouter-video', 'text', 0.42, { ...prompt, seconds: 8, size: '720x1280' }),
    row('openrouter', 'openrouter-video', 'two frames', 0.2625, prompt, frames),
    row('openrouter', 'openrouter-video', 'references', 0.2625, prompt, mixed),
    row('acme', 'acme-video', 'text', 0.21, { ...prompt, seconds: '4', size: '720x1280' }),
    row('acme', 'acme-video', 'an image', 0.42, { ...prompt, seconds: 8 }, start),
  ],
  '/v1/lipsync': [
    row('fal', 'omnihuman-1.5', 'a still', 0.504, {}, still),
    row('replicate', 'replicate-lipsync', 'a clip', 0.042, {}, dub),
    row('heygen', 'heygen-lipsync-speed', 'a clip', 0.1386, {}, dub),
    row('sync', 'lipsync-2', 'a clip', 0.315, {}, { video_url: short, audio_url: voice(6) }),
  ],
  '/v1/face-swap': [
    row('magic_hour', 'magic-hour-face-swap', 'a clip', 0.06804, consent, swap, held),
    row('akool', 'akool', 'a clip', 0.1155, consent, swap, held),
    row('fal', 'fal-face-swap', 'a clip', 0.08295, consent, swap, held),
    row('replicate', 'replicate-face-swap', 'a clip', 0.13125, consent, swap, held),
  ],
  // The finished videos are one second long.
  '/v1/avatars/videos': [
    row('heygen', 'heygen-avatar-iv', 'a script', 0.070035, speech, {}, held),
    row('heygen', 'heygen-photo-avatar-iv', 'an own picture', 0.070035, { ...consent, resolution: '4k' }, still, held),
    row('fal', 'fal-avatar', 'an own picture', 0.0525, consent, still, held),
  ],
  '/v1/meshes': [
    row('meshy', 'meshy-6', 'text', 0.525, { ...prompt, pbr: true }, {}, { parts: 2, roles: pbr }),
    row('meshy', 'meshy-6', 'an image', 0.525, {}, { image_url: image }, { roles: meshy }),
    row('meshy', 'meshy-6', 'views', 0.525, { target_polycount: 900 }, views, { roles: meshy }),
    row('fal', 'hunyuan3d-v3', 'text', 0.55125, { ...prompt, pbr: true }, {}, { roles: hunyuan }),
    row('fal', 'trellis', 'an image', 0.021, { seed: 3 }, { image_url: image }, { roles: ['glb'] }),
    row('fal', 'hunyuan3d-v3', 'views', 0.39375, {}, views, { roles: hunyuan }),
    row('replicate', 'replicate-mesh', 'views', 0.105, {}, views, { roles: ['glb'] }),
  ],
}
