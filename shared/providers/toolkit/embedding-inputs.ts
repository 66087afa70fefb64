import { GatewayError } from '../../base/errors.ts'
import type { EmbeddingRequest } from '../../kinds/embedding.ts'

/** The inputs of a request as texts. Throws a GatewayError 400 for tokens, which only some servers take. */
export function textInputs(input: EmbeddingRequest['input']): string[] {
  const inputs = typeof input === 'string' ? [input] : input
  if (inputs.every(text => typeof text === 'string')) return inputs
  // LangChain tokenises by default, https://github.com/danny-avila/rag_api/issues/115.
  const advice = 'Send strings; with LangChain, set check_embedding_ctx_length=False.'
  throw new GatewayError('unsupported_capability', `This model takes text, not tokens. ${advice}`, { param: 'input' })
}
