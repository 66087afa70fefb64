import { TextInput, type TextInputProps } from '@mantine/core'
import { useZone, type ZoneChoice } from '../time-zone.ts'
import { useTyped } from './typed.ts'

type Props = Pick<TextInputProps, 'description' | 'max' | 'required'> & {
  label: string
  /** A time as the API takes it; '' = none. */
  value: string
  onChange: (value: string) => void
}

/** A date and time, entered in the time zone in which the pages show times. */
export function MomentInput(props: Props) {
  const zone = useZone()
  return <InZone key={zone} zone={zone} {...props} />
}

function InZone({ zone, label, value, onChange, ...input }: Props & { zone: ZoneChoice }) {
  const [shown, type] = useTyped(value, iso => textOf(iso, zone))
  const change = (text: string) => {
    const moment = momentOf(text, zone)
    type(text, moment)
    onChange(moment)
  }
  return (
    <TextInput
      {...input}
      type="datetime-local"
      label={zone === 'utc' ? `${label} (UTC)` : label}
      value={shown}
      onChange={event => change(event.currentTarget.value)}
    />
  )
}

/** A time as inputs have it: "2026-11-18T14:05". */
function textOf(iso: string, zone: ZoneChoice): string {
  const moment = new Date(iso)
  if (Number.isNaN(moment.getTime())) return iso
  const offsetMs = zone === 'utc' ? 0 : moment.getTimezoneOffset() * 60_000
  return new Date(moment.getTime() - offsetMs).toISOString().slice(0, 16)
}

/** What an input means. An invalid date (the year 20261) stays unchanged, so that the API rejects it. */
function momentOf(text: string, zone: ZoneChoice): string {
  const moment = new Date(zone === 'utc' ? `${text}Z` : text)
  return Number.isNaN(moment.getTime()) ? text : moment.toISOString()
}
