import { z } from 'zod'
import { picoPerUnit, withMargin } from '../base/money.ts'
import type { Deployment, ModelRow } from '../catalog/schema.ts'
import { assertConsent, sourceFaceConsent } from './consent.ts'
import { checkLength, common, fieldOf, lengthOf, type QueuedKindRow, referenceTo, scaledNano } from './media.ts'

const faceSwapRequest = z
  .strictObject({
    ...common,
    video_url: referenceTo('video').describe('The video to change.'),
    face_image_url: referenceTo('image').describe('The face to put in.'),
    source_face_consent: sourceFaceConsent,
  })
  .meta({ id: 'CreateFaceSwapRequest', required: ['video_url', 'face_image_url', 'source_face_consent'] })
type FaceSwapRequest = z.infer<typeof faceSwapRequest>

/** Adapter input of a face swap. */
export type FaceSwapInput = {
  /** Length of the video. */
  seconds: number
  /** The maximum video length of the model, to which the price's `max_credits` applies. */
  maxSeconds: number | null
  /** Stored with the job: the caller stated that the face's owner consented. */
  sourceFaceConsent: true
}

export const faceSwap: QueuedKindRow<FaceSwapRequest, FaceSwapInput> = {
  object: 'face_swap.job',
  idPrefix: 'job',
  path: '/v1/face-swap',
  modelsPath: '/v1/face-swap/models',
  type: 'face_swap',
  request: faceSwapRequest,
  listed: [],
  references: body => [
    ...fieldOf('video_url', body.video_url, 'video', true),
    ...fieldOf('face_image_url', body.face_image_url, 'image'),
  ],
  input(body, model, references) {
    assertConsent(body.source_face_consent)
    return {
      seconds: checkLength(model, 'video_url', lengthOf(references, 'video_url')),
      maxSeconds: maxSecondsOf(model),
      sourceFaceConsent: true,
    }
  },
  quote: ({ seconds, maxSeconds }, deployment, marginPpm) => {
    const { max_credits } = priceOf(deployment)
    const share = maxSeconds === null ? 1 : Math.min(1, Math.ceil(seconds) / maxSeconds)
    return { holdNano: creditsNano(deployment, Math.ceil(max_credits * share), marginPpm) }
  },
  cost: (_input, deployment, marginPpm, { credits }) =>
    credits === null ? null : creditsNano(deployment, credits, marginPpm),
}

function maxSecondsOf(model: ModelRow): number | null {
  return model.kind?.max_duration_s ?? null
}

function creditsNano(deployment: Deployment, credits: number, marginPpm: bigint): bigint {
  return scaledNano(withMargin(picoPerUnit(priceOf(deployment).usd), marginPpm), credits)
}

function priceOf({ price, upstream_model }: Deployment) {
  if (price.unit !== 'credit') throw new Error(`${upstream_model} is not priced per credit`)
  return price
}
