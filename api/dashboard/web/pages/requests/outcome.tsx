import { Badge, type BadgeProps } from '@mantine/core'

type OutcomeProps = Omit<BadgeProps, 'color' | 'children'> & {
  status: number
  /** Shows the number alone, where a code beside it says more. */
  isShort?: boolean
}

/** A request's status code and its meaning. */
export function Outcome({ status, isShort = false, ...props }: OutcomeProps) {
  const [color, word] = meaningOf(status)
  return (
    <Badge color={color} {...props}>
      {isShort ? status : `${status} ${word}`}
    </Badge>
  )
}

const words: Record<number, string> = {
  202: 'in progress',
  401: 'unauthorized',
  402: 'payment required',
  403: 'not allowed',
  404: 'not found',
  408: 'timed out',
  409: 'conflict',
  429: 'rate limited',
  499: 'client disconnected',
}

function meaningOf(status: number): [color: string, word: string] {
  const word = words[status]
  if (status === 202) return ['blue', word!]
  if (status < 400) return ['green', 'ok']
  if (status === 499) return ['gray', word!]
  return status < 500 ? ['yellow', word ?? 'invalid request'] : ['red', 'failed']
}
