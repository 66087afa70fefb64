import { z } from 'zod'
import type { ModelRow } from '../catalog/schema.ts'
import { chooseOption, common, listOf, ofOpenRouter, unsupported } from './media.ts'
import { refusedField } from './refused-field.ts'
import { type SoundFormat, soundFormats } from './sound.ts'
import { charactersOf, type SyncKindRow, zeroQuantity } from './sync-kind.ts'

const voiceId = z.string().min(1).max(128)

const ownVoice = 'is not taken: choose a `voice` of the model.'
/**
 * How Mistral's and OpenRouter's clients choose who speaks (docs.mistral.ai/studio/audio/text-to-speech/generate-speech,
 * @ai-sdk/mistral; @openrouter/sdk, models/speechrequest.ts).
 */
const otherVoices = {
  voice_id: refusedField('is not taken: send it as `voice`.'),
  ref_audio: refusedField(ownVoice),
  input_references: refusedField(ownVoice),
}

/** `POST /v1/audio/speech`: OpenAI's fields. */
export const speechRequest = z
  .looseObject({
    ...otherVoices,
    ...ofOpenRouter,
    model: common.model,
    input: z.string().min(1).max(40_000).describe('The text to speak.'),
    voice: z
      .union([voiceId, z.strictObject({ id: voiceId })])
      .transform(voice => (typeof voice === 'string' ? voice : voice.id))
      .optional()
      .describe('A voice of the model; without it, its first one.'),
    response_format: z.enum(soundFormats).nullish().describe('Default `mp3`, or the model’s first where it has none.'),
    speed: z.number().min(0.25).max(4).nullish().meta({ default: 1, description: 'How fast to speak.' }),
    instructions: z.string().max(4_096).nullish().describe('How to speak, where the model can be told.'),
    stream_format: z.enum(['audio', 'sse']).nullish().meta({
      default: 'audio',
      description: '`sse` sends `speech.audio.delta` events and a `speech.audio.done` with the usage.',
    }),
  })
  .meta({ id: 'CreateSpeechRequest' })
type SpeechRequest = z.infer<typeof speechRequest>

/** Adapter input of speech. */
export type SpeechInput = {
  text: string
  voice: string
  format: SoundFormat
  /** 1 = the model's default. */
  speed: number
  instructions: string | null
}

export const speech: SyncKindRow<SpeechRequest, SpeechInput> = {
  idPrefix: 'speech',
  path: '/v1/audio/speech',
  modelsPath: '/v1/models',
  type: 'speech',
  request: speechRequest,
  references: () => [],
  input(body, model) {
    const max = model.kind?.max_characters
    if (max !== undefined && charactersOf(body.input) > max)
      throw unsupported(model, 'input', `takes at most ${max} characters`)
    if (body.instructions && model.kind?.instructions === false)
      throw unsupported(model, 'instructions', 'takes no `instructions`')
    return {
      text: body.input,
      voice: voiceOf(body, model),
      format: chooseOption(
        model,
        'formats',
        'response_format',
        body.response_format ?? defaultFormat(model),
      ) as SoundFormat,
      speed: body.speed ?? 1,
      instructions: body.instructions || null,
    }
  },
  maxQuantity({ text, instructions, speed }) {
    const prompt = Buffer.byteLength(text) + Buffer.byteLength(instructions ?? '') + tokensPerPrompt
    const sound = Math.ceil((charactersOf(text) * maxTokensPerCharacter) / Math.min(1, speed)) + tokensPerPrompt
    const usage = {
      prompt_tokens: prompt,
      completion_tokens: sound,
      total_tokens: prompt + sound,
      completion_tokens_details: { audio_tokens: sound },
    }
    return { ...zeroQuantity, usage, pieces: 1, characters: charactersOf(text) }
  },
}

/** A slow speaker needs a second for five characters, and a second has at most 50 tokens. */
const maxTokensPerCharacter = 10
const tokensPerPrompt = 500

/** mp3, which OpenAI's clients expect; undefined if the model does not offer it. */
function defaultFormat(model: ModelRow): string | undefined {
  return listOf(model, 'formats').includes('mp3') ? 'mp3' : undefined
}

function voiceOf({ voice }: SpeechRequest, model: ModelRow): string {
  const own = model.kind?.default_voice
  if (listOf(model, 'voices').length > 0) return chooseOption(model, 'voices', 'voice', voice)!
  const chosen = voice ?? own
  if (chosen === undefined) throw unsupported(model, 'voice', 'needs a `voice`')
  // The voice becomes a part of the provider's URL.
  const length = model.kind?.voice_id_length
  if (!/^[\w-]+$/.test(chosen) || (length !== undefined && chosen.length !== length))
    throw unsupported(model, 'voice', 'has no such voice')
  return chosen
}
