import { GatewayError } from '../../../base/errors.ts'
import { profileOf } from '../../../catalog/chat-profile.ts'
import { sellsWebSearches, takesNamespaces } from '../../../catalog/traits.ts'
import type { ResponsesRequest, ResponsesTool } from '../../../kinds/responses.ts'
import { isWebSearch } from '../../../kinds/web-search.ts'
import type { Target } from '../../contract.ts'
import { withFittedParameters } from '../../profile/fit-responses.ts'

/** The tools that a provider receives, the same list if all may be sent, and the types of those that may not. */
export type SentTools = { tools: readonly ResponsesTool[] | null | undefined; dropped: string[] }

/** A function as the target takes it. Without a search, a tool whose definition is to be loaded by it never would be. */
function fitTool(tool: ResponsesTool, target: Target): ResponsesTool {
  if (tool.type === 'namespace' && tool.tools) {
    const tools = tool.tools.map(inner => fitTool(inner, target))
    return tools.every((inner, index) => inner === tool.tools![index]) ? tool : ({ ...tool, tools } as ResponsesTool)
  }
  const fitted = withFittedParameters(tool, target)
  const { defer_loading: isDeferred } = fitted as { defer_loading?: unknown }
  return isDeferred && !profileOf(target).tool_search
    ? ({ ...fitted, defer_loading: undefined } as ResponsesTool)
    : fitted
}

/** Tools that the client runs. The provider runs all others; of these the catalog has a price for web searches only. */
const clientTools: ReadonlySet<string> = new Set(['function', 'custom', 'apply_patch'])

/**
 * Drops the tools that have no price, since clients such as Codex list them in every request. Throws a GatewayError
 * `unsupported_capability` if the request insists on one of them.
 */
export function toolsFor({ tools, tool_choice: choice }: ResponsesRequest, target: Target): SentTools {
  const isSent = ({ type, tools: inner }: Pick<ResponsesTool, 'type' | 'tools'>) =>
    clientTools.has(type) ||
    (isWebSearch({ type }) && sellsWebSearches(target.deployment)) ||
    (type === 'tool_search' && profileOf(target).tool_search) ||
    (type === 'namespace' && takesNamespaces(target) && (inner ?? []).every(one => clientTools.has(one.type)))
  if (typeof choice === 'object' && choice !== null) {
    const named = choice.type === 'allowed_tools' ? (choice.tools ?? []) : [choice]
    const missing = named.find(one => !isSent(one))
    if (missing) throw refused(`tools of the type \`${missing.type.slice(0, 100)}\` are not offered here`)
  }
  if (!tools) return { tools, dropped: [] }
  const kept = tools.filter(isSent).map(tool => fitTool(tool, target))
  if (tools.length > 0 && choice === 'required' && kept.length === 0)
    throw refused('none of the `tools` is offered here')
  const dropped = tools.filter(tool => !isSent(tool)).map(({ type }) => `tools.${type.slice(0, 100)}`)
  const isSame = kept.length === tools.length && kept.every((tool, index) => tool === tools[index])
  return { tools: isSame ? tools : kept, dropped }
}

function refused(why: string): GatewayError {
  return new GatewayError('unsupported_capability', `\`tool_choice\`: ${why}.`, { param: 'tool_choice' })
}
