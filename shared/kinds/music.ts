import { z } from 'zod'
import type { ModelRow } from '../catalog/schema.ts'
import { chooseOption, common, ofOpenRouter, unsupported } from './media.ts'
import { refusedField } from './refused-field.ts'
import { type SoundFormat, soundFormats } from './sound.ts'
import { type SyncKindRow, zeroQuantity } from './sync-kind.ts'

const durationProblem = 'is not taken: send `duration_s`, in seconds.'
/** Other APIs' names of `duration_s`, such as those of ElevenLabs (elevenlabs.io/docs/api-reference/music/compose). */
export const otherDurations = {
  duration: refusedField(durationProblem),
  duration_seconds: refusedField(durationProblem),
  seconds: refusedField(durationProblem),
  music_length_ms: refusedField(durationProblem),
}

/** `POST /v1/audio/music`. */
export const musicRequest = z
  .looseObject({
    ...otherDurations,
    ...ofOpenRouter,
    model: common.model,
    prompt: z.string().min(1).max(4_096).describe('What the music is like.'),
    lyrics: z.string().min(1).max(10_000).optional().describe('What is sung, where the model takes it.'),
    duration_s: z.number().min(1).max(600).optional().describe('In seconds; without it, as long as usual.'),
    instrumental: z.boolean().optional().meta({ default: false, description: 'True for music without voices.' }),
    output_format: z.enum(soundFormats).optional().describe('Default the model’s first, mostly `mp3`.'),
  })
  .meta({ id: 'CreateMusicRequest' })
type MusicRequest = z.infer<typeof musicRequest>

/** Adapter input of a song. */
export type MusicInput = {
  prompt: string
  lyrics: string | null
  durationS: number | null
  instrumental: boolean
  format: SoundFormat
}

export const music: SyncKindRow<MusicRequest, MusicInput> = {
  idPrefix: 'music',
  path: '/v1/audio/music',
  modelsPath: '/v1/audio/music/models',
  type: 'music',
  request: musicRequest,
  references: () => [],
  input(body, model) {
    const { lyrics, instrumental = false } = body
    if (lyrics !== undefined && !model.kind?.lyrics) throw unsupported(model, 'lyrics', 'takes no `lyrics`')
    if (lyrics !== undefined && instrumental)
      throw unsupported(model, 'lyrics', 'does not take `lyrics` with `instrumental`')
    return {
      prompt: body.prompt,
      lyrics: lyrics ?? null,
      // A flat price per song also requires a bounded length.
      durationS: durationOf(body.duration_s, model) ?? defaultDuration(model),
      instrumental,
      format: soundFormatOf(body.output_format, model),
    }
  },
  maxQuantity: () => ({ ...zeroQuantity, pieces: 1 }),
}

function defaultDuration({ kind }: ModelRow): number | null {
  return kind?.default_duration_s ?? null
}

/** Validates a requested length against the model's limits. Throws 400 naming `duration_s`. */
export function durationOf(seconds: number | undefined, model: ModelRow): number | null {
  if (seconds === undefined) return null
  const { min_duration_s: min, max_duration_s: max } = model.kind ?? {}
  if (max !== undefined && seconds > max) throw unsupported(model, 'duration_s', `gives at most ${max} s`)
  if (min !== undefined && seconds < min) throw unsupported(model, 'duration_s', `gives at least ${min} s`)
  return seconds
}

/**
 * Returns the requested format if the model's row lists it, by default its first; a row without a list supports mp3
 * only.
 */
export function soundFormatOf(wanted: SoundFormat | undefined, model: ModelRow): SoundFormat {
  if (model.kind?.formats) return chooseOption(model, 'formats', 'output_format', wanted) as SoundFormat
  if (wanted !== undefined && wanted !== 'mp3') throw unsupported(model, 'output_format', 'gives mp3 only')
  return 'mp3'
}
