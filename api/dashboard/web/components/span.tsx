import { Button, Group, Popover, SegmentedControl, Stack } from '@mantine/core'
import { IconCalendar } from '@tabler/icons-react'
import { useState } from 'react'
import { useSearchParams } from 'wouter'
import { moment } from '../format.ts'
import { MomentInput } from './moment-input.tsx'

const choices = ['1h', '24h', '7d', '30d', '90d']
const labels = choices.map(value => ({ value, label: value }))

/** The time that a page shows, as the routes take it: a span up to now, or two times. */
export type TimeQuery = { span?: string; from?: string; to?: string }

/** The time in the URL, or the page's default: a span, or `all` for times of any age. `more`: spans that this page has as well. */
export function useTime(
  usual: string,
  more: readonly string[] = [],
): [time: TimeQuery, set: (time: TimeQuery) => void] {
  const [address, setAddress] = useSearchParams()
  const [span, from, to] = ['span', 'from', 'to'].map(name => address.get(name) ?? '') as [string, string, string]
  const set = (time: TimeQuery) =>
    setAddress(
      params => {
        const next = new URLSearchParams(params)
        for (const name of ['span', 'from', 'to'] as const) {
          const value = time[name]
          if (value === undefined || (name === 'span' && value === usual)) next.delete(name)
          else next.set(name, value)
        }
        return next
      },
      { replace: true },
    )
  if (isTime(from)) return [{ from, ...(isTime(to) && { to }) }, set]
  if (choices.includes(span) || more.includes(span)) return [{ span }, set]
  return [usual === 'all' ? {} : { span: usual }, set]
}

function isTime(text: string): boolean {
  return text !== '' && !Number.isNaN(Date.parse(text))
}

type PickerProps = { time: TimeQuery; onChange: (time: TimeQuery) => void }

/** The time picker of a page: spans up to now, and a range; `hasAll`: also times of any age. */
export function SpanPicker({ time, onChange, hasAll = false }: PickerProps & { hasAll?: boolean }) {
  return (
    <Group gap="xs">
      <SegmentedControl
        size="xs"
        aria-label="Time"
        data={hasAll ? [...labels, { value: 'all', label: 'All' }] : labels}
        value={time.span ?? (time.from === undefined ? 'all' : '')}
        onChange={span => onChange(span === 'all' ? {} : { span })}
      />
      <RangePicker time={time} onChange={onChange} />
    </Group>
  )
}

function RangePicker({ time, onChange }: PickerProps) {
  const [opened, setOpened] = useState(false)
  const [from, setFrom] = useState('')
  const [to, setTo] = useState('')
  const open = () => {
    const endMs = time.to === undefined ? Date.now() : Date.parse(time.to)
    setFrom(minuteOf(time.from === undefined ? endMs - 86_400_000 : Date.parse(time.from)))
    setTo(minuteOf(endMs))
    setOpened(true)
  }
  const isValid = isTime(from) && isTime(to) && Date.parse(from) < Date.parse(to)
  const apply = () => {
    onChange({ from, to })
    setOpened(false)
  }
  return (
    <Popover opened={opened} onChange={setOpened} trapFocus position="bottom-end" withinPortal>
      <Popover.Target>
        <Button
          size="xs"
          variant={time.from === undefined ? 'default' : 'light'}
          leftSection={<IconCalendar size={14} aria-hidden />}
          onClick={() => (opened ? setOpened(false) : open())}
        >
          {time.from === undefined ? 'Custom' : `${shortMoment(time.from)} – ${time.to ? shortMoment(time.to) : 'now'}`}
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        <Stack gap="xs">
          <MomentInput label="From" value={from} onChange={setFrom} />
          <MomentInput label="To" value={to} onChange={setTo} />
          <Button size="xs" disabled={!isValid} onClick={apply}>
            Apply
          </Button>
        </Stack>
      </Popover.Dropdown>
    </Popover>
  )
}

/** A time as the API takes it, with whole minutes, as inputs show it. */
function minuteOf(ms: number): string {
  return new Date(ms - (ms % 60_000)).toISOString()
}

/** "18 Nov 2026, 14:05" */
function shortMoment(iso: string): string {
  return moment(iso).replace(/:\d\d [^:]*$/, '')
}
