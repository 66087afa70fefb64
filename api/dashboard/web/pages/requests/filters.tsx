import { Group, Select, Switch } from '@mantine/core'
import { TextFilter, useFilter } from '../../components/filters.tsx'
import { ChoiceFilter, environments, filterWidth, KeyFilter } from '../../components/work/filters.tsx'
import { spans, useChoices } from './queries.ts'
import { typeChoices } from './types.ts'

const statuses = [
  { value: 'ok', label: 'Ok' },
  { value: 'error', label: 'Any error' },
  ...[400, 401, 402, 403, 404, 408, 409, 413, 429, 499, 500, 502, 503, 504].map(status => ({
    value: String(status),
    label: String(status),
  })),
]
const usualSpan = '30d'

/** The filters of the list, kept in the URL. */
export function RequestFilterBar() {
  const choices = useChoices()
  const [span, setSpan] = useFilter('span')
  const [live, setLive] = useFilter('live')
  return (
    <Group align="flex-end">
      <TextFilter
        name="q"
        label="Id"
        placeholder="Request, generation or provider’s ID"
        w={{ base: '100%', xs: 290 }}
      />
      <Select
        label="Time"
        w={filterWidth}
        data={spans}
        value={span || usualSpan}
        allowDeselect={false}
        onChange={value => setSpan(value === usualSpan ? '' : (value ?? ''))}
      />
      <ChoiceFilter name="status" label="Status" data={statuses} />
      <SearchFilter name="model" label="Model" choices={choices.data?.models ?? []} />
      <SearchFilter name="provider" label="Provider" choices={choices.data?.providers ?? []} />
      <KeyFilter />
      <ChoiceFilter name="type" label="Type" data={typeChoices} />
      <ChoiceFilter name="environment" label="Environment" data={environments} />
      <Switch
        label="Live"
        description="Refreshes every few seconds"
        checked={live === 'on'}
        onChange={event => setLive(event.currentTarget.checked ? 'on' : '')}
      />
    </Group>
  )
}

/** A filter with many values, kept in the URL; includes the selected value even if it was not used recently. */
function SearchFilter({ name, label, choices }: { name: string; label: string; choices: string[] }) {
  const [value, set] = useFilter(name)
  return (
    <Select
      label={label}
      placeholder="All"
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
