import { ProviderError } from '../contract.ts'

export type Json = Record<string, unknown>

export function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** What an answer we cannot understand is reported as. */
export function invalid(what: string): ProviderError {
  return new ProviderError('invalid_response', `The provider's answer is not understood: ${what}.`)
}
