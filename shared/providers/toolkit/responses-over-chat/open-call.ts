import { isObject } from '../../../base/is-object.ts'
import type { ResponsesOutputItem } from '../../../kinds/responses-answer.ts'
import type { ToolIdentity } from './tool-names.ts'

/** A tool call of the answer. `index` is null until its name has arrived. */
export type OpenCall = { callId: string; identity: ToolIdentity; json: string; pending: string; index: number | null }

/** The item of a call that has begun. */
export function callItem({ callId, identity }: OpenCall, id: string): ResponsesOutputItem {
  const { type, name, namespace } = identity
  const named = { id, call_id: callId, name, ...(namespace && { namespace }), status: 'in_progress' as const }
  return type === 'custom'
    ? { type: 'custom_tool_call', ...named, input: '' }
    : { type: 'function_call', ...named, arguments: '' }
}

export function isJsonObject(text: string): boolean {
  try {
    return isObject(JSON.parse(text))
  } catch {
    return false
  }
}
