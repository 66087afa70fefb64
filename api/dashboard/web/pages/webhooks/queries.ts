import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import type {
  DeliveriesAnswer,
  Delivery,
  DeliveryAnswer,
  DeliverySentAnswer,
  WebhookSecretAnswer,
} from '../../../wire/webhooks.ts'
import { call, queryText } from '../../api.ts'
import { usePlace } from '../../session.tsx'
import { useChange } from '../../use-change.ts'

const pageSize = 50
/** Poll intervals: while a delivery is pending, and otherwise. */
const busyMs = 2_000
const idleMs = 15_000
/** A pending delivery whose next attempt is later than this is polled at the longer interval. */
const soonMs = 10_000

type DeliveryFilters = { status: string; type: string; url: string; endpoint: string }

const isBusy = ({ next_attempt_at: next }: { next_attempt_at: string | null }) =>
  next !== null && Date.parse(next) < Date.now() + soonMs

/** The deliveries that match a filter, paginated and polled. */
export function useDeliveries(filters: DeliveryFilters) {
  const { id, base } = usePlace()
  return useInfiniteQuery({
    queryKey: [id, 'webhooks', 'list', filters],
    queryFn: ({ pageParam, signal }) => {
      const query = { ...filters, limit: pageSize, after: pageParam }
      return call<DeliveriesAnswer>(`${base}/webhooks/deliveries${queryText(query)}`, { signal })
    },
    initialPageParam: '',
    getNextPageParam: ({ has_more, last_id }) => (has_more ? last_id : null),
    // Each poll refetches all loaded pages, so the interval grows with their number.
    refetchInterval: ({ state: { data } }) =>
      (data?.pages.some(page => page.data.some(isBusy)) ? busyMs : idleMs) * Math.max(1, data?.pages.length ?? 1),
  })
}

/** One delivery, polled until it has ended. */
export function useDelivery(delivery: string) {
  const { id, base } = usePlace()
  return useQuery({
    queryKey: [id, 'webhooks', 'one', delivery],
    queryFn: async ({ signal }) =>
      (await call<DeliveryAnswer>(`${base}/webhooks/deliveries/${encodeURIComponent(delivery)}`, { signal })).data,
    refetchInterval: ({ state }) => (state.data && isBusy(state.data) ? busyMs : idleMs),
  })
}

const deliveries = { path: '/webhooks', queryKey: ['webhooks'] }

export const useResend = (delivery: string) =>
  useChange<void, DeliverySentAnswer>(deliveries, base =>
    call(`${base}/deliveries/${delivery}/redeliver`, { method: 'POST' }),
  )
export const useSendTest = (url: string, onSent: (delivery: Delivery) => void) =>
  useChange<void, DeliverySentAnswer>(
    deliveries,
    base => call(`${base}/test`, { body: { url } }),
    ({ data }) => onSent(data),
  )

/** The signing secret, for components that are mounted only while it is shown. It is not kept in the cache. */
export function useSecret() {
  const { id, base } = usePlace()
  return useQuery({
    queryKey: [id, 'webhook-secret'],
    queryFn: ({ signal }) => call<WebhookSecretAnswer>(`${base}/webhooks/secret`, { signal }),
    gcTime: 0,
  })
}

export const useRotate = () =>
  useChange<void, WebhookSecretAnswer>({ path: '/webhooks/secret', queryKey: ['webhook-secret'] }, base =>
    call(`${base}/rotate`, { method: 'POST' }),
  )
