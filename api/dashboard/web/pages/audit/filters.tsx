import { Group, Select } from '@mantine/core'
import { useSearchParams } from 'wouter'
import { queryText } from '../../api.ts'
import { ExportButtons } from '../../components/export-buttons.tsx'
import { FilterPanel, TextFilter, useFilter } from '../../components/filters.tsx'
import { SpanPicker, type TimeQuery, useTime } from '../../components/span.tsx'
import { auditSubjects } from './actions.ts'

const width = { base: '100%', xs: 220 }
const names = ['actor', 'action', 'target'] as const

export type AuditFilters = TimeQuery & { actor?: string; action?: string; target?: string }

/** The filters in the URL. */
export function useAuditFilters(): AuditFilters {
  const [address] = useSearchParams()
  const [time] = useTime('all')
  return { ...Object.fromEntries(names.map(name => [name, address.get(name) ?? ''])), ...time }
}

/** The time of an audit log, and what is shown as files. `base`: the path above that of the log's routes. */
export function AuditActions({ base }: { base: string }) {
  const filters = useAuditFilters()
  const [time, setTime] = useTime('all')
  return (
    <>
      <SpanPicker time={time} onChange={setTime} hasAll />
      <ExportButtons hrefOf={format => `${base}/audit.${format}${queryText(filters)}`} />
    </>
  )
}

/** Filters by actor, action and object, of an organisation or of operators, who change other things. */
export function AuditFilterBar({ isOfOperators = false }: { isOfOperators?: boolean }) {
  return (
    <FilterPanel names={names}>
      <Group align="flex-end">
        <TextFilter name="actor" label="Actor" placeholder="Email address or key" w={width} />
        {isOfOperators ? (
          <TextFilter name="action" label="Action" placeholder="credit, catalog_model …" w={width} />
        ) : (
          <ActionFilter />
        )}
        <TextFilter name="target" label="Object" placeholder="API key, model, member …" w={width} />
      </Group>
    </FilterPanel>
  )
}

function ActionFilter() {
  const [action, setAction] = useFilter('action')
  return (
    <Select
      label="Action"
      placeholder="All"
      clearable
      clearButtonProps={{ 'aria-label': 'Show all actions' }}
      w={width}
      data={auditSubjects}
      value={action || null}
      onChange={value => setAction(value ?? '')}
    />
  )
}
