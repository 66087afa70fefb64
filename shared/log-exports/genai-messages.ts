import { asText } from '../base/as-text.ts'
import { isObject } from '../base/is-object.ts'

/**
 * Logged inputs and outputs of every dialect as messages of OpenTelemetry's conventions for generative AI
 * (https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-events/, with the JSON schemas beside it).
 */
type Part = { type: string; [member: string]: unknown }
type Message = { role: string; parts: Part[]; finish_reason?: string }
type Json = Record<string, unknown>

/** The messages of an input, and the instructions that are no message. */
export function inputMessages(input: unknown): { messages: Message[]; instructions: Part[] } {
  if (!isObject(input)) return { messages: input === null ? [] : [text('user', input)], instructions: [] }
  const instructions = partsOf(input.system ?? input.instructions ?? contentOf(input.systemInstruction))
  const turns = input.messages ?? input.contents ?? input.input ?? input.prompt
  if (turns === undefined) return { messages: [text('user', input)], instructions }
  return { messages: messagesOf(turns, 'user'), instructions }
}

/** The messages of an output, one per choice. */
export function outputMessages(output: unknown): Message[] {
  if (!isObject(output)) return output === null ? [] : [text('assistant', output)]
  const choices = output.choices ?? output.candidates
  if (Array.isArray(choices)) return choices.filter(isObject).flatMap(choiceOf)
  if (Array.isArray(output.output)) return withReason(joined(messagesOf(output.output, 'assistant')), output.status)
  if (Array.isArray(output.content)) return withReason(messagesOf([output], 'assistant'), output.stop_reason)
  return [text('assistant', output)]
}

function choiceOf(choice: Json): Message[] {
  const message = choice.message ?? choice.content ?? { content: choice.text }
  return withReason(messagesOf([message], 'assistant'), choice.finish_reason ?? choice.finishReason)
}

const reasons: Record<string, string> = {
  tool_calls: 'tool_call',
  tool_use: 'tool_call',
  function_call: 'tool_call',
  end_turn: 'stop',
  stop_sequence: 'stop',
  completed: 'stop',
  max_tokens: 'length',
  incomplete: 'length',
  safety: 'content_filter',
  refusal: 'content_filter',
  failed: 'error',
}

function withReason(messages: Message[], reason: unknown): Message[] {
  const named = typeof reason === 'string' ? reason.toLowerCase() : 'stop'
  return messages.map(message => ({ ...message, finish_reason: reasons[named] ?? named }))
}

/** The items of a response are one message. */
function joined(messages: Message[]): Message[] {
  return messages.length === 0 ? [] : [{ role: 'assistant', parts: messages.flatMap(({ parts }) => parts) }]
}

function messagesOf(turns: unknown, role: string): Message[] {
  if (!Array.isArray(turns)) return [text(role, turns)]
  return turns.map(turn => (isObject(turn) ? messageOf(turn, role) : text(role, turn)))
}

function messageOf(turn: Json, fallback: string): Message {
  const role = typeof turn.role === 'string' ? turn.role.replace(/^model$/, 'assistant') : fallback
  if (turn.role === undefined && typeof turn.type === 'string' && turn.type !== 'message')
    return { role: turn.type.endsWith('_output') ? 'tool' : role, parts: [partOf(turn)] }
  const parts = partsOf(contentOf(turn))
  if (role === 'tool')
    return {
      role,
      parts: [{ type: 'tool_call_response', id: turn.tool_call_id ?? null, response: turn.content ?? null }],
    }
  const reasoning = turn.reasoning_content ?? turn.reasoning
  if (typeof reasoning === 'string' && reasoning !== '') parts.unshift({ type: 'reasoning', content: reasoning })
  if (Array.isArray(turn.tool_calls)) parts.push(...turn.tool_calls.filter(isObject).map(toolCallOf))
  return { role, parts }
}

function contentOf(turn: unknown): unknown {
  return isObject(turn) ? (turn.content ?? turn.parts) : turn
}

function toolCallOf(call: Json): Part {
  const called = [call.function, call.custom].find(isObject) ?? call
  const id = call.id ?? call.call_id ?? null
  return {
    type: 'tool_call',
    id,
    name: called.name ?? null,
    arguments: parsed(called.arguments ?? called.input ?? called.args),
  }
}

function partsOf(content: unknown): Part[] {
  if (content === undefined || content === null) return []
  if (!Array.isArray(content)) return [isObject(content) ? partOf(content) : textPart(content)]
  return content.map(part => (isObject(part) ? partOf(part) : textPart(part)))
}

function partOf(part: Json): Part {
  const type = typeof part.type === 'string' ? part.type : ''
  if (part.thought === true || type === 'thinking' || type === 'reasoning')
    return { type: 'reasoning', content: reasoningText(part) }
  if (typeof part.text === 'string') return textPart(part.text)
  if (type === 'refusal') return textPart(part.refusal)
  if (type === 'tool_use' || type === 'function_call' || type === 'custom_tool_call') return toolCallOf(part)
  if (isObject(part.functionCall)) return toolCallOf(part.functionCall)
  if (type === 'tool_result' || type === 'function_call_output' || type === 'custom_tool_call_output')
    return {
      type: 'tool_call_response',
      id: part.tool_use_id ?? part.call_id ?? null,
      response: part.content ?? part.output ?? null,
    }
  if (isObject(part.functionResponse))
    return {
      type: 'tool_call_response',
      id: part.functionResponse.id ?? null,
      response: part.functionResponse.response ?? null,
    }
  // Files were removed when the content was logged; what is left says what kind of file it was.
  return { ...part, type: type || 'other' }
}

function reasoningText(part: Json): string {
  if (Array.isArray(part.summary))
    return part.summary.map(one => (isObject(one) ? asText(one.text ?? '') : '')).join('\n')
  return asText(part.thinking ?? part.text ?? '')
}

function parsed(value: unknown): unknown {
  if (typeof value !== 'string') return value ?? null
  try {
    return JSON.parse(value)
  } catch {
    return value
  }
}

function textPart(value: unknown): Part {
  return { type: 'text', content: typeof value === 'string' ? value : JSON.stringify(value ?? '') }
}

function text(role: string, value: unknown): Message {
  return { role, parts: [textPart(value)] }
}
