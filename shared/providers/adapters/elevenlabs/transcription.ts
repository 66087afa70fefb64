import { unsupported } from '../../../kinds/media.ts'
import type { Segment, Transcript, TranscriptionInput, Word } from '../../../kinds/transcription.ts'
import type { FormPart, SyncAdapter, Target } from '../../contract.ts'
import { mapErrorParam } from '../../toolkit/error-param.ts'
import { invalidResponse, readList, readOptionalText, readText, valueAt } from '../../toolkit/json-fields.ts'
import { assertPriced, soundOf, speakersOf, TimeReader } from '../../toolkit/transcripts.ts'

/** The official client's timeout. */
const workMs = 240_000
/** About 25 hours of words with timestamps. */
const maxAnswerBytes = 64 * 1024 * 1024

/** Our fields by ElevenLabs' own. */
const names = {
  keyterms: 'keywords',
  file: 'audio_url',
  language_code: 'language',
  temperature: 'temperature',
  model_id: 'model',
}

/** Speech to text. Its words have timestamps, from which the subtitle lines are built. */
export const transcription: SyncAdapter<'transcription'> = {
  async make(call, connection) {
    const { target, input, signal } = call
    const fields = fieldsOf(target, input)
    const parts: FormPart[] = Object.entries(fields).map(([name, value]) => ({ name, value }))
    parts.push(...input.keywords.map(value => ({ name: 'keyterms', value })))
    parts.push({ name: 'file', file: await soundOf(call) })
    const { json } = await mapErrorParam(
      names,
      connection.send({
        method: 'POST',
        path: '/v1/speech-to-text',
        parts,
        signal,
        firstByteMs: workMs,
        maxBytes: maxAnswerBytes,
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
    // Speech only: by default it also transcribes laughter and other sounds.
    tag_audio_events: 'false',
    // It supports languages without regions.
    ...(input.language !== null && { language_code: input.language.split('-')[0]! }),
    ...(input.speakers && { diarize: 'true' }),
    ...(input.temperature !== null && { temperature: String(input.temperature) }),
  }
}

function isTimed({ segments, words }: TranscriptionInput): boolean {
  return segments || words
}

function transcriptOf(json: unknown, input: TranscriptionInput): Transcript {
  const text = valueAt(json, 'text')
  // Silence yields an empty transcript.
  if (typeof text !== 'string') throw invalidResponse('it has no text `text`')
  const parts = isTimed(input) ? readList(json, 'words') : null
  return {
    text,
    language: readOptionalText(json, 'language_code'),
    segments: parts && input.speakers ? turnsOf(parts) : null,
    words: parts && wordsOf(parts),
    logprobs: null,
    usage: null,
  }
}

/** Groups consecutive words of one speaker. Spaces belong to no speaker. */
function turnsOf(parts: readonly unknown[]): Segment[] {
  const words = wordsIn(parts)
  const speakers = speakersOf(words.map(part => readOptionalText(part, 'speaker_id')))
  const times = new TimeReader()
  const turns: Segment[] = []
  let [space, position] = ['', 0]
  for (const part of parts) {
    const type = readText(part, 'type')
    if (type === 'spacing') space = ' '
    if (type !== 'word') continue
    const speaker = speakers[position++]!
    const word = { ...times.read(part), text: readText(part, 'text') }
    const turn = turns.at(-1)
    if (turn?.speaker === speaker) Object.assign(turn, { end: word.end, text: turn.text + space + word.text })
    else turns.push({ ...word, speaker })
    space = ''
  }
  return turns
}

function wordsOf(parts: readonly unknown[]): Word[] {
  const times = new TimeReader()
  return wordsIn(parts).map(part => ({ word: readText(part, 'text'), ...times.read(part) }))
}

/** Spaces and noises are not words. */
function wordsIn(parts: readonly unknown[]): unknown[] {
  return parts.filter(part => readText(part, 'type') === 'word')
}
