import { ProviderError } from '../contract.ts'

export type Json = Record<string, unknown>

export function nonsense(message: string, cause?: unknown): ProviderError {
  return new ProviderError('invalid_response', `The provider's answer makes no sense: ${message}.`, { cause })
}

/** Throws a ProviderError `invalid_response` unless `value` is a JSON object. */
export function objectIn(value: unknown, name: string): Json {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw nonsense(`${name} is not an object`)
  return value as Json
}

/** Throws a ProviderError `invalid_response` unless `value` is text. */
export function textIn(value: unknown, name: string): string {
  if (typeof value !== 'string') throw nonsense(`${name} is not text`)
  return value
}
