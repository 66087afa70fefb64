import { Progress, Stack, Text } from '@mantine/core'
import type { DashboardKey } from '../../../wire/keys.ts'
import { usd } from '../../format.ts'

/** A key's spend this month, relative to its cap if it has one. */
export function Spend({ name, spend_month_usd: spent, monthly_spend_cap_usd: cap }: DashboardKey) {
  if (cap === null)
    return (
      <Text size="sm" className="numeric">
        {usd(spent)}
      </Text>
    )
  const percent = cap === 0 ? 100 : Math.min(100, (spent / cap) * 100)
  return (
    <Stack gap={4} miw={120}>
      <Text size="sm" className="numeric">
        {usd(spent)} of {usd(cap)}
      </Text>
      <Progress
        size="sm"
        value={percent}
        color={percent >= 100 ? 'red' : percent >= 80 ? 'yellow' : undefined}
        aria-label={`Percentage of its monthly cap spent by “${name}”`}
      />
    </Stack>
  )
}
