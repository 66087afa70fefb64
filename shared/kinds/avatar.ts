import { z } from 'zod'
import { GatewayError } from '../base/errors.ts'
import { assertConsent, sourceFaceConsent } from './consent.ts'
import {
  checkLength,
  chooseOption,
  common,
  exactlyOneOf,
  fieldOf,
  lengthOf,
  listOf,
  type QueuedKindRow,
  referenceTo,
  resolution,
  secondsNano,
  unsupported,
} from './media.ts'

const id = z.string().min(1).max(200)

const avatarRequest = z
  .strictObject({
    ...common,
    avatar_id: id.optional().describe('An id of GET /v1/avatars; either this or `image_url`.'),
    image_url: referenceTo('image').optional().describe('Your own picture; needs `source_face_consent`.'),
    source_face_consent: sourceFaceConsent,
    script: z
      .string()
      .min(1)
      .max(5_000)
      .optional()
      .describe('What is said, with `voice_id`; either this or `audio_url`.'),
    voice_id: id.optional().describe('An id of GET /v1/avatars/voices.'),
    audio_url: referenceTo('audio').optional().describe('What is said, as audio.'),
    resolution: resolution.optional().describe('Such as `720p`, `1080p`, `4k`; without it, the model’s first.'),
    aspect_ratio: z
      .string()
      .regex(/^\d{1,2}:\d{1,2}$/, 'such as 16:9')
      .optional()
      .describe('Such as `16:9`; without it, the model’s own.'),
  })
  .meta({
    id: 'CreateAvatarVideoRequest',
    oneOf: exactlyOneOf(
      ['avatar_id', 'script'],
      ['avatar_id', 'audio_url'],
      ['image_url', 'script'],
      ['image_url', 'audio_url'],
    ),
    dependentRequired: { image_url: ['source_face_consent'], script: ['voice_id'] },
  })
type AvatarRequest = z.infer<typeof avatarRequest>

/** Adapter input of a talking avatar: `avatarId` or the reference `image_url`, `script` or `audio_url`. */
export type AvatarInput = {
  avatarId: string | null
  script: string | null
  voiceId: string | null
  resolution: string | null
  aspectRatio: string | null
  /** Maximum length of the video, whose cost is held until the real length is known. */
  estimatedSeconds: number
  /** Stored with the job: the caller stated that the face's owner consented. */
  sourceFaceConsent: boolean
}

/** Speech of 150 words a minute; in scripts without spaces, two characters count as a word. */
const wordsPerSecond = 2.5
/** Allowance for slow voices and pauses. */
const allowance = { factor: 1.5, seconds: 5 }

export const avatar: QueuedKindRow<AvatarRequest, AvatarInput> = {
  object: 'avatar_video.job',
  idPrefix: 'job',
  path: '/v1/avatars/videos',
  modelsPath: '/v1/avatars/models',
  type: 'avatar',
  request: avatarRequest,
  listed: ['sources'],
  references: body => [
    ...fieldOf('image_url', body.image_url, 'image'),
    ...fieldOf('audio_url', body.audio_url, 'audio', true),
  ],
  input(body, model, references) {
    const source = requireExactlyOne(body, 'avatar_id', 'image_url')
    const speech = requireExactlyOne(body, 'script', 'audio_url')
    if (source === 'image_url') assertConsent(body.source_face_consent)
    if (!listOf(model, 'sources').includes(source)) throw unsupported(model, source, `does not take \`${source}\``)
    if (speech === 'script' && !body.voice_id)
      throw new GatewayError('missing_field', '`voice_id` is required with `script`.', { param: 'voice_id' })
    if (speech === 'audio_url' && body.voice_id)
      throw new GatewayError('invalid_request', '`voice_id` goes with `script`, not with `audio_url`.', {
        param: 'voice_id',
      })
    const audioSeconds = checkLength(model, 'audio_url', lengthOf(references, 'audio_url'))
    return {
      avatarId: body.avatar_id ?? null,
      script: body.script ?? null,
      voiceId: body.voice_id ?? null,
      resolution: chooseOption(model, 'resolutions', 'resolution', body.resolution),
      aspectRatio: body.aspect_ratio ? chooseOption(model, 'aspect_ratios', 'aspect_ratio', body.aspect_ratio) : null,
      estimatedSeconds: body.script ? scriptSeconds(body.script) : Math.ceil(audioSeconds) + 1,
      sourceFaceConsent: source === 'image_url',
    }
  },
  quote: (input, deployment, marginPpm) => ({
    holdNano: secondsNano(deployment, input.resolution, input.estimatedSeconds, marginPpm),
  }),
  cost: (input, deployment, marginPpm, { seconds }) =>
    seconds === null ? null : secondsNano(deployment, input.resolution, seconds, marginPpm),
}

function requireExactlyOne<A extends keyof AvatarRequest, B extends keyof AvatarRequest>(
  body: AvatarRequest,
  a: A,
  b: B,
): A | B {
  if (body[a] && body[b])
    throw new GatewayError('invalid_request', `Send either \`${a}\` or \`${b}\`, not both.`, { param: b })
  if (!body[a] && !body[b]) throw new GatewayError('missing_field', `Send \`${a}\` or \`${b}\`.`, { param: a })
  return body[a] ? a : b
}

function scriptSeconds(script: string): number {
  const words = script
    .split(/\s+/)
    .reduce((sum, word) => sum + Math.max(1, Math.ceil(word.length / 12), countUnspacedWords(word)), 0)
  return Math.ceil((words / wordsPerSecond) * allowance.factor + allowance.seconds)
}

/** Counts words in scripts without spaces: Chinese, Japanese, Thai and the like. */
function countUnspacedWords(word: string): number {
  return Math.ceil(
    (word.match(/[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]/g)?.length ?? 0) / 2,
  )
}
