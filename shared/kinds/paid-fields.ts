import { z } from 'zod'
import { asksForNothing, refusedField } from './refused-field.ts'

/**
 * Fields for features that providers bill in addition to tokens: searches, hosted tools. The
 * catalog has no price for them, and dropping them would change the response, so a request with one is rejected. Values
 * that disable the feature are accepted, for clients that always send every field; no adapter forwards them. The
 * OpenAPI document omits these fields.
 */
export const paidFields = {
  web_search_options: rejectedField(),
  web_search: rejectedField(),
  enable_search: rejectedField(),
  search: rejectedField(),
  search_parameters: rejectedField(isSearchOff),
  data_sources: rejectedField(),
  container: rejectedField(),
  mcp_servers: rejectedField(),
}

/** Whether a field asks for such a feature: on routes that take no such field, it is left out and named. */
export function asksForPaidFeature(name: string, value: unknown): boolean {
  const field = Object.hasOwn(paidFields, name) ? paidFields[name as keyof typeof paidFields] : undefined
  return field !== undefined && !field.safeParse(value).success
}

/** In chat completions: of models that search by themselves (trait `web_searches`); `false` and `''` ask for nothing. */
export const webSearchOptions = z
  .union([
    z.strictObject({
      search_context_size: z
        .enum(['low', 'medium', 'high'])
        .optional()
        .describe('How much of the pages found the model reads.'),
      user_location: z
        .looseObject({ approximate: z.looseObject({}).optional() })
        .optional()
        .describe('Where the user is: `country`, `region`, `city`, here or in `approximate`.'),
    }),
    z.literal([false, '']),
  ])
  .nullish()
  .describe('How the model searches the web, if it does so by itself.')

/**
 * OpenRouter's extensions of an answer and its stored settings (@openrouter/sdk, models/chatrequest.ts). Of these, only the plugin
 * `response-healing` has an effect here. The others are not sent, and named in `x-gateway-dropped`, as a client of OpenRouter
 * sends them by habit.
 */
export const openRouterFields = {
  plugins: z
    .array(z.looseObject({ id: z.string() }))
    .max(100)
    .optional()
    .meta({ 'x-internal': true }),
  preset: z.string().max(200).optional().meta({ 'x-internal': true }),
  session_id: z
    .string()
    .max(1_000)
    .optional()
    .describe('OpenRouter’s name of the conversation, like `prompt_cache_key`.'),
}

function rejectedField(isOff: (value: object) => boolean = () => false) {
  const isHarmless = (value: unknown) =>
    asksForNothing(value) || (typeof value === 'object' && value !== null && isOff(value))
  return refusedField('is billed separately by providers and has no price here: omit it.', isHarmless)
}

/** xAI's syntax for disabled search. */
function isSearchOff(value: object): boolean {
  return 'mode' in value && value.mode === 'off'
}
