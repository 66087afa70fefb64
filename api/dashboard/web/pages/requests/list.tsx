import { Anchor, Button, Group, Table, Text } from '@mantine/core'
import { Link, useSearchParams } from 'wouter'
import type { RequestRow } from '../../../wire/requests.ts'
import { Page } from '../../components/page.tsx'
import { Empty, Show } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { Time } from '../../components/time.tsx'
import { count, duration, usd } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { KeyName } from '../work/parts.tsx'
import { RequestFilterBar } from './filters.tsx'
import { Outcome } from './outcome.tsx'
import { type Filters, useRequests } from './queries.ts'
import { typeName } from './types.ts'

const names = ['q', 'status', 'type', 'model', 'provider', 'environment', 'key', 'span'] as const

/** The request log, the newest first. */
export function RequestList() {
  const { home } = usePlace()
  const [address] = useSearchParams()
  const values = names.map(name => [name, address.get(name) ?? ''] as const)
  const filters = Object.fromEntries(values) as Filters
  const requests = useRequests(filters, address.get('live') === 'on')
  return (
    <Page
      title="Requests"
      description="Every request of the organisation’s keys, with what it cost and who answered it."
    >
      <RequestFilterBar />
      <Show query={requests}>
        {({ pages }) => {
          const rows = pages.flatMap(({ data }) => data)
          if (rows.length > 0) return <RequestTable requests={rows} />
          if (values.some(([, value]) => value !== ''))
            return <Empty title="No request is found">Widen the filters or the time to see others.</Empty>
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
        }}
      </Show>
      {requests.hasNextPage && (
        <Group justify="center">
          <Button variant="default" loading={requests.isFetchingNextPage} onClick={() => void requests.fetchNextPage()}>
            Show more
          </Button>
        </Group>
      )}
    </Page>
  )
}

function RequestTable({ requests }: { requests: RequestRow[] }) {
  return (
    <Table.ScrollContainer minWidth={980}>
      <Table>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Request</Table.Th>
            <Table.Th>Status</Table.Th>
            <Table.Th>Model</Table.Th>
            <Table.Th>Key</Table.Th>
            <Table.Th ta="right">Tokens</Table.Th>
            <Table.Th ta="right">Cost</Table.Th>
            <Table.Th ta="right">Latency</Table.Th>
            <Table.Th ta="right">Attempts</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {requests.map(request => (
            <RequestTableRow key={request.id} request={request} />
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  )
}

function RequestTableRow({ request }: { request: RequestRow }) {
  const { home } = usePlace()
  return (
    <Table.Tr>
      <Table.Td>
        <Anchor component={Link} href={`${home}/requests/${request.id}`} size="sm" fw={500}>
          {typeName(request.type)}
        </Anchor>
        <Text size="xs" c="dimmed" component="div" style={{ whiteSpace: 'nowrap' }}>
          <Time at={request.created_at} />
        </Text>
      </Table.Td>
      <Table.Td>
        <Outcome status={request.status} />
        {request.error_code && (
          <Text size="xs" c="dimmed">
            {request.error_code}
          </Text>
        )}
      </Table.Td>
      <Table.Td>
        <Text size="sm">{request.model}</Text>
        <Text size="xs" c="dimmed">
          {request.provider ?? '–'}
        </Text>
      </Table.Td>
      <Table.Td>
        <Text size="sm" component="div">
          <KeyName value={request.key} />
        </Text>
        <Status value={request.environment} size="xs" />
      </Table.Td>
      <Table.Td ta="right" className="numeric" style={{ whiteSpace: 'nowrap' }}>
        <Tokens request={request} />
      </Table.Td>
      <Table.Td ta="right" className="numeric">
        {usd(request.cost_usd)}
      </Table.Td>
      <Table.Td ta="right" className="numeric" style={{ whiteSpace: 'nowrap' }}>
        <Text size="sm">{duration(request.duration_ms)}</Text>
        {request.streamed && request.first_byte_ms !== null && (
          <Text size="xs" c="dimmed">
            first byte {duration(request.first_byte_ms)}
          </Text>
        )}
      </Table.Td>
      <Table.Td ta="right" className="numeric">
        {request.attempts}
      </Table.Td>
    </Table.Tr>
  )
}

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
