import { Text, Tooltip } from '@mantine/core'
import { ago, moment } from '../format.ts'

/** A relative time; the exact time on hover and for screen readers. */
export function Time({ at }: { at: string | number | null }) {
  if (at === null)
    return (
      <Text span size="sm" c="dimmed">
        never
      </Text>
    )
  return (
    <Tooltip label={moment(at)} withArrow>
      <time dateTime={new Date(at).toISOString()}>{ago(at)}</time>
    </Tooltip>
  )
}
