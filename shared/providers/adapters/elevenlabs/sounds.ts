import type { Readable } from 'node:stream'
import { waveHeader } from '../../../io/media/wave.ts'
import { unsupported } from '../../../kinds/media.ts'
import type { MusicInput } from '../../../kinds/music.ts'
import type { SoundFormat, SoundOutput } from '../../../kinds/sound.ts'
import type { ProviderConnection, ProviderRequest, SyncAdapter, SyncCall } from '../../contract.ts'
import { audioOf } from '../../toolkit/audio-bytes.ts'
import { mapErrorParam } from '../../toolkit/error-param.ts'

/** The official client's first-byte timeout. */
const generationMs = 240_000
const pcmRateHz = 24_000
/** The limits of `voice_settings.speed`. */
const speeds = { min: 0.7, max: 1.2 }

/**
 * ElevenLabs' format names: codec, sample rate and bit rate. Raw samples become a WAV file with a header added here.
 */
const speechFormats: Formats = {
  mp3: 'mp3_44100_128',
  opus: 'opus_48000_128',
  pcm: `pcm_${pcmRateHz}`,
  wav: `pcm_${pcmRateHz}`,
}
/** Its music has two channels, which raw samples do not indicate. */
const generationFormats: Formats = { mp3: speechFormats.mp3!, opus: speechFormats.opus! }

type Formats = { [F in SoundFormat]?: string }
type SoundCall = SyncCall<'speech' | 'music' | 'sfx'>
/** `names`: our fields by ElevenLabs' own. */
type SoundRequest = { path: string; json: object; formats: Formats; formatField: string; names: Record<string, string> }

/** Streamed text to speech. */
export const speech: SyncAdapter<'speech'> = {
  async make(call, connection) {
    const { target, input } = call
    const { model, deployment } = target
    if (input.instructions !== null)
      throw unsupported(model, 'instructions', 'takes no `instructions` at this provider')
    if (input.speed < speeds.min || input.speed > speeds.max)
      throw unsupported(model, 'speed', `speaks at a speed of ${speeds.min} to ${speeds.max} at this provider`)
    const json = {
      text: input.text,
      model_id: deployment.upstream_model,
      ...(input.speed !== 1 && { voice_settings: { speed: input.speed } }),
    }
    return sound(call, connection, {
      path: `/v1/text-to-speech/${encodeURIComponent(input.voice)}/stream`,
      json,
      formats: speechFormats,
      formatField: 'response_format',
      names: { text: 'input', voice_id: 'voice', speed: 'speed', model_id: 'model', output_format: 'response_format' },
    })
  },
}

/** A song from a prompt, with lyrics if given. */
export const music: SyncAdapter<'music'> = {
  make(call, connection) {
    const { target, input } = call
    const json = {
      prompt: promptOf(input),
      model_id: target.deployment.upstream_model,
      ...(input.durationS !== null && { music_length_ms: Math.round(input.durationS * 1_000) }),
      ...(input.instrumental && { force_instrumental: true }),
    }
    return sound(call, connection, {
      path: '/v1/music',
      json,
      formats: generationFormats,
      formatField: 'output_format',
      names: {
        prompt: 'prompt',
        music_length_ms: 'duration_s',
        force_instrumental: 'instrumental',
        model_id: 'model',
        output_format: 'output_format',
      },
    })
  },
}

/** A sound effect from a prompt. */
export const sfx: SyncAdapter<'sfx'> = {
  make(call, connection) {
    const { target, input } = call
    const json = {
      text: input.prompt,
      model_id: target.deployment.upstream_model,
      ...(input.durationS !== null && { duration_seconds: input.durationS }),
    }
    return sound(call, connection, {
      path: '/v1/sound-generation',
      json,
      formats: generationFormats,
      formatField: 'output_format',
      names: { text: 'prompt', duration_seconds: 'duration_s', model_id: 'model', output_format: 'output_format' },
    })
  },
}

/**
 * The style, then the lyrics. A composition plan has a field for lyrics, but none for a prompt, and requires the
 * duration of each chunk.
 */
function promptOf({ prompt, lyrics }: MusicInput): string {
  return lyrics === null ? prompt : `${prompt}\n\nLyrics:\n${lyrics}`
}

async function sound(
  call: SoundCall,
  connection: ProviderConnection,
  soundRequest: SoundRequest,
): Promise<SoundOutput> {
  const { input, target, signal } = call
  const format = soundRequest.formats[input.format]
  if (!format) throw unsupported(target.model, soundRequest.formatField, `gives no ${input.format} at this provider`)
  const request: ProviderRequest = {
    method: 'POST',
    path: `${soundRequest.path}?output_format=${format}`,
    headers: { accept: '*/*' },
    json: soundRequest.json,
    signal,
    firstByteMs: generationMs,
  }
  const stream = audioOf(await mapErrorParam(soundRequest.names, connection.stream(request)))
  return { sound: { stream: input.format === 'wav' ? asWave(stream) : stream }, usage: () => null }
}

/** Samples behind a WAV header of unknown length. */
async function* asWave(samples: Readable): AsyncIterable<Uint8Array> {
  try {
    yield waveHeader(pcmRateHz, null)
    yield* samples
  } finally {
    samples.destroy()
  }
}
