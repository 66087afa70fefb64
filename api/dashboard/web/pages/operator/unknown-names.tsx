import { Text } from '@mantine/core'
import type { UnknownName } from '../../../wire/operator-home.ts'
import { Section } from '../../components/facts.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { count } from '../../format.ts'
import { useUnknownNames } from './home-queries.ts'

/** What requests have that the gateway does not know, each name once: a new version of a client is in use. */
export function UnknownNames() {
  const { data: names } = useUnknownNames()
  if (!names || names.data.length === 0) return null
  return (
    <Section title="Unknown fields in requests">
      <DataTable
        label="Unknown fields in requests"
        rows={names.data}
        columns={columns}
        rowKey={({ kind, name }) => `${kind} ${name}`}
        minWidth={560}
        maxHeight={360}
      />
    </Section>
  )
}

const effects: Record<UnknownName['kind'], string> = {
  field: 'Field, not sent',
  header: 'Header, not sent',
  beta: 'Beta, sent',
  nested: 'Nested, sent',
}

const columns: Column<UnknownName>[] = [
  {
    header: 'Name',
    card: 'lead',
    kind: 'rowHeader',
    maxWidth: 360,
    cell: ({ name }) => (
      <Text size="xs" ff="monospace">
        {name}
      </Text>
    ),
  },
  { header: 'Effect', card: 'line', nowrap: true, cell: ({ kind }) => effects[kind] },
  { header: 'Calls', card: 'labelled', kind: 'number', cell: row => count(row.count) },
  { header: 'First', nowrap: true, cell: ({ first_at }) => <Time at={first_at} /> },
  { header: 'Last', card: 'labelled', nowrap: true, cell: ({ last_at }) => <Time at={last_at} /> },
]
