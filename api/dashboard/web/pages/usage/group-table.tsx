import { Anchor, Text } from '@mantine/core'
import { Link } from 'wouter'
import type { UsageBefore, UsageGroups, UsageRow } from '../../../wire/usage.ts'
import { Empty } from '../../components/states.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { count, day, duration, percent, shortCount, shortDay, usd } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { Change } from '../overview/tiles.tsx'
import { typeName } from '../requests/types.ts'
import { isOfRequests, requestsHref, type UsageChoice } from './queries.ts'
import { dimensions } from './series-chart.tsx'
import { errorsOf } from './sums.ts'

/** The rows of a breakdown with their total, and with the change of their cost unless they are of periods. */
export function GroupTable({
  data,
  choice,
  names,
  tag,
  granularity,
}: {
  data: UsageGroups
  choice: UsageChoice
  names: string[]
  tag: string
  granularity: string
}) {
  const { rows, total, has_more: hasMore } = data
  if (rows.length === 0) return <Empty title="No requests in this period">Requests appear here when they end.</Empty>
  return (
    <>
      <DataTable
        label="Usage by group"
        rows={rows}
        columns={columnsOf(data, choice, names, tag, granularity)}
        rowKey={({ start, groups }) => JSON.stringify([start, groups.map(({ id }) => id)])}
        minWidth={940}
        dense
      />
      {hasMore && (
        <Text size="xs" c="dimmed">
          The {count(rows.length)} {rows[0]!.start === null ? 'most expensive groups' : 'latest rows'} of more; the
          total of {count(total.requests)} requests includes all. The files have up to 10,000.
        </Text>
      )}
    </>
  )
}

function columnsOf(
  data: UsageGroups,
  choice: UsageChoice,
  names: string[],
  tag: string,
  granularity: string,
): Column<UsageRow>[] {
  const { total, before } = data
  const labelOf = (name: string) => (name === 'tag' ? tag : dimensions.find(({ value }) => value === name)!.label)
  const period: Column<UsageRow> = {
    header: 'Period (UTC)',
    nowrap: true,
    card: 'line',
    cell: ({ start }) => start !== null && periodOf(start, granularity),
  }
  return [
    ...(granularity === '' ? [] : [period]),
    ...names.map(
      (name, i): Column<UsageRow> => ({
        header: labelOf(name),
        ...(i === 0 && { kind: 'rowHeader' }),
        card: i === 0 ? 'lead' : 'line',
        maxWidth: 260,
        cell: ({ groups }) => (name === 'type' && groups[i]!.id ? typeName(groups[i]!.id) : groups[i]!.name),
        ...(i === 0 && { footer: 'Total' }),
      }),
    ),
    {
      header: 'Requests',
      kind: 'number',
      card: 'labelled',
      cell: row => <Requests row={row} data={data} choice={choice} names={names} tag={tag} />,
      footer: count(total.requests),
    },
    {
      header: 'Errors',
      kind: 'number',
      card: 'labelled',
      cell: row => shareOf(errorsOf(row), row.requests),
      footer: shareOf(errorsOf(total), total.requests),
    },
    {
      header: 'Input',
      kind: 'number',
      card: 'labelled',
      cell: row => shortCount(row.prompt_tokens),
      footer: shortCount(total.prompt_tokens),
    },
    {
      header: 'Cached',
      kind: 'number',
      cell: row => shareOf(row.cached_tokens, row.prompt_tokens),
      footer: shareOf(total.cached_tokens, total.prompt_tokens),
    },
    {
      header: 'Output',
      kind: 'number',
      card: 'labelled',
      cell: row => shortCount(row.completion_tokens),
      footer: shortCount(total.completion_tokens),
    },
    {
      header: 'p95',
      kind: 'number',
      nowrap: true,
      cell: row => timeOf(row.latency_p95_ms),
      footer: timeOf(total.latency_p95_ms),
    },
    {
      header: 'Cache saved',
      kind: 'number',
      cell: row => savedOf(row.cache_discount_usd),
      footer: savedOf(total.cache_discount_usd),
    },
    { header: 'Cost', kind: 'number', card: 'aside', cell: row => usd(row.cost_usd), footer: usd(total.cost_usd) },
    ...(before === null ? [] : [change(total, before, thanOf(choice))]),
  ]
}

/** "the 30 days before" */
function thanOf({ span }: UsageChoice): string {
  if (span === undefined) return 'the same time before'
  if (span === '1h') return 'the hour before'
  return `the ${span.replace('h', ' hours').replace('d', ' days')} before`
}

/** The change of the cost against the time before. */
function change(total: UsageGroups['total'], before: UsageBefore, than: string): Column<UsageRow> {
  return {
    header: `Against ${than}`,
    kind: 'number',
    nowrap: true,
    cell: row => row.before && <CostChange now={row.cost_usd} before={row.before.cost_usd} than={than} />,
    footer: <CostChange now={total.cost_usd} before={before.cost_usd} than={than} />,
  }
}

function CostChange({ now, before, than }: { now: number; before: number; than: string }) {
  if (before === 0) return now === 0 ? '–' : 'new'
  return <Change now={now} before={before} than={than} isShort />
}

/** "18 Nov 2026", or "18 Nov 14:00" for an hour. */
function periodOf(start: string, granularity: string): string {
  return granularity === 'hour' ? `${shortDay(start)} ${start.slice(11, 16)}` : day(start, 'utc')
}

/** The number of requests of a group, linked to the requests where the log has such filters. */
function Requests({
  row,
  data: { from, to, environment },
  choice: { key, member: chosen },
  names,
  tag,
}: {
  row: UsageRow
  data: UsageGroups
  choice: UsageChoice
  names: string[]
  tag: string
}) {
  const { home } = usePlace()
  const filters = Object.fromEntries(names.map((name, i) => [name, row.groups[i]!.id]))
  const { member, outcome, tag: value, ...known } = filters
  const text = count(row.requests)
  if (!isOfRequests({ key, member: chosen, ...known })) return text
  if (member !== undefined || outcome !== undefined || value === '' || Object.values(known).includes('')) return text
  const time = { from: row.start ?? from, to: row.end ?? to }
  const tagged = value === undefined ? undefined : `${tag}:${value}`
  return (
    <Anchor component={Link} href={requestsHref(home, { environment, key, ...time, ...known, tag: tagged })} inherit>
      {text}
    </Anchor>
  )
}

function shareOf(part: number, whole: number): string {
  return part === 0 || whole === 0 ? '–' : percent(part / whole)
}

function savedOf(discountUsd: number): string {
  return discountUsd === 0 ? '–' : usd(discountUsd)
}

function timeOf(ms: number | null): string {
  return ms === null ? '–' : duration(ms)
}
