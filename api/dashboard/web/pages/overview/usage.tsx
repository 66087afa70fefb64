import { ColorSwatch, Group, Paper, SegmentedControl, Select, Stack, Text, Title } from '@mantine/core'
import { lazy, Suspense } from 'react'
import type { UsageChart, UsageMeasure, UsageSeries } from '../../../wire/usage.ts'
import { useFilter } from '../../components/filters.tsx'
import { Empty, Loading, Show } from '../../components/states.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { count, usdColumn } from '../../format.ts'
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
  { value: 'key', label: 'By API key' },
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

/** Daily usage as a chart or a table. */
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
              aria-label="Group by"
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
              return <Empty title="No usage in this period">Requests appear here when they end.</Empty>
            const named = by === 'type' ? withTypeNames(data) : data
            const text = textOf(measure as UsageMeasure, named)
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

/** A choice that is kept in the URL unless it is the default. */
function useChoice(name: string, choices: { value: string }[], usual: string): [string, (value: string) => void] {
  const [value, set] = useFilter(name)
  const isKnown = choices.some(choice => choice.value === value)
  return [isKnown ? value : usual, chosen => set(chosen === usual ? '' : chosen)]
}

function withTypeNames(usage: UsageChart): UsageChart {
  const named = ({ id, name, ...rest }: UsageSeries) => ({ id, name: id === null ? name : typeName(id), ...rest })
  return { ...usage, series: usage.series.map(named) }
}

function textOf(measure: UsageMeasure, { series, total }: UsageChart): (value: number) => string {
  return measure === 'cost' ? usdColumn([total, ...series.map(({ total: own }) => own)]) : count
}

/** The series with their totals and percentages. */
function Legend({ usage: { series, total }, text }: { usage: UsageChart; text: (value: number) => string }) {
  const colors = colorsOf(series)
  const columns: Column<UsageSeries>[] = [
    {
      header: 'Series',
      kind: 'rowHeader',
      maxWidth: 360,
      cell: line => (
        <Group gap="xs" wrap="nowrap">
          <ColorSwatch color={colorVariable(colors[series.indexOf(line)]!)} size={12} aria-hidden />
          <Text size="sm">{line.name}</Text>
        </Group>
      ),
      footer: 'Total',
    },
    { header: 'Total', kind: 'number', cell: line => text(line.total), footer: text(total) },
    {
      header: 'Percentage',
      kind: 'number',
      width: 80,
      cell: line => (
        <Text size="sm" c="dimmed">
          {((100 * line.total) / total).toFixed(1)} %
        </Text>
      ),
    },
  ]
  return (
    <DataTable
      label="Totals"
      rows={series}
      columns={columns}
      rowKey={({ id }) => id ?? 'other'}
      maxWidth={640}
      dense
      hiddenHeader
    />
  )
}

/** The CSS variable of a colour of the theme, as `blue.6`. */
const colorVariable = (color: string) => `var(--mantine-color-${color.replace('.', '-')})`
