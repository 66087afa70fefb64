import { Alert, Button, Group, Text } from '@mantine/core'
import { IconWallet } from '@tabler/icons-react'
import { Link } from 'wouter'
import type { Overview } from '../../../wire/usage.ts'
import { usd } from '../../format.ts'
import { usePlace } from '../../session.tsx'

/** Warns when credits are low or used up. */
export function LowBalance({ overview: { wallet, low_balance: low } }: { overview: Overview }) {
  const { home } = usePlace()
  if (!low.is_low) return null
  const isEmpty = wallet.available_usd <= 0
  return (
    <Alert
      color={isEmpty ? 'red' : 'yellow'}
      variant="light"
      icon={<IconWallet aria-hidden />}
      title={isEmpty ? 'No credits left' : 'Credits are running low'}
    >
      <Group gap="sm">
        <Text size="sm">
          {isEmpty
            ? 'Requests with live keys are rejected until you add credits.'
            : `${usd(wallet.available_usd)} available, which is below your threshold of ${usd(low.threshold_usd ?? 0)}. Requests are rejected when your credits are used up.`}
        </Text>
        <Button component={Link} href={`${home}/billing`} size="compact-sm" variant="default">
          Open Billing
        </Button>
      </Group>
    </Alert>
  )
}
