import { Badge, type BadgeProps } from '@mantine/core'

/** The status of a request in progress. */
const atWork = 202
const gone = 499

/** A request's status code and its meaning. */
export function Outcome({ status, ...props }: { status: number } & Omit<BadgeProps, 'color' | 'children'>) {
  const [color, word] = meaningOf(status)
  return (
    <Badge color={color} {...props}>
      {status} {word}
    </Badge>
  )
}

function meaningOf(status: number): [color: string, word: string] {
  if (status === atWork) return ['blue', 'in progress']
  if (status < 400) return ['green', 'ok']
  if (status === gone) return ['gray', 'client closed request']
  return status < 500 ? ['yellow', 'refused'] : ['red', 'failed']
}
