import { tokenizer } from '../../../kinds/tokenizer.ts'
import type {
  Segment,
  TokenProbability,
  TranscriptionOutput,
  TranscriptPiece,
  Word,
} from '../../../kinds/transcription.ts'
import type { SyncCall } from '../../contract.ts'
import { splitWords } from '../chat/response.ts'

const tokensPerSecond = 10
/** OpenAI's segment fields in addition to times. */
const details = { seek: 0, tokens: [], temperature: 0, avg_logprob: 0, compression_ratio: 1, no_speech_prob: 0 }

/** A transcript that contains the file's name and its measured duration. */
export async function transcript({ input, sources, target }: SyncCall<'transcription'>): Promise<TranscriptionOutput> {
  const { filename } = sources.get('audio_url')!
  const sentences = [`This is ${filename}.`, ` It is ${Math.round(input.seconds * 1000) / 1000} seconds long.`]
  const text = sentences.join('')
  const textPieces = [...splitWords(text)]
  const audioTokens = Math.ceil(input.seconds * tokensPerSecond)
  const textTokens = (await tokenizer()).count(text)
  // Two speakers, one per sentence; known speakers by their names.
  const tellsSpeakers = input.speakers || target.deployment.traits?.diarizes === true
  const speakerOf = (position: number) =>
    tellsSpeakers ? (input.knownSpeakers[position] ?? String.fromCharCode(65 + position)) : null
  const whole = {
    text,
    language: input.language ?? 'en',
    segments: distribute(sentences, input.seconds).map(({ text, ...times }, position): Segment => {
      const id = tellsSpeakers ? { id: `seg_00${position + 1}` } : { details }
      return { ...times, text: text.trim(), speaker: speakerOf(position), ...id }
    }),
    words: distribute(textPieces, input.seconds).map(({ text, ...times }): Word => ({ ...times, word: text.trim() })),
    logprobs: input.logprobs ? textPieces.map(probabilityOf) : null,
    usage: {
      prompt_tokens: audioTokens,
      completion_tokens: textTokens,
      total_tokens: audioTokens + textTokens,
      prompt_tokens_details: { audio_tokens: audioTokens },
    },
  }
  return { pieces: input.stream ? pieces(textPieces, input.logprobs) : null, transcript: () => whole }
}

function probabilityOf(token: string): TokenProbability {
  return { token, logprob: -0.01, bytes: [...Buffer.from(token)] }
}

async function* pieces(texts: readonly string[], logprobs: boolean): AsyncIterable<TranscriptPiece> {
  for (const text of texts) yield { text, segmentId: null, logprobs: logprobs ? [probabilityOf(text)] : null }
}

/** Distributes a text's pieces over the duration, each by its length. */
function distribute(pieces: readonly string[], seconds: number): { text: string; start: number; end: number }[] {
  const total = pieces.reduce((sum, piece) => sum + piece.length, 0)
  const at = (characters: number) => Math.round((seconds * characters * 1000) / total) / 1000
  let characters = 0
  return pieces.map(text => {
    const start = at(characters)
    characters += text.length
    return { text, start, end: at(characters) }
  })
}
