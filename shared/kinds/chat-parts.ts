import { z } from 'zod'
import { marked } from './cache-marks.ts'

/** The parts of a message's content. */

export const text = z.looseObject({ type: z.literal('text'), text: z.string(), ...marked }).meta({ id: 'ChatTextPart' })
export const imageUrl = z
  .looseObject({
    type: z.literal('image_url'),
    image_url: z.looseObject({
      url: z.string().min(1).describe('An https URL, an upload’s URL, or a `data:` URI.'),
      detail: z.string().optional().describe('`auto`, `low` or `high`, where the model knows it.'),
    }),
    ...marked,
  })
  .meta({ id: 'ChatImagePart' })
export const inputAudio = z
  .looseObject({
    type: z.literal('input_audio'),
    input_audio: z.looseObject({
      data: z.string().min(1).describe('The sound in base64.'),
      format: z.string().min(1).describe('Such as `wav` or `mp3`.'),
    }),
    ...marked,
  })
  .meta({ id: 'ChatAudioPart' })
export const file = z
  .looseObject({
    type: z.literal('file'),
    file: z.looseObject({
      file_id: z
        .never({ error: 'is not supported: send the file itself in `file_data`' })
        .optional()
        .meta({ 'x-internal': true }),
      file_data: z.string().optional().describe('The file as a `data:` URI.'),
      filename: z.string().optional(),
    }),
    ...marked,
  })
  .meta({ id: 'ChatFilePart' })
export const refusal = z
  .looseObject({ type: z.literal('refusal'), refusal: z.string(), ...marked })
  .meta({ id: 'ChatRefusalPart' })
