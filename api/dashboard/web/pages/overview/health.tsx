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
  const { times, step_ms: stepMs, values, total, from, to } = activity
  const course = (of: (sums: Sums) => number | null) => values.map(sums => sums && of(sums))
  const pick =
    hrefOf &&
    ((period: number, status?: string) => {
      const start = times[period]!
      go(hrefOf({ status, from: start, to: new Date(Date.parse(start) + stepMs).toISOString() }))
    })
  const shared = { times, stepMs }
  const used = outcomes.filter(({ name }) => total[name] > 0)
  const lines = [
    { name: 'p50', color: 'water.5', values: course(({ latency_p50_ms: ms }) => ms), ms: total.latency_p50_ms },
    { name: 'p95', color: 'violet.5', values: course(({ latency_p95_ms: ms }) => ms), ms: total.latency_p95_ms },
    {
      name: 'TTFT, p50',
      color: 'orange.5',
      values: course(({ first_byte_p50_ms: ms }) => ms),
      ms: total.first_byte_p50_ms,
    },
  ].filter(({ ms }) => ms !== null)
  const tokens = [
    {
      name: 'Input',
      color: 'water.5',
      values: course(({ prompt_tokens: prompt, cached_tokens: cached }) => prompt - cached),
      total: total.prompt_tokens - total.cached_tokens,
    },
    {
      name: 'Cached input',
      color: 'lime.6',
      values: course(({ cached_tokens: cached }) => cached),
      total: total.cached_tokens,
    },
    {
      name: 'Output',
      color: 'violet.5',
      values: course(({ completion_tokens: completion }) => completion),
      total: total.completion_tokens,
    },
  ].filter(line => line.total > 0)
  return (
    <SimpleGrid cols={{ base: 1, lg: 3 }} spacing="md">
      <Card id="outcomes" title="Requests by outcome">
        <TimeChart
          {...shared}
          kind="bars"
          label={`Requests over time: ${used.map(({ name, label }) => `${count(total[name])} ${label}`).join(', ')}`}
          series={used.map(({ name, label, color }) => ({ name: label, color, values: course(sums => sums[name]) }))}
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

export function Card({ id, title, children }: { id: string; title: string; children: ReactNode }) {
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
