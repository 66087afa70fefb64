import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import type { KeyAnswer, KeyFields, KeySecretAnswer, KeysAnswer } from '../../../wire/keys.ts'
import { call, queryText } from '../../api.ts'
import { usePlace } from '../../session.tsx'

const pageSize = 50
/** Spend is shown as it grows. */
const refreshMs = 15_000

export type KeyFilters = { search: string; revoked: boolean }

/** The keys that a filter finds, page after page. */
export function useKeys({ search, revoked }: KeyFilters) {
  const { id, base } = usePlace()
  return useInfiniteQuery({
    queryKey: [id, 'keys', 'list', search, revoked],
    queryFn: ({ pageParam, signal }) => {
      // A whole secret in a search field must not end up in an address: what is shown of it finds the key.
      const text = search.startsWith('svc_') ? search.slice(0, 16) : search
      const query = { limit: pageSize, after: pageParam, search: text, include_revoked: revoked }
      return call<KeysAnswer>(`${base}/keys${queryText(query)}`, { signal })
    },
    initialPageParam: '',
    getNextPageParam: ({ has_more, last_id }) => (has_more ? last_id : null),
    refetchInterval: refreshMs,
  })
}

export function useKey(hash: string) {
  const { id, base } = usePlace()
  return useQuery({
    queryKey: [id, 'keys', 'one', hash],
    queryFn: async ({ signal }) => (await call<KeyAnswer>(`${base}/keys/${hash}`, { signal })).data,
    refetchInterval: refreshMs,
  })
}

/** Runs a change of a key; what is shown of keys follows. */
function useChange<Input, Answer extends KeyAnswer>(change: (base: string, input: Input) => Promise<Answer>) {
  const { id, base } = usePlace()
  const queries = useQueryClient()
  return useMutation({
    mutationFn: (input: Input) => change(base, input),
    onSuccess: ({ data }) => {
      queries.setQueryData([id, 'keys', 'one', data.hash], data)
      // Not single keys: a rolled one is no longer found under its old hash.
      void queries.invalidateQueries({ queryKey: [id, 'keys'], predicate: ({ queryKey }) => queryKey[2] !== 'one' })
    },
  })
}

export const useCreate = () => useChange<KeyFields, KeySecretAnswer>((base, body) => call(`${base}/keys`, { body }))
export const usePatch = (hash: string) =>
  useChange<KeyFields, KeyAnswer>((base, body) => call(`${base}/keys/${hash}`, { method: 'PATCH', body }))
export const useRoll = (hash: string) =>
  useChange<void, KeySecretAnswer>(base => call(`${base}/keys/${hash}/roll`, { method: 'POST' }))
export const useRevoke = (hash: string) =>
  useChange<void, KeyAnswer>(base => call(`${base}/keys/${hash}`, { method: 'DELETE' }))
