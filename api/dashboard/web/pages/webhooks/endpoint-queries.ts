import { useQuery } from '@tanstack/react-query'
import type {
  EndpointAnswer,
  EndpointFields,
  EndpointSecretAnswer,
  EndpointsAnswer,
  ResendAnswer,
  VerifyAnswer,
} from '../../../wire/webhook-endpoints.ts'
import type { DeliverySentAnswer } from '../../../wire/webhooks.ts'
import { call } from '../../api.ts'
import { usePlace } from '../../session.tsx'
import { useChange } from '../../use-change.ts'

const refreshMs = 15_000

export function useEndpoints() {
  const { id, base } = usePlace()
  return useQuery({
    queryKey: [id, 'webhooks', 'endpoints'],
    queryFn: ({ signal }) => call<EndpointsAnswer>(`${base}/webhooks/endpoints`, { signal }),
    refetchInterval: refreshMs,
  })
}

export function useEndpoint(endpoint: string) {
  const { id, base } = usePlace()
  return useQuery({
    queryKey: [id, 'webhooks', 'endpoint', endpoint],
    queryFn: ({ signal }) => call<EndpointAnswer>(`${base}/webhooks/endpoints/${endpoint}`, { signal }),
    refetchInterval: refreshMs,
  })
}

const changed = { path: '/webhooks', queryKey: ['webhooks'] }

type OnSecret = (answer: EndpointSecretAnswer) => void
export const useCreateEndpoint = (fields: EndpointFields, onCreated: OnSecret) =>
  useChange<void, EndpointSecretAnswer>(changed, base => call(`${base}/endpoints`, { body: fields }), onCreated)
export const usePatchEndpoint = (id: string, fields: EndpointFields, onSaved?: () => void) =>
  useChange<void, EndpointAnswer>(
    changed,
    base => call(`${base}/endpoints/${id}`, { method: 'PATCH', body: fields }),
    onSaved,
  )
export const useDeleteEndpoint = (id: string, onDeleted: () => void) =>
  useChange<void, { deleted: true }>(changed, base => call(`${base}/endpoints/${id}`, { method: 'DELETE' }), onDeleted)
export const useRollEndpoint = (id: string, onRolled: OnSecret) =>
  useChange<void, EndpointSecretAnswer>(
    changed,
    base => call(`${base}/endpoints/${id}/roll-secret`, { method: 'POST' }),
    onRolled,
  )
export const useSendSample = (id: string, type: string, onSent: (delivery: string) => void) =>
  useChange<void, DeliverySentAnswer>(
    changed,
    base => call(`${base}/endpoints/${id}/test`, { body: { type } }),
    ({ data }) => onSent(data.id),
  )
export const useResendFailed = (url: string) =>
  useChange<string, ResendAnswer>(changed, (base, since) => call(`${base}/resend`, { body: { url, since } }))
export const useVerify = (id: string) =>
  useChange<{ id: string; timestamp: number; body: string; signature?: string }, VerifyAnswer>(changed, (base, body) =>
    call(`${base}/endpoints/${id}/verify`, { body }),
  )
