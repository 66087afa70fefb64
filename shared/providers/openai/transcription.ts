import type { Readable } from 'node:stream'
import type { Usage } from '../../base/usage.ts'
import { formatOf } from '../../io/media-type.ts'
import { unsupported } from '../../kinds/media.ts'
import type { Segment, Transcript, TranscriptionOutput, Word } from '../../kinds/transcription.ts'
import type { FormPart, InstantAdapter, InstantCall, ProviderRequest, Source } from '../contract.ts'
import { at, isObject, list, number, optionalText } from '../fields.ts'
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
}

/**
 * `POST /audio/transcriptions`: a form whose file is read from storage while it is sent. The deployment trait `diarizes` marks
 * a model that tells who speaks.
 */
export const transcription: InstantAdapter<'transcription'> = {
  async make(call, line) {
    needsAudio(line)
    const streams = call.input.stream && call.target.model.kind?.stream === true
    const parts = [...partsOf(call), ...(streams ? [{ name: 'stream', value: 'true' }] : [])]
    const path = '/audio/transcriptions'
    const request: ProviderRequest = { method: 'POST', path, parts, firstByteMs, mostBytes, signal: call.signal }
    if (streams) return inPieces((await answered(fields, line.stream(request))).stream)
    const { json } = await answered(fields, line.send(request))
    const transcript = transcriptIn(json)
    return { deltas: null, transcript: () => transcript }
  },
}

function partsOf(call: TranscriptionCall): FormPart[] {
  const { language, prompt, temperature, segments, words } = call.input
  const responseFormat = formatFor(call)
  const wanted = {
    model: call.target.deployment.upstream_model,
    response_format: responseFormat,
    language,
    prompt,
    temperature,
    // It cuts sound of more than half a minute by itself only when it is asked to.
    chunking_strategy: diarizes(call) ? 'auto' : null,
  }
  const values = Object.entries(wanted).filter(([, value]) => value !== null)
  const granularities = responseFormat === 'verbose_json' ? { segment: segments, word: words } : {}
  const times = Object.entries(granularities).filter(([, isWanted]) => isWanted)
  return [
    ...values.map(([name, value]) => ({ name, value: String(value) })),
    ...times.map(([value]) => ({ name: 'timestamp_granularities[]', value })),
    { name: 'file', file: fileOf(call) },
  ]
}

function diarizes({ target }: TranscriptionCall): boolean {
  return target.deployment.traits?.diarizes === true
}

/** The least that says all that is needed. Throws 400 for words with their times where there are none. */
function formatFor(call: TranscriptionCall): string {
  const { segments, words } = call.input
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
  async function* deltas() {
    for await (const json of eventsUntil(last, answer)) {
      if (json.type === 'transcript.text.delta') yield textOf(json, 'delta')
      else if (json.type === last) transcript = transcriptIn(json)
    }
  }
  return { deltas: deltas(), transcript: () => transcript! }
}

function transcriptIn(json: unknown): Transcript {
  return {
    text: textOf(json, 'text'),
    language: optionalText(json, 'language'),
    segments: optionalList(json, 'segments', segmentOf),
    words: optionalList(json, 'words', wordOf),
    usage: usageOf(at(json, 'usage')),
  }
}

function optionalList<T>(json: unknown, name: string, read: (entry: unknown) => T): T[] | null {
  return at(json, name) == null ? null : list(json, name).map(read)
}

function wordOf(json: unknown): Word {
  return { start: number(json, 'start'), end: number(json, 'end'), word: textOf(json, 'word') }
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
    ...(told.length > 0 && { details: Object.fromEntries(told) }),
  }
}

/** Tokens; null where the provider counts seconds, which were measured. */
function usageOf(json: unknown): Usage | null {
  const tokens = tokensOf(json)
  const audio = count(at(json, 'input_token_details.audio_tokens'))
  if (!tokens || audio === undefined) return tokens
  return { ...tokens, prompt_tokens_details: { audio_tokens: Math.min(audio, tokens.prompt_tokens) } }
}
