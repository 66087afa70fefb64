import { Button, Group, Select, Text, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { TimeQuery } from '../../components/span.tsx'
import { day } from '../../format.ts'

const dayMs = 86_400_000
const maxDays = 366

/** Spans that end now or with a month or quarter, as the routes name them. Months and quarters are UTC. */
const periods = [
  { value: 'month', label: 'This month' },
  { value: 'last_month', label: 'Last month' },
  { value: 'quarter', label: 'This quarter' },
  { value: 'last_quarter', label: 'Last quarter' },
  { value: '24h', label: 'Last 24 hours' },
  { value: '7d', label: 'Last 7 days' },
  { value: '30d', label: 'Last 30 days' },
  { value: '90d', label: 'Last 90 days' },
]
const custom = { value: 'custom', label: 'Custom days' }

/** Spans of this page that other pages do not have. */
export const calendarSpans = ['month', 'last_month', 'quarter', 'last_quarter']

/** What the change of the cost is measured against: "the month before". */
export function beforeName({ span }: TimeQuery): string {
  if (span === undefined) return 'the same time before'
  const unit = span.replace('last_', '')
  if (unit === 'month' || unit === 'quarter')
    return span === unit ? `the same part of the ${unit} before` : `the ${unit} before`
  return `the ${unit.replace('h', ' hours').replace('d', ' days')} before`
}

/** The period of the page: a month, a quarter, days up to now, or any UTC days up to a year. */
export function PeriodPicker({ time, onChange }: { time: TimeQuery; onChange: (time: TimeQuery) => void }) {
  const [isCustom, setCustom] = useState(false)
  const showsDays = isCustom || time.from !== undefined
  const choose = (value: string) => {
    setCustom(value === custom.value)
    if (value !== custom.value) onChange({ span: value })
  }
  return (
    <Group gap="xs" align="flex-start">
      <Select
        size="xs"
        w={140}
        aria-label="Time"
        data={[...periods, custom]}
        value={showsDays ? custom.value : time.span}
        allowDeselect={false}
        onChange={value => choose(value!)}
      />
      {showsDays && <Days key={`${time.from} ${time.to}`} time={time} onChange={onChange} />}
    </Group>
  )
}

/** The first and the last day, both included. */
function Days({ time, onChange }: { time: TimeQuery; onChange: (time: TimeQuery) => void }) {
  const endMs = time.to === undefined ? Date.now() : Date.parse(time.to) - 1
  const [first, setFirst] = useState(dayText(time.from === undefined ? endMs - 29 * dayMs : Date.parse(time.from)))
  const [last, setLast] = useState(dayText(endMs))
  const days = (Date.parse(last) - Date.parse(first)) / dayMs + 1
  const error = Number.isNaN(days)
    ? 'Enter two days'
    : days < 1
      ? 'Ends before it begins'
      : days > maxDays
        ? `At most ${maxDays} days`
        : null
  const apply = () => onChange({ from: `${first}T00:00:00Z`, to: new Date(Date.parse(last) + dayMs).toISOString() })
  return (
    <form
      onSubmit={event => {
        event.preventDefault()
        if (error === null) apply()
      }}
    >
      <Group gap="xs" align="flex-start">
        <TextInput
          size="xs"
          type="date"
          aria-label="First day (UTC)"
          value={first}
          onChange={event => setFirst(event.currentTarget.value)}
        />
        <TextInput
          size="xs"
          type="date"
          aria-label="Last day (UTC)"
          value={last}
          onChange={event => setLast(event.currentTarget.value)}
          error={error}
        />
        <Button size="xs" type="submit" variant="default" disabled={error !== null}>
          Apply
        </Button>
      </Group>
    </form>
  )
}

function dayText(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10)
}

/** "1 Nov 2026 – 27 Nov 2026", of an exclusive end. */
function daysText(from: string, to: string): string {
  const [first, last] = [day(from, 'utc'), day(Date.parse(to) - 1, 'utc')]
  return first === last ? first : `${first} – ${last}`
}

/** The days that are shown, and whether they cost what their statement says. */
export function PeriodNote({
  from,
  to,
  costUsd,
  statementUsd,
}: {
  from: string
  to: string
  costUsd: number
  statementUsd: number | null
}) {
  const isSame = statementUsd !== null && Math.abs(statementUsd - costUsd) < 5e-10
  return (
    <Text size="xs" c="dimmed">
      {daysText(from, to)} (UTC). {isSame && 'The cost is the usage in the statement of these days.'}
      {statementUsd !== null && !isSame && <Difference costUsd={costUsd} statementUsd={statementUsd} />}
    </Text>
  )
}

function Difference({ costUsd, statementUsd }: { costUsd: number; statementUsd: number }) {
  const cents = new Intl.NumberFormat('en-US', { style: 'currency', currency: 'USD', maximumFractionDigits: 9 })
  const difference = Number((statementUsd - costUsd).toFixed(9))
  return (
    <>
      The statement of these days has {cents.format(statementUsd)}, {cents.format(Math.abs(difference))}{' '}
      {difference > 0 ? 'more' : 'less'}: it counts requests when they are charged, and usage when they begin.
    </>
  )
}
