import type { Readable } from 'node:stream'
import { isObject } from '../../../base/is-object.ts'
import type { ProviderConnection } from '../../contract.ts'
import { ProviderError } from '../../provider-error.ts'
import { mapErrorParam } from '../../toolkit/error-param.ts'
import { type JsonEvent, jsonEvents } from '../../toolkit/json-events.ts'
import { invalidResponse, type Json, valueAt } from '../../toolkit/json-fields.ts'
import { count } from './answer.ts'
import { reportedFailure } from './failure.ts'

/** Shared by speech and transcriptions. */

/** Asserts that a provider has these endpoints (its quirk `audio`). Throws a ProviderError before anything is sent. */
export function assertAudioSupport({ provider }: ProviderConnection): void {
  if (provider.quirks?.audio === true) return
  throw new ProviderError('model_unavailable', 'The provider has no audio routes.', { unsent: true })
}

/** Extracts the field where only the message names it. */
const fieldInMessage = /'loc': \('body', '([\w-]+)'/

/** Awaits a response and maps the field of its error, in OpenAI's naming, to ours. */
export function withErrorParam<T>(fields: Readonly<Record<string, string>>, answer: Promise<T>): Promise<T> {
  return mapErrorParam(fields, answer, ({ param, message }) => param ?? fieldInMessage.exec(message)?.[1] ?? null)
}

/**
 * The events of a response up to the one of type `last`, read on demand. Throws a ProviderError for an event that
 * reports one, and `truncated` when the response ends before its last event.
 */
export async function* eventsUntil(last: string, answer: Readable): AsyncGenerator<Json> {
  for await (const event of jsonEvents(answer, json => valueAt(json, 'type') === last)) {
    const json = readEvent(event)
    yield json
    if (json.type === last) return
  }
  throw new ProviderError('truncated', 'The provider’s answer broke off.')
}

/** Errors are events with their own name or type, or have an `error` instead of a `type`. */
function readEvent({ name, json }: JsonEvent): Json {
  if (!isObject(json)) throw invalidResponse('an event of it is no object')
  if (name === 'error' || json.type === 'error' || json.error) throw reportedFailure(json)
  textOf(json, 'type')
  return json
}

/** A string in a response or event, which may be empty. Throws a ProviderError `invalid_response`. */
export function textOf(json: unknown, name: string): string {
  const value = isObject(json) ? json[name] : null
  if (typeof value !== 'string') throw invalidResponse(`it has no text \`${name}\``)
  return value
}

/** The audio endpoints' token usage, under chat's names; null if there is none. */
export function tokensOf(usage: unknown) {
  if (!isObject(usage)) return null
  const [prompt_tokens, completion_tokens] = [count(usage.input_tokens), count(usage.output_tokens)]
  if (prompt_tokens === undefined || completion_tokens === undefined) return null
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens }
}
