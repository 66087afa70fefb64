import { useMutation, useQueryClient } from '@tanstack/react-query'
import type { DashboardKey } from '../../../wire/keys.ts'
import { call } from '../../api.ts'
import { usePlace } from '../../session.tsx'

/** What can be done to several keys at once. */
export type BulkAction = 'disable' | 'enable' | 'cap' | 'revoke'
/** A key that was not changed, and why. */
export type Failed = { key: DashboardKey; error: Error }

const maxConcurrent = 4

/** Changes keys one by one, as each key's own form does, a few at a time. Returns those that failed; the others are changed. */
export function useBulkChange() {
  const { id, base } = usePlace()
  const queries = useQueryClient()
  return useMutation({
    mutationFn: async ({ keys, request }: { keys: DashboardKey[]; request: { method: string; body?: object } }) => {
      const waiting = [...keys]
      const failed: Failed[] = []
      const work = async () => {
        for (let key = waiting.shift(); key !== undefined; key = waiting.shift())
          await call(`${base}/keys/${key.id}`, request).catch(error => failed.push({ key: key!, error }))
      }
      await Promise.all(Array.from({ length: maxConcurrent }, work))
      return failed
    },
    onSettled: () => void queries.invalidateQueries({ queryKey: [id, 'keys'] }),
  })
}

/** The request that does an action to one key. `capUsd`: '' = no cap. */
export function requestOf(action: BulkAction, capUsd: number | string): { method: string; body?: object } {
  if (action === 'revoke') return { method: 'DELETE' }
  const body =
    action === 'cap'
      ? { monthly_spend_cap_usd: capUsd === '' ? null : Number(capUsd) }
      : { disabled: action === 'disable' }
  return { method: 'PATCH', body }
}
