import { Anchor, Text } from '@mantine/core'
import { Link, useSearchParams } from 'wouter'
import type { RequestRow } from '../../../wire/requests.ts'
import { useFilter } from '../../components/filters.tsx'
import { Page } from '../../components/page.tsx'
import { useTime } from '../../components/span.tsx'
import { Empty } from '../../components/states.tsx'
import { type Column, PagedTable } from '../../components/table.tsx'
import { count, duration, instant, moment, shortCount, usd } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { RequestFilterBar } from './filters.tsx'
import { Histogram } from './histogram.tsx'
import { Outcome } from './outcome.tsx'
import { type Filters, filterNames, isCharted, useRequests } from './queries.ts'
import { RequestSheet } from './sheet.tsx'
import { typeName } from './types.ts'
import { Views } from './views.tsx'

/** The request log, newest first. */
export function RequestList() {
  const { home } = usePlace()
  const [address] = useSearchParams()
  const [time, setTime] = useTime('30d')
  const [opened, setOpened] = useFilter('open')
  const values = filterNames.map(name => [name, address.get(name) ?? ''] as const)
  const filters = Object.fromEntries(values) as Filters
  const requests = useRequests(filters, time, address.get('live') === 'on')
  const rows = requests.data?.pages.flatMap(({ data }) => data) ?? []
  const place = rows.findIndex(({ id }) => id === opened)
  return (
    <Page
      title="Requests"
      description="The request log of the organisation’s API keys: every answered call, with its cost, provider and error."
    >
      <Views />
      <RequestFilterBar filters={filters} time={time} onTime={setTime} />
      {isCharted(filters) && <Histogram filters={filters} time={time} onPick={setTime} />}
      <PagedTable
        label="Requests"
        query={requests}
        columns={columns(home)}
        rowKey={({ id }) => id}
        onRow={({ id }) => setOpened(id)}
        openedRow={opened}
        minWidth={980}
        dense
        empty={
          values.some(([, value]) => value !== '') ? (
            <Empty title="No requests found">Change the filters or the time range to see other requests.</Empty>
          ) : (
            <NoRequests home={home} />
          )
        }
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

function NoRequests({ home }: { home: string }) {
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

const columns = (home: string): Column<RequestRow>[] => [
  {
    header: 'Time',
    kind: 'rowHeader',
    nowrap: true,
    cell: ({ id, type, created_at: at }) => (
      <Anchor
        component={Link}
        href={`${home}/requests/${id}`}
        size="sm"
        className="numeric"
        title={moment(at)}
        aria-label={`${typeName(type)} request of ${moment(at)}`}
      >
        {instant(at)}
      </Anchor>
    ),
  },
  {
    header: 'Status',
    nowrap: true,
    cell: ({ status, error_code, count: calls }) => (
      <>
        <Outcome status={status} size="sm" />
        {calls > 1 && (
          <Text span size="xs" ml={6}>
            × {count(calls)}
          </Text>
        )}
        {error_code && (
          <Text span size="xs" c="dimmed" ml={6}>
            {error_code}
          </Text>
        )}
      </>
    ),
  },
  { header: 'Type', nowrap: true, cell: ({ type, environment }) => <Type type={type} environment={environment} /> },
  {
    header: 'Model',
    cell: ({ model, provider }) => (
      <Text size="sm" truncate maw={250}>
        {model || '–'}
        {provider !== null && (
          <Text span size="xs" c="dimmed">
            {' '}
            → {provider}
          </Text>
        )}
      </Text>
    ),
  },
  {
    header: 'Key',
    cell: ({ key }) => (
      <Text size="sm" truncate maw={170} title={key ? `${key.name} …${key.last4}` : undefined}>
        {key?.name ?? '–'}
      </Text>
    ),
  },
  { header: 'In / out', kind: 'number', nowrap: true, cell: tokensOf },
  { header: 'Cost', kind: 'number', cell: ({ cost_usd }) => (cost_usd === 0 ? '–' : usd(cost_usd)) },
  {
    header: 'TTFB / total',
    kind: 'number',
    nowrap: true,
    cell: ({ duration_ms, streamed, first_byte_ms }) =>
      streamed && first_byte_ms !== null
        ? `${duration(first_byte_ms)} / ${duration(duration_ms)}`
        : duration(duration_ms),
  },
  { header: 'Tries', kind: 'number', cell: ({ attempts }) => attempts },
]

function Type({ type, environment }: Pick<RequestRow, 'type' | 'environment'>) {
  return (
    <Text size="sm">
      {typeName(type)}
      {environment === 'test' && (
        <Text span size="xs" c="dimmed">
          {' '}
          test
        </Text>
      )}
    </Text>
  )
}

function tokensOf({ prompt_tokens: prompt, completion_tokens: completion }: RequestRow): string {
  return prompt + completion === 0 ? '–' : `${shortCount(prompt)} / ${shortCount(completion)}`
}
