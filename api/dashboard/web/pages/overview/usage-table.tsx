import type { UsageChart } from '../../../wire/usage.ts'
import { type Column, DataTable } from '../../components/table.tsx'
import { shortDay } from '../../format.ts'

/** The figures of the chart: a row for each day with usage, newest first. */
export function UsageTable({ usage, text }: { usage: UsageChart; text: (value: number) => string }) {
  const { days, series, total } = usage
  const rows = days
    .map((day, i) => ({ day, values: series.map(({ values }) => values[i]!) }))
    .filter(({ values }) => values.some(value => value !== 0))
    .toReversed()
  const columns: Column<(typeof rows)[number]>[] = [
    { header: 'Day', kind: 'rowHeader', nowrap: true, cell: ({ day }) => shortDay(day), footer: 'All days' },
    ...series.map(({ id, name, total: own }, n) => ({
      key: id ?? 'other',
      header: name,
      kind: 'number' as const,
      maxWidth: 160,
      cell: ({ values }: (typeof rows)[number]) => (values[n] === 0 ? '–' : text(values[n]!)),
      footer: text(own),
    })),
    {
      header: 'Total',
      kind: 'number',
      cell: ({ values }) => text(values.reduce((sum, value) => sum + value, 0)),
      footer: text(total),
    },
  ]
  return (
    <DataTable
      label="Usage by day"
      rows={rows}
      columns={columns}
      rowKey={({ day }) => day}
      minWidth={160 + 120 * (series.length + 1)}
      maxHeight={480}
    />
  )
}
