import type { Readable } from 'node:stream'
import type { Usage } from '../../base/usage.ts'
import { formatOf } from '../../io/media-type.ts'
import { unsupported } from '../../kinds/media.ts'
import type {
  Segment,
  TokenProbability,
  Transcript,
  TranscriptionOutput,
  TranscriptPiece,
  Word,
} from '../../kinds/transcription.ts'
import type { FormPart, InstantAdapter, InstantCall, ProviderRequest, Source } from '../contract.ts'
import { at, isObject, list, number, optionalText } from '../fields.ts'
import { sourcesIn } from '../sources.ts'
import { answered, eventsUntil, needsAudio, textOf, tokensOf } from './audio.ts'
import { count } from './usage.ts'

type TranscriptionCall = InstantCall<'transcription'>

/** Nothing is answered before all is heard: 25 MiB may be hours. */
const firstByteMs = 5 * 60_000
/** Hours of words with their times. */
const mostBytes = 16 * 1024 * 1024

/** What they find wrong, by its name there. */
const fields = {
  file: 'audio_url',
  language: 'language',
  prompt: 'prompt',
  temperature: 'temperature',
  'timestamp_granularities[]': 'timestamp_granularities',
  timestamp_granularities: 'timestamp_granularities',
  response_format: 'response_format',
  stream: 'stream',
  ...{ 'include[]': 'include', include: 'include', chunking_strategy: 'chunking_strategy' },
  ...{ 'keywords[]': 'keywords', keywords: 'keywords', 'languages[]': 'languages', languages: 'languages' },
  ...{ 'known_speaker_names[]': 'known_speaker_names', known_speaker_names: 'known_speaker_names' },
  'known_speaker_references[]': 'known_speaker_references',
  known_speaker_references: 'known_speaker_references',
}

/**
 * `POST /audio/transcriptions`: a form whose file is read from storage while it is sent. The deployment trait `diarizes` marks
 * a model that tells who speaks.
 */
export const transcription: InstantAdapter<'transcription'> = {
  async make(call, line) {
    needsAudio(line)
    const streams = call.input.stream && call.target.model.kind?.stream === true
    const parts = [...(await partsOf(call)), ...(streams ? [{ name: 'stream', value: 'true' }] : [])]
    const path = call.input.translate ? '/audio/translations' : '/audio/transcriptions'
    const request: ProviderRequest = { method: 'POST', path, parts, firstByteMs, mostBytes, signal: call.signal }
    if (streams) return inPieces((await answered(fields, line.stream(request))).stream)
    const { json } = await answered(fields, line.send(request))
    const transcript = transcriptIn(json)
    return { pieces: null, transcript: () => transcript }
  },
}

async function partsOf(call: TranscriptionCall): Promise<FormPart[]> {
  const { language, languages, prompt, keywords, temperature, translate } = call.input
  const { segments, words, logprobs, knownSpeakers } = call.input
  const responseFormat = formatFor(call)
  const wanted = {
    model: call.target.deployment.upstream_model,
    response_format: responseFormat,
    language,
    prompt,
    temperature,
    ...chunkingOf(call),
  }
  const values = Object.entries(wanted).filter(([, value]) => value !== null)
  // Translations have no such field, and times of segments all the same.
  const granularities = responseFormat === 'verbose_json' && !translate ? { segment: segments, word: words } : {}
  const times = Object.entries(granularities).flatMap(([name, isWanted]) => (isWanted ? [name] : []))
  const samples = sourcesIn(call.sources, 'known_speaker_references')
  const lists = {
    timestamp_granularities: times,
    include: logprobs ? ['logprobs'] : [],
    languages,
    keywords,
    known_speaker_names: knownSpeakers,
    known_speaker_references: await Promise.all(samples.map(dataUriOf)),
  }
  return [
    ...values.map(([name, value]) => ({ name, value: String(value) })),
    ...Object.entries(lists).flatMap(([name, all]) => all.map(value => ({ name: `${name}[]`, value }))),
    { name: 'file', file: fileOf(call) },
  ]
}

async function dataUriOf(sample: Source): Promise<string> {
  return `data:${sample.contentType};base64,${await sample.base64()}`
}

/** Settings of voice detection are fields of their own, as OpenAI's SDK writes them. */
function chunkingOf(call: TranscriptionCall): Record<string, string | number> {
  const { chunking } = call.input
  // It cuts sound of more than half a minute by itself only when it is asked to.
  if (chunking === null) return diarizes(call) ? { chunking_strategy: 'auto' } : {}
  if (chunking === 'auto') return { chunking_strategy: chunking }
  return Object.fromEntries(Object.entries(chunking).map(([name, value]) => [`chunking_strategy[${name}]`, value]))
}

function diarizes({ target }: TranscriptionCall): boolean {
  return target.deployment.traits?.diarizes === true
}

/** The least that says all that is needed. Throws 400 for speakers, and words with their times, where there are none. */
function formatFor(call: TranscriptionCall): string {
  const { segments, words, speakers } = call.input
  if (speakers && !diarizes(call)) throw unsupported(call.target.model, 'response_format', 'does not tell who speaks')
  if (!diarizes(call)) return segments || words ? 'verbose_json' : 'json'
  if (words) throw unsupported(call.target.model, 'timestamp_granularities', 'gives no times of words')
  return segments ? 'diarized_json' : 'json'
}

/** What OpenAI, and whoever speaks its dialect, takes. */
const taken: ReadonlySet<string> = new Set(['flac', 'm4a', 'mp3', 'ogg', 'wav', 'webm'])

/** The sound, with a name that ends as its bytes say: it is what its format is told by. Throws 400 for another format. */
function fileOf({ sources, target }: TranscriptionCall): Source {
  const sound = sources.get('audio_url')!
  const extension = formatOf(sound.contentType)?.extension ?? ''
  if (!taken.has(extension)) throw unsupported(target.model, 'audio_url', `takes no ${sound.contentType}`)
  const isNamed = sound.filename.endsWith(`.${extension}`)
  return isNamed ? sound : { ...sound, filename: `${sound.filename}.${extension}` }
}

function inPieces(answer: Readable): TranscriptionOutput {
  const last = 'transcript.text.done'
  let transcript: Transcript | null = null
  async function* pieces(): AsyncGenerator<TranscriptPiece> {
    for await (const json of eventsUntil(last, answer)) {
      if (json.type === 'transcript.text.delta') yield pieceOf(json)
      else if (json.type === 'transcript.text.segment') yield { segment: segmentOf(json) }
      else if (json.type === last) transcript = transcriptIn(json)
    }
  }
  return { pieces: pieces(), transcript: () => transcript! }
}

function pieceOf(json: unknown): TranscriptPiece {
  const logprobs = optionalList(json, 'logprobs', probabilityOf)
  return { text: textOf(json, 'delta'), segmentId: optionalText(json, 'segment_id'), logprobs }
}

function transcriptIn(json: unknown): Transcript {
  return {
    text: textOf(json, 'text'),
    language: optionalText(json, 'language'),
    segments: optionalList(json, 'segments', segmentOf),
    words: optionalList(json, 'words', wordOf),
    logprobs: optionalList(json, 'logprobs', probabilityOf),
    usage: usageOf(at(json, 'usage')),
  }
}

function optionalList<T>(json: unknown, name: string, read: (entry: unknown) => T): T[] | null {
  return at(json, name) == null ? null : list(json, name).map(read)
}

function wordOf(json: unknown): Word {
  return { start: number(json, 'start'), end: number(json, 'end'), word: textOf(json, 'word') }
}

function probabilityOf(json: unknown): TokenProbability {
  const bytes = at(json, 'bytes')
  const isBytes = Array.isArray(bytes) && bytes.every(byte => Number.isInteger(byte) && byte >= 0 && byte <= 255)
  return { token: textOf(json, 'token'), logprob: number(json, 'logprob'), bytes: isBytes ? bytes : null }
}

/** What whisper says of a segment beside its text and times. */
const details = ['seek', 'tokens', 'temperature', 'avg_logprob', 'compression_ratio', 'no_speech_prob']

function segmentOf(json: unknown): Segment {
  const told = isObject(json) ? details.filter(name => json[name] !== undefined).map(name => [name, json[name]]) : []
  return {
    start: number(json, 'start'),
    end: number(json, 'end'),
    text: textOf(json, 'text'),
    speaker: optionalText(json, 'speaker'),
    ...idOf(json),
    ...(told.length > 0 && { details: Object.fromEntries(told) }),
  }
}

/** Those of segments with speakers are texts; whisper's are their places. */
function idOf(json: unknown): { id?: string } {
  const id = optionalText(json, 'id')
  return id === null ? {} : { id }
}

/** Tokens; null where the provider counts seconds, which were measured. */
function usageOf(json: unknown): Usage | null {
  const tokens = tokensOf(json)
  const audio = count(at(json, 'input_token_details.audio_tokens'))
  if (!tokens || audio === undefined) return tokens
  return { ...tokens, prompt_tokens_details: { audio_tokens: Math.min(audio, tokens.prompt_tokens) } }
}
