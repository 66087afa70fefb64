import type { QueuedKind } from '../../shared/kinds/index.ts'

/** Documentation texts of a kind of slow work. `name`: used in operation ids; `noun`: used in summaries. */
type MediaTexts = { tag: string; name: string; noun: string; description: string; example: object }
export const mediaTexts: Record<QueuedKind, MediaTexts> = {
  video: {
    tag: 'Video',
    name: 'Video',
    noun: 'a video',
    description:
      'Creates a video from text, a first frame (`start_image_url`), references, or a motion reference (`input_video_url`). Charged per second at creation and refunded if the job fails.',
    example: { model: 'veo-3.1-fast', prompt: 'A lighthouse at dusk, waves below', seconds: 4 },
  },
  lipsync: {
    tag: 'Lip sync',
    name: 'LipSync',
    noun: 'a lip-sync job',
    description:
      'Makes a still image (`image_url`) or a clip (`video_url`) speak `audio_url`. Charged at creation by the measured length of the driving media.',
    example: { video_url: 'https://example.com/speaker.mp4', audio_url: 'https://example.com/greeting.wav' },
  },
  face_swap: {
    tag: 'Face swap',
    name: 'FaceSwap',
    noun: 'a face-swap job',
    description: 'Swaps a face into a video. The maximum cost is held, then settled from the provider’s invoice.',
    example: {
      video_url: 'https://example.com/speaker.mp4',
      face_image_url: 'https://example.com/portrait.png',
      source_face_consent: true,
    },
  },
  avatar: {
    tag: 'Talking avatars',
    name: 'AvatarVideo',
    noun: 'a talking-avatar video',
    description:
      'Makes a catalog avatar or your own picture speak a script or an audio file. The maximum cost is held, then settled by the length of the video.',
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
    description:
      'Creates a mesh from text, one image or several views. Charged a flat price at creation and refunded if the job fails.',
    example: { prompt: 'A wooden chest with iron fittings', pbr: true },
  },
}
