import { invalidResponse, type Json, objectIn } from '../../toolkit/json-fields.ts'

/** Parses the data of an event. Throws a ProviderError `invalid_response` unless it is a JSON object. */
export function parseEvent(data: string): Json {
  let event: unknown
  try {
    event = JSON.parse(data)
  } catch (cause) {
    throw invalidResponse('an event is not JSON', cause)
  }
  return objectIn(event, 'event')
}
