import { Code } from '@mantine/core'

/** A message of the API: what it sets in backticks is shown as code. */
export function WithCode({ children }: { children: string }) {
  return children.split(/`([^`]+)`/).map((part, i) =>
    // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a text never change their order
    i % 2 === 1 ? <Code key={i}>{part}</Code> : part,
  )
}
