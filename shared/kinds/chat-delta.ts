import { isObject } from '../base/is-object.ts'

/** Visits the texts that a delta adds to a chat answer: content, reasoning, refusal, calls of tools, and what is spoken. */
export function visitDeltaTexts(delta: Record<string, unknown>, visit: (text: string) => void): void {
  const { content, reasoning_content, reasoning, refusal, tool_calls: calls, function_call: fn, audio } = delta
  for (const text of [content, reasoning_content ?? reasoning, refusal]) if (typeof text === 'string') visit(text)
  if (Array.isArray(calls)) for (const call of calls) if (isObject(call)) visitCall(call.function ?? call.custom, visit)
  if (fn) visitCall(fn, visit)
  if (isObject(audio) && typeof audio.transcript === 'string') visit(audio.transcript)
}

/** `called`: a function with `arguments`, or a custom tool with `input`. */
function visitCall(called: unknown, visit: (text: string) => void): void {
  if (!isObject(called)) return
  for (const text of [called.name, called.arguments, called.input]) if (typeof text === 'string') visit(text)
}
