import { z } from 'zod'

/**
 * The wall clock, for dates: milliseconds since the Unix epoch. It steps when the machine's clock is set, so the difference of two
 * readings is no duration. Tests inject their own.
 */
export type Clock = { now(): number }
export const systemClock: Clock = { now: () => Date.now() }

declare const monotonic: unique symbol
/**
 * A time of the monotonic clock, which never steps: in milliseconds, with an origin that only this process knows. To TypeScript it
 * is not a number, so that it is not stored, not compared with a date, and subtracted by `elapsedMs` only.
 */
export type MonotonicMs = { readonly [monotonic]: true }

/** The monotonic clock, for durations, timeouts and deadlines within a process. Tests inject their own. */
export type MonotonicClock = { now(): MonotonicMs }
/** In whole milliseconds, as durations are stored. */
export const systemMonotonic: MonotonicClock = { now: () => Math.floor(performance.now()) as unknown as MonotonicMs }
/** In fractions of milliseconds. */
export const preciseMonotonic: MonotonicClock = { now: () => performance.now() as unknown as MonotonicMs }

/** The two clocks of a process. */
export type Clocks = { clock: Clock; monotonic: MonotonicClock }

/** Earlier than every other time of the monotonic clock. */
export const longAgo = Number.NEGATIVE_INFINITY as unknown as MonotonicMs

/** The milliseconds between two times of the monotonic clock. */
export function elapsedMs(fromMs: MonotonicMs, toMs: MonotonicMs): number {
  return (toMs as unknown as number) - (fromMs as unknown as number)
}

/** The time of the monotonic clock that is `ms` after another one. */
export function addMs(timeMs: MonotonicMs, ms: number): MonotonicMs {
  return ((timeMs as unknown as number) + ms) as unknown as MonotonicMs
}

/** A clock of dates that does not step from now on, with fractions of milliseconds. */
export function steadyClock(): Clock {
  const offsetMs = Date.now() - performance.now()
  return { now: () => performance.now() + offsetMs }
}

export const hourMs = 3_600_000
export const dayMs = 24 * hourMs

/** The current time in whole Unix seconds. */
export function unixNow(): number {
  return Math.floor(Date.now() / 1000)
}

/** Whether a value is a time in whole seconds. */
export function isUnixTime(value: unknown): value is number {
  return Number.isSafeInteger(value)
}

/**
 * The time that an answer states in whole seconds, now if it states none. Some servers write decimals, at which clients in Go fail
 * (envoyproxy/ai-gateway#962, QuantumNous/new-api#1131), others a text or nothing (sashabaranov/go-openai#1002).
 */
export function createdAt(value: unknown): number {
  const seconds = typeof value === 'number' ? Math.trunc(value) : Number.NaN
  return isUnixTime(seconds) ? seconds : unixNow()
}

/** A timestamp as in OpenAI's objects: whole Unix seconds. */
export function unixSeconds(date: Date): number
export function unixSeconds(date: Date | null): number | null
export function unixSeconds(date: Date | null): number | null {
  return date && Math.floor(date.getTime() / 1000)
}

let month = ''
let monthEndsMs = 0
let monthStartsMs = 1

/** The UTC month of a timestamp, as "2026-11". */
export function monthOf(nowMs: number): string {
  if (nowMs >= monthEndsMs || nowMs < monthStartsMs) {
    const date = new Date(nowMs)
    month = date.toISOString().slice(0, 7)
    monthStartsMs = Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1)
    monthEndsMs = Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1)
  }
  return month
}

/** The UTC date of a timestamp, as "2026-11-26". */
export function utcDateOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10)
}

/** The start of the month after the given time, as an ISO 8601 string. */
export function nextMonthStart(nowMs: number): string {
  const date = new Date(nowMs)
  return new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1)).toISOString()
}

/** Nothing is older than 1970. */
const years = { fromMs: 0, beforeMs: Date.UTC(10_000, 0) }
/** A time of a request that PostgreSQL and other programs read as it is written. */
export const storableTime = z.iso.datetime({ offset: true }).refine(text => {
  const ms = Date.parse(text)
  return ms >= years.fromMs && ms < years.beforeMs
}, 'must be a time of the years 1970 to 9999')
