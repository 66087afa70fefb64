import { Button, Checkbox, Group } from '@mantine/core'
import { IconPlus, IconSearch } from '@tabler/icons-react'
import { useState } from 'react'
import { useSearchParams } from 'wouter'
import type { KeySecretAnswer } from '../../wire/keys.ts'
import { TextFilter, useFilter } from '../components/filters.tsx'
import { Page } from '../components/page.tsx'
import { Empty, Show } from '../components/states.tsx'
import { CreateDrawer } from './keys/create.tsx'
import { KeyDrawer } from './keys/edit.tsx'
import { useKeys, withoutSecret } from './keys/queries.ts'
import { SecretDialog } from './keys/secret.tsx'
import { KeyTable } from './keys/table.tsx'

export default function Keys() {
  const [address, setAddress] = useSearchParams()
  const [created, setCreated] = useState<KeySecretAnswer | null>(null)
  const opened = address.get('key') || null
  /** Shows a key's drawer, or the form of a new one ("new"), or none; the filters stay. */
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
      description="Each key has its own limits, models and endpoints. Changes are in force for the next request."
      actions={
        <Button leftSection={<IconPlus size={16} aria-hidden />} onClick={() => open('new')}>
          Create key
        </Button>
      }
    >
      <KeyList onOpen={open} />
      {opened === 'new' && <CreateDrawer onCreated={setCreated} onClose={close} />}
      {opened !== null && opened !== 'new' && (
        <KeyDrawer key={opened} hash={opened} onRolled={setCreated} onClose={close} />
      )}
      {created && <SecretDialog answer={created} onClose={() => setCreated(null)} />}
    </Page>
  )
}

function KeyList({ onOpen }: { onOpen: (hash: string) => void }) {
  const [search] = useFilter('search')
  const [revoked, setRevoked] = useFilter('revoked')
  const keys = useKeys({ search, revoked: revoked === 'true' })
  return (
    <>
      <Group>
        <TextFilter
          name="search"
          clean={withoutSecret}
          aria-label="Search keys"
          placeholder="Name, or the end of the key"
          leftSection={<IconSearch size={16} aria-hidden />}
          w={{ base: '100%', xs: 280 }}
        />
        <Checkbox
          label="Show revoked keys"
          checked={revoked === 'true'}
          onChange={event => setRevoked(event.currentTarget.checked ? 'true' : '')}
        />
      </Group>
      <Show query={keys}>
        {({ pages }) => {
          const rows = pages.flatMap(({ data }) => data)
          if (rows.length === 0 && search !== '')
            return (
              <Empty title="No key is found">Search for a part of a name, or the last four characters of a key.</Empty>
            )
          if (rows.length === 0)
            return (
              <Empty title="No keys yet">
                Create a test key to try the API in the sandbox, or a live one to reach real providers.
              </Empty>
            )
          return <KeyTable keys={rows} onOpen={({ hash }) => onOpen(hash)} />
        }}
      </Show>
      {keys.hasNextPage && (
        <Group justify="center">
          <Button variant="default" loading={keys.isFetchingNextPage} onClick={() => void keys.fetchNextPage()}>
            Show more
          </Button>
        </Group>
      )}
    </>
  )
}
