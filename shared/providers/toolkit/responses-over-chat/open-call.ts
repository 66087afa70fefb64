import type { ResponsesOutputItem } from '../../../kinds/responses-answer.ts'
import { isObject } from '../request-fields.ts'
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

/** The input of a custom tool within the arguments of its function; what is no such JSON is handed on as it is. */
export function customInput(json: string): string {
  try {
    const parsed: unknown = JSON.parse(json)
    if (isObject(parsed) && typeof parsed.input === 'string') return parsed.input
  } catch {
    // Handed on below.
  }
  return json
}

export function isJsonObject(text: string): boolean {
  try {
    return isObject(JSON.parse(text))
  } catch {
    return false
  }
}
