import { type ZoneChoice, zoneChoice } from './time-zone.ts'

const dollars = new Intl.NumberFormat('en-US', { style: 'currency', currency: 'USD' })
const counts = new Intl.NumberFormat('en-US')
const shortCounts = new Intl.NumberFormat('en-US', { notation: 'compact', maximumFractionDigits: 1 })
const date = { day: 'numeric', month: 'short', year: 'numeric' } as const
const time = { hour: '2-digit', minute: '2-digit', second: '2-digit', timeZoneName: 'short' } as const
const moments = inBothZones({ ...date, ...time })
const minutes = inBothZones({ ...date, hour: '2-digit', minute: '2-digit', timeZoneName: 'short' })
const days = inBothZones(date)
const instants = inBothZones({
  day: 'numeric',
  month: 'short',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  fractionalSecondDigits: 3,
})
const timesOfDay = inBothZones({ hour: '2-digit', minute: '2-digit', second: '2-digit' })
const shortDays = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' })

const months = new Intl.DateTimeFormat('en-GB', { month: 'long', year: 'numeric', timeZone: 'UTC' })

function inBothZones(options: Intl.DateTimeFormatOptions): Record<ZoneChoice, Intl.DateTimeFormat> {
  const format = (timeZone?: string) => new Intl.DateTimeFormat('en-GB', { ...options, ...(timeZone && { timeZone }) })
  return { local: format(), utc: format('UTC') }
}

/** An amount in whole cents: "$1,234.50"; "<$0.01" for less than a cent. One request and unit prices: `exactUsd`. */
export function usd(amount: number): string {
  if (amount !== 0 && Math.abs(amount) < 0.01) return amount < 0 ? '-<$0.01' : '<$0.01'
  return dollars.format(amount === 0 ? 0 : amount) // Not "-$0.00".
}

const exactFormats: Intl.NumberFormat[] = []

/** The cost of one request or a unit price: "$1,234.50", "$0.0152", "$0.00042". */
export function exactUsd(amount: number): string {
  const digits = amount === 0 ? 2 : Math.min(9, Math.max(4, 2 - Math.floor(Math.log10(Math.abs(amount)))))
  exactFormats[digits] ??= new Intl.NumberFormat('en-US', {
    style: 'currency',
    currency: 'USD',
    maximumFractionDigits: digits,
  })
  return exactFormats[digits].format(amount === 0 ? 0 : amount)
}

export function count(value: number): string {
  return counts.format(value)
}

/** "12.3K" */
export function shortCount(value: number): string {
  return shortCounts.format(value)
}

/** A fraction of 1: "12.3 %". */
export function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`
}

/** "22 Nov 2026, 14:25:31 GMT+1", in the chosen time zone unless `zone` names one. */
export function moment(iso: string | number, zone = zoneChoice()): string {
  return moments[zone].format(new Date(iso))
}

/** "22 Nov 2026, 14:25 GMT+1", in the chosen time zone. */
export function minute(iso: string): string {
  return minutes[zoneChoice()].format(new Date(iso))
}

/** "22 Nov 14:25:31.402", in the chosen time zone. */
export function instant(iso: string): string {
  return instants[zoneChoice()].format(new Date(iso)).replace(',', '')
}

/** "09:58:12" within a day from now, otherwise "23 Nov 09:58:12", in the chosen time zone. */
export function timeOfDay(iso: string | number): string {
  const date = new Date(iso)
  const isSoon = Math.abs(date.getTime() - Date.now()) < 86_400_000
  const time = timesOfDay[zoneChoice()].format(date)
  return isSoon ? time : `${day(iso).replace(/ \d{4}$/, '')} ${time}`
}

/** "22 Nov 2026", in the chosen time zone unless `zone` names one. */
export function day(iso: string | number, zone = zoneChoice()): string {
  return days[zone].format(new Date(iso))
}

/** "November 2026", of a month such as "2026-11". */
export function monthName(month: string): string {
  return months.format(new Date(`${month}-01`))
}

/** "18 Nov", of a UTC day. */
export function shortDay(iso: string): string {
  return shortDays.format(new Date(iso))
}

const units: [Intl.RelativeTimeFormatUnit, number][] = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1_000],
]
const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto' })

/** "3 minutes ago", "in 2 days" */
export function ago(iso: string | number, nowMs = Date.now()): string {
  const distanceMs = new Date(iso).getTime() - nowMs
  const [unit, unitMs] = units.find(([, ms]) => Math.abs(distanceMs) >= ms) ?? ['second', 1_000]
  return relative.format(Math.round(distanceMs / unitMs), unit)
}

/** "850 ms", "1.2 s", "3 min 4 s" */
export function duration(milliseconds: number): string {
  if (milliseconds < 1_000) return `${Math.round(milliseconds)} ms`
  if (milliseconds < 60_000) return `${(milliseconds / 1_000).toFixed(1)} s`
  const seconds = Math.round(milliseconds / 1_000)
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`
}

/** "1.5 MB" */
export function bytes(value: number): string {
  if (value < 1_000) return `${value} B`
  const [unit, size] = value < 1e6 ? ['kB', 1e3] : value < 1e9 ? ['MB', 1e6] : ['GB', 1e9]
  return `${(value / (size as number)).toFixed(1)} ${unit}`
}
