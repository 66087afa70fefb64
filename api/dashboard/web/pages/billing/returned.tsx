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
/** Polls for two minutes; payments are usually confirmed within seconds. */
const maxLooks = 60

/** The outcome of a payment after the redirect from Stripe. */
export function Returned() {
  const [address, setAddress] = useSearchParams()
  const topUpId = address.get('top_up')
  if (topUpId === null) return null
  const close = () => setAddress({}, { replace: true })
  if (address.get('cancelled') === 'true')
    return (
      <Notice icon={<IconInfoCircle aria-hidden />} color="gray" title="Payment cancelled" onClose={close}>
        You left the payment page. You were not charged.
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
      state.data?.status === 'open' && state.dataUpdateCount < maxLooks ? betweenLooksMs : false,
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
        <Notice icon={<IconClock aria-hidden />} color="blue" title={`${amount} is being processed`} onClose={onClose}>
          It has been added to your balance and can be spent{' '}
          {available_at === null ? 'now' : `from ${moment(available_at)}`}. If the bank declines the debit, it is
          deducted again.
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
        <Notice icon={<IconAlertTriangle aria-hidden />} color="red" title="Payment failed" onClose={onClose}>
          No credits were added. Try again, or use another payment method.
        </Notice>
      )
  }
}

function Waiting({ amount }: { amount?: string }) {
  return (
    <Notice
      icon={<Loader size={18} aria-hidden />}
      color="blue"
      title={`Waiting for confirmation of your payment${amount ? ` of ${amount}` : ''}`}
    >
      This usually takes a few seconds. You can leave this page; the credits will be added either way.
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
