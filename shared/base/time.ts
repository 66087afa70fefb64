/** The source of time; tests inject their own. */
export type Clock = { now(): number }
export const systemClock: Clock = { now: () => Date.now() }

export const dayMs = 24 * 3_600_000

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

/** The start of the month after the given time, as an ISO 8601 string. */
export function nextMonthStart(nowMs: number): string {
  const date = new Date(nowMs)
  return new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1)).toISOString()
}
