import { Button, Group, PasswordInput, Select, Stack, Switch, Text } from '@mantine/core'
import { IconPlus } from '@tabler/icons-react'
import { useState } from 'react'
import type { AddedKey, Provider } from '../../../wire/operator-home.ts'
import { Confirm } from '../../components/confirm.tsx'
import { OpenModal } from '../../components/dialogs.tsx'
import { Section } from '../../components/facts.tsx'
import { Form } from '../../components/form.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { moment } from '../../format.ts'
import { useAddProviderKey, useRemoveProviderKey } from './home-queries.ts'

const columns = (remove: (key: AddedKey) => void): Column<AddedKey>[] => [
  {
    header: 'API key',
    card: 'lead',
    kind: 'rowHeader',
    cell: ({ id }) => (
      <Text size="sm" ff="monospace">
        {id}
      </Text>
    ),
  },
  { header: 'Ends in', card: 'aside', cell: ({ last4 }) => (last4 === '' ? '–' : `…${last4}`) },
  { header: 'Added', card: 'labelled', cell: ({ added_at: at }) => moment(at) },
  {
    header: 'Actions',
    card: 'line',
    cell: key => (
      <Button size="compact-sm" variant="subtle" color="red.9" onClick={() => remove(key)}>
        Remove
      </Button>
    ),
  },
]

/** The API keys that were added at run time, and changes of them. */
export function AddedKeys({ provider: { name, added_keys: keys } }: { provider: Provider }) {
  const [adding, setAdding] = useState(false)
  const [removing, setRemoving] = useState<AddedKey | null>(null)
  return (
    <Section title="API keys added here">
      <Stack gap="sm">
        <Text size="sm" c="dimmed">
          {keys.length === 0
            ? 'None: the provider is called with the API keys of the environment, if it has some.'
            : 'The provider is called with these alone. Those of the environment are used again once the last one is removed.'}
        </Text>
        {keys.length > 0 && (
          <DataTable
            label="API keys added here"
            rows={keys}
            columns={columns(setRemoving)}
            rowKey={({ id }) => id}
            minWidth={480}
          />
        )}
        <Group>
          <Button variant="default" leftSection={<IconPlus size={16} aria-hidden />} onClick={() => setAdding(true)}>
            Add API key
          </Button>
        </Group>
      </Stack>
      {adding && <Adding name={name} keys={keys} onClose={() => setAdding(false)} />}
      {removing && <Removing name={name} removed={removing} onClose={() => setRemoving(null)} />}
    </Section>
  )
}

function Adding({ name, keys, onClose }: { name: string; keys: AddedKey[]; onClose: () => void }) {
  const [key, setKey] = useState('')
  const [replaces, setReplaces] = useState<string | null>(null)
  const [skipsTest, setSkipsTest] = useState(false)
  const added = { key: key.trim(), skip_test: skipsTest, ...(replaces !== null && { replaces }) }
  const add = useAddProviderKey(name, added, onClose)
  return (
    <OpenModal onClose={onClose} title={`Add an API key of ${name}`} centered>
      <Form mutation={add} submit="Add API key" disabled={key.trim() === ''}>
        <PasswordInput
          label="API key"
          description="It is stored encrypted and not shown again. All processes use it within a second."
          required
          autoComplete="off"
          value={key}
          onChange={event => setKey(event.currentTarget.value)}
          data-autofocus
        />
        {keys.length > 0 && (
          <Select
            label="Replaces"
            description="Requests that run end with the key that they have."
            placeholder="None: it is used beside the others"
            clearable
            data={keys.map(({ id, last4 }) => ({ value: id, label: last4 === '' ? id : `${id} (…${last4})` }))}
            value={replaces}
            onChange={setReplaces}
          />
        )}
        <Switch
          label="Add it without a test"
          description="Otherwise the provider is asked, by a request that costs nothing, whether it accepts the key."
          checked={skipsTest}
          onChange={event => setSkipsTest(event.currentTarget.checked)}
        />
      </Form>
    </OpenModal>
  )
}

function Removing({ name, removed, onClose }: { name: string; removed: AddedKey; onClose: () => void }) {
  const remove = useRemoveProviderKey(name, onClose)
  return (
    <Confirm
      title={`Remove the API key ${removed.id}?`}
      action="Remove API key"
      pending={remove.isPending}
      error={remove.error}
      onConfirm={() => remove.mutate(removed.id)}
      onClose={onClose}
    >
      New requests no longer use it. Requests that run end with it.
    </Confirm>
  )
}
