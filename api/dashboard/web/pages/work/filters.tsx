import { Select } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import type { KeysAnswer } from '../../../wire/keys.ts'
import { call, queryText } from '../../api.ts'
import { useFilter } from '../../components/filters.tsx'
import { usePlace } from '../../session.tsx'

const mostKeys = 100
/** Two beside each other on a phone. */
export const filterWidth = { base: 'calc(50% - var(--mantine-spacing-md) / 2)', xs: 170 }

/** A field of the address with a few values to choose from. */
export function ChoiceFilter({
  name,
  label,
  data,
}: {
  name: string
  label: string
  data: { value: string; label: string }[]
}) {
  const [value, set] = useFilter(name)
  return (
    <Select
      label={label}
      placeholder="All"
      clearable
      clearButtonProps={{ 'aria-label': `Clear ${label.toLowerCase()}` }}
      w={filterWidth}
      data={data}
      value={value || null}
      onChange={chosen => set(chosen ?? '')}
    />
  )
}

export const environments = [
  { value: 'live', label: 'Live' },
  { value: 'test', label: 'Test' },
]

/** By the key that the work came with. */
export function KeyFilter() {
  const { id, base } = usePlace()
  const [value, set] = useFilter('key')
  const query = queryText({ limit: mostKeys, include_revoked: true })
  const keys = useQuery({
    queryKey: [id, 'keys', 'filter'],
    queryFn: ({ signal }) => call<KeysAnswer>(`${base}/keys${query}`, { signal }),
  })
  const data = (keys.data?.data ?? []).map(key => ({ value: key.id, label: `${key.name} (…${key.last4})` }))
  return (
    <Select
      label="Key"
      placeholder="All"
      searchable
      clearable
      clearButtonProps={{ 'aria-label': 'Clear key' }}
      nothingFoundMessage="No such key"
      w={{ ...filterWidth, xs: 220 }}
      data={data}
      value={value || null}
      onChange={chosen => set(chosen ?? '')}
    />
  )
}
