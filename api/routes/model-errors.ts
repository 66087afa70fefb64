/** The errors of every route that uses a model. */
export const modelErrors = [
  'unsupported_capability',
  'insufficient_credits',
  'monthly_spend_cap_reached',
  'model_not_allowed',
  'model_not_found',
  'upstream_error',
  'upstream_invalid_response',
  'no_provider_available',
  'upstream_timeout',
] as const
