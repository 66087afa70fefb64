import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import type { RequestDetail, RequestFilters, RequestsPage } from '../../../wire/requests.ts'
import { call, queryText } from '../../api.ts'
import type { TimeQuery } from '../../components/span.tsx'
import { usePlace } from '../../session.tsx'

const pageSize = 50
const liveMs = 3_000
const choicesFreshMs = 60_000

export const filterNames = [
  ...['q', 'status', 'type', 'model', 'provider', 'environment', 'key'],
  ...['min_duration_ms', 'min_cost_usd', 'end_user', 'session', 'tag'],
] as const
export type Filters = Record<
  | 'q'
  | 'status'
  | 'type'
  | 'model'
  | 'provider'
  | 'environment'
  | 'key'
  | 'min_duration_ms'
  | 'min_cost_usd'
  | 'end_user'
  | 'session'
  | 'tag',
  string
>

/** Whether the sums of usage know all filters. */
export function isCharted({ q, min_duration_ms, min_cost_usd, end_user, session, tag }: Filters): boolean {
  return [q, min_duration_ms, min_cost_usd, end_user, session, tag].every(value => value === '')
}

/** The requests that match a filter, paginated; `live`: polled. */
export function useRequests(filters: Filters, time: TimeQuery, live: boolean) {
  const { id, base } = usePlace()
  return useInfiniteQuery({
    queryKey: [id, 'requests', 'list', { ...time, ...filters }],
    queryFn: ({ pageParam, signal }) => {
      const query = queryText({ ...filters, ...time, limit: pageSize, after: pageParam })
      return call<RequestsPage>(`${base}/requests${query}`, { signal })
    },
    initialPageParam: '',
    getNextPageParam: ({ has_more, last_id }) => (has_more ? last_id : null),
    // Each poll refetches all loaded pages, so the interval grows with their number.
    refetchInterval: ({ state: { data } }) => (live ? liveMs * Math.max(1, data?.pages.length ?? 1) : false),
  })
}

/** The values of the filters. */
export function useChoices() {
  const { id, base } = usePlace()
  return useQuery({
    queryKey: [id, 'requests', 'filters'],
    queryFn: ({ signal }) => call<RequestFilters>(`${base}/request-filters`, { signal }),
    staleTime: choicesFreshMs,
  })
}

export function useRequest(request: string) {
  const { id, base } = usePlace()
  return useQuery({
    queryKey: [id, 'requests', 'one', request],
    queryFn: ({ signal }) => call<RequestDetail>(`${base}/requests/${encodeURIComponent(request)}`, { signal }),
  })
}
