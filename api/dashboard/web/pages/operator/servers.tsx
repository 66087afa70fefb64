import { Button, Group, Stack, Text, VisuallyHidden } from '@mantine/core'
import { IconPlus } from '@tabler/icons-react'
import { useState } from 'react'
import type { OperatorServer } from '../../../wire/operator-catalog.ts'
import { Confirm } from '../../components/confirm.tsx'
import { Empty, Show } from '../../components/states.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { useRemoveServer, useServers } from './catalog-queries.ts'
import { ServerDrawer } from './server-drawer.tsx'

/** The OpenAI-compatible servers that were added at run time. */
export function Servers() {
  const servers = useServers()
  const [editing, setEditing] = useState<OperatorServer | 'new' | null>(null)
  const [removing, setRemoving] = useState<OperatorServer | null>(null)
  return (
    <Stack>
      <Group justify="space-between">
        <Text size="sm" c="dimmed" maw={640}>
          Servers added here join those of the configuration. All processes use a change within seconds.
        </Text>
        <Button leftSection={<IconPlus size={16} aria-hidden />} onClick={() => setEditing('new')}>
          Add server
        </Button>
      </Group>
      <Show query={servers}>
        {({ data }) => (
          <DataTable
            label="Servers"
            rows={data}
            columns={columns(setEditing, setRemoving)}
            rowKey={({ name }) => name}
            minWidth={720}
            empty={
              <Empty title="No servers added">
                Add vLLM, llama.cpp, LM Studio or any other server with OpenAI’s API.
              </Empty>
            }
          />
        )}
      </Show>
      {editing && <ServerDrawer server={editing === 'new' ? null : editing} onClose={() => setEditing(null)} />}
      {removing && <Removal server={removing} onClose={() => setRemoving(null)} />}
    </Stack>
  )
}

const columns = (
  onEdit: (server: OperatorServer) => void,
  onRemove: (server: OperatorServer) => void,
): Column<OperatorServer>[] => [
  {
    header: 'Server',
    card: 'lead',
    kind: 'rowHeader',
    maxWidth: 320,
    cell: ({ name, base_url, fault }) => (
      <>
        <Text size="sm" fw={500}>
          {name}
        </Text>
        <Text size="xs" c="dimmed" ff="monospace">
          {base_url}
        </Text>
        {fault !== null && (
          <Text size="xs" c="red">
            No effect: {fault}
          </Text>
        )}
      </>
    ),
  },
  { header: 'Models', card: 'line', maxWidth: 240, cell: ({ models }) => models.map(({ id }) => id).join(', ') || '–' },
  {
    header: 'API key',
    card: 'labelled',
    cell: ({ api_key_last4 }) => (api_key_last4 === null ? 'none' : `…${api_key_last4}`),
  },
  {
    header: 'Changed',
    card: 'line',
    cell: ({ updated_at, updated_by }) => (
      <>
        <Time at={updated_at} />
        <Text size="xs" c="dimmed">
          {updated_by}
        </Text>
      </>
    ),
  },
  {
    header: 'Actions',
    card: 'line',
    kind: 'actions',
    cell: server => (
      <Group gap="xs" wrap="nowrap" justify="flex-end">
        <Button size="compact-sm" variant="default" onClick={() => onEdit(server)}>
          Edit<VisuallyHidden> {server.name}</VisuallyHidden>
        </Button>
        <Button size="compact-sm" variant="subtle" color="red" onClick={() => onRemove(server)}>
          Remove<VisuallyHidden> {server.name}</VisuallyHidden>
        </Button>
      </Group>
    ),
  },
]

function Removal({ server, onClose }: { server: OperatorServer; onClose: () => void }) {
  const remove = useRemoveServer(server.name, onClose)
  return (
    <Confirm
      title={`Remove ${server.name}?`}
      action="Remove server"
      pending={remove.isPending}
      error={remove.error}
      onConfirm={() => remove.mutate()}
      onClose={onClose}
    >
      Its models disappear for new requests; those under way finish. Its API key is deleted.
    </Confirm>
  )
}
