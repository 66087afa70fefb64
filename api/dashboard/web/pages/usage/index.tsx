import { Anchor, Button, Group, Paper, SegmentedControl, Select, Stack, Text, Title } from '@mantine/core'
import { IconDownload } from '@tabler/icons-react'
import { Link } from 'wouter'
import type { UsageGroups } from '../../../wire/usage.ts'
import { queryText } from '../../api.ts'
import { TextFilter, useFilter } from '../../components/filters.tsx'
import { Page } from '../../components/page.tsx'
import { SpanPicker, useTime } from '../../components/span.tsx'
import { Empty, Show } from '../../components/states.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { environments, KeyFilter } from '../../components/work/filters.tsx'
import { count, duration, percent, shortCount, usdColumn } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { typeName } from '../requests/types.ts'
import { requestsHref, type UsageChoice, useGroups } from './queries.ts'
import { dimensions, isNamed, NoTag, SeriesChart, useChoice } from './series-chart.tsx'
import { errorsOf } from './sums.ts'

/** Who used what: usage by up to two properties, over any time. */
export default function Usage() {
  const [time, setTime] = useTime('30d')
  const [environment, setEnvironment] = useFilter('environment')
  const [key] = useFilter('key')
  const [by] = useFilter('by')
  const [rows] = useFilter('rows')
  const [then] = useFilter('then')
  const usesTag = [by, rows, then].includes('tag')
  const choice = { ...time, environment, key }
  return (
    <Page
      title="Usage"
      description="Requests, tokens and cost by key, member, model, provider, endpoint, end user or tag. Days are UTC."
      actions={<SpanPicker time={time} onChange={setTime} />}
    >
      <Group align="flex-end">
        <KeyFilter />
        <SegmentedControl
          aria-label="Environment"
          data={[{ value: '', label: 'Default' }, ...environments]}
          value={environment}
          onChange={setEnvironment}
        />
        {usesTag && <TextFilter name="tag" label="Tag" placeholder="project" w={{ base: '100%', xs: 180 }} />}
      </Group>
      <SeriesChart choice={choice} />
      <Groups choice={choice} />
    </Page>
  )
}

const seconds = [{ value: 'none', label: 'nothing' }, ...dimensions]

function Groups({ choice }: { choice: UsageChoice }) {
  const { base } = usePlace()
  const [by, setBy] = useChoice('rows', dimensions, 'key')
  const [then, setThen] = useChoice('then', seconds, 'model')
  const thenBy = then === 'none' || then === by ? '' : then
  const [tag] = useFilter('tag')
  const query = { ...choice, by, then_by: thenBy, tag }
  const isReady = isNamed([by, thenBy], tag)
  const groups = useGroups(query, isReady)
  return (
    <Paper component="section" aria-labelledby="groups" withBorder p="md" style={{ minWidth: 0 }}>
      <Stack gap="sm">
        <Group justify="space-between" gap="sm">
          <Title order={2} id="groups">
            Breakdown
          </Title>
          <Group gap="xs">
            <GroupSelect label="by" data={dimensions} value={by} onChange={setBy} />
            <GroupSelect label="then by" data={seconds} value={thenBy || 'none'} onChange={setThen} />
            <Button
              component="a"
              href={`${base}/usage/groups.csv${queryText(query)}`}
              download
              size="xs"
              variant="default"
              leftSection={<IconDownload size={14} aria-hidden />}
            >
              CSV
            </Button>
          </Group>
        </Group>
        {isReady ? (
          <Show query={groups} rows={6}>
            {data => <GroupTable data={data} names={thenBy === '' ? [by] : [by, thenBy]} tag={tag} />}
          </Show>
        ) : (
          <NoTag />
        )}
      </Stack>
    </Paper>
  )
}

function GroupSelect({
  label,
  data,
  value,
  onChange,
}: {
  label: string
  data: { value: string; label: string }[]
  value: string
  onChange: (value: string) => void
}) {
  return (
    <Group gap={6} wrap="nowrap">
      <Text size="xs" c="dimmed">
        {label}
      </Text>
      <Select
        size="xs"
        w={120}
        aria-label={`Group ${label}`}
        data={data}
        value={value}
        allowDeselect={false}
        onChange={chosen => onChange(chosen!)}
      />
    </Group>
  )
}

type Row = UsageGroups['rows'][number]

function GroupTable({ data, names, tag }: { data: UsageGroups; names: string[]; tag: string }) {
  const { rows, total, has_more: hasMore } = data
  if (rows.length === 0) return <Empty title="No usage in this period">Requests appear here when they end.</Empty>
  return (
    <>
      <DataTable
        label="Usage by group"
        rows={rows}
        columns={columnsOf(data, names, tag)}
        rowKey={({ groups }) => groups.map(({ id }) => id).join(' ')}
        minWidth={860}
        dense
      />
      {hasMore && (
        <Text size="xs" c="dimmed">
          The {count(rows.length)} most expensive groups of more; the total of {count(total.requests)} requests includes
          all. The CSV file has up to 10,000.
        </Text>
      )}
    </>
  )
}

function columnsOf(data: UsageGroups, names: string[], tag: string): Column<Row>[] {
  const { total, rows } = data
  const cost = usdColumn(rows.map(({ cost_usd }) => cost_usd))
  const labelOf = (name: string) => (name === 'tag' ? tag : dimensions.find(({ value }) => value === name)!.label)
  return [
    ...names.map(
      (name, i): Column<Row> => ({
        header: labelOf(name),
        ...(i === 0 && { kind: 'rowHeader' }),
        maxWidth: 260,
        cell: ({ groups }) => (name === 'type' && groups[i]!.id ? typeName(groups[i]!.id) : groups[i]!.name),
        ...(i === 0 && { footer: 'Total' }),
      }),
    ),
    {
      header: 'Requests',
      kind: 'number',
      cell: row => <Requests row={row} data={data} names={names} tag={tag} />,
      footer: count(total.requests),
    },
    {
      header: 'Errors',
      kind: 'number',
      cell: row => shareOf(errorsOf(row), row.requests),
      footer: shareOf(errorsOf(total), total.requests),
    },
    {
      header: 'Input',
      kind: 'number',
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
    { header: 'Cost', kind: 'number', cell: row => cost(row.cost_usd), footer: cost(total.cost_usd) },
  ]
}

/** The number of requests of a group, linked to the requests where the log has such filters. */
function Requests({
  row,
  data: { from, to, environment },
  names,
  tag,
}: {
  row: Row
  data: UsageGroups
  names: string[]
  tag: string
}) {
  const { home } = usePlace()
  const filters = Object.fromEntries(names.map((name, i) => [name, row.groups[i]!.id]))
  const { member, outcome, tag: value, ...known } = filters
  const text = count(row.requests)
  if (member !== undefined || outcome !== undefined || value === '' || Object.values(known).includes('')) return text
  const tagged = value === undefined ? undefined : `${tag}:${value}`
  return (
    <Anchor component={Link} href={requestsHref(home, { environment, from, to, ...known, tag: tagged })} inherit>
      {text}
    </Anchor>
  )
}

function shareOf(part: number, whole: number): string {
  return part === 0 || whole === 0 ? '–' : percent(part / whole)
}

function timeOf(ms: number | null): string {
  return ms === null ? '–' : duration(ms)
}
