import { type MutationState, useMutation, useMutationState } from '@tanstack/react-query'
import { usePlace } from '../../session.tsx'

export type TabRun<T> = { start: () => void; data: T | undefined; error: Error | null; isPending: boolean }

/** A tab's request. It continues while other tabs are open, and its result is kept for some minutes, because it was paid for. */
export function useTabRun<T>(tab: string, request: () => Promise<T>): TabRun<T> {
  const { id } = usePlace()
  const mutationKey = [id, 'playground', tab]
  const { mutate } = useMutation({ mutationKey, mutationFn: request })
  const select = ({ state }: { state: object }) => state as MutationState<T, Error>
  const latest = useMutationState({ filters: { mutationKey }, select }).at(-1)
  return {
    start: () => mutate(),
    data: latest?.data,
    error: latest?.error ?? null,
    isPending: latest?.status === 'pending',
  }
}
