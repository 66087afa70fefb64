import { Card, Group, Stack, Text, Title } from '@mantine/core'
import type { ReactNode } from 'react'
import type { Billing } from '../../../wire/billing.ts'
import { moment, usd } from '../../format.ts'

export function WalletCard({ wallet }: { wallet: Billing['wallet'] }) {
  const { available_usd, balance_usd, reserved_usd, held_usd, held_release_at } = wallet
  return (
    <Card withBorder component="section" aria-labelledby="wallet-title">
      <Stack gap="xs">
        <Title order={2} id="wallet-title">
          Wallet
        </Title>
        <div>
          <Text size="2rem" lh={1.2} fw={600} className="numeric">
            {usd(available_usd)}
          </Text>
          <Text size="sm" c="dimmed">
            available for new requests
          </Text>
        </div>
        <Stack component="dl" gap={6} my={0}>
          <Figure name="Balance" value={balance_usd} />
          <Figure name="Reserved" value={-reserved_usd} help="for requests and jobs in progress" />
          <Figure
            name="Held"
            value={-held_usd}
            help={held_release_at ? `ACH payments; the next is released ${moment(held_release_at)}` : 'ACH payments'}
          />
        </Stack>
        {available_usd < 0 && (
          <Text size="sm">
            A payment was reversed after it was spent. Requests are rejected until the balance is above zero.
          </Text>
        )}
      </Stack>
    </Card>
  )
}

function Figure({ name, value, help }: { name: string; value: number; help?: ReactNode }) {
  return (
    <Group justify="space-between" gap="xs" wrap="nowrap" align="baseline">
      <Text component="dt" size="sm">
        {name}{' '}
        {help && (
          <Text span size="xs" c="dimmed">
            {help}
          </Text>
        )}
      </Text>
      <Text component="dd" size="sm" m={0} className="numeric">
        {usd(value === 0 ? 0 : value)}
      </Text>
    </Group>
  )
}
