import { type InfiniteData, keepPreviousData, useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query'
import type { RequestCount, RequestDetail, RequestFilters, RequestsPage } from '../../../wire/requests.ts'
import { call, queryText } from '../../api.ts'
import type { TimeQuery } from '../../components/span.tsx'
import { type Place, usePlace } from '../../session.tsx'
import { outcomes } from '../overview/outcomes.ts'
import { readChange } from './tail.ts'

const pageSize = 50
const liveMs = 3_000
/** A poll that takes long is followed by a longer pause. */
const pausePerPoll = 10
const countFreshMs = 30_000
const choicesFreshMs = 60_000

/** What the sums of usage know. */
const summedNames = ['status', 'type', 'model', 'provider', 'environment', 'key'] as const
const rowNames = [
  'q',
  'error_code',
  'error_message',
  'min_duration_ms',
  'min_cost_usd',
  'min_input_tokens',
  'min_output_tokens',
  'end_user',
  'session',
  'tag',
  'batch',
] as const
export const filterNames = [...summedNames, ...rowNames]
export type Filters = Record<(typeof filterNames)[number], string>

/** The orders of the list; `newest` is the default. */
export const sorts = {
  newest: { label: 'Newest first', query: {} },
  oldest: { label: 'Oldest first', query: { order: 'asc' } },
  cost: { label: 'Highest cost', query: { sort: 'cost' } },
  duration: { label: 'Longest duration', query: { sort: 'duration' } },
  input_tokens: { label: 'Most input tokens', query: { sort: 'input_tokens' } },
  output_tokens: { label: 'Most output tokens', query: { sort: 'output_tokens' } },
}
export type Sort = keyof typeof sorts

/** What the list shows, and in which order. */
export type Search = { filters: Filters; time: TimeQuery; sort: Sort }

const charted = ['', 'error', ...outcomes.map(({ status }) => status)]

/** Whether the sums of usage know all filters. They count classes of responses, and of single statuses those that are a class. */
export function isCharted(filters: Filters): boolean {
  return rowNames.every(name => filters[name] === '') && charted.includes(filters.status)
}

/** Whether new requests would be at the top. */
export function canFollow(time: TimeQuery, sort: Sort): boolean {
  return sort === 'newest' && time.to === undefined
}

const listKey = ({ id }: Place, search: Search) => [id, 'requests', 'list', search]

function readRequests(
  { base }: Place,
  { filters, time, sort }: Search,
  page: { limit: number; after?: string; order?: string },
  signal: AbortSignal,
) {
  return call<RequestsPage>(`${base}/requests${queryText({ ...filters, ...time, ...sorts[sort].query, ...page })}`, {
    signal,
  })
}

/** The requests that match a search, paginated. */
export function useRequests(search: Search, isLive: boolean) {
  const place = usePlace()
  return useInfiniteQuery({
    queryKey: listKey(place, search),
    queryFn: ({ pageParam, signal }) => readRequests(place, search, { limit: pageSize, after: pageParam }, signal),
    initialPageParam: '',
    getNextPageParam: ({ has_more, last_id }) => (has_more ? last_id : null),
    // The tail goes on from what is shown.
    refetchOnWindowFocus: !isLive,
  })
}

/** Adds newer requests to the list of `useRequests`, while the page is visible. */
export function useTail(search: Search, isLive: boolean) {
  const place = usePlace()
  const queries = useQueryClient()
  return useQuery({
    queryKey: [place.id, 'requests', 'tail', search],
    queryFn: async ({ signal }) => {
      const startedMs = performance.now()
      const listed = queries.getQueryData<InfiniteData<RequestsPage, string>>(listKey(place, search))
      if (listed) {
        const change = await readChange(listed, page => readRequests(place, search, page, signal))
        queries.setQueryData<typeof listed>(listKey(place, search), now => now && change(now))
      }
      return performance.now() - startedMs
    },
    enabled: isLive,
    gcTime: 0,
    refetchInterval: ({ state: { data: tookMs = 0 } }) => Math.max(liveMs, pausePerPoll * tookMs),
  })
}

/** The number of requests that match a search; `isLive`: read again from time to time. */
export function useCount({ filters, time }: Search, { enabled, isLive }: { enabled: boolean; isLive: boolean }) {
  const { id, base } = usePlace()
  return useQuery({
    queryKey: [id, 'requests', 'count', { ...time, ...filters }],
    queryFn: ({ signal }) =>
      call<RequestCount>(`${base}/request-count${queryText({ ...filters, ...time })}`, { signal }),
    staleTime: countFreshMs,
    refetchInterval: isLive && countFreshMs,
    enabled,
  })
}

/** The values of the filters, and how many requests each finds. */
export function useChoices({ filters, time }: Search) {
  const { id, base } = usePlace()
  const query = { ...time, ...Object.fromEntries(summedNames.map(name => [name, filters[name]])) }
  return useQuery({
    queryKey: [id, 'requests', 'filters', query],
    queryFn: ({ signal }) => call<RequestFilters>(`${base}/request-filters${queryText(query)}`, { signal }),
    staleTime: choicesFreshMs,
    placeholderData: keepPreviousData,
  })
}

export function useRequest(request: string) {
  const { id, base } = usePlace()
  return useQuery({
    queryKey: [id, 'requests', 'one', request],
    queryFn: ({ signal }) => call<RequestDetail>(`${base}/requests/${encodeURIComponent(request)}`, { signal }),
  })
}
