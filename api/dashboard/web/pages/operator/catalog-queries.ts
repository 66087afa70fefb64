import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import type { AuditAnswer } from '../../../wire/audit.ts'
import type {
  OperatorModels,
  OperatorServer,
  OperatorServers,
  Price,
  ServerTest,
} from '../../../wire/operator-catalog.ts'
import { call, queryText } from '../../api.ts'
import type { AuditFilters } from '../audit/filters.tsx'

const base = '/dashboard/api/operator'
const pageSize = 50

export function useOperatorModels() {
  return useQuery({
    queryKey: ['operator', 'models'],
    queryFn: ({ signal }) => call<OperatorModels>(`${base}/models`, { signal }),
  })
}

export function useServers() {
  return useQuery({
    queryKey: ['operator', 'servers'],
    queryFn: ({ signal }) => call<OperatorServers>(`${base}/servers`, { signal }),
  })
}

/** Runs a change of the catalog, and reads again what shows it. */
function useCatalogChange<Input = void>(change: (input: Input) => Promise<unknown>, onDone: () => void = () => {}) {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: change,
    onSuccess: async () => {
      await Promise.all(['models', 'servers'].map(part => queries.invalidateQueries({ queryKey: ['operator', part] })))
      onDone()
    },
  })
}

type ModelPatch = { disabled?: boolean | null; prices?: Record<string, Price | null> }
export const usePatchModel = (id: string, onDone?: () => void) =>
  useCatalogChange<ModelPatch>(
    body => call(`${base}/models/${encodeURIComponent(id)}`, { method: 'PATCH', body }),
    onDone,
  )

export type Arm = { model: string; percent: number }
/** Adds an alias of a model, or one that several models share. */
export const useAddAlias = (body: { alias: string } & ({ model: string } | { arms: Arm[] }), onDone: () => void) =>
  useCatalogChange(() => call(`${base}/aliases`, { body }), onDone)

export const useRemoveAlias = () =>
  useCatalogChange<string>(alias => call(`${base}/aliases/${encodeURIComponent(alias)}`, { method: 'DELETE' }))

/** `data_collection`: null = not known. */
export type ServerSettings = Pick<OperatorServer, 'base_url' | 'models'> & {
  data_collection: boolean | null
  zdr: boolean
}
/** `settingsOf`: what to save in place of the server as it is now. `key`: a new API key, if one was typed. */
export const useSaveServer = (
  name: string,
  settingsOf: (now: OperatorServer | undefined) => ServerSettings,
  key: { api_key?: string },
  onDone: () => void,
) =>
  useCatalogChange(async () => {
    const { data } = await call<OperatorServers>(`${base}/servers`)
    const { data_collection, zdr, ...rest } = settingsOf(data.find(one => one.name === name))
    const facts = { ...(data_collection !== null && { data_collection }), ...(zdr && { zdr }) }
    return call(`${base}/servers/${encodeURIComponent(name)}`, { body: { ...rest, ...facts, ...key } })
  }, onDone)

export const useRemoveServer = (name: string, onDone: () => void) =>
  useCatalogChange(() => call(`${base}/servers/${encodeURIComponent(name)}`, { method: 'DELETE' }), onDone)

export const useTestServer = (body: { base_url: string; api_key?: string; name?: string }) =>
  useMutation({ mutationFn: () => call<ServerTest>(`${base}/server-tests`, { body }) })

export function useOperatorAudit(filters: AuditFilters) {
  return useInfiniteQuery({
    queryKey: ['operator', 'audit', filters],
    queryFn: ({ pageParam, signal }) =>
      call<AuditAnswer>(`${base}/audit${queryText({ ...filters, limit: pageSize, after: pageParam })}`, { signal }),
    initialPageParam: '',
    getNextPageParam: ({ has_more, last_id }) => (has_more ? last_id : null),
  })
}
