import { Anchor, Group, Stack } from '@mantine/core'
import { Link } from 'wouter'
import type { AuditEvent } from '../../../wire/audit.ts'
import { Empty } from '../../components/states.tsx'
import { type Column, PagedTable } from '../../components/table.tsx'
import { AuditActions, AuditFilterBar, useAuditFilters } from '../audit/filters.tsx'
import { auditColumns } from '../audit/list.tsx'
import { useOperatorAudit } from './catalog-queries.ts'

const columns: Column<AuditEvent>[] = [
  ...auditColumns,
  {
    header: 'Organisation',
    card: 'line',
    maxWidth: 200,
    cell: ({ organisation }) =>
      organisation === null ? (
        'whole service'
      ) : (
        <Anchor component={Link} href={`/operator/organisations/${organisation.id}`} size="sm">
          {organisation.name}
        </Anchor>
      ),
  },
]

/** Everything that operators changed, and whose requests they viewed, newest first. */
export function OperatorAuditLog() {
  const events = useOperatorAudit(useAuditFilters())
  return (
    <Stack>
      <Group justify="space-between" align="flex-end">
        <AuditFilterBar isOfOperators />
        <Group gap="xs">
          <AuditActions base="/dashboard/api/operator" />
        </Group>
      </Group>
      <PagedTable
        label="Operators’ audit log"
        query={events}
        columns={columns}
        rowKey={({ id }) => id}
        minWidth={960}
        empty={
          <Empty title="No entries found">What operators change, and whose requests they view, is recorded here.</Empty>
        }
      />
    </Stack>
  )
}
