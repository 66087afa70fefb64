import { useQuery } from '@tanstack/react-query'
import type {
  AlertRuleAnswer,
  AlertRuleFields,
  AlertRulesAnswer,
  ChannelTestAnswer,
} from '../../../wire/alert-rules.ts'
import { call } from '../../api.ts'
import { usePlace } from '../../session.tsx'
import { useChange } from '../../use-change.ts'

const refreshMs = 30_000

export type RuleChanges = Partial<AlertRuleFields> & { slack_url?: string | null }

export function useRules() {
  const { id, base } = usePlace()
  return useQuery({
    queryKey: [id, 'alerts', 'rules'],
    queryFn: ({ signal }) => call<AlertRulesAnswer>(`${base}/alerts/rules`, { signal }),
    refetchInterval: refreshMs,
  })
}

const changed = { path: '/alerts/rules', queryKey: ['alerts', 'rules'] }

/** Creates a rule, or changes the one with this id. */
export const useSaveRule = (id: string | null, fields: RuleChanges, onSaved: () => void) =>
  useChange<void, AlertRuleAnswer>(
    changed,
    base => (id === null ? call(base, { body: fields }) : call(`${base}/${id}`, { method: 'PATCH', body: fields })),
    onSaved,
  )
export const useEnableRule = (id: string) =>
  useChange<boolean, AlertRuleAnswer>(changed, (base, enabled) =>
    call(`${base}/${id}`, { method: 'PATCH', body: { enabled } }),
  )
export const useDeleteRule = (id: string, onDeleted: () => void) =>
  useChange<void, { deleted: true }>(changed, base => call(`${base}/${id}`, { method: 'DELETE' }), onDeleted)
export const useTestChannel = (id: string, onSent: (answer: ChannelTestAnswer) => void) =>
  useChange<'email' | 'webhook' | 'slack', ChannelTestAnswer>(
    changed,
    (base, channel) => call(`${base}/${id}/test`, { body: { channel } }),
    onSent,
  )
