import { Paper, Skeleton } from '@mantine/core'
import { Legend } from '../../components/charts/legend.tsx'
import { TimeChart } from '../../components/charts/time-chart.tsx'
import type { TimeQuery } from '../../components/span.tsx'
import { count, shortCount } from '../../format.ts'
import { outcomes } from '../overview/outcomes.ts'
import { useActivity } from '../usage/queries.ts'
import type { Filters } from './queries.ts'

const chartHeight = 110

/** The requests of the list by outcome over time. A click on a period narrows the time. */
export function Histogram({
  filters: { environment, key, model, provider, type, status },
  time,
  onPick,
}: {
  filters: Filters
  time: TimeQuery
  onPick: (time: TimeQuery) => void
}) {
  const activity = useActivity({ ...time, environment: environment || 'all', key, model, provider, type, status })
  // As high as the chart, so that the list below it stays where it is.
  if (activity.isPending) return <Skeleton height={chartHeight + 64} />
  if (!activity.data || activity.data.total.requests === 0) return null
  const { times, step_ms: stepMs, values, total } = activity.data
  const used = outcomes.filter(({ name }) => total[name] > 0)
  const pick = (period: number) => {
    const from = times[period]!
    onPick({ from, to: new Date(Date.parse(from) + stepMs).toISOString() })
  }
  return (
    <Paper withBorder p="sm" style={{ minWidth: 0 }}>
      <TimeChart
        kind="bars"
        height={chartHeight}
        label={`Requests over time: ${used.map(({ name, label }) => `${count(total[name])} ${label}`).join(', ')}`}
        times={times}
        stepMs={stepMs}
        series={used.map(({ name, label, color }) => ({
          name: label,
          color,
          values: values.map(sums => sums?.[name] ?? null),
        }))}
        text={shortCount}
        onPick={pick}
      />
      <Legend
        entries={used.map(({ name, label, color }) => ({ name: label, color, value: shortCount(total[name]) }))}
      />
    </Paper>
  )
}
