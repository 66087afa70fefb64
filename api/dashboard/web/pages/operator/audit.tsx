import { Anchor, Group, Stack } from '@mantine/core'
import { Link } from 'wouter'
import type { OperatorEvent } from '../../../wire/operator-catalog.ts'
import { TextFilter, useFilter } from '../../components/filters.tsx'
import { Empty } from '../../components/states.tsx'
import { type Column, PagedTable } from '../../components/table.tsx'
import { auditColumns } from '../audit/list.tsx'
import { useOperatorAudit } from './catalog-queries.ts'

const width = { base: '100%', xs: 220 }
const columns: Column<OperatorEvent>[] = [
  ...(auditColumns as Column<OperatorEvent>[]),
  {
    header: 'Organisation',
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
  const [actor] = useFilter('actor')
  const [action] = useFilter('action')
  const [target] = useFilter('target')
  const events = useOperatorAudit({ actor, action, target })
  return (
    <Stack>
      <Group align="flex-end">
        <TextFilter name="actor" label="Actor" placeholder="Email address" w={width} />
        <TextFilter name="action" label="Action" placeholder="credit, catalog_model …" w={width} />
        <TextFilter name="target" label="Object" placeholder="Model, member …" w={width} />
      </Group>
      <PagedTable
        label="Operators’ audit log"
        query={events}
        columns={columns}
        rowKey={({ id }) => id}
        minWidth={860}
        empty={
          <Empty title="No entries found">What operators change, and whose requests they view, is recorded here.</Empty>
        }
      />
    </Stack>
  )
}
