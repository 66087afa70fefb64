import { keepPreviousData, useQuery } from '@tanstack/react-query'
import type { Overview, UsageChart } from '../../../wire/usage.ts'
import { call, queryText } from '../../api.ts'
import { usePlace } from '../../session.tsx'

const pollMs = 15_000

export function useOverview(environment: string) {
  const { id, base } = usePlace()
  return useQuery({
    queryKey: [id, 'overview', environment],
    queryFn: ({ signal }) => call<Overview>(`${base}/overview${queryText({ environment })}`, { signal }),
    refetchInterval: pollMs,
    placeholderData: keepPreviousData,
  })
}

export type ChartChoice = { environment: string; days: string; by: string; measure: string }

export function useUsage(choice: ChartChoice) {
  const { id, base } = usePlace()
  return useQuery({
    queryKey: [id, 'usage', choice],
    queryFn: ({ signal }) => call<UsageChart>(`${base}/usage${queryText(choice)}`, { signal }),
    refetchInterval: pollMs,
    placeholderData: keepPreviousData,
  })
}
