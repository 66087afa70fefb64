import { useQuery } from '@tanstack/react-query'
import type {
  ExportAnswer,
  ExportFields,
  ExportSecretAnswer,
  ExportsAnswer,
  ExportTestAnswer,
  ReplayAnswer,
  ReplaysAnswer,
} from '../../../wire/log-exports.ts'
import { call } from '../../api.ts'
import { usePlace } from '../../session.tsx'
import { useChange } from '../../use-change.ts'

const refreshMs = 10_000

export function useExports() {
  const { id, base } = usePlace()
  return useQuery({
    queryKey: [id, 'log-exports', 'list'],
    queryFn: ({ signal }) => call<ExportsAnswer>(`${base}/log-exports`, { signal }),
    refetchInterval: refreshMs,
  })
}

export function useExport(one: string) {
  const { id, base } = usePlace()
  return useQuery({
    queryKey: [id, 'log-exports', one],
    queryFn: ({ signal }) => call<ExportAnswer>(`${base}/log-exports/${one}`, { signal }),
    refetchInterval: refreshMs,
  })
}

const changed = { path: '/log-exports', queryKey: ['log-exports'] }
type OnSecret = (answer: ExportSecretAnswer) => void

export const useCreateExport = (fields: ExportFields, onCreated: OnSecret) =>
  useChange<void, ExportSecretAnswer>(changed, base => call(base, { body: fields }), onCreated)
export const usePatchExport = (id: string, fields: ExportFields, onSaved?: () => void) =>
  useChange<void, ExportAnswer>(changed, base => call(`${base}/${id}`, { method: 'PATCH', body: fields }), onSaved)
export const useDeleteExport = (id: string, onDeleted: () => void) =>
  useChange<void, { deleted: true }>(changed, base => call(`${base}/${id}`, { method: 'DELETE' }), onDeleted)
export const useRollExport = (id: string, onRolled: OnSecret) =>
  useChange<void, ExportSecretAnswer>(changed, base => call(`${base}/${id}/roll-secret`, { method: 'POST' }), onRolled)
export const useTestExport = (id: string) =>
  useChange<void, ExportTestAnswer>(changed, base => call(`${base}/${id}/test`, { method: 'POST' }))
export const useReplay = (id: string, window: { from: string; to: string }, onStarted: () => void) =>
  useChange<void, ReplaysAnswer>(changed, base => call(`${base}/${id}/replays`, { body: window }), onStarted)
export const useCancelReplay = (id: string) =>
  useChange<string, ReplayAnswer>(changed, (base, replay) =>
    call(`${base}/${id}/replays/${replay}/cancel`, { method: 'POST' }),
  )
