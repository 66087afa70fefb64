import { unsupported } from '../../kinds/media.ts'
import type { Segment, Transcript, TranscriptionInput, Word } from '../../kinds/transcription.ts'
import type { InstantAdapter, Protocol, Target } from '../contract.ts'
import { at, invalid, list, number, optionalText, text } from '../fields.ts'
import { assertPriced, SpeakerNames } from '../transcripts.ts'
import { failure, withoutLanguage } from './failure.ts'

/** Hours of speech take minutes. */
const workMs = 600_000
/** Some ten hours of words and utterances. */
const mostAnswerBytes = 64 * 1024 * 1024

const transcription: InstantAdapter<'transcription'> = {
  async make({ target, input, sources, signal }, line) {
    const path = `/v1/listen?${queryOf(target, input)}`
    const file = sources.get('audio_url')!
    const { json } = await line
      .send({ method: 'POST', path, file, signal, firstByteMs: workMs, mostBytes: mostAnswerBytes })
      .catch(error => {
        throw input.language === null && input.languages.length === 0 ? withoutLanguage(error) : error
      })
    const transcript = transcriptOf(json, input)
    return { pieces: null, transcript: () => transcript }
  },
}

/** Deepgram's API of recorded speech. */
export const deepgram: Protocol = { direct: {}, instant: { transcription }, failure }

function queryOf({ model, deployment, provider }: Target, input: TranscriptionInput): URLSearchParams {
  if (input.prompt !== null) throw unsupported(model, 'prompt', 'takes no `prompt` at this provider')
  if (input.temperature !== null) throw unsupported(model, 'temperature', 'takes no `temperature` at this provider')
  assertPriced({ model, deployment, provider }, input)
  const query = new URLSearchParams({ model: deployment.upstream_model, smart_format: 'true', punctuate: 'true' })
  // Models that cannot tell the language have a language of their own for speech in any, e.g. `multi`.
  const language = input.language ?? deployment.traits?.any_language
  if (input.languages.length > 0) for (const one of input.languages) query.append('detect_language', one)
  else if (language === undefined) query.set('detect_language', 'true')
  else query.set('language', String(language))
  if (input.segments) query.set('utterances', 'true')
  if (input.speakers) query.set('diarize', 'true')
  for (const keyword of input.keywords) query.append('keyterm', keyword)
  return query
}

/** The first channel: several are heard as one. */
function transcriptOf(json: unknown, input: TranscriptionInput): Transcript {
  const channel = at(json, 'results.channels.0')
  const best = at(channel, 'alternatives.0')
  const said = at(best, 'transcript')
  // Silence gives an empty one.
  if (typeof said !== 'string') throw invalid('it has no text `transcript`')
  const speakers = new SpeakerNames()
  return {
    text: said,
    language: optionalText(channel, 'detected_language') ?? optionalText(best, 'languages.0'),
    segments: input.segments
      ? list(json, 'results.utterances').map(one => segmentOf(one, input.speakers ? speakers : null))
      : null,
    words: input.words ? list(best, 'words').map(wordOf) : null,
    logprobs: null,
    usage: null,
  }
}

function segmentOf(utterance: unknown, speakers: SpeakerNames | null): Segment {
  const [start, end] = [number(utterance, 'start'), number(utterance, 'end')]
  const speaker = speakers === null ? null : speakers.nameOf(String(number(utterance, 'speaker')))
  return { start, end, text: text(utterance, 'transcript'), speaker }
}

function wordOf(word: unknown): Word {
  const written = optionalText(word, 'punctuated_word') ?? text(word, 'word')
  return { word: written, start: number(word, 'start'), end: number(word, 'end') }
}
