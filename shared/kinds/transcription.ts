import { z } from 'zod'
import type { Usage } from '../base/usage.ts'
import type { ModelRow } from '../catalog/schema.ts'
import { type InstantKindRow, noQuantity } from './instant.ts'
import { choice, common, fieldOf, lengthOf, referenceTo, unsupported, withinLength } from './media.ts'

export const transcriptFormats = ['json', 'text', 'srt', 'verbose_json', 'vtt'] as const
export type TranscriptFormat = (typeof transcriptFormats)[number]

/** The largest file that is taken: OpenAI's limit. */
export const mostTranscribedBytes = 25 * 1024 * 1024
const mostSeconds = 24 * 3_600

/** `POST /v1/audio/transcriptions` as JSON; the multipart form has `file` in place of `audio_url`. */
export const transcriptionRequest = z
  .strictObject({
    model: common.model,
    audio_url: referenceTo('audio'),
    language: z
      .string()
      .regex(/^[a-z]{2,3}(?:-[A-Za-z]{2,4})?$/, 'must be a language code such as `en`')
      .nullish()
      .describe('The language that is spoken, such as `en`.'),
    prompt: z.string().max(4_096).nullish().describe('Words and style to expect.'),
    response_format: z
      .enum(transcriptFormats)
      .nullish()
      .meta({ default: 'json', description: 'The form of the transcript.' }),
    temperature: z.number().min(0).max(1).nullish().describe('Without it, the model’s own default.'),
    timestamp_granularities: z
      .array(z.enum(['word', 'segment']))
      .min(1)
      .max(2)
      .nullish()
      .describe('What `verbose_json` has times of; default segments.'),
    stream: z.boolean().nullish().meta({
      default: false,
      description: 'Send `transcript.text.delta` events and a `transcript.text.done`; for json and text.',
    }),
  })
  .meta({ id: 'CreateTranscriptionRequest' })
export type TranscriptionRequest = z.infer<typeof transcriptionRequest>

/** A transcription as an adapter is asked for it; the sound is beside it as `audio_url`. */
export type TranscriptionInput = {
  language: string | null
  prompt: string | null
  temperature: number | null
  format: TranscriptFormat
  /** Whether segments or words with their times are needed. */
  segments: boolean
  words: boolean
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
  speaker: string | null
  /** Further fields of OpenAI's own segments, as they came. */
  details?: object
}
export type Word = { start: number; end: number; word: string }
export type Transcript = {
  text: string
  /** As the provider names it; null where it does not. */
  language: string | null
  /** Null where the provider gives none. */
  segments: Segment[] | null
  words: Word[] | null
  usage: Usage | null
}

/**
 * What a provider hears: whole, or in pieces of text after which `transcript` gives the whole. `deltas` null = it comes in
 * one piece.
 */
export type TranscriptionOutput = { deltas: AsyncIterable<string> | null; transcript(): Transcript }

export const transcription: InstantKindRow<TranscriptionRequest, TranscriptionInput> = {
  idPrefix: 'trs',
  path: '/v1/audio/transcriptions',
  type: 'transcription',
  request: transcriptionRequest,
  references: body =>
    fieldOf('audio_url', body.audio_url, 'audio', true).map(field => ({ ...field, mostBytes: mostTranscribedBytes })),
  input(body, model, references) {
    const format = choice(model, 'formats', 'response_format', body.response_format ?? 'json') as TranscriptFormat
    const granularities = body.timestamp_granularities ?? []
    if (granularities.length > 0 && format !== 'verbose_json')
      throw unsupported(model, 'timestamp_granularities', 'gives times with `verbose_json` only')
    if (body.stream && format !== 'json' && format !== 'text')
      throw unsupported(model, 'stream', 'streams json and text only')
    if (body.temperature != null && model.kind?.temperature === false)
      throw unsupported(model, 'temperature', 'takes no `temperature`')
    if (body.prompt && model.kind?.prompt === false) throw unsupported(model, 'prompt', 'takes no `prompt`')
    const subtitles = format === 'srt' || format === 'vtt'
    return {
      language: body.language ?? null,
      prompt: body.prompt || null,
      temperature: body.temperature ?? null,
      format,
      segments: subtitles || (format === 'verbose_json' && !isOnlyWords(granularities)),
      words: granularities.includes('word'),
      stream: body.stream === true,
      seconds: withinLengths(model, lengthOf(references, 'audio_url')),
    }
  },
  most({ prompt, seconds }, model) {
    const heard = Math.ceil(seconds * mostTokensPerSecond) + Buffer.byteLength(prompt ?? '') + tokensPerPrompt
    const said = model.max_output_tokens ?? Math.ceil(seconds * mostTokensPerSecond)
    const usage = {
      prompt_tokens: heard,
      completion_tokens: said,
      total_tokens: heard + said,
      prompt_tokens_details: { audio_tokens: heard },
    }
    return { ...noQuantity, usage, seconds }
  },
}

const mostTokensPerSecond = 40
const tokensPerPrompt = 500

function isOnlyWords(granularities: readonly string[]): boolean {
  return granularities.length === 1 && granularities[0] === 'word'
}

/** Throws 400 beyond the model's limit, or a day. */
function withinLengths(model: ModelRow, seconds: number): number {
  if (seconds > mostSeconds) throw unsupported(model, 'audio_url', `takes at most ${mostSeconds} s`)
  return withinLength(model, 'audio_url', seconds)
}
