import type { ResponsesOutputItem } from '../../../kinds/responses-answer.ts'
import type { ToolIdentity } from './tool-names.ts'

/** A tool call of the answer. `index` is null until its name has arrived. */
export type OpenCall = { callId: string; identity: ToolIdentity; json: string; pending: string; index: number | null }

/** The item of a call that has begun. */
export function callItem({ callId, identity }: OpenCall, id: string): ResponsesOutputItem {
  const { type, name, namespace } = identity
  const named = { id, call_id: callId, name, ...(namespace && { namespace }), status: 'in_progress' as const }
  if (type === 'tool_search')
    return { type: 'tool_search_call', id, call_id: callId, execution: 'client', arguments: {}, status: 'in_progress' }
  return type === 'custom'
    ? { type: 'custom_tool_call', ...named, input: '' }
    : { type: 'function_call', ...named, arguments: '' }
}

/** The prefix of the id of a call's item. */
export const idPrefixes: Readonly<Record<ToolIdentity['type'], string>> = {
  function: 'fc',
  custom: 'ctc',
  tool_search: 'tsc',
}
