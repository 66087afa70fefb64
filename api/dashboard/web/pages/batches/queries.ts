import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import type { BatchDetail, BatchErrors, BatchesPage, BatchRow } from '../../../wire/batches.ts'
import { call, queryText } from '../../api.ts'
import { usePlace } from '../../session.tsx'

const pageSize = 25
/** While something runs; nothing is asked for otherwise. */
const busyMs = 2_000
/** A webhook of a batch that is just over is on its way for a moment. */
const afterwardsMs = 30_000

export const isOver = ({ ended_at }: Pick<BatchRow, 'ended_at'>) => ended_at !== null

export type BatchFilters = { status: string; environment: string; key: string }

/** The batches that a filter finds, page after page, followed while one of them runs. */
export function useBatches(filters: BatchFilters) {
  const { id, base } = usePlace()
  return useInfiniteQuery({
    queryKey: [id, 'batches', 'list', filters],
    queryFn: ({ pageParam, signal }) =>
      call<BatchesPage>(`${base}/batches${queryText({ ...filters, limit: pageSize, after: pageParam })}`, { signal }),
    initialPageParam: '',
    getNextPageParam: ({ has_more, last_id }) => (has_more ? last_id : null),
    // All pages that are shown are asked for again, so more of them are asked for less often.
    refetchInterval: ({ state: { data } }) =>
      data?.pages.some(page => page.data.some(batch => !isOver(batch))) ? busyMs * data.pages.length : false,
  })
}

/** One batch, followed until it is over. */
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
