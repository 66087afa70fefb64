import { ForwardingWriter } from '../engine/forwarding-writer.ts'
import type { Encoding } from '../engine/response-writer.ts'
import { parseEvent, splitEvents } from '../io/sse.ts'

// biome-ignore lint/suspicious/noExplicitAny: answers and chunks of chat
type Any = any

const customCall = '"custom"'

/**
 * Tells calls of custom tools as calls of functions whose arguments are the input itself: Cursor, which declares its `ApplyPatch` as
 * a custom tool, reads the `function` of every call, and a patch in its arguments (icebear0828/codex-proxy#707, #708).
 */
export class FunctionCallsWriter extends ForwardingWriter {
  get copy() {
    return this.client.copy ?? null
  }

  override answer(headers: Record<string, string>, body: string): void {
    super.answer(headers, body.includes(customCall) ? JSON.stringify(withFunctions(JSON.parse(body))) : body)
  }

  /** `text`: whole events. */
  override write(text: string, encoding: Encoding): boolean {
    if (!text.includes(customCall)) return super.write(text, encoding)
    return super.write(splitEvents(text).map(functionEvent).join(''), encoding)
  }
}

function functionEvent(text: string): string {
  const data = text.includes(customCall) ? parseEvent(text)?.data : undefined
  return data?.startsWith('{') ? `data: ${JSON.stringify(withFunctions(JSON.parse(data)))}\n\n` : text
}

function withFunctions(answer: Any): Any {
  if (!Array.isArray(answer.choices)) return answer
  for (const choice of answer.choices) {
    const { tool_calls: calls } = choice.message ?? choice.delta ?? {}
    for (const call of Array.isArray(calls) ? calls : []) tellAsFunction(call)
  }
  return answer
}

function tellAsFunction(call: Any): void {
  if (!call.custom) return
  const { name, input } = call.custom
  delete call.custom
  if (call.type !== undefined) call.type = 'function'
  call.function = { ...(name !== undefined && { name }), arguments: input ?? '' }
}
