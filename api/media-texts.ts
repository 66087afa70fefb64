import type { QueuedKind } from '../shared/kinds/index.ts'

/** What the documentation says of a kind of slow work. `name`: of the thing, in the names of calls; `noun`: in summaries. */
export type MediaTexts = { tag: string; name: string; noun: string; description: string; example: object }
export const mediaTexts: Record<QueuedKind, MediaTexts> = {
  video: {
    tag: 'Video',
    name: 'Video',
    noun: 'a video',
    description:
      'Text to video; from a first frame with `start_image_url`; from references; or a motion copied from `input_video_url`. Charged at creation per second, refunded when it fails.',
    example: { model: 'veo-3.1-fast', prompt: 'A lighthouse at dusk, waves below', seconds: 4 },
  },
  lipsync: {
    tag: 'Lip sync',
    name: 'LipSync',
    noun: 'a lip sync',
    description:
      'A still (`image_url`) or a clip (`video_url`) speaks `audio_url`. Charged at creation by the length of the driving media, which the service measures.',
    example: { video_url: 'https://example.com/speaker.mp4', audio_url: 'https://example.com/greeting.wav' },
  },
  face_swap: {
    tag: 'Face swap',
    name: 'FaceSwap',
    noun: 'a face swap',
    description: 'Puts a face into a video. An amount is held, and settled from the provider’s invoice.',
    example: {
      video_url: 'https://example.com/speaker.mp4',
      face_image_url: 'https://example.com/portrait.png',
      source_face_consent: true,
    },
  },
  avatar: {
    tag: 'Talking avatars',
    name: 'AvatarVideo',
    noun: 'an avatar video',
    description:
      'An avatar of the catalog or your own picture says a script or an audio. An amount is held, and settled by the length of the video.',
    example: {
      image_url: 'https://example.com/portrait.png',
      source_face_consent: true,
      audio_url: 'https://example.com/greeting.wav',
    },
  },
  mesh: {
    tag: '3D',
    name: 'Mesh',
    noun: 'a mesh',
    description: 'From text, an image, or several views. A flat price, charged at creation, refunded when it fails.',
    example: { prompt: 'A wooden chest with iron fittings', pbr: true },
  },
}
