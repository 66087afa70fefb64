import { Box, Button, Group, Menu, Popover, Select, Stack, Switch } from '@mantine/core'
import { IconAdjustments, IconDownload } from '@tabler/icons-react'
import { useSearchParams } from 'wouter'
import { queryText } from '../../api.ts'
import { FilterPanel, TextFilter, useFilter } from '../../components/filters.tsx'
import { SpanPicker, type TimeQuery } from '../../components/span.tsx'
import {
  ChoiceFilter,
  type Counts,
  environments,
  filterWidth,
  KeyFilter,
  labelled,
  optionOf,
} from '../../components/work/filters.tsx'
import { usePlace } from '../../session.tsx'
import { ColumnsMenu } from './columns.tsx'
import { canFollow, filterNames, type Search, sorts, useChoices } from './queries.ts'
import { typeChoices } from './types.ts'

export const statuses = [
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
export function RequestFilterBar({ search, onTime }: { search: Search; onTime: (time: TimeQuery) => void }) {
  const choices = useChoices(search)
  const counts = choices.data?.counts
  return (
    <Stack gap="sm">
      <Group justify="space-between" gap="sm">
        <SpanPicker time={search.time} onChange={onTime} />
        <Tools search={search} />
      </Group>
      <FilterPanel names={filterNames}>
        <Group gap="xs">
          <TextFilter
            name="q"
            size="xs"
            aria-label="Id"
            placeholder="Request, generation or provider’s ID"
            w={{ base: '100%', xs: 250 }}
          />
          <ChoiceFilter compact name="status" label="Status" data={statuses} counts={counts?.status} />
          <SearchFilter name="model" label="Model" choices={choices.data?.models ?? []} counts={counts?.model} />
          <SearchFilter
            name="provider"
            label="Provider"
            choices={choices.data?.providers ?? []}
            counts={counts?.provider}
          />
          <KeyFilter compact />
          <ChoiceFilter compact name="type" label="Endpoint" data={typeChoices} counts={counts?.type} />
          <ChoiceFilter compact name="environment" label="Environment" data={environments} />
          <MoreFilters />
        </Group>
      </FilterPanel>
    </Stack>
  )
}

/** How the list is shown, and its export. */
function Tools({ search: { filters, time, sort } }: { search: Search }) {
  const { isOperatorView } = usePlace()
  const [live, setLive] = useFilter('live')
  const [, setSort] = useFilter('sort')
  return (
    <Group gap="sm">
      <Switch
        size="xs"
        label="Live"
        disabled={!canFollow(time, sort)}
        checked={live === 'on' && canFollow(time, sort)}
        onChange={event => setLive(event.currentTarget.checked ? 'on' : '')}
      />
      <Select
        size="xs"
        w={160}
        aria-label="Sort"
        data={Object.entries(sorts).map(([value, { label }]) => ({ value, label }))}
        value={sort}
        allowDeselect={false}
        onChange={value => setSort(value === 'newest' ? '' : value!)}
      />
      {/* The cards of a phone have none. */}
      <Box visibleFrom="xs">
        <ColumnsMenu />
      </Box>
      {!isOperatorView && <Export query={queryText({ ...filters, ...time })} />}
    </Group>
  )
}

function Export({ query }: { query: string }) {
  const { base } = usePlace()
  return (
    <Menu position="bottom-end" withinPortal>
      <Menu.Target>
        <Button size="xs" variant="default" leftSection={<IconDownload size={14} aria-hidden />}>
          Export
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        {exports.map(({ format, label }) => (
          <Menu.Item key={format} component="a" href={`${base}/requests.${format}${query}`} download>
            {label}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  )
}

const exports = [
  { format: 'csv', label: 'CSV' },
  { format: 'jsonl', label: 'JSON Lines' },
]

/** Filters that are used seldom. */
export const moreFilters = [
  { name: 'min_duration_ms', label: 'Duration from (ms)', placeholder: '10000' },
  { name: 'min_cost_usd', label: 'Cost from (USD)', placeholder: '0.10' },
  { name: 'min_input_tokens', label: 'Input tokens from', placeholder: '10000' },
  { name: 'min_output_tokens', label: 'Output tokens from', placeholder: '1000' },
  { name: 'error_code', label: 'Error code', placeholder: 'rate_limit_exceeded' },
  { name: 'error_message', label: 'Error message', placeholder: 'Part of the message' },
  { name: 'end_user', label: 'End user', placeholder: '`user` of the request' },
  { name: 'tag', label: 'Tag', placeholder: 'project:acme' },
  { name: 'session', label: 'Session', placeholder: '`x-session-id` of the request' },
  { name: 'batch', label: 'Batch ID', placeholder: 'batch_…' },
]

function MoreFilters() {
  const [address] = useSearchParams()
  const used = moreFilters.filter(({ name }) => address.get(name)).length
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
          {moreFilters.map(({ name, label, placeholder }) => (
            <TextFilter key={name} name={name} label={label} placeholder={placeholder} size="xs" />
          ))}
        </Stack>
      </Popover.Dropdown>
    </Popover>
  )
}

/** A filter with many values, kept in the URL; includes the selected value even if it was not used recently. */
function SearchFilter({
  name,
  label,
  choices,
  counts,
}: {
  name: string
  label: string
  choices: string[]
  counts: Counts | undefined
}) {
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
      {...(counts && { renderOption: optionOf(counts) })}
      data={value && !choices.includes(value) ? [value, ...choices] : choices}
      value={value || null}
      onChange={chosen => set(chosen ?? '')}
    />
  )
}
