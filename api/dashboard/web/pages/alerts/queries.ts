import { notifications } from '@mantine/notifications'
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import type { AlertSettings, AlertsAnswer } from '../../../wire/alerts.ts'
import { call, queryText } from '../../api.ts'
import { usePlace } from '../../session.tsx'

const pageSize = 50

export function useAlerts() {
  const { id, base } = usePlace()
  return useQuery({
    queryKey: [id, 'alerts', 'settings'],
    queryFn: ({ signal }) => call<AlertSettings>(`${base}/alerts`, { signal }),
  })
}

export function useChangeAlerts(change: Partial<AlertSettings>, onSaved: (settings: AlertSettings) => void) {
  const { id, base } = usePlace()
  const queries = useQueryClient()
  return useMutation({
    mutationFn: () => call<AlertSettings>(`${base}/alerts`, { method: 'PATCH', body: change }),
    onSuccess: answer => {
      queries.setQueryData([id, 'alerts', 'settings'], answer)
      notifications.show({ title: 'Alerts saved', message: 'Changes apply to the next alert.' })
      onSaved(answer)
    },
  })
}

/** The alerts that were raised, newest first, paginated. */
export function useHistory() {
  const { id, base } = usePlace()
  return useInfiniteQuery({
    queryKey: [id, 'alerts', 'history'],
    queryFn: ({ pageParam, signal }) =>
      call<AlertsAnswer>(`${base}/alerts/history${queryText({ limit: pageSize, after: pageParam })}`, { signal }),
    initialPageParam: '',
    getNextPageParam: ({ has_more, last_id }) => (has_more ? last_id : null),
  })
}
