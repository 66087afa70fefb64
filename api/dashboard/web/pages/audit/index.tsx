import { Page } from '../../components/page.tsx'
import { Empty } from '../../components/states.tsx'
import { PagedTable } from '../../components/table.tsx'
import { usePlace } from '../../session.tsx'
import { AuditActions, AuditFilterBar, useAuditFilters } from './filters.tsx'
import { auditColumns, useAudit } from './list.tsx'

export default function Audit() {
  const { base } = usePlace()
  const events = useAudit(useAuditFilters())
  return (
    <Page
      title="Audit log"
      description="Changes in this organisation: in the dashboard, by the API, or by an operator of the service, and operators’ views of its requests. Entries cannot be changed or deleted."
      actions={<AuditActions base={base} />}
    >
      <AuditFilterBar />
      <PagedTable
        label="Audit log"
        query={events}
        columns={auditColumns}
        rowKey={({ id }) => id}
        minWidth={880}
        empty={
          <Empty title="No entries found">
            Change the filters or the time range to see other entries. Changes to API keys, members and settings are
            recorded here.
          </Empty>
        }
      />
    </Page>
  )
}
