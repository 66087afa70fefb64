import type { ResponsesRequest } from '../../../kinds/responses.ts'
import { type DeclaredTool, declaredTools, isClientSearch, type ResponsesTool } from '../../../kinds/responses-tools.ts'
import { digestedName, type NameForm } from '../digested-name.ts'
import { invalid } from './refusals.ts'

/** A tool as Responses name it; tools of two namespaces may have one name. */
export type ToolIdentity = { type: 'function' | 'custom' | 'tool_search'; name: string; namespace?: string }
/** A tool of the client, its identity, and its path in the request. `isInItem`: an item has loaded or declared it. */
export type ClientTool = { tool: ResponsesTool; identity: ToolIdentity; param: string; isInItem: boolean }

/** What a search that the client runs is called in chat, where it is a function. */
export const searchName = 'tool_search'

/** Names of tools in the chat format have any characters, but not too many. */
const nameForm: NameForm = { pattern: /^.{0,64}$/s, other: /(?!)/, maxCharacters: 64, prefix: '' }
const maxTypeCharacters = 100

/** The name of a tool in chat, which has no namespaces: `namespace__name`, shortened if it is too long. */
export function chatName({ name, namespace }: Pick<ToolIdentity, 'name' | 'namespace'>): string {
  return digestedName(namespace ? `${namespace}__${name}` : name, nameForm)
}

/**
 * The functions and custom tools of a request by their names in chat, with those of its namespaces, and a search for
 * tools that the client runs. Tools that a provider would run are left out. Throws a GatewayError 400 for a tool without a name, and for two in `tools` with one
 * name; an item may declare a tool anew.
 */
export function clientTools(request: Partial<Pick<ResponsesRequest, 'tools' | 'input'>>): Map<string, ClientTool> {
  const named = new Map<string, ClientTool>()
  for (const declared of declaredTools(request)) {
    const { tool, param } = declared
    if (tool.type !== 'namespace') {
      add(named, declared)
      continue
    }
    if (!tool.name) throw invalid(`${param}.name`, 'A namespace needs a name.')
    for (const [position, inner] of (tool.tools ?? []).entries())
      add(named, { ...declared, tool: inner as ResponsesTool, param: `${param}.tools.${position}` }, tool.name)
  }
  return named
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

function add(named: Map<string, ClientTool>, { tool, param, isInItem }: DeclaredTool, namespace?: string): void {
  const type = tool.type as ToolIdentity['type']
  if (type !== 'function' && type !== 'custom' && !isClientSearch(tool)) return
  const name = isClientSearch(tool) ? searchName : tool.name
  if (!name) throw invalid(`${param}.name`, 'The tool needs a name.')
  const identity: ToolIdentity = { type, name, ...(namespace && { namespace }) }
  const known = chatName(identity)
  if (named.has(known) && !isInItem) throw invalid(`${param}.name`, `There are two tools with the name ${known}.`)
  named.set(known, { tool, identity, param, isInItem })
}
