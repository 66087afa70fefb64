import type { Tokenizer } from '../../kinds/tokenizer.ts'
import { words } from './answer.ts'
import { lengthOf } from './realtime-answer.ts'
import { heardTokens } from './realtime-items.ts'
import type { Sound } from './realtime-sound.ts'
import type { Wire } from './realtime-wire.ts'

/** Writes down what was said: its length. Returns the transcript once it is told. */
export function transcribe(
  sound: Sound,
  place: { item_id: string; content_index: number },
  { wire, tokenizer, logprobs }: { wire: Wire; tokenizer: Tokenizer; logprobs: boolean },
): string {
  const transcript = `This is ${lengthOf(sound)} of sound.`
  const certain = (text: string) => logprobs && { logprobs: tokenizer.split(text).map(certainty) }
  for (const delta of words(transcript)) {
    wire.send('conversation.item.input_audio_transcription.delta', { ...place, delta, ...certain(delta) })
  }
  const heard = heardTokens(sound)
  const written = tokenizer.count(transcript)
  wire.send('conversation.item.input_audio_transcription.completed', {
    ...place,
    transcript,
    ...certain(transcript),
    usage: {
      type: 'tokens',
      total_tokens: heard + written,
      input_tokens: heard,
      output_tokens: written,
      input_token_details: { text_tokens: 0, audio_tokens: heard },
    },
  })
  return transcript
}

function certainty(token: string) {
  return { token, bytes: [...Buffer.from(token)], logprob: 0 }
}
