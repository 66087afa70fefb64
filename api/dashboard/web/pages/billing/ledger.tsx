import { Button, Group, Menu, SegmentedControl, Select, Stack, Text, Title } from '@mantine/core'
import { IconChevronDown, IconDownload } from '@tabler/icons-react'
import { keepPreviousData, useInfiniteQuery, useQuery } from '@tanstack/react-query'
import type { LedgerPage, MonthTotals } from '../../../wire/billing.ts'
import { call, queryText } from '../../api.ts'
import { useFilter } from '../../components/filters.tsx'
import { Empty, Show } from '../../components/states.tsx'
import { PagedTable } from '../../components/table.tsx'
import { moment, monthName, usd } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { ledgerColumns } from './ledger-table.tsx'

const pageSize = 50
const shownMonths = 24
const kinds = [
  { value: 'deposit', label: 'Payments and credits' },
  { value: 'charge', label: 'Usage' },
  { value: 'excess', label: 'Usage above its reservation' },
  { value: 'refund', label: 'Refunds for failed work' },
  { value: 'adjustment', label: 'Adjustments' },
]

/** The month `monthsAgo` before the current one, in UTC: "2026-11". */
function monthBack(back: number): string {
  const now = new Date()
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - back)).toISOString().slice(0, 7)
}

/** The URL can contain any text. */
function isMonth(text: string): boolean {
  return /^\d{4}-(?:0[1-9]|1[0-2])$/.test(text)
}

export function Ledger({ title = 'Ledger' }: { title?: string }) {
  const [chosenMonth, setMonth] = useFilter('month')
  const [kind, setKind] = useFilter('kind')
  const [detail, setDetail] = useFilter('detail')
  const month = isMonth(chosenMonth) ? chosenMonth : monthBack(0)
  const months = Array.from({ length: shownMonths }, (_, back) => monthBack(back))
  return (
    <Stack component="section" gap="sm" aria-labelledby="ledger-title">
      <Group justify="space-between">
        <Title order={2} id="ledger-title">
          {title}
        </Title>
        <Export month={month} kind={kind} detail={detail} />
      </Group>
      <Group align="flex-end" gap="sm">
        <Select
          label="Month (UTC)"
          w={{ base: '100%', xs: 180 }}
          allowDeselect={false}
          data={months.map(value => ({ value, label: monthName(value) }))}
          value={month}
          onChange={value => setMonth(value === monthBack(0) ? '' : (value ?? ''))}
        />
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
      <Totals month={month} />
      <Lines month={month} kind={kind} detail={detail || 'days'} />
    </Stack>
  )
}

type Filters = { month: string; kind: string; detail: string }

function Export({ month, kind, detail }: Filters) {
  const { base } = usePlace()
  const file = (from: string, to: string) => `${base}/billing/ledger.csv${queryText({ from, to, kind, detail })}`
  const year = month.slice(0, 4)
  return (
    <Menu position="bottom-end" withinPortal>
      <Menu.Target>
        <Button
          variant="default"
          leftSection={<IconDownload size={16} aria-hidden />}
          rightSection={<IconChevronDown size={14} aria-hidden />}
        >
          Export CSV
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item component="a" href={file(month, month)} download>
          {monthName(month)}
        </Menu.Item>
        <Menu.Item component="a" href={file(`${year}-01`, `${year}-12`)} download>
          Year {year}
        </Menu.Item>
        <Menu.Item component="a" href={file(monthBack(11), monthBack(0))} download>
          Last 12 months
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  )
}

function Totals({ month }: { month: string }) {
  const { id, base } = usePlace()
  const totals = useQuery({
    queryKey: [id, 'billing', 'totals', month],
    queryFn: ({ signal }) => call<MonthTotals>(`${base}/billing/totals${queryText({ month })}`, { signal }),
  })
  return (
    <Show query={totals} rows={1}>
      {({ deposits_usd, charges_usd, excess_usd, refunds_usd, adjustments_usd, late_usd, closes_at, closed }) => {
        const figures = [
          ['Payments and credits', deposits_usd],
          ['Usage', charges_usd],
          ...(excess_usd === 0 ? [] : [['Above its reservation', excess_usd] as const]),
          ['Refunds', refunds_usd],
          ...(adjustments_usd === 0 ? [] : [['Adjustments', adjustments_usd] as const]),
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
              {closed
                ? 'This month is closed and does not change.'
                : `This month closes on ${moment(closes_at, 'utc')}. Requests count when they began, jobs when they were created.`}
            </Text>
          </>
        )
      }}
    </Show>
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
  const amounts = lines.data?.pages.flatMap(({ data }) => data.map(({ amount_usd }) => amount_usd)) ?? []
  return (
    <PagedTable
      label="Ledger"
      query={lines}
      columns={ledgerColumns(filters.detail === 'days', amounts)}
      rowKey={({ id }) => id}
      minWidth={560}
      more="Show more"
      empty={
        <Empty title="No entries this month">
          {filters.kind === ''
            ? 'Payments and the cost of requests with live keys are listed here.'
            : 'Choose another month or type.'}
        </Empty>
      }
    />
  )
}
