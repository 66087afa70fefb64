import { z } from 'zod'
import { GatewayError } from '../base/errors.ts'
import {
  checkLength,
  chooseOption,
  common,
  exactlyOneOf,
  fieldOf,
  lengthOf,
  type QueuedKindRow,
  referenceTo,
  resolution,
  secondsNano,
  unsupported,
} from './media.ts'

const lipsyncRequest = z
  .strictObject({
    ...common,
    image_url: referenceTo('image').optional().describe('A still to animate; either this or `video_url`.'),
    video_url: referenceTo('video').optional().describe('A clip to dub.'),
    audio_url: referenceTo('audio').describe('What is said.'),
    prompt: z.string().min(1).max(5_000).optional().describe('How to act, where the model takes it.'),
    resolution: resolution.optional().describe('Such as `720p`; without it, the model’s first.'),
  })
  .meta({ id: 'CreateLipSyncRequest', oneOf: exactlyOneOf(['image_url'], ['video_url']) })
type LipsyncRequest = z.infer<typeof lipsyncRequest>

/** Adapter input of a lip sync. */
export type LipsyncInput = {
  takes: 'image' | 'video'
  prompt: string | null
  resolution: string | null
  /** The billed length: the longer of audio and video. */
  seconds: number
  /** Length of the audio. */
  audioSeconds: number
}

export const lipsync: QueuedKindRow<LipsyncRequest, LipsyncInput> = {
  object: 'lipsync.job',
  idPrefix: 'job',
  path: '/v1/lipsync',
  modelsPath: '/v1/lipsync/models',
  type: 'lipsync',
  request: lipsyncRequest,
  listed: ['takes'],
  references: body => [
    ...fieldOf('image_url', body.image_url, 'image'),
    ...fieldOf('video_url', body.video_url, 'video', true),
    ...fieldOf('audio_url', body.audio_url, 'audio', true),
  ],
  input(body, model, references) {
    const [given, other] = body.image_url
      ? (['image_url', 'video_url'] as const)
      : (['video_url', 'image_url'] as const)
    if (!body[given])
      throw new GatewayError('missing_field', 'Send `image_url` or `video_url`.', { param: 'video_url' })
    if (body[other])
      throw new GatewayError('invalid_request', 'Send either `image_url` or `video_url`, not both.', { param: other })
    const takes = given === 'image_url' ? 'image' : 'video'
    if (model.kind?.takes !== takes)
      throw unsupported(model, given, `takes \`${model.kind?.takes}_url\` with \`audio_url\``)
    if (body.prompt && !model.kind?.prompt) throw unsupported(model, 'prompt', 'does not take `prompt`')
    const audioSeconds = checkLength(model, 'audio_url', lengthOf(references, 'audio_url'))
    const videoSeconds = checkLength(model, 'video_url', lengthOf(references, 'video_url'))
    return {
      takes,
      prompt: body.prompt ?? null,
      resolution: chooseOption(model, 'resolutions', 'resolution', body.resolution),
      seconds: Math.max(audioSeconds, videoSeconds),
      audioSeconds,
    }
  },
  quote: (input, deployment, marginPpm) => ({
    chargeNano: secondsNano(deployment, input.resolution, input.seconds, marginPpm),
  }),
}
