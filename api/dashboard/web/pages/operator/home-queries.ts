import { keepPreviousData, useInfiniteQuery, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import type {
  Affected,
  EntriesChanged,
  EntryState,
  IncidentDetail,
  IncidentMessage,
  IncidentsPage,
  NotificationChannel,
  NotificationsAnswer,
  NotificationsSecret,
  Provider,
  ProvidersAnswer,
  ProviderTest,
  QueueEntries,
  QueueState,
  QueuesAnswer,
  ServiceActivity,
  SystemAnswer,
  TopOrganisations,
  UnknownNamesAnswer,
} from '../../../wire/operator-home.ts'
import type { UsageChart } from '../../../wire/usage.ts'
import { call, queryText } from '../../api.ts'
import type { TimeQuery } from '../../components/span.tsx'

const base = '/dashboard/api/operator'
const refreshMs = 5_000
const pollMs = 15_000
const incidentsPerPage = 10
const hourMs = 3_600_000

/** A list or figures of the operator area, fetched again at an interval. */
function usePolled<T>(path: string, query: Record<string, string | undefined> = {}, everyMs = refreshMs) {
  return useQuery({
    queryKey: ['operator', path, query],
    queryFn: ({ signal }) => call<T>(`${base}/${path}${queryText(query)}`, { signal }),
    refetchInterval: everyMs,
    placeholderData: keepPreviousData,
  })
}

/** What the figures of the service are about. */
type ServiceChoice = TimeQuery & { provider?: string }

export const useServiceActivity = (choice: ServiceChoice) => usePolled<ServiceActivity>('activity', choice, pollMs)
export const useServiceUsage = (choice: ServiceChoice & { by: string; measure: string }) =>
  usePolled<UsageChart>('usage', choice, pollMs)
export const useTopOrganisations = (choice: ServiceChoice & { by: string }) =>
  usePolled<TopOrganisations>('top-organisations', choice, pollMs)
export const useSystem = () => usePolled<SystemAnswer>('system')
export const useProviders = () => usePolled<ProvidersAnswer>('providers')
export const useProvider = (name: string) => usePolled<Provider>(`providers/${encodeURIComponent(name)}`)
export const useAffected = (choice: ServiceChoice & { provider: string }) =>
  usePolled<Affected>('affected', choice, pollMs)
export const useIncident = (id: string) => usePolled<IncidentDetail>(`incidents/${encodeURIComponent(id)}`, {}, pollMs)
export const useNotifications = () => usePolled<NotificationsAnswer>('notifications')
export const useUnknownNames = () => usePolled<UnknownNamesAnswer>('unknown-names', {}, pollMs)
export const useQueues = () => usePolled<QueuesAnswer>('queues')
export const useEntries = (queue: string, state: EntryState) =>
  usePolled<QueueEntries>(`queues/${queue}/entries`, { state, limit: '50' })

export function useIncidents(provider?: string) {
  return useInfiniteQuery({
    queryKey: ['operator', 'incidents', provider],
    queryFn: ({ pageParam, signal }) =>
      call<IncidentsPage>(`${base}/incidents${queryText({ provider, limit: incidentsPerPage, after: pageParam })}`, {
        signal,
      }),
    initialPageParam: '',
    getNextPageParam: ({ has_more, last_id }) => (has_more ? last_id : null),
    refetchInterval: pollMs,
  })
}

/** A change after which everything in the operator area is fetched again. */
function useChange<Input, Answer>(change: (input: Input) => Promise<Answer>, onDone?: (answer: Answer) => void) {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: change,
    onSuccess: async answer => {
      await queries.invalidateQueries({ queryKey: ['operator'] })
      onDone?.(answer)
    },
  })
}

const providerPath = (name: string) => `${base}/providers/${encodeURIComponent(name)}`

export const usePause = (name: string, pause: { reason: string; hours: number | null }, onDone: () => void) =>
  useChange<void, Provider>(() => {
    const { reason, hours } = pause
    const until = hours === null ? undefined : new Date(Date.now() + hours * hourMs).toISOString()
    return call(`${providerPath(name)}/pause`, { body: { reason, until } })
  }, onDone)
export const useResume = (name: string) =>
  useChange<void, Provider>(() => call(`${providerPath(name)}/resume`, { method: 'POST' }))
export const useAddProviderKey = (
  name: string,
  body: { key: string; replaces?: string; skip_test: boolean },
  onDone: () => void,
) => useChange<void, Provider>(() => call(`${providerPath(name)}/keys`, { body }), onDone)
export const useRemoveProviderKey = (name: string, onDone: () => void) =>
  useChange<string, Provider>(
    id => call(`${providerPath(name)}/keys/${encodeURIComponent(id)}`, { method: 'DELETE' }),
    onDone,
  )
export const useProviderTest = (name: string) =>
  useChange<void, ProviderTest>(() => call(`${providerPath(name)}/test`, { method: 'POST' }))

export const useQueuePause = (queue: string) =>
  useChange((paused: boolean) => call<QueueState>(`${base}/queues/${queue}`, { method: 'PATCH', body: { paused } }))
/** Retries or removes entries: those named, or all failed ones. */
export const useEntriesChange = (queue: string, action: 'retry' | 'remove', onDone: (answer: EntriesChanged) => void) =>
  useChange(
    (ids: string[] | null) => call<EntriesChanged>(`${base}/queues/${queue}/${action}`, { body: ids ? { ids } : {} }),
    onDone,
  )

const notificationsPath = `${base}/notifications`

export const useNotificationsChange = (body: object, onDone: (answer: NotificationsAnswer) => void) =>
  useChange<void, NotificationsAnswer>(() => call(notificationsPath, { method: 'PATCH', body }), onDone)
export const useNotificationsTest = () =>
  useChange((channel: NotificationChannel) =>
    call<{ data: IncidentMessage[] }>(`${notificationsPath}/test`, { body: { channel } }),
  )
/** Shows the secret, or rolls it. */
export const useNotificationsSecret = () =>
  useMutation({
    mutationFn: (method: 'GET' | 'POST') => call<NotificationsSecret>(`${notificationsPath}/secret`, { method }),
  })
