import { dayMs, systemClock } from '../../base/time.ts'
import type { Headers } from './json-fields.ts'

/** No provider is left alone for longer than this. */
const maxRetryMs = dayMs
/** Every HTTP date begins with the day of the week; Date.parse accepts many other strings as dates. */
const httpDate = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)/

/**
 * The time in milliseconds after which a provider asks to be called again, at most a day: `retry-after-ms`, otherwise `retry-after` in
 * seconds or as an HTTP date (relative to the response's own `date`); null if absent.
 */
export function retryAfterMs(headers: Headers): number | null {
  const exact = decimal(headers['retry-after-ms'])
  if (exact !== null) return Math.min(exact, maxRetryMs)
  const inSeconds = decimal(headers['retry-after'])
  if (inSeconds !== null) return Math.min(Math.ceil(inSeconds * 1000), maxRetryMs)
  const date = String(headers['retry-after'] ?? '').trim()
  const until = httpDate.test(date) ? Date.parse(date) : Number.NaN
  if (Number.isNaN(until)) return null
  const sent = Date.parse(String(headers.date ?? ''))
  return Math.min(Math.max(0, until - (Number.isNaN(sent) ? systemClock.now() : sent)), maxRetryMs)
}

function decimal(header: string | string[] | undefined): number | null {
  const text = String(header ?? '').trim()
  return /^\d{1,12}(\.\d+)?$/.test(text) ? Number(text) : null
}
