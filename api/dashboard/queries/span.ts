import { z } from 'zod'
import { GatewayError } from '../../../shared/base/errors.ts'
import { dayMs, hourMs } from '../../../shared/base/time.ts'
import type { Step, UsageSource } from '../../../shared/wallet/usage-source.ts'

const minuteMs = 60_000
const stepMs = { '5m': 5 * minuteMs, hour: hourMs, '4h': 4 * hourMs, day: dayMs } as const
type ChartStep = keyof typeof stepMs & Step
const granularities = ['hour', 'day', 'week', 'month'] as const
type Granularity = (typeof granularities)[number]
/** Of months, the longest. */
const granularityMs: Record<Granularity, number> = { hour: hourMs, day: dayMs, week: 7 * dayMs, month: 31 * dayMs }
/** The first Monday after 1970 began. */
const mondayMs = 4 * dayMs
const maxPeriods = 800

const lengths = {
  '1h': [hourMs, '5m'],
  '24h': [dayMs, 'hour'],
  '7d': [7 * dayMs, '4h'],
  '30d': [30 * dayMs, 'day'],
  '90d': [90 * dayMs, 'day'],
} as const
/** The longest time of each step in a chart. */
const maxLengths: [step: ChartStep, maxMs: number][] = [
  ['5m', 6 * hourMs],
  ['hour', 3 * dayMs],
  ['4h', 14 * dayMs],
  ['day', 400 * dayMs],
]

/** Months and quarters of the calendar, in UTC: their months, and whether it is the one before the current one. */
const calendarSpans = {
  month: { months: 1, isPast: false },
  last_month: { months: 1, isPast: true },
  quarter: { months: 3, isPast: false },
  last_quarter: { months: 3, isPast: true },
} as const
type CalendarSpan = keyof typeof calendarSpans
const spans = [...(Object.keys(lengths) as (keyof typeof lengths)[]), ...(Object.keys(calendarSpans) as CalendarSpan[])]

/** The query fields of the time picker: a span up to now, or two times. */
export const spanFields = {
  span: z
    .enum(spans)
    .optional()
    .describe(
      'The time up to now, or a month or quarter in UTC: the current one so far, or the one before. Default: `24h`.',
    ),
  from: z.iso.datetime({ offset: true }).optional().describe('The beginning, instead of `span`.'),
  to: z.iso.datetime({ offset: true }).optional().describe('The end. Default: now.'),
}
export const granularity = z
  .enum(granularities)
  .optional()
  .describe('The length of a period, in UTC. The first period is the one that contains the beginning.')
type SpanQuery = z.output<z.ZodObject<typeof spanFields>>

/** A time to chart, in periods of equal length. `since`: the beginning that was asked for, if it lies within the first period. */
export type Span = {
  from: Date
  since?: Date
  to: Date
  step: Step
  /** The length of a period; of months, the longest. */
  stepMs: number
  source: UsageSource
  /** The starts of the periods. */
  times: number[]
  /** The time of the same length before it. */
  before: { from: Date; to: Date }
}

/** The span that a query asks for. Throws 400. */
export function readSpan({ span, from, to }: SpanQuery, nowMs: number): Span {
  if (from === undefined) {
    if (to !== undefined) throw new GatewayError('invalid_request', '`to` requires `from`.', { param: 'to' })
    if (isCalendar(span)) return calendarSpan(span, nowMs)
    const [lengthMs, step] = lengths[span ?? '24h']
    const firstMs = floor(nowMs, stepMs[step]) + stepMs[step] - lengthMs
    return spanBetween(firstMs, nowMs + 1, step)
  }
  if (span !== undefined) throw new GatewayError('invalid_request', 'Send either `span` or `from`.', { param: 'span' })
  const fromMs = Date.parse(from)
  const toMs = to === undefined ? nowMs + 1 : Date.parse(to)
  const lengthMs = toMs - fromMs
  const step = maxLengths.find(([, maxMs]) => lengthMs <= maxMs)?.[0]
  if (!(lengthMs > 0) || !step || fromMs < 0)
    throw new GatewayError('invalid_request', '`to` must be after `from`, by at most 400 days.', { param: 'to' })
  return { ...spanBetween(floor(fromMs, stepMs[step]), toMs, step), since: new Date(fromMs) }
}

/** The bounds of a list's time, as its query names it; without any, all of it. Throws 400. */
export function readBounds({ span, from, to }: SpanQuery, nowMs: number): { gte?: Date; lt?: Date } {
  if (span !== undefined) {
    if (from === undefined && to === undefined) return boundsOfSpan(span, nowMs)
    const message = 'Send either `span`, or `from` and `to`.'
    throw new GatewayError('invalid_request', message, { param: 'span' })
  }
  if (from !== undefined && to !== undefined && Date.parse(from) >= Date.parse(to))
    throw new GatewayError('invalid_request', '`to` must be after `from`.', { param: 'to' })
  return { ...(from !== undefined && { gte: dateOf(from) }), ...(to !== undefined && { lt: dateOf(to) }) }
}

function boundsOfSpan(span: keyof typeof lengths | CalendarSpan, nowMs: number): { gte: Date; lt?: Date } {
  if (!isCalendar(span)) return { gte: new Date(nowMs - lengths[span][0]) }
  const { from, to } = calendarSpan(span, nowMs)
  return { gte: from, lt: to }
}

function isCalendar(span: string | undefined): span is CalendarSpan {
  return span !== undefined && Object.hasOwn(calendarSpans, span)
}

/** A month or quarter. Before the current one is the same part of the one before, at most all of it. */
function calendarSpan(name: CalendarSpan, nowMs: number): Span {
  const { months, isPast } = calendarSpans[name]
  const now = new Date(nowMs)
  const current = Math.floor(now.getUTCMonth() / months) * months
  const startMs = (back: number) => Date.UTC(now.getUTCFullYear(), current - back * months)
  if (isPast) return { ...spanBetween(startMs(1), startMs(0), 'day'), before: between(startMs(2), startMs(1)) }
  const untilMs = Math.min(startMs(1) + nowMs + 1 - startMs(0), startMs(0))
  return { ...spanBetween(startMs(0), nowMs + 1, 'day'), before: between(startMs(1), untilMs) }
}

const between = (fromMs: number, toMs: number) => ({ from: new Date(fromMs), to: new Date(toMs) })

/** Postgres has no year 0, and nothing is older than 1970. */
const dateOf = (iso: string) => new Date(Math.max(0, Date.parse(iso)))

/** A span in calendar periods, instead of those that suit its length. Throws 400. */
export function inPeriods(span: Span, step: Granularity | undefined): Span {
  if (step === undefined) return span
  const times: number[] = []
  for (let ms = startOf(span.from.getTime(), step); ms < span.to.getTime(); ms = nextOf(ms, step)) {
    times.push(ms)
    if (times.length <= maxPeriods) continue
    const message = `That is more than ${maxPeriods} periods. Choose longer ones, or a shorter time.`
    throw new GatewayError('invalid_request', message, { param: 'granularity' })
  }
  return { ...span, from: new Date(times[0]!), step, stepMs: granularityMs[step], source: 'hours', times }
}

function startOf(ms: number, step: Granularity): number {
  const date = new Date(ms)
  if (step === 'month') return Date.UTC(date.getUTCFullYear(), date.getUTCMonth())
  const offsetMs = step === 'week' ? mondayMs : 0
  return floor(ms - offsetMs, granularityMs[step]) + offsetMs
}

function nextOf(ms: number, step: Granularity): number {
  return step === 'month' ? startOf(ms + granularityMs.month, step) : ms + granularityMs[step]
}

function floor(ms: number, unitMs: number): number {
  return Math.floor(ms / unitMs) * unitMs
}

function spanBetween(fromMs: number, toMs: number, step: ChartStep): Span {
  const unitMs = stepMs[step]
  const count = Math.ceil((toMs - fromMs) / unitMs)
  const backMs = count * unitMs
  return {
    from: new Date(fromMs),
    to: new Date(toMs),
    step,
    stepMs: unitMs,
    source: step === '5m' ? 'log' : 'hours',
    times: Array.from({ length: count }, (_, i) => fromMs + i * unitMs),
    before: { from: new Date(Math.max(0, fromMs - backMs)), to: new Date(Math.max(1, toMs - backMs)) },
  }
}
