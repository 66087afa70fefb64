import { Alert, Button, Group, Text } from '@mantine/core'
import { IconPlugConnectedX } from '@tabler/icons-react'
import { type QueryClient, useQueryClient } from '@tanstack/react-query'
import { useCallback, useEffect, useState, useSyncExternalStore } from 'react'
import { isOutage } from '../api.ts'

const retryMs = 5_000

/** The parts of the page that have no data. */
const emptyParts = (queries: QueryClient) =>
  queries.getQueryCache().findAll({ type: 'active', predicate: ({ state }) => state.data === undefined })

/** The outage that parts of the page wait for: until they have their data, also while they ask again and have no error. */
function createOutage(queries: QueryClient): () => Error | null {
  let known: Error | null = null
  return () => {
    const parts = emptyParts(queries)
    const failed = parts.find(({ state }) => isOutage(state.error))
    if (failed) known = failed.state.error
    else if (!parts.some(({ state }) => state.fetchStatus === 'fetching')) known = null
    return known
  }
}

/**
 * One notice for all parts of a page that could not be read, which stay skeletons meanwhile: asks again from time to time, and as soon
 * as the browser is online.
 */
export function OutageNotice() {
  const queries = useQueryClient()
  const subscribe = useCallback((onChange: () => void) => queries.getQueryCache().subscribe(onChange), [queries])
  const [outage] = useState(() => createOutage(queries))
  const error = useSyncExternalStore(subscribe, outage)
  const retry = useCallback(() => {
    for (const query of emptyParts(queries)) if (isOutage(query.state.error)) void query.fetch().catch(() => {})
  }, [queries])
  useRetries(retry, error !== null)
  return error && <Unreachable says={error.message} onRetry={retry} />
}

/** Runs `retry` every few seconds and when the browser is online again, while something is out. */
export function useRetries(retry: () => void, isOut: boolean): void {
  useEffect(() => {
    if (!isOut) return
    const timer = setInterval(retry, retryMs)
    window.addEventListener('online', retry)
    return () => {
      clearInterval(timer)
      window.removeEventListener('online', retry)
    }
  }, [retry, isOut])
}

export function Unreachable({ says, onRetry }: { says: string; onRetry: () => void }) {
  return (
    <Alert role="alert" color="red" variant="light" icon={<IconPlugConnectedX aria-hidden />} title={says}>
      <Group gap="sm">
        <Text size="sm">This page tries again by itself.</Text>
        <Button size="compact-xs" variant="default" onClick={onRetry}>
          Try again now
        </Button>
      </Group>
    </Alert>
  )
}
