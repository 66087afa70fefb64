import type { ResponsesRequest } from '../../../kinds/responses.ts'
import { type DeclaredTool, declaredTools, isClientSearch, type ResponsesTool } from '../../../kinds/responses-tools.ts'
import { digestedName, type NameForm } from '../digested-name.ts'
import { invalid } from './refusals.ts'

/** A tool as Responses name it; tools of two namespaces may have one name. */
export type ToolIdentity = { type: 'function' | 'custom' | 'tool_search'; name: string; namespace?: string }
/**
 * A tool of the client, what declared it (its namespace, or it itself), its identity, and its path in the request. `isInItem`: an
 * item has loaded or declared it.
 */
export type ClientTool = {
  tool: ResponsesTool
  declaration: ResponsesTool
  identity: ToolIdentity
  param: string
  isInItem: boolean
}

/** What a search that the client runs is called in chat, where it is a function. */
export const searchName = 'tool_search'

/** Names of tools in the chat format have any characters, but not too many. */
const nameForm: NameForm = { pattern: /^.{0,64}$/s, other: /(?!)/, maxCharacters: 64, prefix: '' }
const maxTypeCharacters = 100

/**
 * The name of a tool in chat, which has no namespaces: `namespace__name`, shortened if it is too long. A namespace of the tool's
 * own name is that of a function which a search has loaded by itself.
 */
export function chatName({ name, namespace }: Pick<ToolIdentity, 'name' | 'namespace'>): string {
  return digestedName(namespace && namespace !== name ? `${namespace}__${name}` : name, nameForm)
}

/**
 * The functions and custom tools of a request by their names in chat, with those of its namespaces, and a search for
 * tools that the client runs. Tools that a provider would run are left out. Throws a GatewayError 400 for a tool without a name, and for two in `tools` with one
 * name; an item may declare a tool anew.
 */
export function clientTools(request: Partial<Pick<ResponsesRequest, 'tools' | 'input'>>): Map<string, ClientTool> {
  const named = new Map<string, ClientTool>()
  const isSearched = hasHostedSearch(request)
  for (const declared of declaredTools(request)) {
    const { tool, param } = declared
    if (tool.type !== 'namespace') {
      add(named, { ...declared, declaration: tool }, isSearched && tool.defer_loading === true ? tool.name : undefined)
      continue
    }
    if (!tool.name) throw invalid(`${param}.name`, 'A namespace needs a name.')
    for (const [position, inner] of (tool.tools ?? []).entries()) {
      const one = { tool: inner as ResponsesTool, declaration: tool, param: `${param}.tools.${position}` }
      add(named, { ...declared, ...one }, tool.name)
    }
  }
  return named
}

/** Whether a provider would search for tools, and load them. */
function hasHostedSearch({ tools }: Partial<Pick<ResponsesRequest, 'tools'>>): boolean {
  return (tools ?? []).some(tool => tool.type === 'tool_search' && !isClientSearch(tool))
}

/**
 * What declares the tools that a provider's search would load, by the identities of these tools. The models translated to see
 * all tools at once, but clients refuse the call of a tool that no search has loaded (@openai/agents-core 0.20,
 * runner/modelOutputs), so the answer records one before it.
 */
export function searchedTools(
  request: Partial<Pick<ResponsesRequest, 'tools'>>,
  named: ReadonlyMap<string, ClientTool>,
): Map<ToolIdentity, ResponsesTool> {
  if (!hasHostedSearch(request)) return new Map()
  const unloaded = [...named.values()].filter(({ tool, isInItem }) => !isInItem && tool.defer_loading === true)
  return new Map(unloaded.map(({ identity, declaration }) => [identity, declaration]))
}

/** The tools that the provider would run, as fields that are left out: `tools.web_search`. */
export function hostedTools(tools: readonly ResponsesTool[]): string[] {
  return tools.flatMap(tool => {
    const { type, tools: inner } = tool
    if (type === 'namespace') return hostedTools((inner ?? []) as ResponsesTool[])
    const isOwn = type === 'function' || type === 'custom' || isClientSearch(tool)
    return isOwn ? [] : `tools.${type.slice(0, maxTypeCharacters)}`
  })
}

type Declared = DeclaredTool & Pick<ClientTool, 'declaration'>

function add(named: Map<string, ClientTool>, declared: Declared, namespace?: string | null): void {
  const { tool, param, isInItem } = declared
  const type = tool.type as ToolIdentity['type']
  if (type !== 'function' && type !== 'custom' && !isClientSearch(tool)) return
  const name = isClientSearch(tool) ? searchName : tool.name
  if (!name) throw invalid(`${param}.name`, 'The tool needs a name.')
  const identity: ToolIdentity = { type, name, ...(namespace && { namespace }) }
  const known = chatName(identity)
  const earlier = named.get(known)
  if (earlier && !isInItem) throw invalid(`${param}.name`, `There are two tools with the name ${known}.`)
  named.set(known, { ...declared, identity: earlier?.identity.type === type ? earlier.identity : identity })
}
