import { Stack, Text, Title } from '@mantine/core'
import { useInfiniteQuery } from '@tanstack/react-query'
import type { TopUp, TopUpsPage } from '../../../wire/billing.ts'
import { call, queryText } from '../../api.ts'
import { Empty } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { type Column, PagedTable } from '../../components/table.tsx'
import { moment, usd } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { failureText } from './failures.ts'

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
      <PagedTable
        label="Payments"
        query={payments}
        loadingRows={2}
        columns={columns}
        rowKey={({ id }) => id}
        minWidth={480}
        more="Show more payments"
        empty={<Empty title="No payments yet">Credits that you buy are listed here.</Empty>}
      />
    </Stack>
  )
}

const columns: Column<TopUp>[] = [
  { header: 'Time', kind: 'rowHeader', cell: ({ created_at }) => moment(created_at) },
  { header: 'Method', cell: ({ method }) => (method === null ? '–' : methods[method]) },
  {
    header: 'Status',
    cell: payment => (
      <>
        <Status value={payment.status} />
        <Note {...payment} />
      </>
    ),
  },
  { header: 'By', maxWidth: 320, cell: ({ created_by, automatic }) => (automatic ? 'automatic' : (created_by ?? '–')) },
  {
    header: 'Amount',
    kind: 'number',
    cell: ({ amount_usd, returned_usd }) => (
      <>
        {usd(amount_usd)}
        {returned_usd > 0 && (
          <Text size="xs" c="dimmed">
            {usd(returned_usd)} refunded
          </Text>
        )}
      </>
    ),
  },
]

/** Details of a payment's status. */
function Note({ status, available_at, failure, automatic }: TopUp) {
  const isCredited = status === 'processing' || status === 'paid'
  const isHeld = isCredited && available_at !== null && Date.parse(available_at) > Date.now()
  const open = automatic ? 'under way' : 'not paid'
  const text = failure
    ? failureText(failure)
    : status === 'open'
      ? open
      : isHeld
        ? `held until ${moment(available_at)}`
        : null
  if (text === null) return null
  return (
    <Text size="xs" c="dimmed">
      {text}
    </Text>
  )
}
