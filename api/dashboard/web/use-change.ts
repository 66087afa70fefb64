import { useMutation, useQueryClient } from '@tanstack/react-query'
import { usePlace } from './session.tsx'

type Changed = {
  /** The path of the routes below those of the organisation. */
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
  const { id, base } = usePlace()
  const queries = useQueryClient()
  return useMutation({
    mutationFn: (input: Input) => change(base + path, input),
    gcTime: 0,
    onSuccess: answer => {
      onDone?.(answer)
      return queries.invalidateQueries({ queryKey: [id, ...queryKey] })
    },
  })
}
