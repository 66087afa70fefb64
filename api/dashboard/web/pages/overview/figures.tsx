import { Anchor, Paper, SimpleGrid, Text } from '@mantine/core'
import type { ReactNode } from 'react'
import { Link } from 'wouter'
import type { Overview, UsageFigures } from '../../../wire/usage.ts'
import { count, moment, shortCount, usd } from '../../format.ts'
import { usePlace } from '../../session.tsx'

/** The wallet, and the usage of today and of this month. */
export function Figures({ overview: { wallet, today, month } }: { overview: Overview }) {
  const { home } = usePlace()
  const { available_usd, reserved_usd, held_usd, held_release_at } = wallet
  return (
    <SimpleGrid cols={{ base: 1, xs: 2, lg: 4 }} spacing="md">
      <Figure label="Available" value={usd(available_usd)}>
        {reserved_usd > 0 && <div>{usd(reserved_usd)} reserved for work in progress</div>}
        {held_usd > 0 && (
          <div>
            {usd(held_usd)} held{held_release_at && `, next release ${moment(held_release_at)}`}
          </div>
        )}
        <Anchor component={Link} href={`${home}/billing`} inherit>
          Billing
        </Anchor>
      </Figure>
      <Figure label="Spend today" value={usd(today.spend_usd)}>
        {shortCount(today.tokens)} tokens, since midnight UTC
      </Figure>
      <Figure label="Spend this month" value={usd(month.spend_usd)}>
        {shortCount(month.tokens)} tokens
      </Figure>
      <Figure label="Requests today" value={count(today.requests)}>
        <div>{errorShare(today)}</div>
        <div>
          {shortCount(month.requests)} this month, {errorShare(month)}
        </div>
      </Figure>
    </SimpleGrid>
  )
}

function Figure({ label, value, children }: { label: string; value: string; children: ReactNode }) {
  return (
    <Paper component="section" aria-label={label} withBorder p="md">
      <Text size="sm" c="dimmed">
        {label}
      </Text>
      <Text size="1.6rem" lh={1.4} fw={600} className="numeric">
        {value}
      </Text>
      <Text size="xs" c="dimmed" component="div">
        {children}
      </Text>
    </Paper>
  )
}

function errorShare({ requests, errors }: UsageFigures): string {
  if (errors === 0) return 'no errors'
  const percent = (100 * errors) / requests
  return `${percent < 0.1 ? 'under 0.1' : percent.toFixed(1)} % errors`
}
