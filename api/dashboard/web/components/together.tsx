import { Stack } from '@mantine/core'
import { useIsFetching, useQueryClient } from '@tanstack/react-query'
import { type ReactNode, useEffect, useState } from 'react'
import { Loading } from './states.tsx'

/** A part that takes longer does not hold up the others. */
const maxWaitMs = 4_000

/**
 * Parts of a page that read their data themselves and are shown together, a skeleton until then: below each other, they would move as
 * those above them arrive. Later reads change nothing.
 */
export function Together({ children, gap = 'lg' }: { children: ReactNode; gap?: string }) {
  const queries = useQueryClient()
  const fetching = useIsFetching()
  const [isShown, setShown] = useState(false)
  // biome-ignore lint/correctness/useExhaustiveDependencies: whether parts still read is another question after each read
  useEffect(() => {
    // Effects of the parts, which begin to read, have run before.
    if (queries.isFetching({ predicate: ({ state }) => state.data === undefined }) === 0) setShown(true)
  }, [fetching, queries])
  useEffect(() => {
    const timer = setTimeout(() => setShown(true), maxWaitMs)
    return () => clearTimeout(timer)
  }, [])
  return (
    <>
      {!isShown && <Loading rows={12} />}
      <Stack gap={gap} display={isShown ? undefined : 'none'}>
        {children}
      </Stack>
    </>
  )
}
