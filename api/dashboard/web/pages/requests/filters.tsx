import { Button, Group, Popover, Select, Stack, Switch } from '@mantine/core'
import { IconAdjustments, IconDownload } from '@tabler/icons-react'
import { useSearchParams } from 'wouter'
import { queryText } from '../../api.ts'
import { TextFilter, useFilter } from '../../components/filters.tsx'
import { SpanPicker, type TimeQuery } from '../../components/span.tsx'
import { ChoiceFilter, environments, filterWidth, KeyFilter, labelled } from '../../components/work/filters.tsx'
import { usePlace } from '../../session.tsx'
import { type Filters, useChoices } from './queries.ts'
import { typeChoices } from './types.ts'

const statuses = [
  { value: 'ok', label: 'Ok' },
  { value: 'error', label: 'Any error' },
  { value: 'invalid', label: 'Invalid request' },
  { value: 'refused', label: 'Not allowed' },
  { value: 'failed', label: 'Failed (5xx)' },
  ...[400, 401, 402, 403, 404, 408, 409, 413, 429, 499, 500, 502, 503, 504].map(status => ({
    value: String(status),
    label: String(status),
  })),
]

/** The filters of the list, kept in the URL. */
export function RequestFilterBar({
  filters,
  time,
  onTime,
}: {
  filters: Filters
  time: TimeQuery
  onTime: (time: TimeQuery) => void
}) {
  const { base } = usePlace()
  const choices = useChoices()
  const [live, setLive] = useFilter('live')
  return (
    <Stack gap="sm">
      <Group justify="space-between" gap="sm">
        <SpanPicker time={time} onChange={onTime} />
        <Group gap="sm">
          <Switch
            size="xs"
            label="Live"
            checked={live === 'on'}
            onChange={event => setLive(event.currentTarget.checked ? 'on' : '')}
          />
          <Button
            component="a"
            href={`${base}/requests.csv${queryText({ ...filters, ...time })}`}
            download
            size="xs"
            variant="default"
            leftSection={<IconDownload size={14} aria-hidden />}
          >
            CSV
          </Button>
        </Group>
      </Group>
      <Group gap="xs">
        <TextFilter
          name="q"
          size="xs"
          aria-label="Id"
          placeholder="Request, generation or provider’s ID"
          w={{ base: '100%', xs: 250 }}
        />
        <ChoiceFilter compact name="status" label="Status" data={statuses} />
        <SearchFilter name="model" label="Model" choices={choices.data?.models ?? []} />
        <SearchFilter name="provider" label="Provider" choices={choices.data?.providers ?? []} />
        <KeyFilter compact />
        <ChoiceFilter compact name="type" label="Type" data={typeChoices} />
        <ChoiceFilter compact name="environment" label="Environment" data={environments} />
        <MoreFilters />
      </Group>
    </Stack>
  )
}

const more = [
  { name: 'min_duration_ms', label: 'Duration from (ms)', placeholder: '10000' },
  { name: 'min_cost_usd', label: 'Cost from (USD)', placeholder: '0.10' },
  { name: 'end_user', label: 'End user', placeholder: '`user` of the request' },
  { name: 'tag', label: 'Tag', placeholder: 'project:acme' },
  { name: 'session', label: 'Session', placeholder: '`x-session-id` of the request' },
]

/** Filters that are used seldom. */
function MoreFilters() {
  const [address] = useSearchParams()
  const used = more.filter(({ name }) => address.get(name)).length
  return (
    <Popover position="bottom-start" trapFocus withinPortal>
      <Popover.Target>
        <Button
          size="xs"
          variant={used > 0 ? 'light' : 'default'}
          leftSection={<IconAdjustments size={14} aria-hidden />}
        >
          More{used > 0 && ` (${used})`}
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        <Stack gap="xs">
          {more.map(({ name, label, placeholder }) => (
            <TextFilter key={name} name={name} label={label} placeholder={placeholder} size="xs" />
          ))}
        </Stack>
      </Popover.Dropdown>
    </Popover>
  )
}

/** A filter with many values, kept in the URL; includes the selected value even if it was not used recently. */
function SearchFilter({ name, label, choices }: { name: string; label: string; choices: string[] }) {
  const [value, set] = useFilter(name)
  return (
    <Select
      {...labelled(label, true)}
      searchable
      clearable
      clearButtonProps={{ 'aria-label': `Clear ${label.toLowerCase()}` }}
      nothingFoundMessage="No matches"
      w={filterWidth}
      limit={100}
      data={value && !choices.includes(value) ? [value, ...choices] : choices}
      value={value || null}
      onChange={chosen => set(chosen ?? '')}
    />
  )
}
