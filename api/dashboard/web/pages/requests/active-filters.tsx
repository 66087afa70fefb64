import { Button, Group, Pill } from '@mantine/core'
import { useSearchParams } from 'wouter'
import { environments } from '../../components/work/filters.tsx'
import { moreFilters, statuses } from './filters.tsx'
import { type Filters, filterNames } from './queries.ts'
import { typeName } from './types.ts'

const labels: Record<string, string> = {
  q: 'ID',
  status: 'Status',
  type: 'Endpoint',
  model: 'Model',
  provider: 'Provider',
  environment: 'Environment',
  key: 'API key',
  ...Object.fromEntries(moreFilters.map(({ name, label }) => [name, label])),
}

/** Removes filters from the address: one, or all. */
export function useClearFilters() {
  const [, setAddress] = useSearchParams()
  return (names: readonly string[] = filterNames) =>
    setAddress(params => new URLSearchParams([...params].filter(([name]) => !names.includes(name))), { replace: true })
}

/** The filters in use, each with a button that removes it. `keyName`: the name of the key that is filtered by, if it is known. */
export function ActiveFilters({ filters, keyName }: { filters: Filters; keyName: string | undefined }) {
  const clear = useClearFilters()
  const used = filterNames.filter(name => filters[name] !== '')
  if (used.length === 0) return null
  return (
    <Group gap={6} role="group" aria-label="Active filters">
      {used.map(name => (
        <Pill
          key={name}
          size="md"
          bg="var(--mantine-color-default-hover)"
          withRemoveButton
          removeButtonProps={{ 'aria-label': `Remove the filter ${labels[name]}`, 'aria-hidden': false, tabIndex: 0 }}
          onRemove={() => clear([name])}
        >
          {labels[name]}: {textOf(name, filters[name], keyName)}
        </Pill>
      ))}
      <Button size="compact-xs" variant="subtle" onClick={() => clear()}>
        Clear filters
      </Button>
    </Group>
  )
}

function textOf(name: keyof Filters, value: string, keyName: string | undefined): string {
  const labelIn = (choices: { value: string; label: string }[]) =>
    choices.find(choice => choice.value === value)?.label ?? value
  if (name === 'key') return keyName ?? value
  if (name === 'status') return labelIn(statuses)
  if (name === 'environment') return labelIn(environments)
  return name === 'type' ? typeName(value) : value
}
