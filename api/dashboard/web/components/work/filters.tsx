import { Button, Group, Select, type SelectProps, Text } from '@mantine/core'
import { useDebouncedValue } from '@mantine/hooks'
import { IconSearch } from '@tabler/icons-react'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useSearchParams } from 'wouter'
import type { KeysAnswer } from '../../../wire/keys.ts'
import { call, queryText } from '../../api.ts'
import { shortCount } from '../../format.ts'
import { withoutSecret } from '../../pages/keys/queries.ts'
import { useMembers } from '../../pages/members/member.ts'
import { usePlace } from '../../session.tsx'
import { TextFilter, typingMs, useFilter } from '../filters.tsx'
import { Empty } from '../states.tsx'

const maxKeys = 100
/** Two per row on a phone. */
export const filterWidth = { base: 'calc(50% - var(--mantine-spacing-md) / 2)', xs: 170 }

/** A filter with a few values, kept in the URL. */
export function ChoiceFilter({
  name,
  label,
  data,
  compact = false,
  counts,
}: {
  name: string
  label: string
  data: { value: string; label: string }[]
  counts?: Counts | undefined
  /** Shows the label inside, while nothing is chosen. */
  compact?: boolean
}) {
  const [value, set] = useFilter(name)
  return (
    <Select
      {...labelled(label, compact)}
      clearable
      clearButtonProps={{ 'aria-label': `Clear ${label.toLowerCase()}` }}
      w={filterWidth}
      data={data}
      {...(counts && { renderOption: optionOf(counts) })}
      value={value || null}
      onChange={chosen => set(chosen ?? '')}
    />
  )
}

/** How many things each choice finds; those that are missing find none, or it is not known. */
export type Counts = Record<string, number>

/** Shows a choice with its number. */
export function optionOf(counts: Counts): NonNullable<SelectProps['renderOption']> {
  return ({ option: { value, label } }) => (
    <Group justify="space-between" wrap="nowrap" gap="xs" w="100%">
      <span>{label}</span>
      <Text span size="xs" c="dimmed" className="numeric">
        {counts[value] === undefined ? '' : shortCount(counts[value])}
      </Text>
    </Group>
  )
}

/** The label of a filter, above it or inside it. */
export function labelled(label: string, compact: boolean) {
  return compact ? { 'aria-label': label, placeholder: label, size: 'xs' } : { label, placeholder: 'All' }
}

export const environments = [
  { value: 'live', label: 'Live' },
  { value: 'test', label: 'Test' },
]

/** Finds a job or a batch by its ID, or by that of its request. */
export function IdFilter({ placeholder }: { placeholder: string }) {
  return (
    <TextFilter
      name="q"
      label="ID"
      placeholder={placeholder}
      leftSection={<IconSearch size={16} aria-hidden />}
      w={{ base: '100%', xs: 220 }}
    />
  )
}

/** What a list that an IdFilter filters shows when nothing matches. */
export function NoMatches({ what }: { what: 'jobs' | 'batches' }) {
  const [, setAddress] = useSearchParams()
  return (
    <Empty title={`No ${what} found`}>
      IDs are compared as a whole. Change the filters or the time range to see other {what}.{' '}
      <Button size="compact-sm" variant="default" onClick={() => setAddress({}, { replace: true })}>
        Clear filters
      </Button>
    </Empty>
  )
}

/** Filters by API key. There may be thousands, so the gateway searches. */
export function KeyFilter({ compact = false }: { compact?: boolean }) {
  const [value, set] = useFilter('key')
  const [typed, setTyped] = useState('')
  const [search] = useDebouncedValue(typed, typingMs)
  const chosen = useKeyChoices(value)
  const isLabel = chosen.some(({ label }) => label === search)
  const found = useKeyChoices(isLabel ? '' : withoutSecret(search.trim()))
  return (
    <Select
      {...labelled('API key', compact)}
      searchable
      onSearchChange={setTyped}
      filter={({ options }) => options}
      clearable
      clearButtonProps={{ 'aria-label': 'Clear API key' }}
      nothingFoundMessage="No matching API key"
      w={{ ...filterWidth, xs: 220 }}
      data={[...found, ...chosen.filter(({ value: id }) => id === value && !found.some(key => key.value === id))]}
      value={value || null}
      onChange={picked => set(picked ?? '')}
    />
  )
}

/** Filters by the member who created the API keys. One who has left is shown by their id. */
export function MemberFilter() {
  // Operators who view an organisation from outside do not see its members.
  return usePlace().has('members') ? <MemberSelect /> : null
}

function MemberSelect() {
  const [value, set] = useFilter('member')
  const members = useMembers().data ?? []
  const known = members.map(({ user_id, name }) => ({ value: user_id, label: name }))
  const isKnown = value === '' || known.some(member => member.value === value)
  return (
    <Select
      {...labelled('Member', false)}
      searchable
      clearable
      clearButtonProps={{ 'aria-label': 'Clear member' }}
      nothingFoundMessage="No matching member"
      w={filterWidth}
      data={isKnown ? known : [...known, { value, label: value }]}
      value={value || null}
      onChange={picked => set(picked ?? '')}
    />
  )
}

/** The newest keys that match a search by name, last characters or id. */
function useKeyChoices(search: string): { value: string; label: string }[] {
  const { id, base } = usePlace()
  const query = queryText({ limit: maxKeys, include_revoked: true, search })
  const keys = useQuery({
    queryKey: [id, 'keys', 'filter', search],
    queryFn: ({ signal }) => call<KeysAnswer>(`${base}/keys${query}`, { signal }),
    placeholderData: keepPreviousData,
  })
  return (keys.data?.data ?? []).map(key => ({ value: key.id, label: `${key.name} (…${key.last4})` }))
}
