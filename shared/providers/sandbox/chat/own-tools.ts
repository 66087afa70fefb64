import type { GenerateContentRequest } from '../../../kinds/generate-content.ts'
import type { MessagesRequest, MessagesTool } from '../../../kinds/messages.ts'
import { messagesMembers } from '../../../kinds/request-members.ts'

/**
 * Requests of native dialects as the sandbox answers them. A dry run of the provider's own adapter has already refused what the
 * provider refuses, so the sandbox accepts all other tools.
 */

const text = { type: 'string' }
const calling = (command: string) => ({ type: 'string', enum: [command] })
const input = (properties: object) => ({ type: 'object', properties, required: Object.keys(properties) })
/**
 * A harmless input of each tool that the client runs, whose schema is the model's own (platform.claude.com/docs/en/agents-and-tools/tool-use:
 * bash-tool, text-editor-tool, memory-tool, computer-use-tool).
 */
const clientInputs: readonly [type: RegExp, schema: object][] = [
  [/^bash_\d{8}$/, input({ command: text })],
  [/^text_editor_\d{8}$/, input({ command: calling('view'), path: text })],
  [/^memory_\d{8}$/, input({ command: calling('view'), path: calling('/memories') })],
  [/^computer_\d{8}$/, input({ action: calling('screenshot') })],
]

/** A Messages request whose own tools of the client are functions, without the tools and servers that a provider runs. */
export function withFunctionsOnly({ tools, tool_choice, ...body }: MessagesRequest): MessagesRequest {
  const functions = tools?.flatMap(functionOf) ?? []
  const isOffered = tool_choice?.name === undefined || functions.some(({ name }) => name === tool_choice.name)
  const plain = Object.entries(body).filter(([name]) => !messagesMembers.get(name)?.matters)
  return {
    ...(Object.fromEntries(plain) as typeof body),
    ...(functions.length > 0 && { tools: functions }),
    ...(tool_choice && (functions.length > 0 ? isOffered : !tools?.length) && { tool_choice }),
  }
}

function functionOf(tool: MessagesTool): MessagesTool[] {
  const { type, ...rest } = tool
  if (type == null || type === 'custom') return [tool]
  const known = clientInputs.find(([pattern]) => pattern.test(type))
  return known ? [{ ...rest, input_schema: known[1] as NonNullable<MessagesTool['input_schema']> }] : []
}

/** A request of `generateContent` without the tools that a provider runs. */
export function withDeclarationsOnly({ tools, ...body }: GenerateContentRequest): GenerateContentRequest {
  const declared = tools?.filter(({ functionDeclarations }) => functionDeclarations) ?? []
  const plain = declared.map(({ functionDeclarations }) => ({ functionDeclarations }))
  return { ...body, ...(plain.length > 0 && { tools: plain }) }
}
