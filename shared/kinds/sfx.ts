import { z } from 'zod'
import { common, ofOpenRouter } from './media.ts'
import { durationOf, otherDurations, soundFormatOf } from './music.ts'
import { type SoundFormat, soundFormats } from './sound.ts'
import { type SyncKindRow, zeroQuantity } from './sync-kind.ts'

/** `POST /v1/audio/sfx`. */
export const sfxRequest = z
  .looseObject({
    ...otherDurations,
    ...ofOpenRouter,
    model: common.model,
    prompt: z.string().min(1).max(2_048).describe('What is heard.'),
    duration_s: z.number().min(0.1).max(60).optional().describe('In seconds; without it, the model decides.'),
    output_format: z.enum(soundFormats).optional().describe('Default the model’s first, mostly `mp3`.'),
  })
  .meta({ id: 'CreateSoundEffectRequest' })
type SfxRequest = z.infer<typeof sfxRequest>

/** Adapter input of a sound effect. */
export type SfxInput = { prompt: string; durationS: number | null; format: SoundFormat }

export const sfx: SyncKindRow<SfxRequest, SfxInput> = {
  idPrefix: 'sfx',
  path: '/v1/audio/sfx',
  modelsPath: '/v1/audio/sfx/models',
  type: 'sfx',
  request: sfxRequest,
  references: () => [],
  input: (body, model) => ({
    prompt: body.prompt,
    durationS: durationOf(body.duration_s, model),
    format: soundFormatOf(body.output_format, model),
  }),
  maxQuantity: () => ({ ...zeroQuantity, pieces: 1 }),
}
