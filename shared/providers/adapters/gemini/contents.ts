import { GatewayError } from '../../../base/errors.ts'
import type { ChatMessage } from '../../../kinds/chat.ts'
import type { Call } from '../../contract.ts'
import { argumentsObject, jsonObjectIn } from '../../toolkit/call-arguments.ts'
import { decodeToolCallId } from '../../toolkit/tool-call-id.ts'
import { audio, file, type InlineData, image } from './media.ts'

type Part =
  | { text: string; thoughtSignature?: string }
  | InlineData
  | { functionCall: { id: string; name: string; args: object }; thoughtSignature?: string }
  | { functionResponse: { id: string; name: string; response: object } }
type Content = { role: 'user' | 'model'; parts: Part[] }
type Conversation = { systemInstruction?: { parts: [{ text: string }] }; contents: Content[] }

type Of<Role extends ChatMessage['role']> = Extract<ChatMessage, { role: Role }>

/** Gemini 3 and newer accept it instead of a thought signature that was lost. */
export const lostSignature = 'skip_thought_signature_validator'

/**
 * Converts the messages: system texts separately, tool results as user content, consecutive messages of one role
 * merged. Throws a GatewayError 400 naming the message or part that cannot be expressed.
 */
export function conversation(call: Call<'chat'>): Conversation {
  const system: string[] = []
  const contents: Content[] = []
  const calledNames = new Map<string, string>()
  const signs = call.target.deployment.traits?.thinking === 'level'
  for (const [index, message] of call.body.messages.entries()) {
    const at = `messages.${index}`
    if (message.role === 'system' || message.role === 'developer') system.push(plainText(message.content))
    else if (message.role === 'user') append(contents, 'user', userParts(message, at, call.media))
    else if (message.role === 'assistant') append(contents, 'model', modelParts(message, at, signs, calledNames))
    else if (message.role === 'tool') append(contents, 'user', [toolResult(message, at, calledNames)])
    else throw unsupported('Messages of role "function" are not supported: use tools.', `${at}.role`)
  }
  if (contents.length === 0) {
    throw new GatewayError('invalid_request', 'At least one user message with content is needed.', {
      param: 'messages',
    })
  }
  const text = system.filter(Boolean).join('\n\n')
  return { ...(text && { systemInstruction: { parts: [{ text }] } }), contents }
}

function append(contents: Content[], role: Content['role'], parts: Part[]): void {
  const last = contents.at(-1)
  if (last?.role === role) last.parts.push(...parts)
  else if (parts.length > 0) contents.push({ role, parts })
}

function userParts(message: Of<'user'>, at: string, media: Call<'chat'>['media']): Part[] {
  if (typeof message.content === 'string') return textParts(message.content)
  return message.content.flatMap((part, index): Part[] => {
    const path = `${at}.content.${index}`
    if (part.type === 'text') return textParts(part.text)
    if (part.type === 'image_url') return [image(part, path, media)]
    return [part.type === 'input_audio' ? audio(part, path) : file(part, path)]
  })
}

function modelParts(message: Of<'assistant'>, at: string, signs: boolean, calledNames: Map<string, string>): Part[] {
  if (message.audio) throw unsupported('Earlier audio answers cannot be referred to on this model.', `${at}.audio`)
  const content =
    typeof message.content === 'string' ? [{ type: 'text' as const, text: message.content }] : message.content
  const texts = (content ?? []).flatMap(part => textParts(part.type === 'text' ? part.text : part.refusal))
  const parts: Part[] = signLast(texts, message)
  for (const [index, toolCall] of (message.tool_calls ?? []).entries()) {
    const path = `${at}.tool_calls.${index}`
    if (toolCall.type !== 'function') throw unsupported('Custom tools are not supported by this model.', `${path}.type`)
    const { id, signature } = decodeToolCallId(toolCall.id)
    const { name } = toolCall.function
    calledNames.set(toolCall.id, name)
    // Only the first call of a step carries a signature.
    const thoughtSignature = signature ?? (signs && index === 0 ? lostSignature : undefined)
    const functionCall = { id, name, args: argumentsObject(toolCall.function.arguments) }
    parts.push({ functionCall, ...(thoughtSignature && { thoughtSignature }) })
  }
  return parts
}

/** The texts of an answer, the last one with its thought signature, which was sent with its end. */
function signLast(texts: { text: string }[], { reasoning_details }: Of<'assistant'>): Part[] {
  const signature = reasoning_details?.findLast(({ type, data }) => type === 'reasoning.encrypted' && data)?.data
  return texts.map((part, i) => (signature && i === texts.length - 1 ? { ...part, thoughtSignature: signature } : part))
}

function toolResult(message: Of<'tool'>, at: string, calledNames: Map<string, string>): Part {
  const name = calledNames.get(message.tool_call_id)
  if (name === undefined) {
    const problem = 'No earlier assistant message has a tool call with this id.'
    throw new GatewayError('invalid_request', problem, { param: `${at}.tool_call_id` })
  }
  const text = plainText(message.content)
  const { id } = decodeToolCallId(message.tool_call_id)
  return { functionResponse: { id, name, response: responseOf(text) } }
}

/**
 * The result of a tool as an object. Google resolves references in it ("referenced name … does not match to a
 * display_name", https://github.com/NousResearch/hermes-agent/issues/93014), so a result that has any is sent as text.
 */
function responseOf(text: string): object {
  return text.includes('"$ref"') ? { output: text } : (jsonObjectIn(text) ?? { output: text })
}

/** Gemini rejects parts without text. */
function textParts(text: string): { text: string }[] {
  return text === '' ? [] : [{ text }]
}

function plainText(content: Of<'system' | 'tool'>['content']): string {
  return typeof content === 'string' ? content : content.map(part => part.text).join('\n')
}

function unsupported(message: string, param: string): GatewayError {
  return new GatewayError('unsupported_capability', message, { param })
}
