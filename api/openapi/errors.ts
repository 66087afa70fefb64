import { STATUS_CODES } from 'node:http'
import type { z } from 'zod'
import { type ErrorCode, type ErrorDetails, GatewayError } from '../../shared/base/errors.ts'
import { keyExpired, keyRevoked } from '../../shared/base/key-refusals.ts'
import { googleErrorBody } from '../../shared/engine/google-error.ts'
import { messagesErrorBody, messagesErrorStatus } from '../../shared/engine/messages-error.ts'
import { responsesErrorBody, responsesErrorStatus } from '../../shared/engine/responses-error.ts'
import { insufficientScope, organisationSuspended } from '../../shared/keys/policy.ts'
import { capReached, insufficientCredits } from '../../shared/wallet/refusals.ts'
import type { Endpoint } from '../endpoint.ts'
import { errorResponse } from '../error-response.ts'
import { isGooglePath } from '../google-dialect.ts'
import { isMessagesPath, isResponsesPath } from '../http-response.ts'
import { isRepeatable } from '../request-lifecycle.ts'
import { errorAnswer } from '../schemas/core.ts'
import { googleError } from '../schemas/gemini.ts'
import { type AnswerHeaderName, generationHeaders } from '../schemas/headers.ts'
import { messagesError } from '../schemas/messages.ts'
import { responsesError } from '../schemas/responses.ts'
import type { Components, Json } from './components.ts'
import { headersOf, rateLimitHeaders } from './headers.ts'

const always: ErrorCode[] = ['internal_error', 'service_unavailable']
const ofSessions: ErrorCode[] = ['not_signed_in', 'origin_not_allowed', 'insufficient_role', 'two_factor_required']
const ofOrganisations: ErrorCode[] = [...ofSessions, 'organisation_suspended', 'not_found']
const byAccess: Record<'public' | 'provisioning' | 'key' | 'visitor' | 'person' | 'operator' | 'role', ErrorCode[]> = {
  public: [],
  visitor: [],
  provisioning: ['missing_api_key', 'invalid_api_key', 'revoked_api_key', 'organisation_suspended', 'wrong_key_type'],
  key: [
    'missing_api_key',
    'invalid_api_key',
    'revoked_api_key',
    'expired_api_key',
    'organisation_suspended',
    'wrong_key_type',
    'rate_limit_exceeded',
  ],
  person: ofSessions,
  operator: ofSessions,
  role: ofOrganisations,
}
const ofBodies: ErrorCode[] = [
  'invalid_json',
  'invalid_request',
  'missing_field',
  'unknown_field',
  'request_too_large',
  'request_timeout',
  'rate_limit_exceeded',
  'unsupported_media_type',
]
const ofForms: ErrorCode[] = [
  'invalid_request',
  'missing_field',
  'unknown_field',
  'file_too_large',
  'request_timeout',
  'rate_limit_exceeded',
  'quota_exceeded',
  'unsupported_media_type',
]
const ofQueries: ErrorCode[] = ['invalid_request', 'missing_field', 'unknown_field']
const ofPosts: ErrorCode[] = ['invalid_request', 'idempotency_key_reused', 'idempotency_in_progress']

/** Every error code an endpoint can return. */
export function errorsOf(endpoint: Endpoint): ErrorCode[] {
  const { access, body, form, query, path, errors = [] } = endpoint
  const kind = typeof access === 'string' ? access : 'scope' in access ? 'key' : 'role'
  const codes: ErrorCode[] = [...always, ...byAccess[kind], ...errors]
  if (typeof access === 'object' && 'scope' in access && access.scope !== null) codes.push('insufficient_scope')
  if (body && !form?.only) codes.push(...ofBodies)
  if (form) codes.push(...ofForms)
  if (query) codes.push(...ofQueries)
  if (path.includes('{')) codes.push('invalid_request')
  if (isRepeatable(endpoint)) codes.push(...ofPosts)
  return [...new Set(codes)]
}

const nano = 1e9
/** An example of each error whose code alone is not self-explanatory: what is thrown, or its message and details. */
const examples: { [code in ErrorCode]?: GatewayError | [message: string, details?: ErrorDetails] } = {
  invalid_json: ['The body is not valid JSON: Unexpected end of JSON input.'],
  invalid_request: ['`temperature` must be at most 2.', { param: 'temperature' }],
  missing_field: ['`model` is required.', { param: 'model' }],
  unknown_field: ['Unknown field `colour`.', { param: 'colour' }],
  missing_api_key: ['Send your API key as `Authorization: Bearer <key>` or `x-api-key: <key>`.'],
  invalid_api_key: ['This is not a valid API key of this service.'],
  revoked_api_key: keyRevoked(),
  expired_api_key: keyExpired(),
  wrong_key_type: ['A provisioning key manages keys and cannot call this route. Use a standard key.'],
  organisation_suspended: organisationSuspended(),
  insufficient_scope: insufficientScope('chat'),
  insufficient_credits: insufficientCredits(0.12 * nano, 0.05 * nano, 0, 0),
  monthly_spend_cap_reached: capReached(5 * nano, 5 * nano, Date.UTC(2026, 10, 27)),
  model_not_allowed: ['This key may not use `gpt-4o`.', { param: 'model' }],
  service_tier_not_allowed: [
    'This key may not use the service tier `priority`. Leave `service_tier` out.',
    { param: 'service_tier' },
  ],
  no_own_key: ['This key uses own provider keys only, and the organisation has none for `provider-a`.'],
  own_key_refused: ['provider-a refused own key “Production” (…wxyz): replace it.'],
  model_not_found: ['There is no model `gpt-9` on this route. GET /v1/models lists what there is.', { param: 'model' }],
  not_found: ['No such object.', { param: 'id' }],
  context_length_exceeded: [
    "This model's maximum context length is 128000 tokens. However, your messages resulted in 130011 tokens. (context_length_exceeded)",
    { param: 'messages' },
  ],
  tool_use_failed: [
    'Failed to call a function. Please adjust your prompt.',
    { failedGeneration: '<function=read>{"path": 1}</function>' },
  ],
  json_validate_failed: ['Failed to generate JSON. Please adjust your prompt.', { failedGeneration: '{"city": ' }],
  output_parse_failed: ['Parsing failed. The model generated output that could not be parsed.'],
  previous_response_not_found: [
    "Previous response with id 'resp_01k9h2t5v8' not found.",
    { param: 'previous_response_id' },
  ],
  unsupported_capability: ['gpt-4o-mini does not accept audio input.', { param: 'messages' }],
  url_not_allowed: ['This URL cannot be fetched.', { param: 'webhook_url' }],
  guardrail_blocked: [
    'The guardrails of this key refuse the request: it has an email address in `messages.0.content`.',
    { param: 'messages.0.content', metadata: { guardrail: { side: 'input', guard: 'email' } } },
  ],
  guardrail_unavailable: [
    'The guard of this key gave no valid answer: it answered with status 500.',
    { metadata: { guardrail: { side: 'input', guard: 'webhook' } } },
  ],
  consent_required: [
    'Set `source_face_consent` to true to state that the person whose face this is agreed to its use.',
    { param: 'source_face_consent' },
  ],
  origin_not_allowed: ['Pages of https://example.com may not open sessions here.'],
  quota_exceeded: ['The storage quota of this organisation is used up.'],
  request_timeout: [
    'The body was sent too slowly: less than 256 KiB in half a minute, or less than 2 KiB for a body of up to 256 KiB.',
  ],
  idempotency_key_reused: [
    'This Idempotency-Key was used with a different request. Use a new key.',
    { param: 'Idempotency-Key' },
  ],
  idempotency_in_progress: [
    'The first request with this Idempotency-Key is still running. Try again shortly.',
    { param: 'Idempotency-Key' },
  ],
  not_cancellable: ['This has already ended.'],
  not_deletable: ['This job is not over yet: wait for its end, or cancel it first.'],
  upgrade_required: ['There is no WebSocket at /v1/models: send a plain HTTP request.'],
  request_too_large: [
    'The body is larger than 10 MiB. Upload large files with POST /v1/uploads and refer to them by URL.',
  ],
  file_too_large: ['The file is larger than 25 MiB.', { param: 'file' }],
  unsupported_media_type: ['Send the body as `Content-Type: application/json`.'],
  rate_limit_exceeded: ['This key is limited to 60 requests per minute. Retry in 2 s.'],
  internal_error: ['Something went wrong on our side. Quote the request id when you report it.'],
  upstream_error: [
    'Every provider that was tried failed.',
    { metadata: { attempts: [{ provider: 'provider-a', model: 'gpt-4o-mini', status: 500, reason: 'server_error' }] } },
  ],
  upstream_invalid_response: ['The provider’s response could not be parsed.'],
  upstream_timeout: ['No provider responded in time.'],
  no_provider_available: [
    'No enabled provider can serve this request; the operator of this service has to enable one of: `provider-a`.',
  ],
  service_unavailable: ['The gateway cannot serve requests at the moment. Try again.'],
}

const headersByStatus: { [status: number]: AnswerHeaderName[] } = {
  401: ['www-authenticate'],
  409: ['retry-after'],
  429: ['retry-after', ...rateLimitHeaders],
  502: ['retry-after'],
  503: ['retry-after', 'x-should-retry'],
  529: ['retry-after', 'x-should-retry'],
}

/** Errors of a request after a model was chosen for it. */
const ranStatuses = new Set([400, 429, 500, 502, 503, 504, 529])

/** The error responses of an endpoint by status, with an example body for each code. */
export function errorResponses(endpoint: Endpoint, components: Components): Json {
  const format = formatOf(endpoint.path)
  const byStatus = Map.groupBy(errorsOf(endpoint).flatMap(examplesOf), ({ failure }) => format.statusOf(failure))
  const schema = components.schema(format.schema, 'output')
  const usesModel = Object.values(endpoint.answers).some(({ headers }) => headers?.includes('x-generation-id'))
  const ofRun = usesModel ? generationHeaders.filter(name => name !== 'x-gateway-cost-usd') : []
  return Object.fromEntries(
    [...byStatus].map(([status, listed]) => {
      const names: AnswerHeaderName[] = [
        'x-request-id',
        ...format.headers,
        ...(listed.some(({ failure }) => isNeverRepeated(failure, endpoint.path)) ? shouldRetry : []),
        ...(headersByStatus[status] ?? []),
        ...(ranStatuses.has(status) ? ofRun : []),
      ]
      const content = {
        'application/json': {
          schema,
          examples: Object.fromEntries(listed.map(one => [one.name, refer(one, format, components)])),
        },
      }
      const description = listed.map(({ failure }) => `\`${failure.code}\``).join(', ')
      const response = { description, headers: headersOf(names, components), content }
      return [
        status,
        components.share('responses', (STATUS_CODES[status] ?? 'Overloaded').replaceAll(/\W/g, ''), response),
      ]
    }),
  )
}

const shouldRetry = ['x-should-retry'] as const

function isNeverRepeated(failure: GatewayError, path: string): boolean {
  return 'x-should-retry' in errorResponse(failure, path, '').headers
}

/** The format of the errors of some routes. */
type ErrorFormat = {
  schema: z.ZodType
  statusOf(failure: GatewayError): number
  bodyOf(failure: GatewayError): unknown
  /** Prefix of its examples' names. */
  prefix: string
  headers: readonly AnswerHeaderName[]
}

const usualFormat: ErrorFormat = {
  schema: errorAnswer,
  statusOf: ({ status }) => status,
  bodyOf: ({ body }) => body,
  prefix: '',
  headers: [],
}
const messagesFormat: ErrorFormat = {
  schema: messagesError,
  statusOf: messagesErrorStatus,
  bodyOf: failure => messagesErrorBody(failure, 'req_01k9h2t5v8'),
  prefix: 'messages_',
  headers: ['request-id'],
}
const responsesFormat: ErrorFormat = {
  schema: responsesError,
  statusOf: responsesErrorStatus,
  bodyOf: responsesErrorBody,
  prefix: 'responses_',
  headers: ['x-models-etag'],
}

const googleFormat: ErrorFormat = {
  schema: googleError,
  statusOf: ({ status }) => status,
  bodyOf: failure => googleErrorBody(failure, 'req_01k9h2t5v8'),
  prefix: 'google_',
  headers: [],
}

function formatOf(path: string): ErrorFormat {
  if (isResponsesPath(path)) return responsesFormat
  if (isGooglePath(path)) return googleFormat
  return isMessagesPath(path) ? messagesFormat : usualFormat
}

type Example = { name: string; failure: GatewayError }

const refusedMessage = '`provider-a` refused the gateway’s API key. Tell the operator of this service.'

/** Examples of an error: one for each status that it may have. */
function examplesOf(code: ErrorCode): Example[] {
  const example = examples[code] ?? ['The request failed.']
  const usual = { name: code, failure: example instanceof GatewayError ? example : new GatewayError(code, ...example) }
  if (code !== 'upstream_error') return [usual]
  return [usual, { name: 'account_refused', failure: new GatewayError(code, refusedMessage, { needsOperator: true }) }]
}

function refer({ name, failure }: Example, { prefix, bodyOf }: ErrorFormat, components: Components): Json {
  return components.refer('examples', prefix + name, { value: bodyOf(failure) })
}

/** The error response of an endpoint whose success is not 2xx, for undocumented statuses. */
export function unexpectedErrorResponse(components: Components): Json {
  const content = { 'application/json': { schema: components.schema(errorAnswer, 'output') } }
  return components.refer('responses', 'UnexpectedError', { description: 'Any other error.', content })
}

/** The one error of a request without key, body and parameters. */
export function headersTooLargeResponse(components: Components): Json {
  const description = 'The request headers are larger than 16 KiB.'
  return components.refer('responses', 'HeadersTooLarge', { description })
}
