import '@mantine/charts/styles.css'
import { BarChart } from '@mantine/charts'
import type { UsageChart } from '../../../wire/usage.ts'
import { shortDay } from '../../format.ts'
import { colorsOf } from './colors.ts'

/** Stacked bars, one per day. Series are numbered, because the chart would read names with dots as paths. */
export default function Chart({ usage, text }: { usage: UsageChart; text: (value: number) => string }) {
  const { days, series, total } = usage
  const colors = colorsOf(series)
  const data = days.map((day, i) => ({
    day: shortDay(day),
    ...Object.fromEntries(series.map(({ values }, n) => [`s${n}`, values[i]!])),
  }))
  return (
    <div
      role="img"
      aria-label={`Bar chart of ${days.length} days, ${text(total)} in total. The table view shows the same figures.`}
    >
      <BarChart
        h={280}
        type="stacked"
        data={data}
        dataKey="day"
        series={series.map(({ name }, n) => ({ name: `s${n}`, label: name, color: colors[n]! }))}
        valueFormatter={text}
        accessibilityLayer={false}
        maxBarWidth={36}
        barProps={{ isAnimationActive: false }}
        yAxisProps={{ width: 72 }}
        tooltipProps={{ wrapperStyle: { zIndex: 10 } }}
      />
    </div>
  )
}
