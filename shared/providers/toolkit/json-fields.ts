import { parseWithCalls } from '../../base/exact-numbers.ts'
import { isObject } from '../../base/is-object.ts'
import { ProviderError } from '../provider-error.ts'

/**
 * Reads providers' JSON field by field. `path` is dotted: `data.task_id`, `videos.0.url`, or '' for the whole document.
 * An invalid value throws a ProviderError `invalid_response` naming the path, never the value.
 */

export type Json = Record<string, unknown>
export type Headers = Record<string, string | string[] | undefined>

/** The error for a malformed response. */
export function invalidResponse(what: string, cause?: unknown): ProviderError {
  return new ProviderError('invalid_response', `The provider's answer is not understood: ${what}.`, { cause })
}

/** Throws a ProviderError `invalid_response` unless `value` is a JSON object. */
export function objectIn(value: unknown, name: string): Json {
  if (!isObject(value)) throw invalidResponse(`${name} is not an object`)
  return value
}

/** Throws a ProviderError `invalid_response` unless `value` is a string. */
export function textIn(value: unknown, name: string): string {
  if (typeof value !== 'string') throw invalidResponse(`${name} is not text`)
  return value
}

/** The value at a path; undefined when there is none. */
export function valueAt(json: unknown, path: string): unknown {
  let value = json
  for (const name of path === '' ? [] : path.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
    value = (value as Json)[name]
  }
  return value
}

/** A non-empty string. */
export function readText(json: unknown, path: string): string {
  return readOptionalText(json, path) ?? failMissing(path, 'text')
}

/** A non-empty string, or null. */
export function readOptionalText(json: unknown, path: string): string | null {
  const value = valueAt(json, path)
  return typeof value === 'string' && value !== '' ? value : null
}

/** A handle to put into a URL path: a string or number of letters, digits and `. _ : -`, at most 200 characters. */
export function readHandle(json: unknown, path: string): string {
  const value = valueAt(json, path)
  const id = typeof value === 'number' ? String(value) : value
  return typeof id === 'string' && /^[\w:-][\w.:-]{0,199}$/.test(id) ? id : failMissing(path, 'handle')
}

/** A finite number; decimal strings count as numbers. */
export function readNumber(json: unknown, path: string): number {
  return readOptionalNumber(json, path) ?? failMissing(path, 'number')
}

export function readOptionalNumber(json: unknown, path: string): number | null {
  const value = valueAt(json, path)
  if (typeof value === 'number') return Number.isFinite(value) ? value : null
  return typeof value === 'string' && /^-?\d{1,15}(\.\d{1,15})?$/.test(value) ? Number(value) : null
}

/** A non-negative number, such as a duration or a charge; null if absent. */
export function readOptionalAmount(json: unknown, path: string): number | null {
  const value = readOptionalNumber(json, path)
  if (value !== null && value < 0) throw invalidResponse(`its \`${path}\` is below zero`)
  return value
}

export function readList(json: unknown, path: string): unknown[] {
  const value = valueAt(json, path)
  return Array.isArray(value) ? value : failMissing(path, 'list')
}

/** An absolute http(s) or data URL, unchanged. */
export function readLink(json: unknown, path: string): string {
  return readOptionalLink(json, path) ?? failMissing(path, 'URL')
}

export function readOptionalLink(json: unknown, path: string): string | null {
  const value = readOptionalText(json, path)
  return value && /^(https?|data):/i.test(value) && URL.canParse(value) ? value : null
}

/** Parses the data of an event of a stream. Throws a ProviderError `invalid_response` unless it is a JSON object. */
export function parseEvent(data: string): Json {
  let event: unknown
  try {
    event = parseWithCalls(data)
  } catch (cause) {
    throw invalidResponse('an event is not JSON', cause)
  }
  return objectIn(event, 'an event')
}

/** Parses a string as JSON, with the numbers of its calls as they are written; null if it is not JSON. */
export function parseJsonOrNull(body: string): unknown {
  try {
    return parseWithCalls(body)
  } catch {
    return null
  }
}

/** The JSON of a body, or its text: proxies answer pages and plain words. */
export function parseJsonOrText(body: string): unknown {
  try {
    return JSON.parse(body)
  } catch {
    return body
  }
}

function failMissing(path: string, kind: string): never {
  throw invalidResponse(`it has no ${kind} \`${path}\``)
}
