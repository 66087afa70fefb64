import { keepPreviousData, useQuery } from '@tanstack/react-query'
import type { Activity, Attention, UsageChart, UsageGroups } from '../../../wire/usage.ts'
import { call, queryText } from '../../api.ts'
import type { TimeQuery } from '../../components/span.tsx'
import { usePlace } from '../../session.tsx'

const pollMs = 15_000
/** A span of many days changes little. */
const slowPollMs = 60_000

/** What of the usage is shown; '' = everything, and for the environment what was used. */
export type UsageChoice = TimeQuery & {
  environment: string
  key?: string
  member?: string
  model?: string
  provider?: string
  type?: string
  status?: string
}

function useUsageQuery<T>(path: string, choice: object, { isPolled = true, enabled = true } = {}) {
  const { id, base } = usePlace()
  const { span } = choice as TimeQuery
  return useQuery({
    queryKey: [id, path, choice],
    queryFn: ({ signal }) => call<T>(`${base}/${path}${queryText(choice as Record<string, string>)}`, { signal }),
    refetchInterval: isPolled && (span === '1h' || span === '24h' ? pollMs : slowPollMs),
    placeholderData: keepPreviousData,
    enabled,
  })
}

/** The figures of requests over time. */
export function useActivity(choice: UsageChoice) {
  return useUsageQuery<Activity>('activity', choice)
}

export function useAttention(choice: UsageChoice) {
  return useUsageQuery<Attention>('attention', choice)
}

/** The largest series of one measure. */
export function useUsage(
  choice: UsageChoice & { by: string; measure: string; granularity: string; tag: string },
  enabled: boolean,
) {
  return useUsageQuery<UsageChart>('usage', choice, { enabled })
}

export function useGroups(
  choice: UsageChoice & { by: string; then_by: string; granularity: string; tag: string },
  enabled: boolean,
) {
  return useUsageQuery<UsageGroups>('usage/groups', choice, { enabled })
}

/** Whether the request log can be filtered like usage: it does not know members, unless a key is named. */
export function isOfRequests({ key, member }: Pick<UsageChoice, 'key' | 'member'>): boolean {
  return !member || !!key
}

/** The address of the request log with filters; empty ones are left out. */
export function requestsHref(home: string, filters: Record<string, string | undefined>): string {
  return `${home}/requests${queryText(filters)}`
}
