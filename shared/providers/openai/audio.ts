import type { Readable } from 'node:stream'
import { ProviderError, type ProviderLine } from '../contract.ts'
import { at, invalid, isObject, type Json } from '../fields.ts'
import { type JsonEvent, jsonEvents } from '../json-events.ts'
import { named } from '../param.ts'
import { reportedFailure } from './failure.ts'
import { count } from './usage.ts'

/** What speech and transcriptions have in common. */

/** Asserts that a provider has these routes (its quirk `audio`). Throws a ProviderError before anything is sent. */
export function needsAudio({ provider }: ProviderLine): void {
  if (provider.quirks?.audio === true) return
  throw new ProviderError('model_unavailable', 'The provider has no audio routes.', { unsent: true })
}

/** Where the words alone tell which field was found to be wrong. */
const place = /'loc': \('body', '([\w-]+)'/

/** What a request is answered with; its failure names the field of ours, by OpenAI's own, that it is about. */
export function answered<T>(fields: Readonly<Record<string, string>>, answer: Promise<T>): Promise<T> {
  return named(fields, answer, ({ param, message }) => param ?? place.exec(message)?.[1] ?? null)
}

/**
 * The events of an answer up to the one of type `last`, each read when it is asked for. Throws a ProviderError for an event
 * that reports one, and `truncated` when the answer ends before its last event.
 */
export async function* eventsUntil(last: string, answer: Readable): AsyncGenerator<Json> {
  for await (const event of jsonEvents(answer, json => at(json, 'type') === last)) {
    const json = eventIn(event)
    yield json
    if (json.type === last) return
  }
  throw new ProviderError('truncated', 'The provider’s answer broke off.')
}

/** Errors are events of a name or type of their own, or have an `error` where others have a `type`. */
function eventIn({ name, json }: JsonEvent): Json {
  if (!isObject(json)) throw invalid('an event of it is no object')
  if (name === 'error' || json.type === 'error' || json.error) throw reportedFailure(json)
  textOf(json, 'type')
  return json
}

/** A text of an answer or event, which may be empty. Throws a ProviderError `invalid_response`. */
export function textOf(json: unknown, name: string): string {
  const value = isObject(json) ? json[name] : null
  if (typeof value !== 'string') throw invalid(`it has no text \`${name}\``)
  return value
}

/** The tokens that the audio routes count, with the names that chat has for them; null where they count none. */
export function tokensOf(usage: unknown) {
  if (!isObject(usage)) return null
  const [prompt_tokens, completion_tokens] = [count(usage.input_tokens), count(usage.output_tokens)]
  if (prompt_tokens === undefined || completion_tokens === undefined) return null
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens }
}
