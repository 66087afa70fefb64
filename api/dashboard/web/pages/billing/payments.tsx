import { Button, Group, Stack, Table, Text, Title } from '@mantine/core'
import { useInfiniteQuery } from '@tanstack/react-query'
import type { TopUp, TopUpsPage } from '../../../wire/billing.ts'
import { call, queryText } from '../../api.ts'
import { Empty, Show } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { moment, usd } from '../../format.ts'
import { usePlace } from '../../session.tsx'

const pageSize = 10
const methods = { card: 'Card', ach: 'ACH' }

export function Payments() {
  const { id, base } = usePlace()
  const payments = useInfiniteQuery({
    queryKey: [id, 'billing', 'payments'],
    queryFn: ({ pageParam, signal }) =>
      call<TopUpsPage>(`${base}/top-ups${queryText({ limit: pageSize, after: pageParam })}`, { signal }),
    initialPageParam: '',
    getNextPageParam: ({ has_more, last_id }) => (has_more ? last_id : null),
  })
  return (
    <Stack component="section" gap="xs" aria-labelledby="payments-title">
      <Title order={2} id="payments-title">
        Payments
      </Title>
      <Show query={payments} rows={2}>
        {({ pages }) => {
          const rows = pages.flatMap(({ data }) => data)
          if (rows.length > 0) return <PaymentTable rows={rows} />
          return <Empty title="No payments yet">What is bought with “Add credits” is listed here.</Empty>
        }}
      </Show>
      {payments.hasNextPage && (
        <Group justify="center">
          <Button variant="default" loading={payments.isFetchingNextPage} onClick={() => void payments.fetchNextPage()}>
            Show more payments
          </Button>
        </Group>
      )}
    </Stack>
  )
}

function PaymentTable({ rows }: { rows: TopUp[] }) {
  return (
    <Table.ScrollContainer minWidth={320}>
      <Table aria-labelledby="payments-title">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>When</Table.Th>
            <Table.Th>Method</Table.Th>
            <Table.Th>Status</Table.Th>
            <Table.Th visibleFrom="sm">By</Table.Th>
            <Table.Th ta="right">Amount</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {rows.map(row => (
            <Table.Tr key={row.id}>
              <Table.Td>{moment(row.created_at)}</Table.Td>
              <Table.Td>{row.method === null ? '–' : methods[row.method]}</Table.Td>
              <Table.Td>
                <Status value={row.status} />
                <Note {...row} />
              </Table.Td>
              <Table.Td style={{ overflowWrap: 'anywhere' }} visibleFrom="sm">
                {row.created_by ?? '–'}
              </Table.Td>
              <Table.Td ta="right" className="numeric">
                {usd(row.amount_usd)}
                {row.returned_usd > 0 && (
                  <Text size="xs" c="dimmed">
                    {usd(row.returned_usd)} went back
                  </Text>
                )}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  )
}

/** What the state's word leaves open. */
function Note({ status, available_at }: TopUp) {
  const isCredited = status === 'processing' || status === 'paid'
  const isHeld = isCredited && available_at !== null && Date.parse(available_at) > Date.now()
  const text = status === 'open' ? 'not paid' : isHeld ? `held until ${moment(available_at)}` : null
  if (text === null) return null
  return (
    <Text size="xs" c="dimmed">
      {text}
    </Text>
  )
}
