import { Alert, Loader } from '@mantine/core'
import { IconAlertTriangle, IconCheck, IconClock, IconInfoCircle } from '@tabler/icons-react'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { type ReactNode, useEffect } from 'react'
import { useSearchParams } from 'wouter'
import type { TopUp } from '../../../wire/billing.ts'
import { call } from '../../api.ts'
import { Failure } from '../../components/states.tsx'
import { moment, usd } from '../../format.ts'
import { usePlace } from '../../session.tsx'

const betweenLooksMs = 2_000
/** Two minutes: word of a payment usually comes within seconds. */
const mostLooks = 60

/** What became of the payment that somebody comes back from. */
export function Returned() {
  const [address, setAddress] = useSearchParams()
  const topUpId = address.get('top_up')
  if (topUpId === null) return null
  const close = () => setAddress({}, { replace: true })
  if (address.get('cancelled') === 'true')
    return (
      <Notice icon={<IconInfoCircle aria-hidden />} color="gray" title="The payment was not made" onClose={close}>
        You left the payment page. Nothing was charged.
      </Notice>
    )
  return <Outcome topUpId={topUpId} onClose={close} />
}

function Outcome({ topUpId, onClose }: { topUpId: string; onClose: () => void }) {
  const { id, base } = usePlace()
  const client = useQueryClient()
  const topUp = useQuery({
    queryKey: [id, 'top-up', topUpId],
    queryFn: ({ signal }) => call<TopUp>(`${base}/top-ups/${encodeURIComponent(topUpId)}`, { signal }),
    refetchInterval: ({ state }) =>
      state.data?.status === 'open' && state.dataUpdateCount < mostLooks ? betweenLooksMs : false,
  })
  const status = topUp.data?.status
  useEffect(() => {
    if (status && status !== 'open') void client.invalidateQueries({ queryKey: [id, 'billing'] })
  }, [client, id, status])
  if (!topUp.data) return topUp.error ? <Failure error={topUp.error} retry={() => void topUp.refetch()} /> : <Waiting />
  const { amount_usd, available_at } = topUp.data
  const amount = usd(amount_usd)
  switch (topUp.data.status) {
    case 'open':
      return <Waiting amount={amount} />
    case 'processing':
      return (
        <Notice icon={<IconClock aria-hidden />} color="blue" title={`${amount} is on its way`} onClose={onClose}>
          It is in your balance and can be spent {available_at === null ? 'now' : `from ${moment(available_at)}`}. If
          the bank refuses the debit, it is taken back.
        </Notice>
      )
    case 'paid':
      return (
        <Notice
          icon={<IconCheck aria-hidden />}
          color="green"
          title={`${amount} was added to your credits`}
          onClose={onClose}
        />
      )
    case 'refunded':
      return (
        <Notice
          icon={<IconInfoCircle aria-hidden />}
          color="yellow"
          title={`${amount} was refunded`}
          onClose={onClose}
        />
      )
    default:
      return (
        <Notice icon={<IconAlertTriangle aria-hidden />} color="red" title="The payment failed" onClose={onClose}>
          It adds nothing to your credits. Try again, or pay by another method.
        </Notice>
      )
  }
}

function Waiting({ amount }: { amount?: string }) {
  return (
    <Notice
      icon={<Loader size={18} aria-hidden />}
      color="blue"
      title={`Waiting for word of your payment${amount ? ` of ${amount}` : ''}`}
    >
      This usually takes a few seconds. You may leave this page: the payment is taken into account either way.
    </Notice>
  )
}

function Notice({
  children,
  onClose,
  ...alert
}: {
  icon: ReactNode
  color: string
  title: string
  children?: ReactNode
  onClose?: () => void
}) {
  return (
    <div aria-live="polite">
      <Alert {...alert} role="status" withCloseButton={!!onClose} closeButtonLabel="Close" onClose={onClose}>
        {children}
      </Alert>
    </div>
  )
}
