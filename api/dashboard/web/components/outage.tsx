import { Alert, Button, Group, Text } from '@mantine/core'
import { IconPlugConnectedX } from '@tabler/icons-react'
import { type QueryClient, useQueryClient } from '@tanstack/react-query'
import { useCallback, useEffect, useState, useSyncExternalStore } from 'react'
import { ApiError, isOutage } from '../api.ts'
import { timeOfDay } from '../format.ts'

const retryMs = 5_000

/** The parts of the page that have no data. */
const emptyParts = (queries: QueryClient) =>
  queries.getQueryCache().findAll({ type: 'active', predicate: ({ state }) => state.data === undefined })

/** What is shown of the page and could not be updated at the last try. */
const staleParts = (queries: QueryClient) =>
  queries
    .getQueryCache()
    .findAll({ type: 'active', predicate: ({ state }) => state.data !== undefined && isAway(state.error) })

/** Whether the gateway has no answer now, of whatever was asked. */
const isAway = (error: Error | null) =>
  isOutage(error) || (error instanceof ApiError && (error.status >= 500 || error.status === 429))

/** `sinceMs`: how old the oldest is of what is shown; null while parts have no data at all. */
type Outage = { error: Error; sinceMs: number | null }

/**
 * The outage that parts of the page wait for: until they have their data, also while they ask again and have no error. Without one,
 * that of parts whose data grows old.
 */
function createOutage(queries: QueryClient): () => Outage | null {
  let known: Outage | null = null
  // The same object while nothing has changed, as the hook requires.
  const note = (error: Error, sinceMs: number | null) => {
    if (known?.error !== error || known.sinceMs !== sinceMs) known = { error, sinceMs }
  }
  return () => {
    const parts = emptyParts(queries)
    const failed = parts.find(({ state }) => isOutage(state.error))
    if (failed) note(failed.state.error!, null)
    else if (known?.sinceMs !== null || !parts.some(({ state }) => state.fetchStatus === 'fetching')) {
      const [oldest] = staleParts(queries).sort((a, b) => a.state.dataUpdatedAt - b.state.dataUpdatedAt)
      if (oldest) note(oldest.state.error!, oldest.state.dataUpdatedAt)
      else known = null
    }
    return known
  }
}

/**
 * One notice for all parts of a page that could not be read, which stay skeletons meanwhile, or could not be updated: asks again from
 * time to time, and as soon as the browser is online.
 */
export function OutageNotice() {
  const queries = useQueryClient()
  const subscribe = useCallback((onChange: () => void) => queries.getQueryCache().subscribe(onChange), [queries])
  const [readOutage] = useState(() => createOutage(queries))
  const outage = useSyncExternalStore(subscribe, readOutage)
  const retry = useCallback(() => {
    const empty = emptyParts(queries).filter(({ state }) => isOutage(state.error))
    for (const query of [...empty, ...staleParts(queries)]) void query.fetch().catch(() => {})
  }, [queries])
  useRetries(retry, outage !== null)
  if (!outage) return null
  const { error, sinceMs } = outage
  const age = sinceMs === null ? '' : `What this page shows is from ${timeOfDay(sinceMs)}. `
  return <Unreachable says={`${age}${error.message}`} onRetry={retry} />
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
