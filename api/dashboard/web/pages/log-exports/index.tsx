import { Anchor, Button, Stack, Text } from '@mantine/core'
import { IconPlus } from '@tabler/icons-react'
import { useState } from 'react'
import { Link, Route, Switch, useLocation } from 'wouter'
import type { DashboardExport } from '../../../wire/log-exports.ts'
import { Page } from '../../components/page.tsx'
import { SigningSecret } from '../../components/signing-secret.tsx'
import { Empty, Show } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { duration } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { destinationOf, ExportPage } from './export.tsx'
import { CreateExport } from './export-form.tsx'
import { useExports } from './queries.ts'

export default function LogExports() {
  return (
    <Switch>
      <Route path="/:organisation/log-exports/:id">{({ id }) => <ExportPage key={id} id={id} />}</Route>
      <Route>
        <ExportsPage />
      </Route>
    </Switch>
  )
}

function ExportsPage() {
  return (
    <Page
      title="Log exports"
      description="Delivers the request log, the audit log and logged content to your own systems, in order and at least once."
      actions={<AddExport />}
    >
      <ExportList />
    </Page>
  )
}

export function ExportList() {
  const { home } = usePlace()
  const exports = useExports()
  return (
    <Show query={exports} rows={3}>
      {({ data }) => (
        <DataTable
          label="Log exports"
          rows={data}
          columns={columns(home)}
          rowKey={({ id }) => id}
          minWidth={720}
          empty={
            <Empty title="No log exports yet">
              An export begins with what is logged from then on; a replay delivers what was logged before.
            </Empty>
          }
        />
      )}
    </Show>
  )
}

/** A button with the form of a new export, whose page it opens. */
export function AddExport() {
  const { home, suspended } = usePlace()
  const [, go] = useLocation()
  const [isAdding, setAdding] = useState(false)
  const [created, setCreated] = useState<{ id: string; secret: string } | null>(null)
  const open = (id: string) => go(`${home}/log-exports/${id}`)
  return (
    <>
      <Button disabled={suspended} leftSection={<IconPlus size={16} aria-hidden />} onClick={() => setAdding(true)}>
        Add export
      </Button>
      {isAdding && (
        <CreateExport
          onClose={() => setAdding(false)}
          onCreated={({ data: { id }, secret }) => {
            setAdding(false)
            if (secret === null) open(id)
            else setCreated({ id, secret })
          }}
        />
      )}
      {created && <SigningSecret secret={created.secret} onClose={() => open(created.id)} />}
    </>
  )
}

const columns = (home: string): Column<DashboardExport>[] => [
  {
    header: 'Name',
    card: 'lead',
    kind: 'rowHeader',
    maxWidth: 320,
    cell: one => (
      <Stack gap={0}>
        <Anchor component={Link} href={`${home}/log-exports/${one.id}`} size="sm" fw={500}>
          {one.name}
        </Anchor>
        <Text size="xs" c="dimmed">
          {destinationOf(one)}
        </Text>
      </Stack>
    ),
  },
  { header: 'Status', card: 'aside', cell: ({ status }) => <Status value={status} /> },
  { header: 'Streams', card: 'line', cell: ({ streams }) => streams.join(', ') },
  { header: 'Behind', card: 'labelled', nowrap: true, kind: 'number', cell: one => duration(1_000 * lagOf(one)) },
  {
    header: 'Last error',
    card: 'line',
    maxWidth: 260,
    cell: ({ state }) => state.find(({ attempts }) => attempts > 0)?.last_error ?? '–',
  },
]

function lagOf({ state }: DashboardExport): number {
  return Math.max(0, ...state.map(({ lag_s }) => lag_s))
}
