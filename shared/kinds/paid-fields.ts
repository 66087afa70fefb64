import { z } from 'zod'

/**
 * Fields with which providers sell something beside tokens: searches, plugins, hosted tools, stored presets. The catalog has no
 * price for them, and without them the answer would not be the one that was asked for, so a request that has one is refused. A
 * value that asks for nothing is let through, for clients that name every field; no adapter sends it. The OpenAPI document
 * leaves these fields out.
 */
export const paidFields = {
  plugins: refused(),
  preset: refused(),
  web_search_options: refused(),
  web_search: refused(),
  enable_search: refused(),
  search: refused(),
  search_parameters: refused(asksForNoSearch),
  data_sources: refused(),
  container: refused(),
  mcp_servers: refused(),
}

function refused(asksForNothing: (value: object) => boolean = isEmpty) {
  const isHarmless = (value: unknown) =>
    value === null || value === false || value === '' || (typeof value === 'object' && asksForNothing(value))
  return z
    .unknown()
    .refine(isHarmless, 'is paid for apart at the providers and has no price here: leave it out.')
    .optional()
    .meta({ 'x-internal': true })
}

/** xAI's way to say that it shall not search. */
function asksForNoSearch(value: object): boolean {
  return isEmpty(value) || ('mode' in value && value.mode === 'off')
}

/** An empty object of options still turns the thing on; an empty list names nothing. */
function isEmpty(value: object): boolean {
  return Array.isArray(value) && value.length === 0
}
