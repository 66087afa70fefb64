import type { ModelRow } from '../../../shared/catalog/schema.ts'
import { described } from './operator-models.ts'

/** Music and sound effects at fal and Replicate, as an operator describes them who knows their prices. */

const flat = (usd: string) => ({ unit: 'flat', usd }) as const
const elevenLabsFormats = {
  format_field: 'output_format',
  formats: ['mp3', 'opus', 'pcm'],
  format_names: { mp3: 'mp3_44100_128', opus: 'opus_48000_128', pcm: 'pcm_24000' },
}

export const operatorSounds: ModelRow[] = [
  described('fal-eleven-music', 'fal', 'fal-ai/elevenlabs/music', {
    type: 'music',
    kind: { min_duration_s: 3, max_duration_s: 600, formats: ['mp3', 'opus', 'pcm'] },
    price: flat('0.8'),
    traits: {
      ...elevenLabsFormats,
      duration_field: 'music_length_ms',
      duration_format: 'number_ms',
      instrumental_field: 'force_instrumental',
    },
  }),
  described('fal-minimax-music', 'fal', 'fal-ai/minimax-music/v2', {
    type: 'music',
    kind: { lyrics: true },
    price: flat('0.03'),
    traits: { lyrics_field: 'lyrics_prompt', needs_lyrics: true },
  }),
  described('fal-sonauto', 'fal', 'sonauto/v2/text-to-music', {
    type: 'music',
    kind: { lyrics: true, formats: ['wav', 'mp3', 'flac'] },
    price: flat('0.075'),
    traits: { lyrics_field: 'lyrics_prompt', format_field: 'output_format', formats: ['wav', 'mp3', 'flac'] },
  }),
  described('fal-cassette-music', 'fal', 'CassetteAI/music-generator', {
    type: 'music',
    kind: { max_duration_s: 180, formats: ['wav'] },
    price: flat('0.02'),
    traits: { duration_format: 'number', input: { duration: 30 } },
  }),
  described('fal-eleven-sfx', 'fal', 'fal-ai/elevenlabs/sound-effects/v2', {
    type: 'sfx',
    kind: { min_duration_s: 0.5, max_duration_s: 22, formats: ['mp3', 'opus', 'pcm'] },
    price: flat('0.05'),
    traits: {
      ...elevenLabsFormats,
      prompt_field: 'text',
      duration_field: 'duration_seconds',
      duration_format: 'number',
    },
  }),
  described('fal-cassette-sfx', 'fal', 'cassetteai/sound-effects-generator', {
    type: 'sfx',
    kind: { max_duration_s: 30, formats: ['wav'] },
    price: flat('0.01'),
    traits: { duration_format: 'number', input: { duration: 5 } },
  }),
  described('replicate-music', 'replicate', `acme/songs:${'b'.repeat(64)}`, {
    type: 'music',
    kind: { max_duration_s: 60, lyrics: true, formats: ['mp3', 'wav'] },
    price: flat('0.04'),
    traits: {
      lyrics_field: 'lyrics',
      duration_format: 'number',
      instrumental_field: 'instrumental',
      format_field: 'output_format',
      formats: ['mp3', 'wav'],
    },
  }),
  described('replicate-sfx', 'replicate', 'acme/noises', {
    type: 'sfx',
    kind: { max_duration_s: 10 },
    price: flat('0.002'),
    traits: { duration_field: 'seconds', duration_format: 'number', output_field: 'noise' },
  }),
]
