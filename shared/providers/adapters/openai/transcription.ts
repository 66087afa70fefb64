import type { Readable } from 'node:stream'
import { isObject } from '../../../base/is-object.ts'
import type { Usage } from '../../../base/usage.ts'
import { extensionOf } from '../../../io/media/media-type.ts'
import { unsupported } from '../../../kinds/media.ts'
import type {
  Segment,
  TokenProbability,
  Transcript,
  TranscriptionOutput,
  TranscriptPiece,
  Word,
} from '../../../kinds/transcription.ts'
import { isoLanguage } from '../../../kinds/transcription-options.ts'
import type { FormPart, ProviderRequest, Source, SyncAdapter, SyncCall } from '../../contract.ts'
import { readList, readNumber, readOptionalText, valueAt } from '../../toolkit/json-fields.ts'
import { sourcesIn } from '../../toolkit/list-sources.ts'
import { soundOf, TimeReader } from '../../toolkit/transcripts.ts'
import { count } from './answer.ts'
import { assertAudioSupport, eventsUntil, textOf, tokensOf, withErrorParam } from './audio.ts'

type TranscriptionCall = SyncCall<'transcription'>

/** No byte is sent before all audio is transcribed: 25 MiB may be hours. */
const firstByteMs = 5 * 60_000
/** Hours of words with timestamps. */
const maxBytes = 16 * 1024 * 1024

/** Our fields by theirs, for errors. */
const fields = {
  file: 'audio_url',
  language: 'language',
  prompt: 'prompt',
  temperature: 'temperature',
  'timestamp_granularities[]': 'timestamp_granularities',
  timestamp_granularities: 'timestamp_granularities',
  response_format: 'response_format',
  stream: 'stream',
  'include[]': 'include',
  include: 'include',
  chunking_strategy: 'chunking_strategy',
  'keywords[]': 'keywords',
  keywords: 'keywords',
  'languages[]': 'languages',
  languages: 'languages',
  'known_speaker_names[]': 'known_speaker_names',
  known_speaker_names: 'known_speaker_names',
  'known_speaker_references[]': 'known_speaker_references',
  known_speaker_references: 'known_speaker_references',
}

/**
 * `POST /audio/transcriptions`: a form whose file is read from storage while it is sent. The deployment trait
 * `diarizes` marks a model that identifies speakers.
 */
export const transcription: SyncAdapter<'transcription'> = {
  async make(call, connection) {
    assertAudioSupport(connection)
    const streams = call.input.stream && call.target.model.kind?.stream === true
    const parts = [...(await partsOf(call)), ...(streams ? [{ name: 'stream', value: 'true' }] : [])]
    const path = call.input.translate ? '/audio/translations' : '/audio/transcriptions'
    const request: ProviderRequest = { method: 'POST', path, parts, firstByteMs, maxBytes, signal: call.signal }
    if (streams) return inPieces((await withErrorParam(fields, connection.stream(request))).stream)
    const { json } = await withErrorParam(fields, connection.send(request))
    const transcript = transcriptIn(json)
    return { pieces: null, transcript: () => transcript }
  },
}

async function partsOf(call: TranscriptionCall): Promise<FormPart[]> {
  const { language, languages, prompt, keywords, temperature, translate } = call.input
  const { segments, words, logprobs, knownSpeakers } = call.input
  const responseFormat = formatFor(call)
  const formFields = {
    model: call.target.deployment.upstream_model,
    response_format: responseFormat,
    // The dialect knows languages only, and refuses regions (https://github.com/iOfficeAI/AionUi/pull/1939).
    language: language && isoLanguage(language),
    prompt: prompt && readPart(prompt, call),
    temperature,
    ...chunkingOf(call),
  }
  const values = Object.entries(formFields).filter(([, value]) => value !== null)
  // Translations have no such field, but return segment timestamps.
  const granularities = responseFormat === 'verbose_json' && !translate ? { segment: segments, word: words } : {}
  const times = Object.entries(granularities).flatMap(([name, isWanted]) => (isWanted ? [name] : []))
  const samples = sourcesIn(call.sources, 'known_speaker_references')
  const lists = {
    timestamp_granularities: times,
    include: logprobs ? ['logprobs'] : [],
    languages: [...new Set(languages.map(isoLanguage))],
    keywords,
    known_speaker_names: knownSpeakers,
    known_speaker_references: await Promise.all(samples.map(dataUriOf)),
  }
  return [
    ...values.map(([name, value]) => ({ name, value: String(value) })),
    ...Object.entries(lists).flatMap(([name, all]) => all.map(value => ({ name: `${name}[]`, value }))),
    { name: 'file', file: await fileOf(call) },
  ]
}

/** The end of a prompt, where the provider refuses a longer one: Whisper reads its last 224 tokens. */
function readPart(prompt: string, { target }: TranscriptionCall): string {
  const max = target.deployment.traits?.max_prompt_characters
  return max === undefined ? prompt : [...prompt].slice(-max).join('')
}

async function dataUriOf(sample: Source): Promise<string> {
  return `data:${sample.contentType};base64,${await sample.base64()}`
}

/** Voice detection settings are separate fields, as in OpenAI's SDK. */
function chunkingOf(call: TranscriptionCall): Record<string, string | number> {
  const { chunking } = call.input
  // It splits audio of more than half a minute only on request.
  if (chunking === null) return diarizes(call) ? { chunking_strategy: 'auto' } : {}
  if (chunking === 'auto') return { chunking_strategy: chunking }
  return Object.fromEntries(Object.entries(chunking).map(([name, value]) => [`chunking_strategy[${name}]`, value]))
}

function diarizes({ target }: TranscriptionCall): boolean {
  return target.deployment.traits?.diarizes === true
}

/**
 * The smallest format with everything requested. Throws 400 for speakers, and word timestamps, where they are not
 * supported.
 */
function formatFor(call: TranscriptionCall): string {
  const { segments, words, speakers } = call.input
  if (speakers && !diarizes(call)) throw unsupported(call.target.model, 'response_format', 'does not tell who speaks')
  if (!diarizes(call)) return segments || words ? 'verbose_json' : 'json'
  if (words) throw unsupported(call.target.model, 'timestamp_granularities', 'gives no times of words')
  return segments ? 'diarized_json' : 'json'
}

/** Where servers of the dialect know a format by another extension than its usual one. */
const extensions: Readonly<Record<string, string>> = { mpg: 'mpeg' }

/** The audio, with a file extension that matches its bytes: the server detects the format by it. */
async function fileOf(call: TranscriptionCall): Promise<Source> {
  const sound = await soundOf(call)
  const usual = extensionOf(sound.contentType)
  const extension = extensions[usual] ?? usual
  const isNamed = sound.filename.endsWith(`.${extension}`)
  return isNamed ? sound : { ...sound, filename: `${sound.filename}.${extension}` }
}

function inPieces(answer: Readable): TranscriptionOutput {
  const last = 'transcript.text.done'
  const times = new TimeReader()
  let transcript: Transcript | null = null
  async function* pieces(): AsyncGenerator<TranscriptPiece> {
    for await (const json of eventsUntil(last, answer)) {
      if (json.type === 'transcript.text.delta') yield pieceOf(json)
      else if (json.type === 'transcript.text.segment') yield { segment: segmentOf(json, times) }
      else if (json.type === last) transcript = transcriptIn(json)
    }
  }
  return { pieces: pieces(), transcript: () => transcript! }
}

function pieceOf(json: unknown): TranscriptPiece {
  const logprobs = optionalList(json, 'logprobs', probabilityOf)
  return { text: textOf(json, 'delta'), segmentId: readOptionalText(json, 'segment_id'), logprobs }
}

function transcriptIn(json: unknown): Transcript {
  return {
    text: textOf(json, 'text'),
    language: readOptionalText(json, 'language'),
    segments: optionalTimedList(json, 'segments', segmentOf),
    words: optionalTimedList(json, 'words', wordOf),
    logprobs: optionalList(json, 'logprobs', probabilityOf),
    usage: usageOf(valueAt(json, 'usage')),
  }
}

function optionalList<T>(json: unknown, name: string, read: (entry: unknown) => T): T[] | null {
  return valueAt(json, name) == null ? null : readList(json, name).map(read)
}

function optionalTimedList<T>(json: unknown, name: string, read: (entry: unknown, times: TimeReader) => T): T[] | null {
  const times = new TimeReader()
  return optionalList(json, name, entry => read(entry, times))
}

function wordOf(json: unknown, times: TimeReader): Word {
  return { ...times.read(json), word: textOf(json, 'word') }
}

function probabilityOf(json: unknown): TokenProbability {
  const bytes = valueAt(json, 'bytes')
  const isBytes = Array.isArray(bytes) && bytes.every(byte => Number.isInteger(byte) && byte >= 0 && byte <= 255)
  return { token: textOf(json, 'token'), logprob: readNumber(json, 'logprob'), bytes: isBytes ? bytes : null }
}

/** Whisper's segment fields in addition to text and times. */
const details = ['seek', 'tokens', 'temperature', 'avg_logprob', 'compression_ratio', 'no_speech_prob']

function segmentOf(json: unknown, times: TimeReader): Segment {
  const detailEntries = isObject(json)
    ? details.filter(name => json[name] !== undefined).map(name => [name, json[name]])
    : []
  return {
    ...times.read(json),
    text: textOf(json, 'text'),
    speaker: readOptionalText(json, 'speaker'),
    ...idOf(json),
    ...(detailEntries.length > 0 && { details: Object.fromEntries(detailEntries) }),
  }
}

/** Segments with speakers have string ids; whisper's are positions. */
function idOf(json: unknown): { id?: string } {
  const id = readOptionalText(json, 'id')
  return id === null ? {} : { id }
}

/** Tokens; null where the provider bills seconds, which were measured. */
function usageOf(json: unknown): Usage | null {
  const tokens = tokensOf(json)
  const audio = count(valueAt(json, 'input_token_details.audio_tokens'))
  if (!tokens || audio === undefined) return tokens
  return { ...tokens, prompt_tokens_details: { audio_tokens: Math.min(audio, tokens.prompt_tokens) } }
}
