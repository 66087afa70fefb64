import type { ChatRequest } from '../../../kinds/chat.ts'
import type { MessagesRequest, MessagesTool } from '../../../kinds/messages.ts'
import { invalid } from '../field-refusals.ts'
import { isStrict } from '../is-strict.ts'
import { marked } from '../over-chat/user-parts.ts'
import { unexpectedTag } from './refusals.ts'

type ChatTools = Pick<ChatRequest, 'tools' | 'tool_choice' | 'parallel_tool_calls'>
type ChatTool = NonNullable<ChatRequest['tools']>[number]

/**
 * The client's tools and their choice. Throws a GatewayError 400 for tools of Anthropic's own, in the words upon which
 * clients drop them: ignored in silence, the model would answer a search from memory.
 */
export function chatTools({ tools, tool_choice: choice }: MessagesRequest): ChatTools {
  if (!tools?.length) {
    if (choice && choice.type !== 'auto' && choice.type !== 'none')
      throw invalid('tool_choice', 'may only be specified while providing tools')
    return {}
  }
  return {
    tools: tools.map(chatTool),
    ...(choice && { tool_choice: chatChoice(choice, tools) }),
    ...(choice?.disable_parallel_tool_use && { parallel_tool_calls: false }),
  }
}

function chatTool(
  { type, name, description, input_schema, strict, cache_control }: MessagesTool,
  index: number,
): ChatTool {
  const param = `tools.${index}`
  if (type != null && type !== 'custom') throw unexpectedTag(param, type)
  if (!name) throw invalid(`${param}.name`, 'Field required')
  if (!input_schema) throw invalid(`${param}.input_schema`, 'Field required')
  return {
    type: 'function',
    function: {
      name,
      ...(description != null && { description }),
      parameters: input_schema,
      ...(strict && isStrict(input_schema) && { strict: true }),
    },
    ...marked(cache_control),
  }
}

type Choice = NonNullable<MessagesRequest['tool_choice']>

function chatChoice({ type, name }: Choice, tools: readonly MessagesTool[]): ChatRequest['tool_choice'] {
  switch (type) {
    case 'auto':
    case 'none':
      return type
    case 'any':
      return 'required'
    case 'tool':
      if (!name) throw invalid('tool_choice.name', 'Field required')
      if (!tools.some(tool => tool.name === name))
        throw invalid('tool_choice.name', `Tool '${name}' not found in provided tools`)
      return { type: 'function', function: { name } }
    default:
      throw unexpectedTag('tool_choice', type)
  }
}
