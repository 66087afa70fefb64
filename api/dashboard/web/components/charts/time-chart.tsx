import { Anchor, Box, ColorSwatch, Group, Paper, Table, Text } from '@mantine/core'
import { useElementSize } from '@mantine/hooks'
import { type PointerEvent, useState } from 'react'
import { labelled, periodName, tickName } from './period.ts'
import { thinOut, ticksUpTo } from './scale.ts'

/** The values of one series by period; null = none. `color` is a colour of the theme, as `blue.6`. */
type ChartSeries = { name: string; color: string; values: (number | null)[] }

type TimeChartProps = {
  /** The accessible name: what the chart shows. */
  label: string
  kind: 'bars' | 'lines'
  times: readonly string[]
  stepMs: number
  series: readonly ChartSeries[]
  text: (value: number) => string
  height?: number
  /** Called with the index of a period that was clicked. */
  onPick?: (period: number) => void
}

const maxTableHeight = 260
const axisHeight = 22
const minAxisWidth = 56
const axisLetterWidth = 6.5
const axisGap = 8
const topSpace = 6
const labelWidth = 78
const maxBarWidth = 36

/** Bars stacked by series, or lines, over time; its values also as a table. */
export function TimeChart(props: TimeChartProps) {
  const [isTable, setTable] = useState(false)
  return (
    <div>
      <Drawing {...props} />
      <Anchor component="button" type="button" size="xs" aria-expanded={isTable} onClick={() => setTable(!isTable)}>
        {isTable ? 'Hide the table' : 'Show as table'}
        <span className="visually-hidden"> {props.label}</span>
      </Anchor>
      {isTable && <Values {...props} />}
    </div>
  )
}

/** The values of a chart for those who cannot see or point at them: the periods with requests, the latest first. */
function Values({ label, times, stepMs, series, text }: TimeChartProps) {
  const used = times.map((_, i) => i).filter(i => series.some(({ values }) => values[i]))
  return (
    <Box mah={maxTableHeight} role="group" aria-label={label} tabIndex={0} style={{ overflow: 'auto' }}>
      <Table aria-label={label} verticalSpacing={2} stickyHeader fz="xs">
        <Table.Thead>
          <Table.Tr>
            <Table.Th scope="col">Period</Table.Th>
            {series.map(({ name }) => (
              <Table.Th key={name} scope="col" ta="end">
                {name}
              </Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {used.reverse().map(i => (
            <Table.Tr key={times[i]}>
              <Table.Th scope="row" fw={400}>
                {periodName(times[i]!, stepMs)}
              </Table.Th>
              {series.map(({ name, values }) => (
                <Table.Td key={name} ta="end" className="numeric">
                  {values[i] == null ? '–' : text(values[i])}
                </Table.Td>
              ))}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Box>
  )
}

/** SVG rather than a library: docs/decisions/dashboard.md, Charts. */
function Drawing({ label, kind, times, stepMs, series, text, height = 200, onPick }: TimeChartProps) {
  const { ref, width } = useElementSize()
  const [hovered, setHovered] = useState<number | null>(null)
  const plotHeight = height - axisHeight - topSpace
  const tops = times.map((_, i) => {
    const values = series.map(({ values }) => values[i] ?? 0)
    return kind === 'bars' ? values.reduce((sum, value) => sum + value, 0) : Math.max(0, ...values)
  })
  const ticks = ticksUpTo(Math.max(0, ...tops), tops.every(Number.isInteger))
  const axisWidth = Math.max(
    minAxisWidth,
    axisGap + axisLetterWidth * Math.max(...ticks.map(tick => text(tick).length)),
  )
  const plotWidth = Math.max(0, width - axisWidth)
  const periodWidth = plotWidth / times.length
  const y = (value: number) => topSpace + plotHeight * (1 - value / ticks.at(-1)!)
  const x = (period: number) => axisWidth + (period + 0.5) * periodWidth
  const periodAt = ({ clientX, currentTarget }: PointerEvent<SVGRectElement>) => {
    const { left, width: wide } = currentTarget.getBoundingClientRect()
    return Math.min(times.length - 1, Math.max(0, Math.floor(((clientX - left) / wide) * times.length)))
  }
  return (
    <Box ref={ref} pos="relative" h={height} style={{ minWidth: 0 }}>
      {width > 0 && (
        <svg role="img" aria-label={label} width={width} height={height} style={{ display: 'block' }}>
          <title>{label}</title>
          {ticks.map(tick => (
            <g key={tick}>
              <line x1={axisWidth} x2={width} y1={y(tick)} y2={y(tick)} className="chart-grid" />
              <text x={axisWidth - axisGap} y={y(tick)} dy="0.32em" textAnchor="end" className="chart-label">
                {text(tick)}
              </text>
            </g>
          ))}
          {thinOut(labelled(times, stepMs), plotWidth / labelWidth).map(i => (
            <text
              key={times[i]}
              x={x(i)}
              y={height - 6}
              textAnchor={x(i) > width - labelWidth / 3 ? 'end' : 'middle'}
              className="chart-label"
            >
              {tickName(times[i]!, stepMs)}
            </text>
          ))}
          {hovered !== null && (
            <rect
              x={x(hovered) - periodWidth / 2}
              y={topSpace}
              width={periodWidth}
              height={plotHeight}
              className="chart-hover"
            />
          )}
          {kind === 'bars' ? (
            <Bars series={series} count={times.length} x={x} y={y} width={Math.min(maxBarWidth, periodWidth * 0.8)} />
          ) : (
            <Lines series={series} x={x} y={y} />
          )}
          <rect
            x={axisWidth}
            y={topSpace}
            width={plotWidth}
            height={plotHeight}
            fill="transparent"
            style={{ cursor: onPick && 'pointer' }}
            onPointerMove={event => setHovered(periodAt(event))}
            onPointerLeave={() => setHovered(null)}
            onPointerUp={event => onPick?.(periodAt(event))}
          />
        </svg>
      )}
      {hovered !== null && (
        <Tooltip
          left={x(hovered)}
          isLeft={x(hovered) > width / 2}
          title={periodName(times[hovered]!, stepMs)}
          series={series}
          period={hovered}
          text={text}
        />
      )}
    </Box>
  )
}

type Plot = { series: readonly ChartSeries[]; x: (period: number) => number; y: (value: number) => number }

function Bars({ series, count, width, x, y }: Plot & { count: number; width: number }) {
  const bases = Array.from({ length: count }, () => 0)
  return series.map(({ name, color, values }) => (
    <path
      key={name}
      fill={colorVariable(color)}
      d={values
        .map((value, i) => {
          if (!value) return ''
          const from = bases[i]!
          bases[i] = from + value
          // At least a pixel high, so that a single failure can be seen.
          const top = Math.min(y(from + value), y(from) - 1)
          return `M${x(i) - width / 2} ${y(from)}v${top - y(from)}h${width}v${y(from) - top}z`
        })
        .join('')}
    />
  ))
}

function Lines({ series, x, y }: Plot) {
  return series.map(({ name, color, values }) => (
    <g key={name} stroke={colorVariable(color)} fill={colorVariable(color)}>
      <path
        fill="none"
        strokeWidth={2}
        strokeLinejoin="round"
        d={values
          .map((value, i) =>
            value === null ? '' : `${(values[i - 1] ?? null) === null ? 'M' : 'L'}${x(i)} ${y(value)}`,
          )
          .join('')}
      />
      {values.map((value, i) => {
        // A value without neighbours is no line.
        const isAlone = value !== null && (values[i - 1] ?? null) === null && (values[i + 1] ?? null) === null
        // biome-ignore lint/suspicious/noArrayIndexKey: periods keep their order
        return isAlone && <circle key={i} cx={x(i)} cy={y(value)} r={2.5} stroke="none" />
      })}
    </g>
  ))
}

type TooltipProps = {
  left: number
  /** Whether it is shown on the left of the period. */
  isLeft: boolean
  title: string
  period: number
} & Pick<TimeChartProps, 'series' | 'text'>

function Tooltip({ left, isLeft, title, series, period, text }: TooltipProps) {
  const shown = series.filter(({ values }) => values[period])
  return (
    <Paper
      withBorder
      shadow="sm"
      p="xs"
      pos="absolute"
      top={0}
      style={{ left, transform: isLeft ? 'translateX(calc(-100% - 12px))' : 'translateX(12px)', zIndex: 10 }}
      className="chart-tooltip"
    >
      <Text size="xs" fw={600} mb={4}>
        {title}
      </Text>
      {shown.length === 0 && <Text size="xs">No requests</Text>}
      {shown.map(({ name, color, values }) => (
        <Group key={name} gap="xs" justify="space-between" wrap="nowrap">
          <Group gap={6} wrap="nowrap">
            <ColorSwatch color={colorVariable(color)} size={10} />
            <Text size="xs">{name}</Text>
          </Group>
          <Text size="xs" className="numeric">
            {text(values[period]!)}
          </Text>
        </Group>
      ))}
    </Paper>
  )
}

/** The CSS variable of a colour of the theme, as `blue.6`. */
export function colorVariable(color: string): string {
  return `var(--mantine-color-${color.replace('.', '-')})`
}
