import { Anchor, Select, Text } from '@mantine/core'
import { useDebouncedValue } from '@mantine/hooks'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { Link } from 'wouter'
import type { DashboardKey, KeysAnswer } from '../../../wire/keys.ts'
import { call, queryText } from '../../api.ts'
import { typingMs } from '../../components/filters.tsx'
import { usePlace } from '../../session.tsx'
import { withoutSecret } from '../keys/queries.ts'

const maxListed = 100

/** Whether the user may use a key here: their own keys and test keys; admins, all keys. */
export function isUsable({ status, environment, may_manage }: DashboardKey): boolean {
  return status === 'active' && (environment === 'test' || may_manage)
}

const rememberedName = (organisationId: string) => `headgate-playground-key:${organisationId}`

export function rememberKey(organisationId: string, { id }: DashboardKey): void {
  localStorage.setItem(rememberedName(organisationId), id)
}

/** The id of the last key used; null if there is none. */
export const rememberedKeyId = (organisationId: string) => localStorage.getItem(rememberedName(organisationId))

/** A test key, otherwise any. */
export function preferredKey(keys: DashboardKey[]): DashboardKey | undefined {
  return keys.find(({ environment }) => environment === 'test') ?? keys[0]
}

/** A page of the keys that the user may use here, newest first; `search`: those that it finds. */
export function useUsableKeys(search: string) {
  const { id, base } = usePlace()
  return useQuery({
    queryKey: [id, 'keys', 'playground', search],
    queryFn: async ({ signal }) => {
      const query = queryText({ limit: maxListed, search: withoutSecret(search) })
      return (await call<KeysAnswer>(`${base}/keys${query}`, { signal })).data.filter(isUsable)
    },
    placeholderData: keepPreviousData,
  })
}

const labelOf = ({ name, last4, environment }: DashboardKey) => `${name} (${environment}, …${last4})`

/** Selects the API key of the playground's requests, and states who pays for them. */
export function KeyPicker({ value, onChange }: { value: DashboardKey; onChange: (key: DashboardKey) => void }) {
  const { home } = usePlace()
  const [search, setSearch] = useState(labelOf(value))
  const [typed] = useDebouncedValue(search === labelOf(value) ? '' : search.trim(), typingMs)
  const { data: found, isFetching } = useUsableKeys(typed)
  // The chosen one stays listed: what is selected is shown by its entry of the list.
  const keys = [...(found ?? []).filter(({ id }) => id !== value.id), value]
  const groups = (['test', 'live'] as const).map(environment => ({
    group: environment === 'test' ? 'Test keys' : 'Live keys',
    items: keys.filter(key => key.environment === environment).map(key => ({ value: key.id, label: labelOf(key) })),
  }))
  return (
    <Select
      label="API key"
      w={{ base: '100%', xs: 320 }}
      data={groups}
      value={value.id}
      allowDeselect={false}
      searchable
      searchValue={search}
      onSearchChange={setSearch}
      // The server searches, in all keys and also by the last characters.
      filter={({ options }) => options}
      nothingFoundMessage={isFetching ? 'Searching…' : 'No such key'}
      onChange={id => onChange(keys.find(key => key.id === id) ?? value)}
      inputWrapperOrder={['label', 'input', 'description', 'error']}
      description={
        value.environment === 'test' ? (
          'Sandbox: responses are simulated and free.'
        ) : (
          <Text span inherit>
            Live: real providers, paid from{' '}
            <Anchor component={Link} href={`${home}/billing`} inherit>
              the organisation’s credits
            </Anchor>
            .
          </Text>
        )
      }
    />
  )
}
