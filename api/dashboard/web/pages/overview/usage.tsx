import { ColorSwatch, Group, Paper, SegmentedControl, Select, Stack, Table, Text, Title } from '@mantine/core'
import { lazy, Suspense } from 'react'
import type { UsageChart, UsageMeasure, UsageSeries } from '../../../wire/usage.ts'
import { useFilter } from '../../components/filters.tsx'
import { Empty, Loading, Show } from '../../components/states.tsx'
import { count, usd } from '../../format.ts'
import { typeName } from '../requests/types.ts'
import { colorsOf } from './colors.ts'
import { useUsage } from './queries.ts'
import { UsageTable } from './usage-table.tsx'

const Chart = lazy(() => import('./chart.tsx'))

const measures = [
  { value: 'cost', label: 'Cost' },
  { value: 'requests', label: 'Requests' },
  { value: 'tokens', label: 'Tokens' },
]
const dimensions = [
  { value: 'model', label: 'By model' },
  { value: 'key', label: 'By key' },
  { value: 'type', label: 'By endpoint' },
]
const spans = [
  { value: '7', label: '7 days' },
  { value: '30', label: '30 days' },
  { value: '90', label: '90 days' },
]
const views = [
  { value: 'chart', label: 'Chart' },
  { value: 'table', label: 'Table' },
]

/** What was used day by day, as bars or as a table. */
export function Usage({ environment }: { environment: string }) {
  const [measure, setMeasure] = useChoice('measure', measures, 'cost')
  const [by, setBy] = useChoice('by', dimensions, 'model')
  const [days, setDays] = useChoice('days', spans, '30')
  const [view, setView] = useChoice('view', views, 'chart')
  const usage = useUsage({ environment, days, by, measure })
  return (
    <Paper component="section" aria-labelledby="usage" withBorder p="md" style={{ minWidth: 0 }}>
      <Stack>
        <Group justify="space-between" gap="sm">
          <Title order={2} id="usage">
            Usage
          </Title>
          <Group gap="xs">
            <SegmentedControl size="xs" aria-label="Measure" data={measures} value={measure} onChange={setMeasure} />
            <Select
              size="xs"
              w={120}
              aria-label="Split"
              data={dimensions}
              value={by}
              allowDeselect={false}
              onChange={value => setBy(value!)}
            />
            <SegmentedControl size="xs" aria-label="Days" data={spans} value={days} onChange={setDays} />
            <SegmentedControl size="xs" aria-label="View" data={views} value={view} onChange={setView} />
          </Group>
        </Group>
        <Show query={usage}>
          {data => {
            if (data.series.length === 0)
              return <Empty title="Nothing was used in these days">Requests appear here as they are answered.</Empty>
            const named = by === 'type' ? withTypeNames(data) : data
            const text = textOf(measure as UsageMeasure)
            if (view === 'table') return <UsageTable usage={named} text={text} />
            return (
              <>
                <Suspense fallback={<Loading rows={8} />}>
                  <Chart usage={named} text={text} />
                </Suspense>
                <Legend usage={named} text={text} />
              </>
            )
          }}
        </Show>
      </Stack>
    </Paper>
  )
}

/** A choice that is kept in the address where it is not the usual one. */
function useChoice(name: string, choices: { value: string }[], usual: string): [string, (value: string) => void] {
  const [value, set] = useFilter(name)
  const isKnown = choices.some(choice => choice.value === value)
  return [isKnown ? value : usual, chosen => set(chosen === usual ? '' : chosen)]
}

function withTypeNames(usage: UsageChart): UsageChart {
  const named = ({ id, name, ...rest }: UsageSeries) => ({ id, name: id === null ? name : typeName(id), ...rest })
  return { ...usage, series: usage.series.map(named) }
}

function textOf(measure: UsageMeasure): (value: number) => string {
  return measure === 'cost' ? usd : count
}

/** The series with what they come to, and their share. */
function Legend({ usage: { series, total }, text }: { usage: UsageChart; text: (value: number) => string }) {
  const colors = colorsOf(series)
  return (
    <Table aria-label="Totals" verticalSpacing={6} maw={640}>
      <Table.Tbody>
        {series.map(({ id, name, total: own }, i) => (
          <Table.Tr key={id ?? 'other'}>
            <Table.Th scope="row" fw={400}>
              <Group gap="xs" wrap="nowrap">
                <ColorSwatch color={`var(--mantine-color-${colors[i]!.replace('.', '-')})`} size={12} aria-hidden />
                <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
                  {name}
                </Text>
              </Group>
            </Table.Th>
            <Table.Td ta="right" className="numeric">
              {text(own)}
            </Table.Td>
            <Table.Td ta="right" className="numeric" w={80} c="dimmed">
              {((100 * own) / total).toFixed(1)} %
            </Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
      <Table.Tfoot>
        <Table.Tr>
          <Table.Th scope="row">Total</Table.Th>
          <Table.Td ta="right" fw={600} className="numeric">
            {text(total)}
          </Table.Td>
          <Table.Td />
        </Table.Tr>
      </Table.Tfoot>
    </Table>
  )
}
