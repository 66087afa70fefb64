import type { ErrorCode } from '../../../../../shared/base/errors.ts'

type Advice = { text: string; page?: string }

/** Where the gateway does not choose among all models anyway. */
const orMore = ', or name more models in `models`'

/** What to do about an error, by its code, in short (docs/errors.md has all of it); `page`: the page of the dashboard that helps. */
const advice: { [code in ErrorCode]?: Advice } = {
  invalid_json: { text: 'Fix the JSON of the request body.' },
  invalid_request: { text: 'Fix the field that the message names.' },
  missing_field: { text: 'Send the field that the message names.' },
  unknown_field: { text: 'Remove the field that the message names.' },
  context_length_exceeded: { text: 'Shorten the input, or use a model with a longer context.', page: 'models' },
  tool_use_failed: { text: `The model called a tool wrongly: retry${orMore}.` },
  json_validate_failed: { text: `The model wrote invalid JSON: retry${orMore}.` },
  output_parse_failed: { text: `The model’s output could not be read: retry${orMore}.` },
  unsupported_capability: { text: 'Use a model that supports this, or `auto`.', page: 'models' },
  url_not_allowed: { text: 'Use a public URL or a data: URI.' },
  guardrail_blocked: { text: 'Remove what the message names, or change the guardrails of the key.', page: 'keys' },
  guardrail_unavailable: { text: 'Make the guard of the key answer, or let the key fail open.', page: 'keys' },
  revoked_api_key: {
    text: 'Enable the key again, use its new secret, or create a key: the message says which.',
    page: 'keys',
  },
  expired_api_key: { text: 'Create a key, or change the date on which this one expires.', page: 'keys' },
  insufficient_credits: { text: 'Add credits, or lower max_tokens.', page: 'billing' },
  monthly_spend_cap_reached: { text: 'Raise the cap of the key, or wait for the next UTC month.', page: 'keys' },
  insufficient_scope: { text: 'Widen the scopes of the key, or use another one.', page: 'keys' },
  organisation_suspended: { text: 'Contact the operator of this service.' },
  model_not_allowed: { text: 'Add the model to the allowlist of the key, or use an allowed one.', page: 'keys' },
  service_tier_not_allowed: { text: 'Allow the service tier in the key, or leave it out.', page: 'keys' },
  model_not_found: { text: 'Check the name of the model and the route.', page: 'models' },
  request_too_large: { text: 'Make the body smaller: refer to large files by URL.' },
  rate_limit_exceeded: { text: 'Retry after the time in `retry-after`, or raise the limits of the key.', page: 'keys' },
  upstream_error: { text: `Retry${orMore}.` },
  upstream_invalid_response: { text: `Retry${orMore}.` },
  upstream_timeout: { text: `Retry${orMore}.` },
  no_provider_available: { text: `Retry later${orMore}.` },
  service_unavailable: { text: 'Retry after the time in `retry-after`.' },
  internal_error: { text: 'Report it to the operator with the request id.' },
}

/** Of errors that only the operator of the gateway can mend: their messages end so. */
const forOperator = /Tell the operator of this service\.$|the operator of this service has to enable/

/** What to do about the error of a request; `isAuto`: the gateway chose its model. */
export function adviceFor(code: string | null, message: string, isAuto: boolean): Advice | null {
  if (forOperator.test(message))
    return {
      text: 'Repeating the request does not help. Tell the operator of this service; its log and `operator doctor` name the provider’s key to set or correct. Until then, use a model of another provider.',
      page: 'models',
    }
  const found = code === null ? null : (advice[code as ErrorCode] ?? null)
  return found && isAuto ? { ...found, text: found.text.replace(orMore, '') } : found
}
