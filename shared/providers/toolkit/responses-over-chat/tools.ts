import type { ChatRequest } from '../../../kinds/chat.ts'
import type { ResponsesRequest } from '../../../kinds/responses.ts'
import type { ResponsesTool } from '../../../kinds/responses-tools.ts'
import { functionOfCustom } from '../custom-tools.ts'
import { invalid, unsupported } from './refusals.ts'
import { type ClientTool, chatName, clientTools, searchName } from './tool-names.ts'

type ChatTools = Pick<ChatRequest, 'tools' | 'tool_choice' | 'parallel_tool_calls'>
type ChatTool = NonNullable<ChatRequest['tools']>[number]
type Choice = Exclude<ResponsesRequest['tool_choice'], string | null | undefined>
type Named = ReadonlyMap<string, ClientTool>

/**
 * The client's tools and their choice. Tools that a provider would run are left out, as agents list them by default;
 * throws a GatewayError 400 where `tool_choice` requires one of them, or a tool that is not listed.
 */
export function chatTools(request: ResponsesRequest): ChatTools {
  const { tool_choice: choice, parallel_tool_calls } = request
  const named = clientTools(request)
  const { offered, tool_choice } = chosen(choice, withoutUnloaded(named))
  if (offered.size === 0) {
    if (tool_choice === 'required')
      throw invalid('tool_choice', 'A tool is required, but `tools` has no function or custom tool.')
    return {}
  }
  return {
    tools: [...offered].map(([name, { tool }]) => chatTool(name, tool)),
    ...(tool_choice && { tool_choice }),
    ...(parallel_tool_calls === false && { parallel_tool_calls }),
  }
}

/** The tools without those that a search of the client is to load first; without such a search, all are loaded. */
function withoutUnloaded(named: Named): Named {
  if (named.get(searchName)?.identity.type !== 'tool_search') return named
  return new Map([...named].filter(([, { tool, isInItem }]) => isInItem || tool.defer_loading !== true))
}

type Chosen = { offered: Named; tool_choice: ChatRequest['tool_choice'] }

function chosen(choice: ResponsesRequest['tool_choice'], named: Named): Chosen {
  if (choice == null || typeof choice === 'string') return { offered: named, tool_choice: choice ?? undefined }
  switch (choice.type) {
    case 'function':
    case 'custom':
    case 'tool_search':
      return {
        offered: named,
        tool_choice: { type: 'function', function: { name: find(choice, named, 'tool_choice') } },
      }
    case 'allowed_tools':
      return allowed(choice, named)
    default:
      throw unsupported('tool_choice', `This model has no tool of the type ${choice.type.slice(0, 100)}.`)
  }
}

/** The types of tools that may be named. */
const choosable: ReadonlySet<string> = new Set(['function', 'custom', 'tool_search'])

/** A hard limit: the model does not see the other tools. */
function allowed({ mode, tools }: Choice, named: Named): Chosen {
  if (mode !== 'auto' && mode !== 'required') throw invalid('tool_choice.mode', 'The mode must be auto or required.')
  const names = (tools ?? []).flatMap((tool, index) =>
    choosable.has(tool.type) ? find(tool, named, `tool_choice.tools.${index}`) : [],
  )
  return { offered: new Map(names.map(name => [name, named.get(name)!])), tool_choice: mode }
}

/** The name in chat of a tool that `tool_choice` names. */
function find(wanted: { type: string; name?: string; namespace?: unknown }, named: Named, param: string): string {
  const { type, namespace } = wanted
  const name = type === 'tool_search' ? searchName : (wanted.name ?? '')
  const known = chatName({ name, ...(typeof namespace === 'string' && { namespace }) })
  if (named.get(known)?.identity.type !== type)
    throw invalid(`${param}.name`, `Tool choice '${known}' not found in 'tools' parameter.`)
  return known
}

function chatTool(name: string, tool: ResponsesTool): ChatTool {
  if (tool.type === 'custom') return functionOfCustom(name, tool.description, tool.format)
  const { description, parameters, strict } = tool
  return {
    type: 'function',
    function: {
      name,
      ...(description != null && { description }),
      parameters: parameters ?? { type: 'object', properties: {} },
      ...(strict != null && { strict }),
    },
  }
}
