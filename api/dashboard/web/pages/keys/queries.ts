import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import type { KeyAnswer, KeyFields, KeySecretAnswer, KeysAnswer } from '../../../wire/keys.ts'
import { call, queryText } from '../../api.ts'
import { usePlace } from '../../session.tsx'

const pageSize = 50
/** Poll interval, so that spend is current. */
const refreshMs = 15_000
/** The visible part of a secret, by which its key can be found. */
const shownCharacters = 16

type KeyFilters = { search: string; member: string; environment: string; state: string; revoked: boolean }

/** Removes the part of a secret that must not be in a URL from a search. */
export function withoutSecret(search: string): string {
  return search.startsWith('svc_') ? search.slice(0, shownCharacters) : search
}

/** The API keys that match a filter, paginated. */
export function useKeys({ revoked, ...filters }: KeyFilters) {
  const { id, base } = usePlace()
  return useInfiniteQuery({
    queryKey: [id, 'keys', 'list', filters, revoked],
    queryFn: ({ pageParam, signal }) => {
      const query = { ...filters, limit: pageSize, after: pageParam, include_revoked: revoked }
      return call<KeysAnswer>(`${base}/keys${queryText(query)}`, { signal })
    },
    initialPageParam: '',
    getNextPageParam: ({ has_more, last_id }) => (has_more ? last_id : null),
    // Each poll refetches all loaded pages, so the interval grows with their number.
    refetchInterval: ({ state: { data } }) => refreshMs * Math.max(1, data?.pages.length ?? 1),
  })
}

/** One key, by its id or the hash of a present or former secret. */
export function useKey(name: string) {
  const { id, base } = usePlace()
  return useQuery({
    queryKey: [id, 'keys', 'one', name],
    queryFn: async ({ signal }) => (await call<KeyAnswer>(`${base}/keys/${name}`, { signal })).data,
    refetchInterval: refreshMs,
  })
}

/** Another unrevoked key with this name, in whatever case; undefined if there is none. */
export function useKeyNamed(name: string, exceptId?: string) {
  const { id, base } = usePlace()
  const { data } = useQuery({
    queryKey: [id, 'keys', 'named', name],
    queryFn: async ({ signal }) =>
      (await call<KeysAnswer>(`${base}/keys${queryText({ search: name, limit: pageSize })}`, { signal })).data,
    enabled: name !== '' && !name.startsWith('svc_'),
  })
  return data?.find(key => key.id !== exceptId && key.name.toLowerCase() === name.toLowerCase())
}

/** Changes a key, then refetches keys. `onDone` gets the response even if the form was unmounted meanwhile. */
function useChange<Input, Answer extends KeyAnswer>(
  change: (base: string, input: Input) => Promise<Answer>,
  onDone?: (answer: Answer) => void,
) {
  const { id, base } = usePlace()
  const queries = useQueryClient()
  return useMutation({
    mutationFn: (input: Input) => change(base, input),
    // Secrets are not kept in the cache.
    gcTime: 0,
    onSuccess: answer => {
      const { data } = answer
      queries.setQueryData([id, 'keys', 'one', data.id], data)
      void queries.invalidateQueries({ queryKey: [id, 'keys'] })
      onDone?.(answer)
    },
  })
}

type OnSecret = (answer: KeySecretAnswer) => void
export const useCreate = (onCreated: OnSecret) =>
  useChange<KeyFields, KeySecretAnswer>((base, body) => call(`${base}/keys`, { body }), onCreated)
export const usePatch = (keyId: string) =>
  useChange<KeyFields, KeyAnswer>((base, body) => call(`${base}/keys/${keyId}`, { method: 'PATCH', body }))
/** Rolls a key; the input is for how many hours the old secret keeps working. */
export const useRoll = (keyId: string, onRolled: OnSecret) =>
  useChange<number, KeySecretAnswer>(
    (base, overlap_hours) => call(`${base}/keys/${keyId}/roll`, { body: { overlap_hours } }),
    onRolled,
  )
export const useRevoke = (keyId: string) =>
  useChange<void, KeyAnswer>(base => call(`${base}/keys/${keyId}`, { method: 'DELETE' }))
/** Sets which input and output of a key is logged. */
export const useContentLogging = (keyId: string, content_logging: object | null, onSaved: () => void) =>
  useChange<void, KeyAnswer>(
    base => call(`${base}/keys/${keyId}/content-logging`, { method: 'PATCH', body: { content_logging } }),
    onSaved,
  )
