/** The error table (docs/errors.md): code → status, type. `api/error-response.ts` writes the body. */
const table = {
  invalid_json: [400, 'invalid_request_error'],
  invalid_request: [400, 'invalid_request_error'],
  unknown_field: [400, 'invalid_request_error'],
  missing_field: [400, 'invalid_request_error'],
  consent_required: [400, 'invalid_request_error'],
  context_length_exceeded: [400, 'invalid_request_error'],
  tool_use_failed: [400, 'invalid_request_error'],
  json_validate_failed: [400, 'invalid_request_error'],
  output_parse_failed: [400, 'invalid_request_error'],
  previous_response_not_found: [400, 'invalid_request_error'],
  websocket_connection_limit_reached: [400, 'invalid_request_error'],
  unsupported_capability: [400, 'invalid_request_error'],
  url_not_allowed: [400, 'invalid_request_error'],
  guardrail_blocked: [400, 'invalid_request_error'],
  missing_api_key: [401, 'authentication_error'],
  invalid_api_key: [401, 'authentication_error'],
  revoked_api_key: [401, 'authentication_error'],
  expired_api_key: [401, 'authentication_error'],
  not_signed_in: [401, 'authentication_error'],
  insufficient_credits: [402, 'billing_error'],
  monthly_spend_cap_reached: [402, 'billing_error'],
  session_spend_limit_reached: [402, 'billing_error'],
  insufficient_scope: [403, 'permission_error'],
  organisation_suspended: [403, 'permission_error'],
  model_not_allowed: [403, 'permission_error'],
  service_tier_not_allowed: [403, 'permission_error'],
  no_own_key: [403, 'permission_error'],
  own_key_refused: [403, 'permission_error'],
  insufficient_role: [403, 'permission_error'],
  email_not_verified: [403, 'permission_error'],
  wrong_key_type: [403, 'permission_error'],
  quota_exceeded: [403, 'permission_error'],
  origin_not_allowed: [403, 'permission_error'],
  two_factor_required: [403, 'permission_error'],
  not_found: [404, 'not_found_error'],
  model_not_found: [404, 'not_found_error'],
  method_not_allowed: [405, 'invalid_request_error'],
  idempotency_key_reused: [409, 'conflict_error'],
  idempotency_in_progress: [409, 'conflict_error'],
  request_timeout: [408, 'invalid_request_error'],
  session_expired: [408, 'invalid_request_error'],
  not_cancellable: [409, 'conflict_error'],
  not_deletable: [409, 'conflict_error'],
  request_too_large: [413, 'invalid_request_error'],
  file_too_large: [413, 'invalid_request_error'],
  unsupported_media_type: [415, 'invalid_request_error'],
  upgrade_required: [426, 'invalid_request_error'],
  rate_limit_exceeded: [429, 'rate_limit_error'],
  response_cancelled: [499, 'invalid_request_error'],
  internal_error: [500, 'internal_error'],
  upstream_error: [502, 'upstream_error'],
  upstream_invalid_response: [502, 'upstream_error'],
  no_provider_available: [503, 'service_unavailable_error'],
  service_unavailable: [503, 'service_unavailable_error'],
  guardrail_unavailable: [503, 'service_unavailable_error'],
  upstream_timeout: [504, 'upstream_error'],
} as const satisfies Record<string, readonly [number, string]>

export type ErrorCode = keyof typeof table
export const errorCodes = Object.keys(table) as ErrorCode[]

export type ErrorDetails = {
  /** Path of the offending field, e.g. `messages.0.content`. */
  param?: string
  metadata?: Record<string, unknown>
  headers?: Record<string, string>
  /** True when every repetition fails until the operator of the gateway has acted. */
  needsOperator?: boolean
  /** What the operator can do, which is logged and not told to the client. */
  remedy?: string | null
  /** What the model wrote, where its server could not use it. */
  failedGeneration?: string | null
  cause?: unknown
}

export type ErrorBody = {
  error: {
    message: string
    type: string
    code: ErrorCode
    param: string | null
    failed_generation?: string
    metadata?: Record<string, unknown>
  }
}

/** An error that is returned to the client: the message must say what to do. */
export class GatewayError extends Error {
  override name = 'GatewayError'
  readonly code: ErrorCode
  readonly param: string | null
  readonly metadata: Record<string, unknown> | undefined
  readonly headers: Record<string, string>
  readonly needsOperator: boolean
  readonly remedy: string | null
  readonly failedGeneration: string | null

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, { cause: details.cause })
    this.code = code
    this.param = details.param ?? null
    this.metadata = details.metadata
    this.headers = details.headers ?? {}
    this.needsOperator = details.needsOperator ?? false
    this.remedy = details.remedy ?? null
    this.failedGeneration = details.failedGeneration ?? null
  }

  get status(): number {
    return table[this.code][0]
  }

  get body(): ErrorBody {
    const { message, code, param, failedGeneration, metadata } = this
    const error: ErrorBody['error'] = { message, type: table[code][1], code, param }
    if (failedGeneration !== null) error.failed_generation = failedGeneration
    if (metadata) error.metadata = metadata
    return { error }
  }

  /** The same error with another name for its field. */
  withParam(param: string): GatewayError {
    const { code, message, metadata, headers, needsOperator, remedy, failedGeneration, cause } = this
    const details = { headers, needsOperator, remedy, failedGeneration, cause, ...(metadata && { metadata }) }
    return new GatewayError(code, message, { param, ...details })
  }
}
