import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import type { RequestDetail, RequestFilters, RequestsPage } from '../../../wire/requests.ts'
import { call, queryText } from '../../api.ts'
import { usePlace } from '../../session.tsx'

const pageSize = 50
const liveMs = 3_000
const choicesFreshMs = 60_000
const hourMs = 3_600_000

/** The time ranges of the list. */
export const spans = [
  { value: '1h', label: 'Last hour', ms: hourMs },
  { value: '24h', label: 'Last 24 hours', ms: 24 * hourMs },
  { value: '7d', label: 'Last 7 days', ms: 7 * 24 * hourMs },
  { value: '30d', label: 'Last 30 days', ms: 30 * 24 * hourMs },
  { value: '90d', label: 'Last 90 days', ms: 90 * 24 * hourMs },
]

export type Filters = {
  q: string
  status: string
  type: string
  model: string
  provider: string
  environment: string
  key: string
  span: string
}

/** The requests that match a filter, paginated; `live`: polled. */
export function useRequests({ span, ...filters }: Filters, live: boolean) {
  const { id, base } = usePlace()
  return useInfiniteQuery({
    queryKey: [id, 'requests', 'list', { span, ...filters }],
    queryFn: ({ pageParam, signal }) => {
      const ms = spans.find(({ value }) => value === span)?.ms
      const from = ms === undefined ? null : new Date(Date.now() - ms).toISOString()
      const query = queryText({ ...filters, from, limit: pageSize, after: pageParam })
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
