import { keepPreviousData, useQuery } from '@tanstack/react-query'
import type { Overview } from '../../../wire/usage.ts'
import { call } from '../../api.ts'
import { usePlace } from '../../session.tsx'

const pollMs = 15_000

export function useOverview() {
  const { id, base } = usePlace()
  return useQuery({
    queryKey: [id, 'overview'],
    queryFn: ({ signal }) => call<Overview>(`${base}/overview`, { signal }),
    refetchInterval: pollMs,
    placeholderData: keepPreviousData,
  })
}
