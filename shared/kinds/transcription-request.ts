import { z } from 'zod'
import { isDataUri } from '../base/data-uri.ts'
import { isObject } from '../base/is-object.ts'
import { common, ofOpenRouter, referenceTo } from './media.ts'
import { refusedField, refusedUnless } from './refused-field.ts'

export const transcriptFormats = ['json', 'text', 'srt', 'verbose_json', 'vtt', 'diarized_json'] as const
export type TranscriptFormat = (typeof transcriptFormats)[number]

/** The maximum file size: OpenAI's limit. */
export const maxTranscribedBytes = 25 * 1024 * 1024
/** OpenAI's limits for known speakers. */
const maxSpeakers = 4
export const sampleSeconds = { min: 2, max: 10 }
/** Ten seconds of uncompressed stereo. */
export const maxSampleBytes = 2 * 1024 * 1024
const maxKeywords = 100
const maxKeywordCharacters = 50

/**
 * Longer than any model reads: it may be the transcript of the preceding part
 * (https://platform.openai.com/docs/guides/speech-to-text#prompting). What a model does not read is left out.
 */
const maxPromptCharacters = 200_000

/** A language tag (BCP 47), also as operating systems write locales: `en`, `eng`, `en-US`, `pt_BR`, `zh-Hans-CN`. */
const languageCode = z
  .string()
  .regex(/^[a-z]{2,3}(?:[-_][a-z\d]{2,8}){0,3}$/i, 'must be a language code such as `en` or `en-US`')
/** OpenAI's settings for splitting audio at silence. */
const voiceActivity = z.strictObject({
  type: z.literal('server_vad'),
  prefix_padding_ms: z.int().min(0).max(60_000).optional(),
  silence_duration_ms: z.int().min(0).max(60_000).optional(),
  threshold: z.number().min(0).max(1).optional(),
})
export type VoiceActivity = z.infer<typeof voiceActivity>

/**
 * What other APIs call who speaks, and a translation: the SDKs of Mistral send `diarize: false` with every request, and
 * clients of whisper servers `task`.
 */
const otherTasks = {
  diarize: refusedField('is not taken: `response_format: "diarized_json"` tells who speaks.'),
  task: refusedUnless('transcribe', 'is not taken: use `/v1/audio/translations`.'),
}

/**
 * Other APIs' names of `audio_url`, also in forms without a file: Mistral's (@mistralai/mistralai, AudioTranscriptionRequest),
 * Groq's (@ai-sdk/groq 4.0.77) and Together's (together of PyPI, resources/audio/transcriptions.py).
 */
const otherUrlFields = ['file_url', 'url', 'file']
const address = /^\s*(?:https?|data):/i

/**
 * A request with its sound as `audio_url`, which may be under another API's name, or in OpenRouter's object with base64
 * (@openrouter/sdk, models/sttrequest.ts). The format is that of the bytes.
 */
export function withAudioUrl(body: unknown): unknown {
  if (!isObject(body) || body.audio_url != null) return body
  const { input_audio: sound, ...others } = body
  if (isObject(sound) && typeof sound.data === 'string')
    return { ...others, audio_url: isDataUri(sound.data) ? sound.data : `data:;base64,${sound.data}` }
  const isAddress = (value: unknown) => typeof value === 'string' && address.test(value)
  const name = otherUrlFields.find(field => isAddress(body[field]))
  if (name === undefined) return body
  const { [name]: audio_url, ...rest } = body
  return { ...rest, audio_url }
}

/** `POST /v1/audio/transcriptions` as JSON; the multipart form has `file` in place of `audio_url`. */
export const transcriptionRequest = z
  .looseObject({
    ...otherTasks,
    ...ofOpenRouter,
    model: common.model,
    audio_url: referenceTo('audio'),
    language: languageCode
      .nullish()
      .describe(
        'The language that is spoken, such as `en` or `en-US`; models that know no regions get the language alone.',
      ),
    languages: z
      .array(languageCode)
      .max(20)
      .nullish()
      .describe('Languages to expect, in place of one `language`; several only where the model takes them.'),
    prompt: z
      .string()
      .max(maxPromptCharacters)
      .nullish()
      .describe('Words and style to expect. Of a long one, models read the end: Whisper 224 tokens.'),
    keywords: z
      .array(z.string().trim().min(1).max(maxKeywordCharacters))
      .max(maxKeywords)
      .nullish()
      .describe('Words and names to expect. Models that take a `prompt` alone are told them there.'),
    response_format: z.enum(transcriptFormats).nullish().meta({
      default: 'json',
      description: 'The form of the transcript. `diarized_json` tells who speaks, where the model can.',
    }),
    temperature: z.number().min(0).max(1).nullish().describe('Without it, the model’s own default.'),
    timestamp_granularities: z
      .array(z.enum(['word', 'segment']))
      .min(1)
      .max(2)
      .nullish()
      .describe(
        'What `verbose_json` has times of; default segments. Other formats have no times: there it is named in `x-gateway-dropped`.',
      ),
    include: z
      .array(z.literal('logprobs'))
      .max(1)
      .nullish()
      .describe('`logprobs`: how sure the model is of each token; with `json` only.'),
    chunking_strategy: z
      .union([z.literal('auto'), voiceActivity])
      .nullish()
      .describe('How long sound is cut: `auto`, or the settings of voice detection where the model takes them.'),
    known_speaker_names: z
      .array(z.string().trim().min(1).max(64))
      .max(maxSpeakers)
      .nullish()
      .describe('Names for the speakers of `known_speaker_references`, in the same order.'),
    known_speaker_references: z
      .array(referenceTo('audio'))
      .max(maxSpeakers)
      .nullish()
      .describe('A sample of each known speaker, of 2 to 10 seconds: a `data:` URI, an https URL or an upload’s URL.'),
    stream: z.boolean().nullish().meta({
      default: false,
      description:
        'Send `transcript.text.delta` events, with `diarized_json` a `transcript.text.segment` for each segment, and a `transcript.text.done`; for json, text and diarized_json.',
    }),
  })
  .meta({ id: 'CreateTranscriptionRequest' })
/** `POST /v1/audio/translations` as JSON; the multipart form has `file` in place of `audio_url`. */
export const translationRequest = z
  .looseObject({
    to_language: refusedUnless('en', 'must be `en`: the gateway translates into English.'),
    ...ofOpenRouter,
    model: common.model,
    audio_url: referenceTo('audio'),
    prompt: z.string().max(maxPromptCharacters).nullish().describe('Words and style to expect, in English.'),
    response_format: z
      .enum(['json', 'text', 'srt', 'verbose_json', 'vtt'])
      .nullish()
      .meta({ default: 'json', description: 'The form of the translation.' }),
    temperature: z.number().min(0).max(1).nullish().describe('Without it, the model’s own default.'),
  })
  .meta({ id: 'CreateTranslationRequest' })

export type TranscriptionRequest = z.infer<typeof transcriptionRequest> & {
  /** Set by `/v1/audio/translations`: translates the text to English. */
  translate?: true
}
