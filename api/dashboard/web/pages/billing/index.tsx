import { SimpleGrid } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import type { Billing as BillingFacts } from '../../../wire/billing.ts'
import { call } from '../../api.ts'
import { Page } from '../../components/page.tsx'
import { Show } from '../../components/states.tsx'
import { usePlace } from '../../session.tsx'
import { Ledger } from './ledger.tsx'
import { Payments } from './payments.tsx'
import { Returned } from './returned.tsx'
import { TopUpForm } from './top-up.tsx'
import { WalletCard } from './wallet.tsx'

export default function Billing() {
  const { id, base } = usePlace()
  const billing = useQuery({
    queryKey: [id, 'billing'],
    queryFn: ({ signal }) => call<BillingFacts>(`${base}/billing`, { signal }),
  })
  return (
    <Page title="Billing" description="Credits are prepaid. Each request is charged when it ends.">
      <Returned />
      <Show query={billing} rows={4}>
        {({ wallet, payments }) => (
          <>
            <SimpleGrid cols={{ base: 1, md: 2 }}>
              <WalletCard wallet={wallet} />
              <TopUpForm payments={payments} />
            </SimpleGrid>
            {payments && <Payments />}
          </>
        )}
      </Show>
      <Ledger />
    </Page>
  )
}
