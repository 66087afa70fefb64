import type { ResponsesRequest } from './responses.ts'
import { declaredTools, type ResponsesTool } from './responses-tools.ts'

/** The provider's own tool that searches the web, which is charged per search. */

/** The most searches of the web in one request: each is paid for, and the prompt is read again after each. */
export const maxWebSearches = 20
/** The most without a limit in the request: agents list the tool in every request and hardly use it. */
export const usualWebSearches = 5

/** The types of the tool in Responses. Its older previews have other prices. */
const types: ReadonlySet<string> = new Set(['web_search', 'web_search_2025_08_26'])

/** Whether a tool of a Responses request is the priced search of the web. */
export function isWebSearch({ type }: { type: string }): boolean {
  return types.has(type)
}

type Limited = Pick<ResponsesRequest, 'max_tool_calls' | 'input'> & {
  tools?: readonly ResponsesTool[] | null | undefined
}

/** The most searches that a Responses request may make: `max_tool_calls` within limits; 0 if no list has the tool. */
export function webSearchLimit({ max_tool_calls: max, ...request }: Limited): number {
  return declaredTools(request).some(({ tool }) => isWebSearch(tool))
    ? Math.min(max ?? usualWebSearches, maxWebSearches)
    : 0
}

/** Whether an item of a response is a search that the provider bills. Opening a page and finding text in it is free. */
export function isBilledSearch(item: object): boolean {
  const { type, action } = item as { type?: unknown; action?: { type?: unknown } | null }
  return type === 'web_search_call' && (action?.type ?? 'search') === 'search'
}
