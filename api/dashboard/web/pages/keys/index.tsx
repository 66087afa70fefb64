import { Button, Checkbox, Group } from '@mantine/core'
import { IconPlugConnected, IconPlus, IconSearch } from '@tabler/icons-react'
import { useState } from 'react'
import { Route, Switch, useSearchParams } from 'wouter'
import type { KeySecretAnswer } from '../../../wire/keys.ts'
import { FilterPanel, TextFilter, useFilter } from '../../components/filters.tsx'
import { Page } from '../../components/page.tsx'
import { Empty } from '../../components/states.tsx'
import { PagedTable } from '../../components/table.tsx'
import { ChoiceFilter, environments, MemberFilter } from '../../components/work/filters.tsx'
import { usePlace } from '../../session.tsx'
import { BulkBar, isSelectable } from './bulk.tsx'
import { ConnectDialog } from './connect.tsx'
import { CreateDrawer } from './create.tsx'
import { KeyDrawer } from './edit.tsx'
import { KeyPage } from './page.tsx'
import { useKeys, withoutSecret } from './queries.ts'
import { SecretDialog } from './secret.tsx'
import { keyColumns, selectionColumn } from './table.tsx'

export default function Keys() {
  const { home } = usePlace()
  return (
    <Switch>
      <Route path={`${home}/keys/:name`}>{({ name }) => <KeyPage key={name} name={name} />}</Route>
      <Route>
        <KeysPage />
      </Route>
    </Switch>
  )
}

function KeysPage() {
  const { isOperatorView, suspended } = usePlace()
  const [address, setAddress] = useSearchParams()
  const [created, setCreated] = useState<KeySecretAnswer | null>(null)
  const opened = isOperatorView ? null : address.get('key') || null
  /** Opens a key's drawer, the form of a new key ("new"), the set-up of agents ("connect"), or none; the filters are kept. */
  const open = (key: string | null) =>
    setAddress(params => {
      const next = new URLSearchParams(params)
      if (key === null) next.delete('key')
      else next.set('key', key)
      return next
    })
  const close = () => open(null)
  return (
    <Page
      title="API keys"
      description="Each API key has its own limits, models and endpoints. Changes apply to the next request."
      actions={
        !isOperatorView && (
          <>
            <Button
              variant="default"
              leftSection={<IconPlugConnected size={16} aria-hidden />}
              onClick={() => open('connect')}
            >
              Connect an agent
            </Button>
            <Button leftSection={<IconPlus size={16} aria-hidden />} disabled={suspended} onClick={() => open('new')}>
              Create key
            </Button>
          </>
        )
      }
    >
      <KeyList />
      {opened === 'new' && <CreateDrawer onCreated={setCreated} onClose={close} />}
      {opened === 'connect' && <ConnectDialog onClose={close} />}
      {opened !== null && opened !== 'new' && opened !== 'connect' && (
        <KeyDrawer key={opened} name={opened} onRolled={setCreated} onClose={close} />
      )}
      {created && <SecretDialog answer={created} onClose={() => setCreated(null)} />}
    </Page>
  )
}

const filterNames = ['state', 'environment', 'member', 'revoked']
const states = [
  { value: 'active', label: 'Active' },
  { value: 'unused', label: 'Unused for 60 days' },
  { value: 'disabled', label: 'Disabled' },
  { value: 'expired', label: 'Expired' },
]

function KeyList() {
  const { home, isOperatorView } = usePlace()
  const [search] = useFilter('search')
  const [revoked, setRevoked] = useFilter('revoked')
  const [member] = useFilter('member')
  const [environment] = useFilter('environment')
  const [state] = useFilter('state')
  const keys = useKeys({ search, member, environment, state, revoked: revoked === 'true' })
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set())
  const listed = keys.data?.pages.flatMap(({ data }) => data) ?? []
  const toggle = (id: string) => {
    const next = new Set(selected)
    if (!next.delete(id)) next.add(id)
    setSelected(next)
  }
  return (
    <>
      {/* The search stays where it is on phones. */}
      <Group align="flex-end">
        <TextFilter
          name="search"
          clean={withoutSecret}
          label="Search"
          aria-label="Search keys"
          placeholder="Name, or last characters of the key"
          leftSection={<IconSearch size={16} aria-hidden />}
          w={{ base: '100%', xs: 280 }}
        />
        <FilterPanel names={filterNames}>
          <Group align="flex-end">
            <ChoiceFilter name="state" label="Status" data={states} />
            <ChoiceFilter name="environment" label="Environment" data={environments} />
            <MemberFilter />
            <Checkbox
              pb={8}
              label="Show revoked keys"
              checked={revoked === 'true'}
              onChange={event => setRevoked(event.currentTarget.checked ? 'true' : '')}
            />
          </Group>
        </FilterPanel>
      </Group>
      <BulkBar
        keys={listed}
        selected={listed.filter(key => selected.has(key.id) && isSelectable(key))}
        onSelect={chosen => setSelected(new Set(chosen.map(({ id }) => id)))}
      />
      <PagedTable
        label="API keys"
        query={keys}
        columns={[
          ...(listed.some(isSelectable) ? [selectionColumn(id => selected.has(id), toggle)] : []),
          ...keyColumns(home),
        ]}
        rowKey={({ id }) => id}
        minWidth={880}
        empty={
          search + member + environment + state === '' ? (
            <Empty title="No API keys yet">
              {!isOperatorView &&
                'Create a test key to try the API in the sandbox, or a live key to call real providers.'}
            </Empty>
          ) : (
            <Empty title="No API keys found">
              Search for part of a name, or the last four characters of a key, or change the filters.
            </Empty>
          )
        }
      />
    </>
  )
}
