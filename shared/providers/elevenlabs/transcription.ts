import { unsupported } from '../../kinds/media.ts'
import type { Segment, Transcript, TranscriptionInput, Word } from '../../kinds/transcription.ts'
import type { FormPart, InstantAdapter, Target } from '../contract.ts'
import { at, invalid, list, number, optionalText, text } from '../fields.ts'
import { named } from '../param.ts'
import { assertPriced, SpeakerNames } from '../transcripts.ts'

/** How long the official client waits. */
const workMs = 240_000
/** Some 25 hours of words with their times. */
const mostAnswerBytes = 64 * 1024 * 1024

/** Our fields by ElevenLabs' own. */
const names = {
  keyterms: 'keywords',
  file: 'audio_url',
  language_code: 'language',
  temperature: 'temperature',
  model_id: 'model',
}

/** Speech to text. Its words have times; the lines of subtitles are made from them. */
export const transcription: InstantAdapter<'transcription'> = {
  async make({ target, input, sources, signal }, line) {
    const fields = fieldsOf(target, input)
    const parts: FormPart[] = Object.entries(fields).map(([name, value]) => ({ name, value }))
    parts.push(...input.keywords.map(value => ({ name: 'keyterms', value })))
    parts.push({ name: 'file', file: sources.get('audio_url')! })
    const { json } = await named(
      names,
      line.send({
        method: 'POST',
        path: '/v1/speech-to-text',
        parts,
        signal,
        firstByteMs: workMs,
        mostBytes: mostAnswerBytes,
      }),
    )
    const transcript = transcriptOf(json, input)
    return { pieces: null, transcript: () => transcript }
  },
}

function fieldsOf({ model, deployment, provider }: Target, input: TranscriptionInput): Record<string, string> {
  if (input.prompt !== null) throw unsupported(model, 'prompt', 'takes no `prompt` at this provider')
  assertPriced({ model, deployment, provider }, input)
  return {
    model_id: deployment.upstream_model,
    timestamps_granularity: isTimed(input) ? 'word' : 'none',
    // Only what is said; by itself it would write down laughter and the like, too.
    tag_audio_events: 'false',
    // It knows languages, not their regions.
    ...(input.language !== null && { language_code: input.language.split('-')[0]! }),
    ...(input.speakers && { diarize: 'true' }),
    ...(input.temperature !== null && { temperature: String(input.temperature) }),
  }
}

function isTimed({ segments, words }: TranscriptionInput): boolean {
  return segments || words
}

function transcriptOf(json: unknown, input: TranscriptionInput): Transcript {
  const said = at(json, 'text')
  // Silence gives an empty one.
  if (typeof said !== 'string') throw invalid('it has no text `text`')
  const parts = isTimed(input) ? list(json, 'words') : null
  return {
    text: said,
    language: optionalText(json, 'language_code'),
    segments: parts && input.speakers ? turnsOf(parts) : null,
    words: parts && wordsOf(parts),
    logprobs: null,
    usage: null,
  }
}

/** What each speaker says until another one speaks. Spaces belong to no one. */
function turnsOf(parts: readonly unknown[]): Segment[] {
  const speakers = new SpeakerNames()
  const turns: Segment[] = []
  let space = ''
  for (const part of parts) {
    const type = text(part, 'type')
    if (type === 'spacing') space = ' '
    if (type !== 'word') continue
    const speaker = speakers.nameOf(text(part, 'speaker_id'))
    const word = { start: number(part, 'start'), end: number(part, 'end'), text: text(part, 'text') }
    const turn = turns.at(-1)
    if (turn?.speaker === speaker) Object.assign(turn, { end: word.end, text: turn.text + space + word.text })
    else turns.push({ ...word, speaker })
    space = ''
  }
  return turns
}

/** Spaces and noises are not words. */
function wordsOf(parts: readonly unknown[]): Word[] {
  return parts
    .filter(part => text(part, 'type') === 'word')
    .map(part => ({ word: text(part, 'text'), start: number(part, 'start'), end: number(part, 'end') }))
}
