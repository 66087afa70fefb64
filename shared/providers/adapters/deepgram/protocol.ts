import { unsupported } from '../../../kinds/media.ts'
import type { Segment, Transcript, TranscriptionInput, Word } from '../../../kinds/transcription.ts'
import { isoLanguage } from '../../../kinds/transcription-options.ts'
import type { Protocol, SyncAdapter, Target } from '../../contract.ts'
import {
  invalidResponse,
  readList,
  readOptionalNumber,
  readOptionalText,
  readText,
  valueAt,
} from '../../toolkit/json-fields.ts'
import { assertPriced, soundOf, speakersOf, TimeReader } from '../../toolkit/transcripts.ts'
import { failure, withoutLanguage } from './failure.ts'

/** Transcribing hours of speech takes minutes. */
const workMs = 600_000
/** About ten hours of words and utterances. */
const maxAnswerBytes = 64 * 1024 * 1024

const transcription: SyncAdapter<'transcription'> = {
  async make(call, connection) {
    const { target, input, signal } = call
    const path = `/v1/listen?${queryOf(target, input)}`
    const file = await soundOf(call)
    const { json } = await connection
      .send({ method: 'POST', path, file, signal, firstByteMs: workMs, maxBytes: maxAnswerBytes })
      .catch(error => {
        throw input.language === null && input.languages.length === 0 ? withoutLanguage(error) : error
      })
    const transcript = transcriptOf(json, input)
    return { pieces: null, transcript: () => transcript }
  },
}

/** Deepgram's API for recorded speech. */
export const deepgram: Protocol = {
  direct: {},
  synchronous: { transcription },
  credentialCheck: () => ({ path: '/v1/projects' }),
  failure,
}

function queryOf({ model, deployment, provider }: Target, input: TranscriptionInput): URLSearchParams {
  if (input.prompt !== null) throw unsupported(model, 'prompt', 'takes no `prompt` at this provider')
  if (input.temperature !== null) throw unsupported(model, 'temperature', 'takes no `temperature` at this provider')
  assertPriced({ model, deployment, provider }, input)
  const query = new URLSearchParams({ model: deployment.upstream_model, smart_format: 'true', punctuate: 'true' })
  // Models without language detection have a language value for any speech, e.g. `multi`.
  const language = input.language === null ? deployment.traits?.any_language : knownTag(input.language)
  if (input.languages.length > 0)
    for (const one of new Set(input.languages.map(isoLanguage))) query.append('detect_language', one)
  else if (language === undefined) query.set('detect_language', 'true')
  else query.set('language', language)
  if (input.segments) query.set('utterances', 'true')
  if (input.speakers) query.set('diarize', 'true')
  for (const keyword of input.keywords) query.append('keyterm', keyword)
  return query
}

/** The regions and scripts that Deepgram knows (developers.deepgram.com/docs/models-languages-overview); it refuses others. */
const regionalTags: ReadonlySet<string> = new Set([
  ...['da-DK', 'de-CH', 'en-AU', 'en-GB', 'en-IN', 'en-NZ', 'en-US', 'es-419', 'fr-CA', 'ko-KR', 'nl-BE'],
  ...['pt-BR', 'pt-PT', 'sv-SE', 'th-TH', 'zh-CN', 'zh-HK', 'zh-Hans', 'zh-Hant', 'zh-TW'],
])

/** A language with its region or script if Deepgram knows it, else the language. */
function knownTag(tag: string): string {
  const [language, subtag] = tag.split('-')
  const regional = `${language}-${subtag}`
  return regionalTags.has(regional) ? regional : isoLanguage(tag)
}

/** The first channel: channels are transcribed as one. */
function transcriptOf(json: unknown, input: TranscriptionInput): Transcript {
  const channel = valueAt(json, 'results.channels.0')
  const best = valueAt(channel, 'alternatives.0')
  const transcript = valueAt(best, 'transcript')
  // Silence yields an empty transcript.
  if (typeof transcript !== 'string') throw invalidResponse('it has no text `transcript`')
  return {
    text: transcript,
    language: readOptionalText(channel, 'detected_language') ?? readOptionalText(best, 'languages.0'),
    segments: input.segments ? segmentsOf(readList(json, 'results.utterances'), input) : null,
    words: input.words ? wordsOf(readList(best, 'words')) : null,
    logprobs: null,
    usage: null,
  }
}

function segmentsOf(utterances: readonly unknown[], input: TranscriptionInput): Segment[] {
  const times = new TimeReader()
  const speakers = input.speakers ? speakersOf(utterances.map(speakerOf)) : null
  return utterances.map((utterance, i) => ({
    ...times.read(utterance),
    text: readText(utterance, 'transcript'),
    speaker: speakers?.[i] ?? null,
  }))
}

function speakerOf(utterance: unknown): string | null {
  const speaker = readOptionalNumber(utterance, 'speaker')
  return speaker === null ? null : String(speaker)
}

function wordsOf(words: readonly unknown[]): Word[] {
  const times = new TimeReader()
  return words.map(word => ({
    word: readOptionalText(word, 'punctuated_word') ?? readText(word, 'word'),
    ...times.read(word),
  }))
}
