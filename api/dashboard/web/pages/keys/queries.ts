import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import type { KeyAnswer, KeyFields, KeySecretAnswer, KeysAnswer } from '../../../wire/keys.ts'
import { call, queryText } from '../../api.ts'
import { usePlace } from '../../session.tsx'

const pageSize = 50
/** Poll interval, so that spend is current. */
const refreshMs = 15_000
/** The visible part of a secret, by which its key can be found. */
const shownCharacters = 16

export type KeyFilters = { search: string; member: string; revoked: boolean }

/** Removes the part of a secret that must not be in a URL from a search. */
export function withoutSecret(search: string): string {
  return search.startsWith('svc_') ? search.slice(0, shownCharacters) : search
}

/** The API keys that match a filter, paginated. */
export function useKeys({ search, member, revoked }: KeyFilters) {
  const { id, base } = usePlace()
  return useInfiniteQuery({
    queryKey: [id, 'keys', 'list', search, member, revoked],
    queryFn: ({ pageParam, signal }) => {
      const query = { limit: pageSize, after: pageParam, search, member, include_revoked: revoked }
      return call<KeysAnswer>(`${base}/keys${queryText(query)}`, { signal })
    },
    initialPageParam: '',
    getNextPageParam: ({ has_more, last_id }) => (has_more ? last_id : null),
    // Each poll refetches all loaded pages, so the interval grows with their number.
    refetchInterval: ({ state: { data } }) => refreshMs * Math.max(1, data?.pages.length ?? 1),
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
      queries.setQueryData([id, 'keys', 'one', data.hash], data)
      // Not single keys: a rolled key is no longer found under its old hash.
      void queries.invalidateQueries({ queryKey: [id, 'keys'], predicate: ({ queryKey }) => queryKey[2] !== 'one' })
      onDone?.(answer)
    },
  })
}

type OnSecret = (answer: KeySecretAnswer) => void
export const useCreate = (onCreated: OnSecret) =>
  useChange<KeyFields, KeySecretAnswer>((base, body) => call(`${base}/keys`, { body }), onCreated)
export const usePatch = (hash: string) =>
  useChange<KeyFields, KeyAnswer>((base, body) => call(`${base}/keys/${hash}`, { method: 'PATCH', body }))
/** Rolls a key; the input is for how many hours the old secret keeps working. */
export const useRoll = (hash: string, onRolled: OnSecret) =>
  useChange<number, KeySecretAnswer>(
    (base, overlap_hours) => call(`${base}/keys/${hash}/roll`, { body: { overlap_hours } }),
    onRolled,
  )
export const useRevoke = (hash: string) =>
  useChange<void, KeyAnswer>(base => call(`${base}/keys/${hash}`, { method: 'DELETE' }))
/** Sets which input and output of a key is logged. */
export const useContentLogging = (hash: string, content_logging: object | null, onSaved: () => void) =>
  useChange<void, KeyAnswer>(
    base => call(`${base}/keys/${hash}/content-logging`, { method: 'PATCH', body: { content_logging } }),
    onSaved,
  )
