import { Button, Group, Stack, Text } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { ProviderKeyAnswer, ProviderKeysAnswer, ShownProviderKey } from '../../../wire/provider-keys.ts'
import { call } from '../../api.ts'
import { OpenModal } from '../../components/dialogs.tsx'
import { Form } from '../../components/form.tsx'
import { Section } from '../../components/section.tsx'
import { Empty, Show } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { usePlace } from '../../session.tsx'
import { useChange } from '../../use-change.ts'
import { AddKey, changed, EditKey, Secret } from './provider-key-form.tsx'

/** The organisation's own keys at providers: added, replaced, tested, switched and deleted; their secrets are never shown. */
export function ProviderKeys() {
  const place = usePlace()
  const [isAdding, setAdding] = useState(false)
  const [replacing, setReplacing] = useState<ShownProviderKey | null>(null)
  const [editing, setEditing] = useState<ShownProviderKey | null>(null)
  const keys = useQuery({
    queryKey: [place.id, 'provider-keys'],
    queryFn: ({ signal }) => call<ProviderKeysAnswer>(`${place.base}/provider-keys`, { signal }),
  })
  return (
    <Section title="Provider keys">
      <Show query={keys} rows={2}>
        {({ data, providers, fee_percent }) => (
          <Stack>
            <Text size="sm" maw={640}>
              API keys whose policy says so call providers with these keys, on your own accounts there. You then pay the
              provider, and this service {fee_percent === 0 ? 'nothing' : `${fee_percent} % of its list price`}.
            </Text>
            <DataTable
              label="Provider keys"
              rows={data}
              columns={columnsOf(setEditing, setReplacing)}
              rowKey={({ id }) => id}
              minWidth={720}
              empty={<Empty title="No provider keys yet">Requests use the keys of this service.</Empty>}
            />
            <Button w="fit-content" variant="light" disabled={place.suspended} onClick={() => setAdding(true)}>
              Add provider key
            </Button>
            {isAdding && <AddKey providers={providers} onClose={() => setAdding(false)} />}
            {editing && <EditKey row={editing} onClose={() => setEditing(null)} />}
            {replacing && <ReplaceKey row={replacing} onClose={() => setReplacing(null)} />}
          </Stack>
        )}
      </Show>
    </Section>
  )
}

const columnsOf = (
  onEdit: (row: ShownProviderKey) => void,
  onReplace: (row: ShownProviderKey) => void,
): Column<ShownProviderKey>[] => [
  { header: 'Name', kind: 'rowHeader', card: 'lead', cell: ({ name }) => name },
  { header: 'Provider', card: 'line', cell: ({ provider }) => provider },
  { header: 'Key', card: 'line', cell: ({ last4 }) => `…${last4}` },
  { header: 'Serves', card: 'line', cell: row => servesOf(row) },
  {
    header: 'Status',
    maxWidth: 260,
    card: 'line',
    cell: ({ enabled, test }) => (
      <>
        <Status value={enabled ? 'enabled' : 'disabled'} />
        <Text size="xs" c="dimmed">
          {test === null ? 'not tested' : (test.reason ?? outcomes[test.outcome as keyof typeof outcomes])}
        </Text>
      </>
    ),
  },
  {
    header: 'Actions',
    kind: 'actions',
    card: 'line',
    cell: row => <Actions row={row} onEdit={() => onEdit(row)} onReplace={() => onReplace(row)} />,
  },
]

/** "2 models, 1 API key" */
function servesOf({ models, key_ids: keys }: ShownProviderKey): string {
  if (models === null && keys === null) return 'everything'
  const some = (count: number, noun: string) => `${count} ${noun}${count === 1 ? '' : 's'}`
  const of = [models && some(models.length, 'model'), keys && some(keys.length, 'API key')]
  return of.filter(text => text !== null).join(', ')
}

const outcomes = {
  accepted: 'The provider accepts it.',
  failed: 'The provider refused it.',
  unknown: 'The provider has no free request that tells.',
}

function Actions({ row, onEdit, onReplace }: { row: ShownProviderKey; onEdit: () => void; onReplace: () => void }) {
  const { id, name, enabled } = row
  const path = `/${id}`
  const test = useChange<void, ProviderKeyAnswer>(changed, base => call(`${base}${path}/test`, { method: 'POST' }))
  const toggle = useChange<void, ProviderKeyAnswer>(changed, base =>
    call(`${base}${path}`, { method: 'PATCH', body: { enabled: !enabled } }),
  )
  const [isDeleting, setDeleting] = useState(false)
  const remove = useChange<void, unknown>(
    changed,
    base => call(`${base}${path}`, { method: 'DELETE' }),
    () => setDeleting(false),
  )
  return (
    <Group gap="xs">
      <Button size="compact-xs" variant="default" loading={test.isPending} onClick={() => test.mutate()}>
        Test
      </Button>
      <Button size="compact-xs" variant="default" onClick={onEdit}>
        Edit
      </Button>
      <Button size="compact-xs" variant="default" onClick={onReplace}>
        Replace
      </Button>
      <Button size="compact-xs" variant="default" loading={toggle.isPending} onClick={() => toggle.mutate()}>
        {enabled ? 'Disable' : 'Enable'}
      </Button>
      <Button size="compact-xs" color="red" variant="light" onClick={() => setDeleting(true)}>
        Delete
      </Button>
      {isDeleting && (
        <OpenModal onClose={() => setDeleting(false)} title={`Delete “${name}”`} centered>
          <Form mutation={remove} submit="Delete key">
            <Text size="sm">Requests no longer use it, and jobs that run with it fail.</Text>
          </Form>
        </OpenModal>
      )}
    </Group>
  )
}

function ReplaceKey({ row: { id, name }, onClose }: { row: ShownProviderKey; onClose: () => void }) {
  const [secret, setSecret] = useState('')
  const replace = useChange<void, ProviderKeyAnswer>(
    changed,
    base => call(`${base}/${id}`, { method: 'PATCH', body: { secret } }),
    onClose,
  )
  return (
    <OpenModal onClose={onClose} title={`Replace “${name}”`} centered>
      <Form mutation={replace} submit="Test and replace">
        <Text size="sm">Requests use the new key at once; those that run end with the present one.</Text>
        <Secret value={secret} onChange={setSecret} />
      </Form>
    </OpenModal>
  )
}
