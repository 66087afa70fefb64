import type { Tokenizer } from '../../../kinds/tokenizer.ts'
import { splitWords } from '../chat/response.ts'
import { lengthOf } from './generate-output.ts'
import { inputAudioTokens } from './items.ts'
import type { Sound } from './sound.ts'
import type { Wire } from './wire.ts'

/** Transcribes audio: as its duration. Returns the transcript after its events were sent. */
export function transcribe(
  sound: Sound,
  location: { item_id: string; content_index: number },
  { wire, tokenizer, logprobs }: { wire: Wire; tokenizer: Tokenizer; logprobs: boolean },
): string {
  const transcript = `This is ${lengthOf(sound)} of sound.`
  const certain = (text: string) => logprobs && { logprobs: tokenizer.split(text).map(certainty) }
  for (const delta of splitWords(transcript)) {
    wire.send('conversation.item.input_audio_transcription.delta', { ...location, delta, ...certain(delta) })
  }
  const audioTokens = inputAudioTokens(sound)
  const textTokens = tokenizer.count(transcript)
  wire.send('conversation.item.input_audio_transcription.completed', {
    ...location,
    transcript,
    ...certain(transcript),
    usage: {
      type: 'tokens',
      total_tokens: audioTokens + textTokens,
      input_tokens: audioTokens,
      output_tokens: textTokens,
      input_token_details: { text_tokens: 0, audio_tokens: audioTokens },
    },
  })
  return transcript
}

function certainty(token: string) {
  return { token, bytes: [...Buffer.from(token)], logprob: 0 }
}
