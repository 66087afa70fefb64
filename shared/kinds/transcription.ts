import type { Usage } from '../base/usage.ts'
import type { ModelRow } from '../catalog/schema.ts'
import { type InstantKindRow, noQuantity } from './instant.ts'
import { choice, fieldOf, fieldsOf, lengthOf, unsupported, withinLength } from './media.ts'
import { chunkingOf, expectedWords, knownSpeakersOf, languagesOf, wantsLogprobs } from './transcription-options.ts'
import {
  maxSampleBytes,
  mostTranscribedBytes,
  sampleSeconds,
  type TranscriptFormat,
  type TranscriptionRequest,
  transcriptionRequest,
  type VoiceActivity,
} from './transcription-request.ts'

const mostSeconds = 24 * 3_600
/** What can be streamed. */
const streamedFormats: ReadonlySet<string> = new Set(['json', 'text', 'diarized_json'])

/** Options that providers priced by the minute may charge for on top. */
export type TranscriptionOption = 'speakers' | 'keywords'

/**
 * A transcription as an adapter is asked for it; the sound is beside it as `audio_url`, samples of known speakers as
 * `known_speaker_references.<n>`.
 */
export type TranscriptionInput = {
  language: string | null
  /** Two or more where one `language` is not known. */
  languages: readonly string[]
  prompt: string | null
  keywords: readonly string[]
  temperature: number | null
  format: TranscriptFormat
  /** Whether segments or words with their times are needed. */
  segments: boolean
  words: boolean
  /** Whether each segment must tell who speaks. */
  speakers: boolean
  knownSpeakers: readonly string[]
  chunking: 'auto' | VoiceActivity | null
  logprobs: boolean
  /** Whether the text is wanted in English, whatever is spoken. */
  translate: boolean
  /** Whether the text is wanted in pieces. */
  stream: boolean
  /** The sound's measured length. */
  seconds: number
}

/** Times are in seconds from the beginning. */
export type Segment = {
  start: number
  end: number
  text: string
  /** A known speaker's name, else `A`, `B` … in the order in which they begin to speak. */
  speaker: string | null
  /** As the provider numbers it, where it does. */
  id?: string
  /** Further fields of OpenAI's own segments, as they came. */
  details?: object
}
export type Word = { start: number; end: number; word: string }
/** How sure a model is of a token, as OpenAI has it. */
export type TokenProbability = { token: string; logprob: number; bytes: number[] | null }
export type Transcript = {
  text: string
  /** As the provider names it; null where it does not. */
  language: string | null
  /** Null where the provider gives none. */
  segments: Segment[] | null
  words: Word[] | null
  /** Null where none were asked for, or the provider gives none. */
  logprobs: TokenProbability[] | null
  usage: Usage | null
}

/** A piece of a transcript: text, or a segment that is complete. */
export type TranscriptPiece =
  | { text: string; segmentId: string | null; logprobs: TokenProbability[] | null }
  | { segment: Segment }

/**
 * What a provider hears: whole, or in pieces after which `transcript` gives the whole. `pieces` null = it comes in one piece.
 */
export type TranscriptionOutput = { pieces: AsyncIterable<TranscriptPiece> | null; transcript(): Transcript }

export const transcription: InstantKindRow<TranscriptionRequest, TranscriptionInput> = {
  idPrefix: 'trs',
  path: '/v1/audio/transcriptions',
  type: 'transcription',
  request: transcriptionRequest,
  references: body => [
    ...fieldOf('audio_url', body.audio_url, 'audio', true).map(field => ({
      ...field,
      mostBytes: mostTranscribedBytes,
    })),
    ...fieldsOf('known_speaker_references', body.known_speaker_references ?? [], 'audio').map(field => ({
      ...field,
      measured: true,
      mostBytes: maxSampleBytes,
    })),
  ],
  input(body, model, references) {
    const format = choice(model, 'formats', 'response_format', body.response_format ?? 'json') as TranscriptFormat
    const granularities = body.timestamp_granularities ?? []
    if (granularities.length > 0 && format !== 'verbose_json')
      throw unsupported(model, 'timestamp_granularities', 'gives times with `verbose_json` only')
    if (body.stream && !streamedFormats.has(format))
      throw unsupported(model, 'stream', 'streams json, text and diarized_json only')
    if (body.temperature != null && model.kind?.temperature === false)
      throw unsupported(model, 'temperature', 'takes no `temperature`')
    if (body.translate && model.kind?.translates !== true)
      throw unsupported(model, 'model', 'translates nothing; send the file to /v1/audio/transcriptions')
    if (body.prompt && model.kind?.prompt === false) throw unsupported(model, 'prompt', 'takes no `prompt`')
    const speakers = format === 'diarized_json'
    const subtitles = format === 'srt' || format === 'vtt'
    return {
      ...languagesOf(body, model),
      ...expectedWords(body, model),
      temperature: body.temperature ?? null,
      format,
      segments: speakers || subtitles || (format === 'verbose_json' && !isOnlyWords(granularities)),
      words: granularities.includes('word'),
      speakers,
      knownSpeakers: knownSpeakersOf(body, model, references),
      chunking: chunkingOf(body, model),
      logprobs: wantsLogprobs(body, model, format),
      translate: body.translate === true,
      stream: body.stream === true,
      seconds: withinLengths(model, lengthOf(references, 'audio_url')),
    }
  },
  most(input, model) {
    const { prompt, keywords, knownSpeakers, seconds } = input
    const words = [prompt ?? '', ...keywords, ...knownSpeakers]
    const heardSeconds = seconds + knownSpeakers.length * sampleSeconds.max
    const sound = Math.ceil(heardSeconds * mostTokensPerSecond)
    const heard = sound + words.reduce((sum, text) => sum + Buffer.byteLength(text) + 1, tokensPerPrompt)
    const said = model.max_output_tokens ?? Math.ceil(seconds * mostTokensPerSecond)
    const usage = {
      prompt_tokens: heard,
      completion_tokens: said,
      total_tokens: heard + said,
      prompt_tokens_details: { audio_tokens: heard },
    }
    return { ...noQuantity, usage, seconds, options: optionsOf(input) }
  },
}

const mostTokensPerSecond = 40
const tokensPerPrompt = 500

/** The options of a transcription that may have a price of their own. */
export function optionsOf({ speakers, keywords }: TranscriptionInput): TranscriptionOption[] {
  return [...(speakers ? (['speakers'] as const) : []), ...(keywords.length > 0 ? (['keywords'] as const) : [])]
}

function isOnlyWords(granularities: readonly string[]): boolean {
  return granularities.length === 1 && granularities[0] === 'word'
}

/** Throws 400 beyond the model's limit, or a day. */
function withinLengths(model: ModelRow, seconds: number): number {
  if (seconds > mostSeconds) throw unsupported(model, 'audio_url', `takes at most ${mostSeconds} s`)
  return withinLength(model, 'audio_url', seconds)
}
