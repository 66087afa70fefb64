import { tokenizer } from '../../kinds/tokenizer.ts'
import type {
  Segment,
  TokenProbability,
  TranscriptionOutput,
  TranscriptPiece,
  Word,
} from '../../kinds/transcription.ts'
import type { InstantCall } from '../contract.ts'
import { words } from './answer.ts'

const tokensPerSecond = 10
/** What OpenAI's segments tell beside their times. */
const details = { seek: 0, tokens: [], temperature: 0, avg_logprob: 0, compression_ratio: 1, no_speech_prob: 0 }

/** A transcript that tells the file's name and its measured length. */
export async function transcript({
  input,
  sources,
  target,
}: InstantCall<'transcription'>): Promise<TranscriptionOutput> {
  const { filename } = sources.get('audio_url')!
  const sentences = [`This is ${filename}.`, ` It is ${Math.round(input.seconds * 1000) / 1000} seconds long.`]
  const text = sentences.join('')
  const heard = Math.ceil(input.seconds * tokensPerSecond)
  const said = (await tokenizer()).count(text)
  // Two speakers, one for each sentence: known ones by their names.
  const tellsSpeakers = input.speakers || target.deployment.traits?.diarizes === true
  const speakerOf = (position: number) =>
    tellsSpeakers ? (input.knownSpeakers[position] ?? String.fromCharCode(65 + position)) : null
  const whole = {
    text,
    language: input.language ?? 'en',
    segments: timed(sentences, input.seconds).map(({ text, ...times }, position): Segment => {
      const id = tellsSpeakers ? { id: `seg_00${position + 1}` } : { details }
      return { ...times, text: text.trim(), speaker: speakerOf(position), ...id }
    }),
    words: timed(words(text), input.seconds).map(({ text, ...times }): Word => ({ ...times, word: text.trim() })),
    logprobs: input.logprobs ? words(text).map(probabilityOf) : null,
    usage: {
      prompt_tokens: heard,
      completion_tokens: said,
      total_tokens: heard + said,
      prompt_tokens_details: { audio_tokens: heard },
    },
  }
  return { pieces: input.stream ? pieces(words(text), input.logprobs) : null, transcript: () => whole }
}

function probabilityOf(token: string): TokenProbability {
  return { token, logprob: -0.01, bytes: [...Buffer.from(token)] }
}

async function* pieces(texts: readonly string[], logprobs: boolean): AsyncIterable<TranscriptPiece> {
  for (const text of texts) yield { text, segmentId: null, logprobs: logprobs ? [probabilityOf(text)] : null }
}

/** The pieces of a text as they fill the time, each by its length. */
function timed(pieces: readonly string[], seconds: number): { text: string; start: number; end: number }[] {
  const total = pieces.reduce((sum, piece) => sum + piece.length, 0)
  const at = (characters: number) => Math.round((seconds * characters * 1000) / total) / 1000
  let characters = 0
  return pieces.map(text => {
    const start = at(characters)
    characters += text.length
    return { text, start, end: at(characters) }
  })
}
