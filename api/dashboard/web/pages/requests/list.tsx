import { Anchor, Button, Text } from '@mantine/core'
import { Link, useSearchParams } from 'wouter'
import type { RequestRow } from '../../../wire/requests.ts'
import { useFilter } from '../../components/filters.tsx'
import { Page } from '../../components/page.tsx'
import { useTime } from '../../components/span.tsx'
import { Empty } from '../../components/states.tsx'
import { PagedTable } from '../../components/table.tsx'
import { count } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { ActiveFilters, useClearFilters } from './active-filters.tsx'
import { columnsOf, useShownColumns } from './columns.tsx'
import { RequestFilterBar } from './filters.tsx'
import { Histogram } from './histogram.tsx'
import {
  canFollow,
  type Filters,
  filterNames,
  isCharted,
  type Search,
  type Sort,
  sorts,
  useCount,
  useRequests,
  useTail,
} from './queries.ts'
import { RequestSheet } from './sheet.tsx'
import { Views } from './views.tsx'

const minWidth = 620
const columnWidth = 70

/** The request log, newest first. */
export function RequestList() {
  const { home, isOperatorView } = usePlace()
  const [address] = useSearchParams()
  const [time, setTime] = useTime('30d')
  const [opened, setOpened] = useFilter('open')
  const [shown] = useShownColumns()
  const filters = Object.fromEntries(filterNames.map(name => [name, address.get(name) ?? ''])) as Filters
  const search: Search = { filters, time, sort: sortOf(address.get('sort')) }
  const isLive = address.get('live') === 'on' && canFollow(time, search.sort)
  const requests = useRequests(search, isLive)
  useTail(search, isLive)
  const rows = requests.data?.pages.flatMap(({ data }) => data) ?? []
  const place = rows.findIndex(({ id }) => id === opened)
  return (
    <Page
      title="Requests"
      description={
        <>
          The request log of the organisation’s API keys: every answered call, with its cost, provider and error.
          {isOperatorView && ' Its audit log records that you view it.'}
        </>
      }
    >
      <Views />
      <RequestFilterBar search={search} onTime={setTime} />
      <ActiveFilters filters={filters} keyName={rows.find(({ key }) => key?.id === filters.key)?.key?.name} />
      {isCharted(filters) && <Histogram filters={filters} time={time} onPick={setTime} />}
      <Shown search={search} rows={rows} hasMore={requests.hasNextPage} isLive={isLive} />
      <PagedTable
        label="Requests"
        query={requests}
        columns={columnsOf(home, shown, setOpened)}
        rowKey={({ id }) => id}
        onRow={({ id }) => setOpened(id)}
        openedRow={opened}
        minWidth={minWidth + columnWidth * shown.length}
        dense
        empty={filterNames.some(name => filters[name] !== '') ? <NoMatches /> : <NoRequests />}
      />
      {opened !== '' && (
        <RequestSheet
          id={opened}
          neighbours={[rows[place - 1]?.id ?? null, (place >= 0 && rows[place + 1]?.id) || null]}
          onOpen={setOpened}
          onClose={() => setOpened('')}
        />
      )}
    </Page>
  )
}

function sortOf(name: string | null): Sort {
  return name !== null && Object.hasOwn(sorts, name) ? (name as Sort) : 'newest'
}

/** How many requests are shown, of how many. */
function Shown({
  search,
  rows,
  hasMore,
  isLive,
}: {
  search: Search
  rows: RequestRow[]
  hasMore: boolean
  isLive: boolean
}) {
  const all = useCount(search, { enabled: hasMore, isLive })
  const shown = rows.reduce((sum, row) => sum + row.count, 0)
  if (rows.length === 0) return null
  const total =
    hasMore && all.data ? ` of ${count(Math.max(shown, all.data.requests))}${all.data.has_more ? '+' : ''}` : ''
  return (
    <Text size="xs" c="dimmed" component="output">
      Showing {count(shown)}
      {total} {shown === 1 ? 'request' : 'requests'}
    </Text>
  )
}

function NoMatches() {
  const clear = useClearFilters()
  return (
    <Empty title="No requests found">
      Change the filters or the time range to see other requests.{' '}
      <Button size="compact-sm" variant="default" onClick={() => clear()}>
        Clear filters
      </Button>
    </Empty>
  )
}

function NoRequests() {
  const { home, isOperatorView } = usePlace()
  if (isOperatorView) return <Empty title="No requests yet" />
  return (
    <Empty title="No requests yet">
      Send one from the{' '}
      <Anchor component={Link} href={`${home}/playground`} inherit underline="always">
        playground
      </Anchor>
      , or with one of your{' '}
      <Anchor component={Link} href={`${home}/keys`} inherit underline="always">
        API keys
      </Anchor>
      .
    </Empty>
  )
}
