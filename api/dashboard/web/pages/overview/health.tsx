import { Paper, SimpleGrid, Stack, Title } from '@mantine/core'
import type { ReactNode } from 'react'
import { useLocation } from 'wouter'
import type { Activity, Sums } from '../../../wire/usage.ts'
import { Legend } from '../../components/charts/legend.tsx'
import { TimeChart } from '../../components/charts/time-chart.tsx'
import { count, duration, shortCount } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { requestsHref } from '../usage/queries.ts'
import { outcomes } from './outcomes.ts'

/** Outcomes, durations and tokens over time. A click on a period opens its requests. */
export function Health({ activity, keyId }: { activity: Activity; keyId?: string }) {
  const { home } = usePlace()
  const { environment } = activity
  const hrefOf = (filters: RequestFilters) => requestsHref(home, { environment, key: keyId, ...filters })
  return <ActivityCharts activity={activity} hrefOf={hrefOf} />
}

type RequestFilters = { status?: string | undefined; from: string; to: string }

/** The same charts; with `hrefOf`, periods and outcomes link to their requests. */
export function ActivityCharts({
  activity,
  hrefOf,
}: {
  activity: Activity
  hrefOf?: (filters: RequestFilters) => string
}) {
  const [, go] = useLocation()
  const { times, step_ms: stepMs, total, from, to } = activity
  const pick =
    hrefOf &&
    ((period: number, status?: string) => {
      const start = times[period]!
      go(hrefOf({ status, from: start, to: new Date(Date.parse(start) + stepMs).toISOString() }))
    })
  const shared = { times, stepMs }
  const used = outcomes.filter(({ name }) => total[name] > 0)
  const lines = latencyLines(activity)
  const tokens = tokenBars(activity)
  return (
    <SimpleGrid cols={{ base: 1, lg: 3 }} spacing="md">
      <Card id="outcomes" title="Requests by outcome">
        <TimeChart
          {...shared}
          kind="bars"
          label={`Requests over time: ${used.map(({ name, label }) => `${count(total[name])} ${label}`).join(', ')}`}
          series={used.map(({ name, label, color }) => ({
            name: label,
            color,
            values: valuesOf(activity, sums => sums[name]),
          }))}
          text={shortCount}
          {...(pick && { onPick: pick })}
        />
        <Legend
          entries={used.map(({ name, label, color, status }) => ({
            name: label,
            color,
            value: shortCount(total[name]),
            ...(hrefOf && { href: hrefOf({ from, to, status }) }),
          }))}
        />
      </Card>
      <Card id="latency" title="Latency of successful requests">
        <TimeChart
          {...shared}
          kind="lines"
          label={`Latency over time: ${lines.map(({ name, ms }) => `${name} ${duration(ms!)}`).join(', ')}`}
          series={lines}
          text={duration}
          {...(pick && { onPick: period => pick(period, 'ok') })}
        />
        <Legend entries={lines.map(({ name, color, ms }) => ({ name, color, value: duration(ms!) }))} />
      </Card>
      <Card id="tokens" title="Tokens by class">
        <TimeChart
          {...shared}
          kind="bars"
          label={`Tokens over time: ${tokens.map(line => `${shortCount(line.total)} ${line.name}`).join(', ')}`}
          series={tokens}
          text={shortCount}
          {...(pick && { onPick: pick })}
        />
        <Legend entries={tokens.map(({ name, color, total: own }) => ({ name, color, value: shortCount(own) }))} />
      </Card>
    </SimpleGrid>
  )
}

/** A figure of each period; null where nothing is known. */
function valuesOf({ values }: Activity, figure: (sums: Sums) => number | null): (number | null)[] {
  return values.map(sums => sums && figure(sums))
}

/** The lines of the latency chart that have a value, with their value of the whole time. */
function latencyLines(activity: Activity) {
  const { total } = activity
  const lines = [
    { name: 'p50', color: 'water.5', figure: (sums: Sums) => sums.latency_p50_ms },
    { name: 'p95', color: 'violet.5', figure: (sums: Sums) => sums.latency_p95_ms },
    { name: 'TTFT, p50', color: 'orange.5', figure: (sums: Sums) => sums.first_byte_p50_ms },
  ]
  return lines
    .map(({ name, color, figure }) => ({ name, color, values: valuesOf(activity, figure), ms: figure(total) }))
    .filter(({ ms }) => ms !== null)
}

/** The bars of the token chart that have a value, with their sum of the whole time. */
function tokenBars(activity: Activity) {
  const { total } = activity
  const bars = [
    { name: 'Input', color: 'water.5', figure: (sums: Sums) => sums.prompt_tokens - sums.cached_tokens },
    { name: 'Cached input', color: 'lime.6', figure: (sums: Sums) => sums.cached_tokens },
    { name: 'Output', color: 'violet.5', figure: (sums: Sums) => sums.completion_tokens },
  ]
  return bars
    .map(({ name, color, figure }) => ({ name, color, values: valuesOf(activity, figure), total: figure(total) }))
    .filter(bar => bar.total > 0)
}

function Card({ id, title, children }: { id: string; title: string; children: ReactNode }) {
  return (
    <Paper component="section" aria-labelledby={id} withBorder p="md" style={{ minWidth: 0 }}>
      <Stack gap="xs">
        <Title order={2} id={id} size="h3">
          {title}
        </Title>
        {children}
      </Stack>
    </Paper>
  )
}
