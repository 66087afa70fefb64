import { Group, Select } from '@mantine/core'
import { TextFilter, useFilter } from '../../components/filters.tsx'
import { Page } from '../../components/page.tsx'
import { Empty } from '../../components/states.tsx'
import { PagedTable } from '../../components/table.tsx'
import { things } from './actions.ts'
import { auditColumns, useAudit } from './list.tsx'

export default function Audit() {
  const [actor] = useFilter('actor')
  const [action] = useFilter('action')
  const [target] = useFilter('target')
  const filters = { actor, action, target }
  const events = useAudit(filters)
  return (
    <Page
      title="Audit log"
      description="Changes in this organisation, made in the dashboard, with a provisioning key or by an operator, and operators’ views of its requests. Entries cannot be changed or deleted."
    >
      <Filters />
      <PagedTable
        label="Audit log"
        query={events}
        columns={auditColumns}
        rowKey={({ id }) => id}
        minWidth={760}
        empty={
          <Empty title="No entries found">
            Change the filters to see other entries. Changes to API keys, members and settings are recorded here.
          </Empty>
        }
      />
    </Page>
  )
}

function Filters() {
  const [action, setAction] = useFilter('action')
  const width = { base: '100%', xs: 220 }
  return (
    <Group align="flex-end">
      <TextFilter name="actor" label="Actor" placeholder="Email address or key" w={width} />
      <Select
        label="Action"
        placeholder="All"
        clearable
        clearButtonProps={{ 'aria-label': 'Show all actions' }}
        w={width}
        data={things}
        value={action || null}
        onChange={value => setAction(value ?? '')}
      />
      <TextFilter name="target" label="Object" placeholder="API key name, member …" w={width} />
    </Group>
  )
}
