import type { Tokenizer } from '../../../kinds/tokenizer.ts'
import type { ResponseRequest } from './generate-output.ts'
import { type Item, type Tokens, tokensOf } from './items.ts'

/** The usage of a response: all input of the model, and the output until its end. */
export function usageOf(request: ResponseRequest, output: readonly Item[], tokenizer: Tokenizer): object {
  const outputTokens = tokensOf(output, tokenizer)
  const inputTokens = tokensOf(request.items, tokenizer)
  inputTokens.text += tokenizer.count(request.instructions)
  if (request.tools.length > 0) inputTokens.text += tokenizer.count(JSON.stringify(request.tools))
  return presentUsage(inputTokens, outputTokens)
}

/** The usage of a response that failed before it began. */
export function noUsage(): object {
  const nothing = { text: 0, audio: 0, image: 0 }
  return presentUsage(nothing, nothing)
}

function presentUsage(input: Tokens, output: Tokens): object {
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
