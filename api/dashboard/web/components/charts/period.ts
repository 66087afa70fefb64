import { zoneChoice } from '../../time-zone.ts'

const dayMs = 86_400_000

/** Whole days are UTC; shorter periods are in the chosen time zone. */
function formatOf(stepMs: number, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const isUtc = stepMs >= dayMs || zoneChoice() === 'utc'
  return new Intl.DateTimeFormat('en-GB', { ...options, ...(isUtc && { timeZone: 'UTC' }) })
}

const day = { day: 'numeric', month: 'short' } as const
const clock = { hour: '2-digit', minute: '2-digit' } as const
const manyHoursMs = 4 * 3_600_000

/** A label of the time axis: "18 Nov" or "14:05". */
export function tickName(start: string, stepMs: number): string {
  return formatOf(stepMs, stepMs >= manyHoursMs ? day : clock).format(new Date(start))
}

/** The periods whose start may label the time axis: where several make up a day, the first of each day. */
export function labelled(times: readonly string[], stepMs: number): number[] {
  const all = times.map((_, i) => i)
  if (stepMs < manyHoursMs) return all
  const earlier = (start: string) => new Date(Date.parse(start) - stepMs).toISOString()
  return all.filter(i => tickName(times[i]!, stepMs) !== tickName(earlier(times[i]!), stepMs))
}

/** A period in full: "18 Nov" or "18 Nov, 14:00 – 15:00". */
export function periodName(start: string, stepMs: number): string {
  if (stepMs >= dayMs) return `${formatOf(stepMs, day).format(new Date(start))}, UTC`
  const end = new Date(Date.parse(start) + stepMs)
  return `${formatOf(stepMs, { ...day, ...clock }).format(new Date(start))} – ${formatOf(stepMs, clock).format(end)}`
}
