import { Badge, type BadgeProps } from '@mantine/core'

const colours: Record<string, string> = {
  active: 'green',
  completed: 'green',
  delivered: 'green',
  paid: 'green',
  enabled: 'green',
  ok: 'green',
  closed: 'green',
  queued: 'gray',
  pending: 'gray',
  open: 'gray',
  expired: 'gray',
  cancelled: 'gray',
  validating: 'blue',
  in_progress: 'blue',
  running: 'blue',
  processing: 'blue',
  finalizing: 'blue',
  cancelling: 'yellow',
  failing: 'yellow',
  cap_nearly_reached: 'yellow',
  failed: 'red',
  firing: 'red',
  revoked: 'red',
  blocked: 'red',
  suspended: 'red',
  cap_reached: 'red',
  paused: 'yellow',
  refunded: 'yellow',
  live: 'water',
  test: 'grape',
}

/** A status badge; the colour only repeats the text. */
export function Status({ value, ...props }: { value: string } & Omit<BadgeProps, 'color' | 'children'>) {
  return (
    <Badge color={colours[value] ?? 'gray'} miw="max-content" {...props}>
      {value.replaceAll('_', ' ')}
    </Badge>
  )
}
