import { Badge, type BadgeProps } from '@mantine/core'

/** What the log has of a request that is still at work. */
const atWork = 202
const gone = 499

/** How a request was answered: its status, and in words what that means. */
export function Outcome({ status, ...props }: { status: number } & Omit<BadgeProps, 'color' | 'children'>) {
  const [color, word] = meaningOf(status)
  return (
    <Badge color={color} {...props}>
      {status} {word}
    </Badge>
  )
}

function meaningOf(status: number): [color: string, word: string] {
  if (status === atWork) return ['blue', 'at work']
  if (status < 400) return ['green', 'ok']
  if (status === gone) return ['gray', 'client left']
  return status < 500 ? ['yellow', 'refused'] : ['red', 'failed']
}
