import type { Usage } from '../base/usage.ts'
import type { ModelRow } from '../catalog/schema.ts'
import { checkLength, chooseOption, fieldOf, fieldsOf, lengthOf, unsupported } from './media.ts'
import { type SyncKindRow, zeroQuantity } from './sync-kind.ts'
import { chunkingOf, keywordsOf, knownSpeakersOf, languagesOf, wantsLogprobs } from './transcription-options.ts'
import {
  maxSampleBytes,
  maxTranscribedBytes,
  sampleSeconds,
  type TranscriptFormat,
  type TranscriptionRequest,
  transcriptionRequest,
  type VoiceActivity,
} from './transcription-request.ts'

const maxSeconds = 24 * 3_600
/** Formats that can be streamed. */
const streamedFormats: ReadonlySet<string> = new Set(['json', 'text', 'diarized_json'])

/** Options for which providers priced by the minute may add a surcharge. */
export type TranscriptionOption = 'speakers' | 'keywords'

/**
 * Adapter input of a transcription; the audio is passed separately as `audio_url`, samples of known speakers as
 * `known_speaker_references.<n>`.
 */
export type TranscriptionInput = {
  language: string | null
  /** Two or more, if the `language` is not known. */
  languages: readonly string[]
  prompt: string | null
  keywords: readonly string[]
  temperature: number | null
  format: TranscriptFormat
  /** Whether segments or words with timestamps are needed. */
  segments: boolean
  words: boolean
  /** Whether each segment must name its speaker. */
  speakers: boolean
  knownSpeakers: readonly string[]
  chunking: 'auto' | VoiceActivity | null
  logprobs: boolean
  /** Whether to translate the text to English. */
  translate: boolean
  /** Whether to stream the text. */
  stream: boolean
  /** The measured length of the audio. */
  seconds: number
}

/** Times are in seconds from the start. */
export type Segment = {
  start: number
  end: number
  text: string
  /** A known speaker's name, otherwise `A`, `B` … in order of first appearance. */
  speaker: string | null
  /** The provider's segment id, if it has one. */
  id?: string
  /** Further fields of OpenAI's segments, unchanged. */
  details?: object
}
export type Word = { start: number; end: number; word: string }
/** Log probability of a token, in OpenAI's shape. */
export type TokenProbability = { token: string; logprob: number; bytes: number[] | null }
export type Transcript = {
  text: string
  /** As the provider reports it; null if it does not. */
  language: string | null
  /** Null if the provider returns none. */
  segments: Segment[] | null
  words: Word[] | null
  /** Null if none were requested, or the provider returns none. */
  logprobs: TokenProbability[] | null
  usage: Usage | null
}

/** A chunk of a transcript: text, or a complete segment. */
export type TranscriptPiece =
  | { text: string; segmentId: string | null; logprobs: TokenProbability[] | null }
  | { segment: Segment }

/**
 * A transcript: complete, or streamed, where `transcript` returns the whole after the last piece. `pieces` null = not
 * streamed.
 */
export type TranscriptionOutput = { pieces: AsyncIterable<TranscriptPiece> | null; transcript(): Transcript }

export const transcription: SyncKindRow<TranscriptionRequest, TranscriptionInput> = {
  idPrefix: 'trs',
  path: '/v1/audio/transcriptions',
  modelsPath: '/v1/models',
  type: 'transcription',
  request: transcriptionRequest,
  references: body => [
    ...fieldOf('audio_url', body.audio_url, 'audio', true).map(field => ({
      ...field,
      maxBytes: maxTranscribedBytes,
      anySound: true,
    })),
    ...fieldsOf('known_speaker_references', body.known_speaker_references ?? [], 'audio').map(field => ({
      ...field,
      measured: true,
      maxBytes: maxSampleBytes,
    })),
  ],
  input(body, model, references) {
    const format = chooseOption(model, 'formats', 'response_format', body.response_format ?? 'json') as TranscriptFormat
    const granularities = format === 'verbose_json' ? (body.timestamp_granularities ?? []) : []
    if (body.stream && !streamedFormats.has(format))
      throw unsupported(model, 'stream', 'streams json, text and diarized_json only')
    const takesTemperature = model.kind?.temperature !== false
    // 0 is the default, which clients also send.
    if (body.temperature && !takesTemperature) throw unsupported(model, 'temperature', 'takes no `temperature`')
    if (body.translate && model.kind?.translates !== true)
      throw unsupported(model, 'model', 'does not translate; use /v1/audio/transcriptions')
    if (body.prompt && model.kind?.prompt === false) throw unsupported(model, 'prompt', 'takes no `prompt`')
    const speakers = format === 'diarized_json'
    const subtitles = format === 'srt' || format === 'vtt'
    return {
      ...languagesOf(body, model),
      ...keywordsOf(body, model),
      temperature: takesTemperature ? (body.temperature ?? null) : null,
      format,
      segments: speakers || subtitles || (format === 'verbose_json' && !isOnlyWords(granularities)),
      words: granularities.includes('word'),
      speakers,
      knownSpeakers: knownSpeakersOf(body, model, references),
      chunking: chunkingOf(body, model),
      logprobs: wantsLogprobs(body, model, format),
      translate: body.translate === true,
      stream: body.stream === true,
      seconds: checkAudioLength(model, lengthOf(references, 'audio_url')),
    }
  },
  // The AI SDK sends granularities with every format once any option is set (vercel/ai, `openai-transcription-model.test.ts`);
  // OpenAI takes them with some models.
  fieldsWithoutEffect({ response_format: format, timestamp_granularities: granularities }) {
    return granularities?.length && format !== 'verbose_json' ? ['timestamp_granularities'] : []
  },
  maxQuantity(input, model) {
    const { prompt, keywords, knownSpeakers, seconds } = input
    const words = [prompt ?? '', ...keywords, ...knownSpeakers]
    const inputSeconds = seconds + knownSpeakers.length * sampleSeconds.max
    const sound = Math.ceil(inputSeconds * maxTokensPerSecond)
    const inputTokens = sound + words.reduce((sum, text) => sum + Buffer.byteLength(text) + 1, tokensPerPrompt)
    const outputTokens = model.max_output_tokens ?? Math.ceil(seconds * maxTokensPerSecond)
    const usage = {
      prompt_tokens: inputTokens,
      completion_tokens: outputTokens,
      total_tokens: inputTokens + outputTokens,
      prompt_tokens_details: { audio_tokens: inputTokens },
    }
    return { ...zeroQuantity, usage, seconds, options: optionsOf(input) }
  },
}

const maxTokensPerSecond = 40
const tokensPerPrompt = 500

/** Options of a transcription that may be priced separately. */
export function optionsOf({ speakers, keywords }: TranscriptionInput): TranscriptionOption[] {
  return [...(speakers ? (['speakers'] as const) : []), ...(keywords.length > 0 ? (['keywords'] as const) : [])]
}

function isOnlyWords(granularities: readonly string[]): boolean {
  return granularities.length === 1 && granularities[0] === 'word'
}

/** Throws 400 if the length exceeds the model's limit, or a day. */
function checkAudioLength(model: ModelRow, seconds: number): number {
  if (seconds > maxSeconds) throw unsupported(model, 'audio_url', `takes at most ${maxSeconds} s`)
  return checkLength(model, 'audio_url', seconds)
}
