import { ProviderError } from '../../provider-error.ts'

export type Json = Record<string, unknown>

export function malformed(message: string, cause?: unknown): ProviderError {
  return new ProviderError('invalid_response', `The provider's answer makes no sense: ${message}.`, { cause })
}

/** Throws a ProviderError `invalid_response` unless `value` is a JSON object. */
export function objectIn(value: unknown, name: string): Json {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw malformed(`${name} is not an object`)
  return value as Json
}

/** Throws a ProviderError `invalid_response` unless `value` is a string. */
export function textIn(value: unknown, name: string): string {
  if (typeof value !== 'string') throw malformed(`${name} is not text`)
  return value
}

/** Parses the data of an event. Throws a ProviderError `invalid_response` unless it is a JSON object. */
export function parseEvent(data: string): Json {
  let event: unknown
  try {
    event = JSON.parse(data)
  } catch (cause) {
    throw malformed('an event is not JSON', cause)
  }
  return objectIn(event, 'event')
}
