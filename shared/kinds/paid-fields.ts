import { z } from 'zod'

/**
 * Fields for features that providers bill in addition to tokens: searches, plugins, hosted tools, stored presets. The
 * catalog has no price for them, and dropping them would change the response, so a request with one is rejected. Values
 * that disable the feature are accepted, for clients that always send every field; no adapter forwards them. The
 * OpenAPI document omits these fields.
 */
export const paidFields = {
  plugins: rejectedField(),
  preset: rejectedField(),
  web_search_options: rejectedField(),
  web_search: rejectedField(),
  enable_search: rejectedField(),
  search: rejectedField(),
  search_parameters: rejectedField(isSearchOff),
  data_sources: rejectedField(),
  container: rejectedField(),
  mcp_servers: rejectedField(),
}

function rejectedField(asksForNothing: (value: object) => boolean = isEmpty) {
  const isHarmless = (value: unknown) =>
    value === null || value === false || value === '' || (typeof value === 'object' && asksForNothing(value))
  return z
    .unknown()
    .refine(isHarmless, 'is billed separately by providers and has no price here: omit it.')
    .optional()
    .meta({ 'x-internal': true })
}

/** xAI's syntax for disabled search. */
function isSearchOff(value: object): boolean {
  return isEmpty(value) || ('mode' in value && value.mode === 'off')
}

/** An empty options object still enables the feature; an empty list selects nothing. */
function isEmpty(value: object): boolean {
  return Array.isArray(value) && value.length === 0
}
