import { Table } from '@mantine/core'
import type { UsageChart } from '../../../wire/usage.ts'
import { shortDay } from '../../format.ts'

/** The figures of the chart: a row for each day on which anything was used, the latest first. */
export function UsageTable({ usage, text }: { usage: UsageChart; text: (value: number) => string }) {
  const { days, series, total } = usage
  const rows = days
    .map((day, i) => ({ day, values: series.map(({ values }) => values[i]!) }))
    .filter(({ values }) => values.some(value => value !== 0))
    .toReversed()
  return (
    <Table.ScrollContainer minWidth={160 + 120 * (series.length + 1)} maxHeight={480}>
      <Table aria-label="Usage by day" stickyHeader>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Day</Table.Th>
            {series.map(({ id, name }) => (
              <Table.Th key={id ?? 'other'} ta="right">
                {name}
              </Table.Th>
            ))}
            <Table.Th ta="right">Total</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {rows.map(({ day, values }) => (
            <Table.Tr key={day}>
              <Table.Th scope="row" fw={400} style={{ whiteSpace: 'nowrap' }}>
                {shortDay(day)}
              </Table.Th>
              {values.map((value, n) => (
                <Table.Td key={series[n]!.id ?? 'other'} ta="right" className="numeric">
                  {value === 0 ? '–' : text(value)}
                </Table.Td>
              ))}
              <Table.Td ta="right" className="numeric" fw={600}>
                {text(values.reduce((sum, value) => sum + value, 0))}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
        <Table.Tfoot>
          <Table.Tr>
            <Table.Th scope="row">All days</Table.Th>
            {series.map(({ id, total: own }) => (
              <Table.Td key={id ?? 'other'} ta="right" className="numeric" fw={600}>
                {text(own)}
              </Table.Td>
            ))}
            <Table.Td ta="right" className="numeric" fw={600}>
              {text(total)}
            </Table.Td>
          </Table.Tr>
        </Table.Tfoot>
      </Table>
    </Table.ScrollContainer>
  )
}
