import { Box, Button, Group, SegmentedControl, Select, Stack, Text, TextInput, Title } from '@mantine/core'
import { IconDownload } from '@tabler/icons-react'
import { keepPreviousData, useInfiniteQuery, useQuery } from '@tanstack/react-query'
import type { LedgerPage, StatementTotals, SubtotalLine } from '../../../wire/billing.ts'
import { call, queryText } from '../../api.ts'
import { useFilter } from '../../components/filters.tsx'
import { Empty, Show } from '../../components/states.tsx'
import { type Column, DataTable, PagedTable } from '../../components/table.tsx'
import { useTyped } from '../../components/typed.ts'
import { count, day, moment, usd } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { ledgerColumns } from './ledger-table.tsx'

const pageSize = 50
const kinds = [
  { value: 'deposit', label: 'Payments and credits' },
  { value: 'charge', label: 'Usage' },
  { value: 'excess', label: 'Usage above its reservation' },
  { value: 'refund', label: 'Refunds for failed work' },
  { value: 'adjustment', label: 'Adjustments' },
]

type Days = { from: string; to: string }

/** The months `first` to `last` months ago as UTC days. */
function monthsBack(first: number, last: number): Days {
  const now = new Date()
  const start = (back: number, day: number) =>
    new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - back, day)).toISOString().slice(0, 10)
  return { from: start(first, 1), to: start(last - 1, 0) }
}

const inQuarter = () => new Date().getUTCMonth() % 3
const periods = [
  { value: 'this-month', label: 'This month', days: () => monthsBack(0, 0) },
  { value: 'last-month', label: 'Last month', days: () => monthsBack(1, 1) },
  { value: 'this-quarter', label: 'This quarter', days: () => monthsBack(inQuarter(), inQuarter() - 2) },
  { value: 'last-quarter', label: 'Last quarter', days: () => monthsBack(inQuarter() + 3, inQuarter() + 1) },
  { value: 'last-12-months', label: 'Last 12 months', days: () => monthsBack(11, 0) },
]

/** The URL can contain any text. */
function isDay(text: string): boolean {
  return /^20\d\d-\d\d-\d\d$/.test(text) && !Number.isNaN(Date.parse(text))
}

export function Ledger({ title = 'Statement' }: { title?: string }) {
  const [chosen, setChosen] = useFilter('period')
  const [kind, setKind] = useFilter('kind')
  const [detail, setDetail] = useFilter('detail')
  const [from = '', to = ''] = chosen.split('_')
  const isCustom = isDay(from) && isDay(to)
  const known = periods.find(({ value }) => value === chosen) ?? periods[0]!
  const days = isCustom ? { from, to } : known.days()
  const setDays = (changed: Days) => setChosen(`${changed.from}_${changed.to}`)
  return (
    <Stack component="section" gap="sm" aria-labelledby="ledger-title">
      <Group justify="space-between">
        <Title order={2} id="ledger-title">
          {title}
        </Title>
        <Export {...days} kind={kind} detail={detail} />
      </Group>
      <Group align="flex-end" gap="sm">
        <Select
          label="Period (UTC)"
          w={{ base: '100%', xs: 180 }}
          allowDeselect={false}
          data={[...periods.map(({ value, label }) => ({ value, label })), { value: 'custom', label: 'Custom' }]}
          value={isCustom ? 'custom' : known.value}
          onChange={value =>
            value === 'custom' ? setDays(days) : setChosen(value === periods[0]!.value ? '' : (value ?? ''))
          }
        />
        {isCustom && (
          <>
            <DayInput label="From" max={to} value={from} onChange={day => setDays({ from: day, to })} />
            <DayInput label="To (included)" min={from} value={to} onChange={day => setDays({ from, to: day })} />
          </>
        )}
        <Select
          label="Type"
          placeholder="All"
          clearable
          clearButtonProps={{ 'aria-label': 'Show all types' }}
          w={{ base: '100%', xs: 220 }}
          data={kinds}
          value={kind || null}
          onChange={value => setKind(value ?? '')}
        />
        <SegmentedControl
          aria-label="Usage"
          data={[
            { value: 'days', label: 'Usage by day' },
            { value: 'entries', label: 'Each request' },
          ]}
          value={detail || 'days'}
          onChange={value => setDetail(value === 'days' ? '' : value)}
        />
      </Group>
      <Totals {...days} />
      <Lines {...days} kind={kind} detail={detail || 'days'} />
    </Stack>
  )
}

type DayProps = { label: string; min?: string; max?: string; value: string; onChange: (day: string) => void }

/** A day. While one is typed, as the years 2, 20 and 202 before 2025, the last whole one is kept. */
function DayInput({ value, onChange, ...input }: DayProps) {
  const [shown, type] = useTyped(value, day => day)
  const change = (text: string) => {
    const day = isDay(text) ? text : value
    type(text, day)
    if (day !== value) onChange(day)
  }
  return <TextInput {...input} type="date" value={shown} onChange={event => change(event.currentTarget.value)} />
}

type Filters = Days & { kind: string; detail: string }

function Export(filters: Filters) {
  const { base } = usePlace()
  const { kind, ...whole } = filters
  return (
    <Group gap="xs">
      {/* A statement of one kind has no balances. */}
      {kind === '' && <Download label="Export PDF" href={`${base}/billing/statement.pdf${queryText(whole)}`} />}
      <Download label="Export CSV" href={`${base}/billing/ledger.csv${queryText(filters)}`} />
    </Group>
  )
}

function Download({ label, href }: { label: string; href: string }) {
  return (
    <Button component="a" href={href} download variant="default" leftSection={<IconDownload size={16} aria-hidden />}>
      {label}
    </Button>
  )
}

function Totals(days: Days) {
  const { id, base } = usePlace()
  const totals = useQuery({
    queryKey: [id, 'billing', 'totals', days],
    queryFn: ({ signal }) => call<StatementTotals>(`${base}/billing/totals${queryText(days)}`, { signal }),
  })
  return (
    <Show query={totals} rows={1}>
      {sums => (
        <>
          <Balances {...sums} />
          <Group align="flex-start" gap="xl">
            <Subtotals title="By day" header="Day (UTC)" lines={sums.days} nameOf={({ id }) => day(id!, 'utc')} />
            <Subtotals
              title="Usage by key"
              header="API key"
              lines={sums.keys}
              nameOf={nameOf('other keys', 'No key')}
            />
            <Subtotals
              title="Usage by member"
              header="Created the key"
              lines={sums.members}
              nameOf={nameOf('other members', 'No member')}
            />
          </Group>
        </>
      )}
    </Show>
  )
}

function Balances(sums: StatementTotals) {
  const { opening_usd, deposits_usd, charges_usd, excess_usd, refunds_usd, adjustments_usd, closing_usd, late_usd } =
    sums
  const figures = [
    ['Opening balance', opening_usd],
    ['Payments and credits', deposits_usd],
    ['Usage', charges_usd],
    ...(excess_usd === 0 ? [] : [['Above its reservation', excess_usd] as const]),
    ['Refunds', refunds_usd],
    ...(adjustments_usd === 0 ? [] : [['Adjustments', adjustments_usd] as const]),
    ['Closing balance', closing_usd],
    ...(late_usd === 0 ? [] : [['Of these, late from closed months', late_usd] as const]),
  ] as const
  return (
    <>
      <Group component="dl" gap="xl" my={0}>
        {figures.map(([name, amount]) => (
          <div key={name}>
            <Text component="dt" size="xs" c="dimmed">
              {name}
            </Text>
            <Text component="dd" m={0} fw={600} className="numeric">
              {usd(amount)}
            </Text>
          </div>
        ))}
      </Group>
      <Text size="xs" c="dimmed">
        {day(sums.from, 'utc')} to {day(sums.to, 'utc')}, in US dollars, shown in whole cents; files have nine decimals.
        All days and times are UTC.{' '}
        {sums.closed
          ? 'This period is closed and does not change.'
          : `This period closes on ${moment(sums.closes_at, 'utc')}. Requests count when they began, jobs when they were created.`}
      </Text>
    </>
  )
}

function nameOf(rest: string, none: string) {
  return ({ id, name, is_rest }: SubtotalLine) => (is_rest ? `All ${rest}` : id === null ? none : (name ?? id))
}

function Subtotals({
  title,
  header,
  lines,
  nameOf,
}: {
  title: string
  header: string
  lines: SubtotalLine[]
  nameOf: (line: SubtotalLine) => string
}) {
  if (lines.length === 0) return null
  const total = (amounts: number[]) => amounts.reduce((sum, amount) => sum + amount, 0)
  const columns: Column<SubtotalLine>[] = [
    { header, kind: 'rowHeader', maxWidth: 220, cell: nameOf, footer: 'Total' },
    {
      header: 'Entries',
      kind: 'number',
      cell: ({ entries }) => count(entries),
      footer: count(total(lines.map(line => line.entries))),
    },
    {
      header: 'Amount',
      kind: 'number',
      cell: ({ amount_usd }) => usd(amount_usd),
      footer: usd(total(lines.map(line => line.amount_usd))),
    },
  ]
  return (
    <Box component="details" miw={280}>
      <summary>{title}</summary>
      <DataTable
        label={title}
        rows={lines}
        columns={columns}
        rowKey={({ id, is_rest }) => `${id} ${is_rest}`}
        maxHeight={360}
        dense
      />
    </Box>
  )
}

function Lines(filters: Filters) {
  const { id, base } = usePlace()
  const lines = useInfiniteQuery({
    queryKey: [id, 'billing', 'ledger', filters],
    queryFn: ({ pageParam, signal }) =>
      call<LedgerPage>(`${base}/billing/ledger${queryText({ ...filters, limit: pageSize, after: pageParam })}`, {
        signal,
      }),
    initialPageParam: '',
    getNextPageParam: ({ has_more, last_id }) => (has_more ? last_id : null),
    placeholderData: keepPreviousData,
  })
  return (
    <PagedTable
      label="Ledger"
      query={lines}
      columns={ledgerColumns(filters.detail === 'days', filters.kind === '')}
      rowKey={({ id }) => id}
      minWidth={640}
      more="Show more"
      empty={
        <Empty title="No entries in this period">
          {filters.kind === ''
            ? 'Payments and the cost of requests with live keys are listed here.'
            : 'Choose another period or type.'}
        </Empty>
      }
    />
  )
}
