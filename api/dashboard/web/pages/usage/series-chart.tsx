import { Code, Group, Paper, SegmentedControl, Select, Stack, Title } from '@mantine/core'
import { useLocation } from 'wouter'
import type { Activity, UsageChart, UsageMeasure } from '../../../wire/usage.ts'
import { Legend } from '../../components/charts/legend.tsx'
import { TimeChart } from '../../components/charts/time-chart.tsx'
import { useFilter } from '../../components/filters.tsx'
import { Empty, Show } from '../../components/states.tsx'
import { count, exactUsd, shortCount, usd } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { typeName } from '../requests/types.ts'
import { isOfRequests, requestsHref, type UsageChoice, useUsage } from './queries.ts'

const measures = [
  { value: 'cost', label: 'Cost' },
  { value: 'requests', label: 'Requests' },
  { value: 'errors', label: 'Errors' },
  { value: 'tokens', label: 'Tokens' },
]
export const dimensions = [
  { value: 'model', label: 'Model' },
  { value: 'key', label: 'API key' },
  { value: 'member', label: 'Member' },
  { value: 'provider', label: 'Provider' },
  { value: 'type', label: 'Endpoint' },
  { value: 'outcome', label: 'Outcome' },
  { value: 'end_user', label: 'End user' },
  { value: 'tag', label: 'Tag' },
]
/** The dimensions that the request log can be filtered by, and the name of the filter. */
const filters: Record<string, string> = {
  model: 'model',
  key: 'key',
  provider: 'provider',
  type: 'type',
  end_user: 'end_user',
  tag: 'tag',
}

/** Distinguishable side by side, in both colour schemes. */
const palette = ['water.5', 'orange.5', 'violet.5', 'lime.6', 'pink.5', 'blue.6', 'yellow.5', 'red.7']
const others = 'gray.5'

/** A choice that is kept in the URL unless it is the default. */
export function useChoice(
  name: string,
  choices: { value: string }[],
  usual: string,
): [string, (value: string) => void] {
  const [value, set] = useFilter(name)
  const isKnown = choices.some(choice => choice.value === value)
  return [isKnown ? value : usual, chosen => set(chosen === usual ? '' : chosen)]
}

/** The lengths of periods. */
export const periodRows = [
  { value: 'hour', label: 'Hour' },
  { value: 'day', label: 'Day' },
  { value: 'week', label: 'Week' },
  { value: 'month', label: 'Month' },
]
const periods = [{ value: 'auto', label: 'Auto' }, ...periodRows.map(({ value }) => ({ value, label: `Per ${value}` }))]

/** Cost, unless there is none of the requests. */
export function usualMeasure({ total }: Activity): UsageMeasure {
  return total.cost_usd === 0 && total.requests > 0 ? 'requests' : 'cost'
}

/** One measure over time, by model, key, member … `usual`: the measure unless another is chosen. */
export function SeriesChart({ choice, usual = 'cost' }: { choice: UsageChoice; usual?: UsageMeasure }) {
  const [measure, setMeasure] = useChoice('measure', measures, usual)
  const [by, setBy] = useChoice('by', dimensions, 'model')
  const [tag] = useFilter('tag')
  const [period, setPeriod] = useChoice('period', periods, 'auto')
  const granularity = period === 'auto' ? '' : period
  const usage = useUsage({ ...choice, by, measure, granularity, tag }, isNamed([by], tag))
  return (
    <Paper component="section" aria-labelledby="usage" withBorder p="md" style={{ minWidth: 0 }}>
      <Stack gap="sm">
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
            <Select
              size="xs"
              w={110}
              aria-label="Period"
              data={periods}
              value={period}
              allowDeselect={false}
              onChange={value => setPeriod(value!)}
            />
          </Group>
        </Group>
        {isNamed([by], tag) ? (
          <Show query={usage} rows={6}>
            {data => <Series usage={data} choice={choice} by={by} tag={tag} measure={measure as UsageMeasure} />}
          </Show>
        ) : (
          <NoTag />
        )}
      </Stack>
    </Paper>
  )
}

/** Whether what is grouped by is known: a tag needs its name. */
export function isNamed(by: readonly string[], tag: string): boolean {
  return tag !== '' || !by.includes('tag')
}

export function NoTag() {
  return (
    <Empty title="Name a tag">
      Enter its name above, such as <Code>project</Code>. Requests are tagged by the header{' '}
      <Code>x-gateway-tags: project:acme</Code>, or by <Code>metadata</Code>.
    </Empty>
  )
}

function Series({
  usage,
  choice: { key, member },
  by,
  tag,
  measure,
}: {
  usage: UsageChart
  choice: UsageChoice
  by: string
  tag: string
  measure: UsageMeasure
}) {
  const { home } = usePlace()
  const [, go] = useLocation()
  const { times, step_ms: stepMs, series, total, environment, from, to } = usage
  if (series.length === 0) return <Nothing measure={measure} />
  const nameOf = (id: string | null, name: string) => (by === 'type' && id !== null ? typeName(id) : name)
  const text = measure === 'cost' ? usd : count
  const drawn = series.map(({ id, name, values }, i) => ({
    name: nameOf(id, name),
    color: id === null ? others : palette[i % palette.length]!,
    values,
  }))
  const filter = filters[by]
  const prefix = by === 'tag' ? `${tag}:` : ''
  const pick = (period: number) => {
    const start = times[period]!
    go(
      requestsHref(home, {
        environment,
        key,
        from: start,
        to: times[period + 1] ?? to,
      }),
    )
  }
  return (
    <>
      <TimeChart
        kind="bars"
        label={`${measures.find(({ value }) => value === measure)!.label} over time, ${text(total)} in total`}
        times={times}
        stepMs={stepMs}
        series={drawn}
        text={measure === 'cost' ? axisUsd : shortCount}
        height={240}
        {...(isOfRequests({ key, member }) && { onPick: pick })}
      />
      <Legend
        entries={series.map(({ id, total: own }, i) => ({
          name: drawn[i]!.name,
          color: drawn[i]!.color,
          value: `${text(own)}${total > 0 ? ` · ${((100 * own) / total).toFixed(1)} %` : ''}`,
          ...(filter !== undefined &&
            id &&
            isOfRequests({ key, member, [filter]: id }) && {
              href: requestsHref(home, { environment, key, from, to, [filter]: `${prefix}${id}` }),
            }),
        }))}
      />
    </>
  )
}

/** That there is nothing of a measure, which does not mean that there were no requests. */
function Nothing({ measure }: { measure: UsageMeasure }) {
  switch (measure) {
    case 'cost':
      return (
        <Empty title="No cost in this period">
          Requests of test keys and requests that fail cost nothing; the measure Requests shows them.
        </Empty>
      )
    case 'errors':
      return <Empty title="No errors in this period" />
    case 'tokens':
      return <Empty title="No tokens in this period">Media and requests that fail use none.</Empty>
    case 'requests':
      return <Empty title="No requests in this period">Requests appear here when they end.</Empty>
  }
}

function axisUsd(amount: number): string {
  return amount >= 10_000 ? `$${shortCount(amount)}` : exactUsd(amount)
}
