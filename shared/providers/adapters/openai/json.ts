import { ProviderError } from '../../provider-error.ts'

export type Json = Record<string, unknown>

/** The error for a malformed response. */
export function invalidResponse(what: string): ProviderError {
  return new ProviderError('invalid_response', `The provider's answer is not understood: ${what}.`)
}
