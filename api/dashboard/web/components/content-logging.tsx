import { NumberInput, Select, Stack, Text } from '@mantine/core'
import type { ContentLogging } from '../../wire/contents.ts'
import { moment } from '../format.ts'

const hourMs = 3_600_000
const ends = [
  { value: '1', label: 'in 1 hour' },
  { value: '24', label: 'in 24 hours' },
  { value: '168', label: 'in 7 days' },
  { value: '720', label: 'in 30 days' },
]

type LoggingDraft = { mode: string; percent: number | string; hours: string | null }

/** The fields of a setting; without one, `fallback` ("follow", "off") is selected. */
export function draftOfLogging(setting: ContentLogging | null, fallback: string): LoggingDraft {
  return { mode: setting?.mode ?? fallback, percent: setting?.sample_percent ?? 10, hours: null }
}

/** The setting that the fields say, for the API; `fallback` = none. An unchanged end stays as it is. */
export function loggingOf({ mode, percent, hours }: LoggingDraft, begun: ContentLogging | null, fallback: string) {
  if (mode === fallback) return null
  if (mode === 'off') return { mode }
  const until = hours === null ? (begun?.until ?? null) : new Date(Date.now() + Number(hours) * hourMs).toISOString()
  return { mode, until, ...(mode === 'sample' && { sample_percent: Number(percent) }) }
}

/** Whether a draft can be sent: what is logged needs an end. */
export function isComplete({ mode, percent, hours }: LoggingDraft, begun: ContentLogging | null): boolean {
  if (mode === 'off' || mode === 'follow') return true
  return (hours !== null || isCurrent(begun)) && (mode !== 'sample' || percent !== '')
}

const isCurrent = (setting: ContentLogging | null) => setting?.until != null && Date.parse(setting.until) > Date.now()

/** Which requests leave their input and output, and until when. */
export function LoggingFields({
  draft,
  begun,
  modes,
  onChange,
}: {
  draft: LoggingDraft
  /** The setting in force. */
  begun: ContentLogging | null
  /** The choices besides those that log something. */
  modes: { value: string; label: string }[]
  onChange: (draft: LoggingDraft) => void
}) {
  const logs = draft.mode !== 'off' && draft.mode !== 'follow'
  return (
    <Stack gap="sm">
      <Select
        label="Log input and output"
        allowDeselect={false}
        data={[
          ...modes,
          { value: 'errors', label: 'Of failed requests' },
          { value: 'sample', label: 'Of a random sample' },
          { value: 'all', label: 'Of all requests' },
        ]}
        value={draft.mode}
        onChange={mode => mode && onChange({ ...draft, mode })}
      />
      {draft.mode === 'sample' && (
        <NumberInput
          label="Percent of requests"
          min={1}
          max={100}
          allowDecimal={false}
          suffix=" %"
          value={draft.percent}
          onChange={percent => onChange({ ...draft, percent })}
        />
      )}
      {logs && (
        <Select
          label="Ends"
          description="Logging ends by itself, at most 30 days ahead."
          placeholder={isCurrent(begun) ? moment(begun!.until!) : 'Choose when it ends'}
          data={ends}
          value={draft.hours}
          onChange={hours => onChange({ ...draft, hours })}
        />
      )}
      {begun?.until != null && !isCurrent(begun) && (
        <Text size="sm" c="dimmed">
          Logging ended {moment(begun.until)}.
        </Text>
      )}
    </Stack>
  )
}
