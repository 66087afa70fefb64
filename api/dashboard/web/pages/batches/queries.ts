import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import type { BatchDetail, BatchErrors, BatchesPage, BatchRow } from '../../../wire/batches.ts'
import { call, queryText } from '../../api.ts'
import type { TimeQuery } from '../../components/span.tsx'
import { usePlace } from '../../session.tsx'

const pageSize = 25
/** The poll interval while a batch is running; otherwise nothing is polled. */
const busyMs = 2_000
/** How long after its end a batch is polled, until its webhook delivery is shown. */
const afterwardsMs = 30_000

export const isOver = ({ ended_at }: Pick<BatchRow, 'ended_at'>) => ended_at !== null

type BatchFilters = TimeQuery & { q: string; status: string; environment: string; key: string }

/** The batches that match a filter, paginated; polled while one of them is running. */
export function useBatches(filters: BatchFilters) {
  const { id, base } = usePlace()
  return useInfiniteQuery({
    queryKey: [id, 'batches', 'list', filters],
    queryFn: ({ pageParam, signal }) =>
      call<BatchesPage>(`${base}/batches${queryText({ ...filters, limit: pageSize, after: pageParam })}`, { signal }),
    initialPageParam: '',
    getNextPageParam: ({ has_more, last_id }) => (has_more ? last_id : null),
    // Each poll refetches all loaded pages, so the interval grows with their number.
    refetchInterval: ({ state: { data } }) =>
      data?.pages.some(page => page.data.some(batch => !isOver(batch))) ? busyMs * data.pages.length : false,
  })
}

/** One batch, polled until it has ended. */
export function useBatch(batch: string) {
  const { id, base } = usePlace()
  return useQuery({
    queryKey: [id, 'batches', 'one', batch],
    queryFn: ({ signal }) => call<BatchDetail>(`${base}/batches/${encodeURIComponent(batch)}`, { signal }),
    refetchInterval: ({ state: { data } }) => (data && isBusy(data) ? busyMs : false),
  })
}

function isBusy(batch: BatchDetail): boolean {
  if (batch.ended_at === null) return true
  return batch.delivery?.status === 'pending' && Date.parse(batch.ended_at) > Date.now() - afterwardsMs
}

/** The first lines of a batch's error file. */
export function useErrors(batch: string) {
  const { id, base } = usePlace()
  return useQuery({
    queryKey: [id, 'batches', 'errors', batch],
    queryFn: ({ signal }) => call<BatchErrors>(`${base}/batches/${encodeURIComponent(batch)}/errors`, { signal }),
    staleTime: Number.POSITIVE_INFINITY,
  })
}
