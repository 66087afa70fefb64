import { notifications } from '@mantine/notifications'
import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import type { AlertSettings, AlertsAnswer } from '../../../wire/alerts.ts'
import { call, queryText } from '../../api.ts'
import { usePlace } from '../../session.tsx'
import { useChange } from '../../use-change.ts'

const pageSize = 50

export function useAlerts() {
  const { id, base } = usePlace()
  return useQuery({
    queryKey: [id, 'alerts', 'settings'],
    queryFn: ({ signal }) => call<AlertSettings>(`${base}/alerts`, { signal }),
  })
}

export function useChangeAlerts(change: Partial<AlertSettings>, onSaved: (settings: AlertSettings) => void) {
  return useChange<void, AlertSettings>(
    { path: '/alerts', queryKey: ['alerts', 'settings'] },
    base => call(base, { method: 'PATCH', body: change }),
    answer => {
      notifications.show({ title: 'Alerts saved', message: 'Changes apply to the next alert.' })
      onSaved(answer)
    },
  )
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
