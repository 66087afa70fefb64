import { modelFaultCodes } from '../../shared/providers/toolkit/model-faults.ts'

/** What refuses work before a model gets it: money, the allowlist, own keys, the model's name. */
export const admissionErrors = [
  'insufficient_credits',
  'monthly_spend_cap_reached',
  'model_not_allowed',
  'no_own_key',
  'own_key_refused',
  'model_not_found',
] as const

/** The errors of every route that uses a model. */
export const modelErrors = [
  'unsupported_capability',
  'guardrail_blocked',
  ...admissionErrors,
  'upstream_error',
  'upstream_invalid_response',
  'no_provider_available',
  'guardrail_unavailable',
  'upstream_timeout',
] as const

/** The errors of every route whose model makes text or embeddings. */
export const directErrors = ['context_length_exceeded', ...modelFaultCodes, 'url_not_allowed', ...modelErrors] as const
