import { Anchor, Text } from '@mantine/core'
import { Link } from 'wouter'
import type { Sums, UsageBefore, UsageGroups, UsageRow } from '../../../wire/usage.ts'
import { Empty } from '../../components/states.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { count, day, duration, exactUsd, percent, shortCount, shortDay, usd } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { Change } from '../overview/tiles.tsx'
import { typeName } from '../requests/types.ts'
import { beforeName, PeriodNote } from './period.tsx'
import { isOfRequests, requestsHref, type UsageChoice } from './queries.ts'
import { dimensions } from './series-chart.tsx'
import { errorsOf } from './sums.ts'

/** A row of the table; `other`: the sum of all groups that have none. */
type Row = UsageRow & { isOther?: boolean }

type TableProps = {
  data: UsageGroups
  choice: UsageChoice
  names: string[]
  tag: string
  granularity: string
  /** The column and the direction; '' = as the route has them. */
  sort: string
  onSort: (sort: string) => void
}

/** The rows of a breakdown with their total, and with the change of their cost unless they are of periods. */
export function GroupTable({ data, choice, names, tag, granularity, sort, onSort }: TableProps) {
  const { rows, other, total, from, to, statement_usd: statementUsd } = data
  if (rows.length === 0) return <Empty title="No requests in this period">Requests appear here when they end.</Empty>
  const columns = columnsOf(data, choice, names, tag, granularity)
  const rest: Row[] = other ? [{ start: null, end: null, groups: [], isOther: true, ...other }] : []
  return (
    <>
      <DataTable
        label="Usage by group"
        rows={[...sorted(rows, sort), ...rest]}
        columns={columns}
        rowKey={({ start, groups, isOther }) =>
          isOther ? 'other' : JSON.stringify([start, groups.map(({ id }) => id)])
        }
        minWidth={940}
        dense
        sort={sort || (granularity === '' ? '-cost' : '-period')}
        onSort={onSort}
      />
      {other && (
        <Text size="xs" c="dimmed">
          Other: all but the {count(rows.length)} {rows[0]!.start === null ? 'most expensive groups' : 'latest rows'}.
          The files have up to 10,000 rows.
        </Text>
      )}
      <PeriodNote from={from} to={to} costUsd={total.cost_usd} statementUsd={statementUsd} />
    </>
  )
}

/** What the columns sort by, by the names in the URL. Groups: `group`, `group2`. */
const figures: Record<string, (row: Row) => number | string> = {
  period: ({ start }) => start ?? '',
  group: ({ groups }) => groups[0]?.name.toLowerCase() ?? '',
  group2: ({ groups }) => groups[1]?.name.toLowerCase() ?? '',
  requests: ({ requests }) => requests,
  errors: row => (row.requests === 0 ? 0 : errorsOf(row) / row.requests),
  input: row => row.prompt_tokens,
  cached: row => (row.prompt_tokens === 0 ? 0 : row.cached_tokens / row.prompt_tokens),
  output: row => row.completion_tokens,
  p95: row => row.latency_p95_ms ?? -1,
  saved: row => row.cache_discount_usd,
  cost: row => row.cost_usd,
  change: ({ cost_usd: now, before }) => now - (before?.cost_usd ?? 0),
}

/** Rows in an order of `figures`; in that of the route if there is none such. */
function sorted(rows: readonly Row[], sort: string): Row[] {
  const name = sort.replace(/^-/, '')
  const figure = Object.hasOwn(figures, name) ? figures[name] : undefined
  if (!figure) return [...rows]
  const sign = sort.startsWith('-') ? -1 : 1
  const compare = (a: number | string, b: number | string) => (a < b ? -1 : a > b ? 1 : 0)
  return [...rows].sort((a, b) => sign * compare(figure(a), figure(b)))
}

function columnsOf(
  data: UsageGroups,
  choice: UsageChoice,
  names: string[],
  tag: string,
  granularity: string,
): Column<Row>[] {
  const { total, before } = data
  const labelOf = (name: string) => (name === 'tag' ? tag : dimensions.find(({ value }) => value === name)!.label)
  const first = names.length === 0
  const period: Column<Row> = {
    header: 'Period (UTC)',
    order: 'period',
    nowrap: true,
    card: first ? 'lead' : 'line',
    ...(first && { kind: 'rowHeader', footer: 'Total' }),
    cell: ({ start, isOther }) => (start !== null ? periodOf(start, granularity) : first && isOther && 'Other'),
  }
  const number = (header: string, order: string, text: (sums: Sums) => string, card?: Column<Row>['card']) =>
    ({ header, order, kind: 'number', nowrap: true, cell: text, footer: text(total), ...(card && { card }) }) as const
  const requests: Column<Row> = {
    ...number('Requests', 'requests', sums => count(sums.requests), 'labelled'),
    cell: row => <Requests row={row} data={data} choice={choice} names={names} tag={tag} />,
  }
  return [
    ...(granularity === '' ? [] : [period]),
    ...names.map(
      (name, i): Column<Row> => ({
        header: labelOf(name),
        order: i === 0 ? 'group' : 'group2',
        ...(i === 0 && { kind: 'rowHeader' }),
        card: i === 0 ? 'lead' : 'line',
        maxWidth: 260,
        cell: row => groupName(row, name, i),
        ...(i === 0 && { footer: 'Total' }),
      }),
    ),
    requests,
    number('Errors', 'errors', sums => shareOf(errorsOf(sums), sums.requests), 'labelled'),
    number('Input', 'input', sums => shortCount(sums.prompt_tokens), 'labelled'),
    number('Cached', 'cached', sums => shareOf(sums.cached_tokens, sums.prompt_tokens)),
    number('Output', 'output', sums => shortCount(sums.completion_tokens), 'labelled'),
    number('p95', 'p95', sums => timeOf(sums.latency_p95_ms)),
    number('Cache saved', 'saved', sums => savedOf(sums.cache_discount_usd)),
    number('Cost', 'cost', costOf, 'aside'),
    ...(before === null ? [] : [change(total, before, beforeName(choice))]),
  ]
}

function groupName({ groups, isOther }: Row, name: string, i: number): string {
  if (isOther) return i === 0 ? 'Other' : ''
  const { id, name: text } = groups[i]!
  return name === 'type' && id ? typeName(id) : text
}

/** In cents; the cost of a single request exactly. */
function costOf({ requests, cost_usd: cost }: Sums): string {
  return requests === 1 ? exactUsd(cost) : usd(cost)
}

/** The change of the cost against the time before. */
function change(total: UsageGroups['total'], before: UsageBefore, than: string): Column<Row> {
  return {
    header: `Against ${than}`,
    order: 'change',
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
  row: Row
  data: UsageGroups
  choice: UsageChoice
  names: string[]
  tag: string
}) {
  const { home, has } = usePlace()
  const filters = Object.fromEntries(names.map((name, i) => [name, row.groups[i]?.id ?? '']))
  const { member, outcome, tag: value, ...known } = filters
  const text = count(row.requests)
  if (row.isOther || !has('requests')) return text
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
