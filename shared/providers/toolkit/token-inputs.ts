import { GatewayError } from '../../base/errors.ts'
import type { ProviderRow } from '../../catalog/schema.ts'

type Input = string | readonly unknown[]

/**
 * Asserts that an input, or each of a list, is text. Throws 400 `unsupported_capability`: token ids mean the vocabulary of
 * the model that the client had in mind, and their text may be many times longer than what was reserved.
 */
export function assertText(input: Input, param: string): asserts input is string | string[] {
  if (typeof input === 'string' || input.every(one => typeof one === 'string')) return
  const advice = param === 'input' ? ' Send the text itself; in LangChain, set `check_embedding_ctx_length=False`.' : ''
  const message = `This model takes text, not tokens.${advice}`
  throw new GatewayError('unsupported_capability', message, { param })
}

/** Asserts that an input is text where the provider takes no token ids. Throws as `assertText` does. */
export function assertTakesInput({ quirks }: ProviderRow, input: Input, param: string): void {
  if (quirks?.token_inputs === false) assertText(input, param)
}
