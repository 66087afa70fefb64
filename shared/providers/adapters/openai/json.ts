import { ProviderError } from '../../provider-error.ts'

export type Json = Record<string, unknown>

export function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The error for a malformed response. */
export function invalidResponse(what: string): ProviderError {
  return new ProviderError('invalid_response', `The provider's answer is not understood: ${what}.`)
}
