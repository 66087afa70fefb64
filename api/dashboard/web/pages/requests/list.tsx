import { Anchor, Text } from '@mantine/core'
import { Link, useSearchParams } from 'wouter'
import type { RequestRow } from '../../../wire/requests.ts'
import { Page } from '../../components/page.tsx'
import { Empty } from '../../components/states.tsx'
import { type Column, PagedTable } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { keyCell, modelCell } from '../../components/work/parts.tsx'
import { count, duration, usd } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { RequestFilterBar } from './filters.tsx'
import { Outcome } from './outcome.tsx'
import { type Filters, useRequests } from './queries.ts'
import { typeName } from './types.ts'

const names = ['q', 'status', 'type', 'model', 'provider', 'environment', 'key', 'span'] as const

/** The request log, newest first. */
export function RequestList() {
  const { home } = usePlace()
  const [address] = useSearchParams()
  const values = names.map(name => [name, address.get(name) ?? ''] as const)
  const filters = Object.fromEntries(values) as Filters
  const requests = useRequests(filters, address.get('live') === 'on')
  return (
    <Page
      title="Requests"
      description="The request log of the organisation’s API keys, with cost and provider of each request."
    >
      <RequestFilterBar />
      <PagedTable
        label="Requests"
        query={requests}
        columns={columns(home)}
        rowKey={({ id }) => id}
        minWidth={980}
        empty={
          values.some(([, value]) => value !== '') ? (
            <Empty title="No requests found">Change the filters or the time range to see other requests.</Empty>
          ) : (
            <NoRequests home={home} />
          )
        }
      />
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
    header: 'Request',
    kind: 'rowHeader',
    nowrap: true,
    cell: ({ id, type, created_at }) => (
      <>
        <Anchor component={Link} href={`${home}/requests/${id}`} size="sm" fw={500}>
          {typeName(type)}
        </Anchor>
        <Text size="xs" c="dimmed" component="div">
          <Time at={created_at} />
        </Text>
      </>
    ),
  },
  {
    header: 'Status',
    cell: ({ status, error_code, count: calls }) => (
      <>
        <Outcome status={status} />
        {calls > 1 && (
          <Text span size="xs" ml={6}>
            × {count(calls)}
          </Text>
        )}
        {error_code && (
          <Text size="xs" c="dimmed">
            {error_code}
          </Text>
        )}
      </>
    ),
  },
  { header: 'Model', cell: modelCell },
  { header: 'Key', maxWidth: 260, cell: keyCell },
  { header: 'Tokens', kind: 'number', nowrap: true, cell: request => <Tokens request={request} /> },
  { header: 'Cost', kind: 'number', cell: ({ cost_usd }) => usd(cost_usd) },
  {
    header: 'Latency',
    kind: 'number',
    nowrap: true,
    cell: ({ duration_ms, streamed, first_byte_ms }) => (
      <>
        <Text size="sm">{duration(duration_ms)}</Text>
        {streamed && first_byte_ms !== null && (
          <Text size="xs" c="dimmed">
            first byte {duration(first_byte_ms)}
          </Text>
        )}
      </>
    ),
  },
  { header: 'Attempts', kind: 'number', cell: ({ attempts }) => attempts },
]

function Tokens({ request: { prompt_tokens: prompt, completion_tokens: completion } }: { request: RequestRow }) {
  if (prompt + completion === 0) return '–'
  return (
    <>
      <Text size="sm">{count(prompt + completion)}</Text>
      <Text size="xs" c="dimmed">
        {count(prompt)} in, {count(completion)} out
      </Text>
    </>
  )
}
