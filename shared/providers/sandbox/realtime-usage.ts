import type { Tokenizer } from '../../kinds/tokenizer.ts'
import type { Request } from './realtime-answer.ts'
import { type Item, type Tokens, tokensOf } from './realtime-items.ts'

/** What a response used: all that the model read, and what it said until it ended. */
export function usageOf(request: Request, output: readonly Item[], tokenizer: Tokenizer): object {
  const written = tokensOf(output, tokenizer)
  const read = tokensOf(request.items, tokenizer)
  read.text += tokenizer.count(request.instructions)
  if (request.tools.length > 0) read.text += tokenizer.count(JSON.stringify(request.tools))
  return told(read, written)
}

/** Of one that failed before it began. */
export function noUsage(): object {
  const nothing = { text: 0, audio: 0, image: 0 }
  return told(nothing, nothing)
}

function told(input: Tokens, output: Tokens): object {
  const inputTokens = input.text + input.audio + input.image
  const outputTokens = output.text + output.audio
  return {
    total_tokens: inputTokens + outputTokens,
    input_tokens: inputTokens,
    output_tokens: outputTokens,
    input_token_details: {
      text_tokens: input.text,
      audio_tokens: input.audio,
      image_tokens: input.image,
      cached_tokens: 0,
      cached_tokens_details: { text_tokens: 0, audio_tokens: 0, image_tokens: 0 },
    },
    output_token_details: { text_tokens: output.text, audio_tokens: output.audio },
  }
}
