import { SimpleGrid } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import type { Billing as BillingFacts } from '../../../wire/billing.ts'
import { call } from '../../api.ts'
import { Page } from '../../components/page.tsx'
import { Show } from '../../components/states.tsx'
import { Together } from '../../components/together.tsx'
import { usePlace, usePublicSettings } from '../../session.tsx'
import { AutoTopUp } from './auto-top-up.tsx'
import { Ledger } from './ledger.tsx'
import { Payments } from './payments.tsx'
import { Returned } from './returned.tsx'
import { TopUpForm } from './top-up.tsx'
import { WalletCard } from './wallet.tsx'

export default function Billing() {
  return usePlace().isOperatorView ? <OperatorLedger /> : <OwnBilling />
}

/** What operators see: the wallet is among the details of the organisation. */
function OperatorLedger() {
  const settings = usePublicSettings()
  return (
    <Page title="Ledger" description="What was paid, charged and adjusted. To adjust the balance, open the details.">
      <Ledger title="Entries" />
      {settings.data?.payments && <AutoTopUp />}
      {settings.data?.payments && <Payments />}
    </Page>
  )
}

function OwnBilling() {
  const { id, base } = usePlace()
  const billing = useQuery({
    queryKey: [id, 'billing'],
    queryFn: ({ signal }) => call<BillingFacts>(`${base}/billing`, { signal }),
  })
  return (
    <Page title="Billing" description="Credits are prepaid. Each request is charged when it ends.">
      <Returned />
      <Together>
        <Show query={billing} rows={4}>
          {({ wallet, payments }) => (
            <>
              <SimpleGrid cols={{ base: 1, md: 2 }}>
                <WalletCard wallet={wallet} />
                <TopUpForm payments={payments} />
              </SimpleGrid>
              {payments && <AutoTopUp />}
              {payments && <Payments />}
            </>
          )}
        </Show>
        <Ledger />
      </Together>
    </Page>
  )
}
