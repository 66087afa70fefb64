import { dayMs, hourMs, systemClock } from '../../base/time.ts'
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
  return delayUntilMs(until, Number.isNaN(sent) ? systemClock.now() : sent)
}

/** The time until a limit ends, in milliseconds, at most a day. */
export function delayUntilMs(untilMs: number, nowMs = systemClock.now()): number {
  return Math.min(Math.max(0, untilMs - nowMs), maxRetryMs)
}

/** "Please try again in 1m26.4s", "… in 342ms". */
const delayInWords = /\btry again in (?:(\d{1,2})h)?(?:(\d{1,4})m(?!s))?(?:(\d{1,6}(?:\.\d{1,9})?)(ms|s)\b)?/i
const maxRead = 1_000

/**
 * The delay in milliseconds that the words of a rate limit state, at most a day; null if they state none. Codex reads them as well
 * (`try_parse_retry_after` of codex-rs).
 */
export function delayInWordsMs(message: string): number | null {
  const [, hours, minutes, amount, unit] = delayInWords.exec(message.slice(0, maxRead)) ?? []
  if (!hours && !minutes && !amount) return null
  const restMs = Number(amount ?? 0) * (unit?.toLowerCase() === 'ms' ? 1 : 1_000)
  return Math.min(Math.ceil(Number(hours ?? 0) * hourMs + Number(minutes ?? 0) * 60_000 + restMs), maxRetryMs)
}

function decimal(header: string | string[] | undefined): number | null {
  const text = String(header ?? '').trim()
  return /^\d{1,12}(\.\d+)?$/.test(text) ? Number(text) : null
}
