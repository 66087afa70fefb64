import type { ChatMessage, ChatRequest } from '../../../kinds/chat.ts'
import { nestedTool } from '../../../kinds/flat-tools.ts'
import type { ResponsesRequest } from '../../../kinds/responses.ts'
import type { Target } from '../../contract.ts'
import { customInput } from '../custom-tools.ts'
import { unsupported } from './refusals.ts'
import { toChatRequest } from './request.ts'
import { type ClientTool, clientTools, hostedTools } from './tool-names.ts'

/** Members that are said in another way in chat; all others are handed on as they are. */
const translated = [
  'input',
  'instructions',
  'max_output_tokens',
  'reasoning',
  'text',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
] as const
/** Members by which an answer depends on what is stored, or is stored itself. */
const stateful = ['previous_response_id', 'conversation', 'background'] as const

/** A model that takes everything: what the chosen one does not take is changed or refused as in any chat request. */
const anyTarget = {
  model: { id: 'auto', input_modalities: ['text', 'image', 'audio', 'file'] },
  deployment: { traits: { reasoning: true }, profile: { system_turns: true } },
  provider: {},
} as unknown as Target

/**
 * The chat request of a valid Responses request that came to the chat route: before it is known which model answers. Custom
 * tools stay custom tools. Throws a GatewayError 400 naming the field that cannot be translated.
 */
export function chatBodyOf(body: ResponsesRequest): ChatRequest {
  for (const name of stateful) if (body[name]) throw unsupported(name, `\`${name}\` needs POST /v1/responses.`)
  const hosted = body.tools?.findIndex(tool => hostedTools([tool]).length > 0) ?? -1
  if (hosted >= 0) throw unsupported(`tools.${hosted}.type`, 'Tools that a provider runs need POST /v1/responses.')
  const others = Object.fromEntries(Object.entries(body).filter(([name]) => !isTranslated(name)))
  const chat = toChatRequest(body, anyTarget)
  const declared = clientTools(body)
  const isCustom = (name: string) => declared.get(name)?.identity.type === 'custom'
  return {
    ...others,
    ...chat,
    messages: chat.messages.map(message => withCustomCalls(message, isCustom)),
    ...(chat.tools && { tools: chat.tools.map(tool => asDeclared(tool, declared)) }),
    ...(chat.tool_choice && { tool_choice: choiceOf(chat.tool_choice, isCustom) }),
  }
}

function isTranslated(name: string): boolean {
  return (translated as readonly string[]).includes(name)
}

type ChatTool = NonNullable<ChatRequest['tools']>[number]

function asDeclared(tool: ChatTool, declared: ReadonlyMap<string, ClientTool>): ChatTool {
  const name = tool.type === 'custom' ? tool.custom.name : tool.function.name
  const { tool: given, identity } = declared.get(name)!
  return identity.type === 'custom' ? (nestedTool({ ...given, name }) as ChatTool) : tool
}

function withCustomCalls(message: ChatMessage, isCustom: (name: string) => boolean): ChatMessage {
  if (message.role !== 'assistant' || !message.tool_calls) return message
  const tool_calls = message.tool_calls.map(call => {
    if (call.type === 'custom' || !isCustom(call.function.name)) return call
    const { name, arguments: json } = call.function
    return { id: call.id, type: 'custom' as const, custom: { name, input: customInput(json) } }
  })
  return { ...message, tool_calls }
}

function choiceOf(choice: NonNullable<ChatRequest['tool_choice']>, isCustom: (name: string) => boolean) {
  if (typeof choice === 'string' || choice.type !== 'function' || !isCustom(choice.function.name)) return choice
  return { type: 'custom' as const, custom: { name: choice.function.name } }
}
