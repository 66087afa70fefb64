import { GatewayError } from '../../../base/errors.ts'
import { hasWebSearchPrice, profileOf, takesNamespaces } from '../../../catalog/traits.ts'
import type { ResponsesRequest } from '../../../kinds/responses.ts'
import { declaredTools, type ResponsesTool } from '../../../kinds/responses-tools.ts'
import { isWebSearch } from '../../../kinds/web-search.ts'
import type { Target } from '../../contract.ts'
import { withFittedParameters } from '../../profile/fit-responses.ts'

type Tools = readonly ResponsesTool[]
/**
 * The tools that a provider receives, the same list if all may be sent, the types of those that may not, and what was changed in
 * the others.
 */
type SentTools = { tools: Tools; dropped: string[]; adjusted: string[] }

/** A function as the target takes it. Without a search, a tool whose definition is to be loaded by it never would be. */
function fitTool(tool: ResponsesTool, target: Target, param: string, adjusted: string[]): ResponsesTool {
  if (tool.type === 'namespace' && tool.tools) {
    const tools = tool.tools.map((inner, index) => fitTool(inner, target, `${param}.tools.${index}`, adjusted))
    return tools.every((inner, index) => inner === tool.tools![index]) ? tool : ({ ...tool, tools } as ResponsesTool)
  }
  const { tool: fitted, adjusted: members } = withFittedParameters(tool, target)
  for (const member of members) adjusted.push(`${param}.${member}`)
  const { defer_loading: isDeferred } = fitted as { defer_loading?: unknown }
  return isDeferred && !profileOf(target).tool_search
    ? ({ ...fitted, defer_loading: undefined } as ResponsesTool)
    : fitted
}

/** Tools that the client runs. The provider runs all others; of these the catalog has a price for web searches only. */
const clientTools: ReadonlySet<string> = new Set(['function', 'custom', 'apply_patch'])

function isSent({ type, tools: inner }: Pick<ResponsesTool, 'type' | 'tools'>, target: Target): boolean {
  return (
    clientTools.has(type) ||
    (isWebSearch({ type }) && hasWebSearchPrice(target.deployment)) ||
    (type === 'tool_search' && profileOf(target).tool_search) ||
    (type === 'namespace' && takesNamespaces(target) && (inner ?? []).every(one => clientTools.has(one.type)))
  )
}

/**
 * Drops the tools that have no price, since clients such as Codex list them in every request. Throws a GatewayError
 * `unsupported_capability` if the request insists on one of them.
 */
export function toolsFor(request: ResponsesRequest, target: Target): Partial<SentTools> & Omit<SentTools, 'tools'> {
  const { tools, tool_choice: choice } = request
  if (typeof choice === 'object' && choice !== null) {
    const named = choice.type === 'allowed_tools' ? (choice.tools ?? []) : [choice]
    const missing = named.find(one => !isSent(one, target))
    if (missing) throw refused(`tools of the type \`${missing.type.slice(0, 100)}\` are not offered here`)
  }
  if (choice === 'required') {
    const declared = declaredTools(request)
    if (declared.length > 0 && !declared.some(({ tool }) => isSent(tool, target)))
      throw refused('none of the `tools` is offered here')
  }
  return tools ? sentTools(tools, target) : { dropped: [], adjusted: [] }
}

/** Those tools of a list that have a price, as the target takes them. */
export function sentTools(tools: Tools, target: Target): SentTools {
  const adjusted: string[] = []
  const kept = tools.flatMap((tool, index) =>
    isSent(tool, target) ? fitTool(tool, target, `tools.${index}`, adjusted) : [],
  )
  const dropped = tools.filter(tool => !isSent(tool, target)).map(({ type }) => `tools.${type.slice(0, 100)}`)
  const isSame = kept.length === tools.length && kept.every((tool, index) => tool === tools[index])
  return { tools: isSame ? tools : kept, dropped, adjusted }
}

function refused(why: string): GatewayError {
  return new GatewayError('unsupported_capability', `\`tool_choice\`: ${why}.`, { param: 'tool_choice' })
}
