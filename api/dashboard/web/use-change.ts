import { useMutation, useQueryClient } from '@tanstack/react-query'
import { usePlace } from './session.tsx'

type Changed = {
  /** The path of the routes below those of the organisation; '' for a route of accounts. */
  path: string
  /** The beginning of the keys of what is fetched again, without the organisation. */
  queryKey: readonly string[]
}

/** A change of a part of the organisation, which is fetched again afterwards. Answers with secrets are not kept in the cache. */
export function useChange<Input, Answer>(
  { path, queryKey }: Changed,
  change: (base: string, input: Input) => Promise<Answer>,
  onDone?: (answer: Answer) => void,
) {
  const { id, base, suspended } = usePlace()
  const queries = useQueryClient()
  const mutation = useMutation({
    mutationFn: (input: Input) => change(base + path, input),
    gcTime: 0,
    onSuccess: answer => {
      onDone?.(answer)
      return queries.invalidateQueries({ queryKey: [id, ...queryKey] })
    },
  })
  // The routes of a suspended organisation refuse changes. Those of accounts, by which members come and go, do not.
  return { ...mutation, isRefused: suspended && path !== '' }
}
