import { z } from 'zod'
import { type ErrorCode, GatewayError } from '../shared/base/errors.ts'
import { errorAnswer } from './answers.ts'
import type { Endpoint } from './endpoint.ts'

type Json = Record<string, unknown>

const always: ErrorCode[] = ['internal_error', 'service_unavailable']
const byAccess: Record<'public' | 'provisioning' | 'key', ErrorCode[]> = {
  public: [],
  provisioning: ['missing_api_key', 'invalid_api_key', 'revoked_api_key', 'wrong_key_type'],
  key: [
    'missing_api_key',
    'invalid_api_key',
    'revoked_api_key',
    'expired_api_key',
    'wrong_key_type',
    'insufficient_scope',
    'rate_limit_exceeded',
  ],
}
const ofBodies: ErrorCode[] = [
  'invalid_json',
  'invalid_request',
  'missing_field',
  'request_too_large',
  'unsupported_media_type',
]
const ofPosts: ErrorCode[] = ['idempotency_key_reused', 'idempotency_in_progress']

/** Every error code an endpoint can answer with. */
export function errorsOf(endpoint: Endpoint): ErrorCode[] {
  const access = typeof endpoint.access === 'object' ? 'key' : endpoint.access
  return [
    ...new Set([
      ...always,
      ...byAccess[access],
      ...(endpoint.body ? ofBodies : []),
      ...(endpoint.query ? (['invalid_request', 'unknown_field', 'missing_field'] as const) : []),
      ...(endpoint.method === 'post' ? ofPosts : []),
      ...(endpoint.access === 'provisioning' && endpoint.body ? (['unknown_field'] as const) : []),
      ...(endpoint.errors ?? []),
    ]),
  ]
}

/** The OpenAPI 3.1 document of the given endpoints, made from the very schemas that validate their requests. */
export function openApiDocument(endpoints: readonly Endpoint[]): Json {
  const paths: Record<string, Json> = {}
  for (const endpoint of endpoints) {
    paths[endpoint.path] = { ...paths[endpoint.path], [endpoint.method]: operation(endpoint) }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Headgate',
      version: '1',
      description:
        'One API in front of every kind of generative model. Chat, completions and embeddings have the OpenAI shape: point an OpenAI client at `/v1`.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    paths,
    components: {
      securitySchemes: {
        key: { type: 'http', scheme: 'bearer', description: 'A standard key, `svc_sk_live_…` or `svc_sk_test_…`.' },
        provisioning: { type: 'http', scheme: 'bearer', description: 'A provisioning key, `svc_pk_…`.' },
      },
    },
  }
}

function operation(endpoint: Endpoint): Json {
  const { tag, summary, description, access, body, method } = endpoint
  return {
    tags: [tag],
    summary,
    ...(description && { description }),
    operationId: `${method} ${endpoint.path}`.replace(/[^a-z0-9]+/gi, '_').replace(/_$/, ''),
    security: access === 'public' ? [] : [{ [access === 'provisioning' ? 'provisioning' : 'key']: [] }],
    parameters: parameters(endpoint),
    ...(body && {
      requestBody: { required: true, content: { 'application/json': { schema: jsonSchema(body, 'input') } } },
    }),
    responses: { ...answers(endpoint), ...failures(endpoint) },
  }
}

function parameters({ path, query, method }: Endpoint): Json[] {
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }))
  const fields = query ? jsonSchema(query, 'input') : {}
  const required = (fields.required ?? []) as string[]
  const inQuery = Object.entries((fields.properties ?? {}) as Record<string, Json>).map(([name, schema]) => ({
    name,
    in: 'query',
    required: required.includes(name),
    schema,
  }))
  const key = {
    name: 'Idempotency-Key',
    in: 'header',
    required: false,
    schema: { type: 'string', maxLength: 255 },
    description: 'The same key with the same request within 24 hours gives the first answer again.',
  }
  return [...inPath, ...inQuery, ...(method === 'post' ? [key] : [])]
}

function answers(endpoint: Endpoint): Json {
  const described = Object.entries(endpoint.answers).map(
    ([status, { description, schema, contentType = 'application/json' }]) => [
      status,
      { description, content: { [contentType]: schema ? { schema: jsonSchema(schema, 'output') } : {} } },
    ],
  )
  return Object.fromEntries(described)
}

function failures(endpoint: Endpoint): Json {
  const byStatus = Map.groupBy(errorsOf(endpoint), code => new GatewayError(code, '').status)
  const body = { 'application/json': { schema: jsonSchema(errorAnswer, 'output') } }
  return Object.fromEntries(
    [...byStatus].map(([status, codes]) => [
      status,
      { description: codes.map(code => `\`${code}\``).join(', '), content: body },
    ]),
  )
}

function jsonSchema(schema: z.ZodType, io: 'input' | 'output'): Json {
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, {
    io,
    target: 'draft-2020-12',
    unrepresentable: 'any',
    reused: 'inline',
  })
  return rest
}
