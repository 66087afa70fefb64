import { Alert, Button, Group, Text } from '@mantine/core'
import { IconWallet } from '@tabler/icons-react'
import { Link } from 'wouter'
import type { Overview } from '../../../wire/usage.ts'
import { usd } from '../../format.ts'
import { usePlace } from '../../session.tsx'

/** Says that credits are about to run out, or have. */
export function LowBalance({ overview: { wallet, low_balance: low } }: { overview: Overview }) {
  const { home } = usePlace()
  if (!low.is_low) return null
  const isEmpty = wallet.available_usd <= 0
  return (
    <Alert
      color={isEmpty ? 'red' : 'yellow'}
      variant="light"
      icon={<IconWallet aria-hidden />}
      title={isEmpty ? 'No credits are left' : 'Credits are running low'}
    >
      <Group gap="sm">
        <Text size="sm">
          {isEmpty
            ? 'Requests of live keys are refused until credits are added.'
            : `${usd(wallet.available_usd)} are available; below ${usd(low.threshold_usd ?? 0)} counts as low. Requests are refused once nothing is left.`}
        </Text>
        <Button component={Link} href={`${home}/billing`} size="compact-sm" variant="default">
          Open Billing
        </Button>
      </Group>
    </Alert>
  )
}
