import { z } from 'zod'
import { type ErrorCode, GatewayError } from '../shared/base/errors.ts'
import { errorAnswer, streamed } from './answers.ts'
import type { Endpoint, Form, FormFile, Header } from './endpoint.ts'

type Json = Record<string, unknown>

const always: ErrorCode[] = ['internal_error', 'service_unavailable']
const ofSessions: ErrorCode[] = ['not_signed_in', 'origin_not_allowed', 'insufficient_role', 'two_factor_required']
const byAccess: Record<'public' | 'provisioning' | 'key' | 'person' | 'operator' | 'role', ErrorCode[]> = {
  public: [],
  provisioning: ['missing_api_key', 'invalid_api_key', 'revoked_api_key', 'wrong_key_type'],
  key: [
    'missing_api_key',
    'invalid_api_key',
    'revoked_api_key',
    'expired_api_key',
    'wrong_key_type',
    'rate_limit_exceeded',
  ],
  person: ofSessions,
  operator: ofSessions,
  role: [...ofSessions, 'not_found'],
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

/** Every error code an endpoint can answer with. */
export function errorsOf({ access, body, form, query, path, method, errors = [] }: Endpoint): ErrorCode[] {
  const kind = typeof access === 'string' ? access : 'scope' in access ? 'key' : 'role'
  const codes: ErrorCode[] = [...always, ...byAccess[kind], ...errors]
  if (typeof access === 'object' && 'scope' in access && access.scope !== null) codes.push('insufficient_scope')
  if (body && !form?.only) codes.push(...ofBodies)
  if (form) codes.push(...ofForms)
  if (query) codes.push(...ofQueries)
  if (path.includes('{')) codes.push('invalid_request')
  if (method === 'post' && access !== 'public') codes.push(...ofPosts)
  return [...new Set(codes)]
}

/** The OpenAPI 3.1 document of the given endpoints, made from the very schemas that validate their requests. */
export function openApiDocument(endpoints: readonly Endpoint[]): Json {
  const schemas: Json = {}
  const paths: Record<string, Json> = {}
  for (const endpoint of endpoints) {
    paths[endpoint.path] = { ...paths[endpoint.path], [endpoint.method]: operation(endpoint, schemas) }
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
    servers: [{ url: '/' }],
    paths,
    components: {
      schemas,
      securitySchemes: {
        key: { type: 'http', scheme: 'bearer', description: 'A standard key, `svc_sk_live_…` or `svc_sk_test_…`.' },
        apiKey: {
          type: 'apiKey',
          in: 'header',
          name: 'x-api-key',
          description: 'The same standard key. Where both headers are sent, the one that has the form of a key counts.',
        },
        provisioning: { type: 'http', scheme: 'bearer', description: 'A provisioning key, `svc_pk_…`.' },
      },
    },
  }
}

/** `schemas` collects the named ones, for all operations together. */
function operation(endpoint: Endpoint, schemas: Json): Json {
  const { tag, summary, description, access, body, form, method } = endpoint
  return {
    tags: [tag],
    summary,
    ...(description && { description }),
    operationId: `${method} ${endpoint.path}`.replace(/[^a-z0-9]+/gi, '_').replace(/_$/, ''),
    security: securityOf(access),
    parameters: parameters(endpoint, schemas),
    ...((body || form) && {
      requestBody: {
        required: true,
        content: {
          ...(body && !form?.only && { 'application/json': { schema: jsonSchema(body, 'input', schemas) } }),
          ...(form && { 'multipart/form-data': { schema: formSchema(form, body, schemas) } }),
        },
      },
    }),
    responses: { ...answers(endpoint, schemas), ...failures(endpoint, schemas) },
  }
}

function securityOf(access: Endpoint['access']): Json[] {
  if (access === 'public') return []
  return access === 'provisioning' ? [{ provisioning: [] }] : [{ key: [] }, { apiKey: [] }]
}

/** The fields of the JSON body that a form stands for, under the form's own names, with its files. */
function formSchema({ files, names = {} }: Form, body: z.ZodType | undefined, schemas: Json): Json {
  const whole = body ? jsonSchema(body, 'input', schemas) : {}
  const name = String(whole.$ref ?? '')
    .split('/')
    .at(-1)!
  const { properties = {}, required = [] } = (whole.$ref ? schemas[name] : whole) as {
    properties?: Json
    required?: string[]
  }
  const isOwn = (field: string) => !(field in names) && !files.some(file => file.name === field)
  const fields = Object.entries(properties).filter(([field]) => isOwn(field))
  return {
    type: 'object',
    properties: {
      ...Object.fromEntries(fields),
      ...Object.fromEntries(files.map(file => [file.name, fileSchema(file)])),
    },
    required: [...required.filter(isOwn), ...files.filter(file => file.required).map(file => file.name)],
    additionalProperties: false,
  }
}

function fileSchema({ description, most = 1 }: FormFile): Json {
  const file = { type: 'string', format: 'binary' }
  return most === 1 ? { ...file, description } : { type: 'array', items: file, maxItems: most, description }
}

const idempotencyKey: Header = {
  name: 'Idempotency-Key',
  maxLength: 255,
  description: 'The same key with the same request within 24 hours gives the first answer again.',
}

function parameters({ path, query, method, access, headers = [] }: Endpoint, schemas: Json): Json[] {
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }))
  const fields = query ? jsonSchema(query, 'input', schemas) : {}
  const required = (fields.required ?? []) as string[]
  const inQuery = Object.entries((fields.properties ?? {}) as Record<string, Json>).map(([name, schema]) => ({
    name,
    in: 'query',
    required: required.includes(name),
    schema,
  }))
  const inHeader = [...headers, ...(method === 'post' && access !== 'public' ? [idempotencyKey] : [])].map(
    ({ name, maxLength, description }) => ({
      name,
      in: 'header',
      required: false,
      schema: { type: 'string', maxLength },
      description,
    }),
  )
  return [...inPath, ...inQuery, ...inHeader]
}

function answers(endpoint: Endpoint, schemas: Json): Json {
  const described = Object.entries(endpoint.answers).map(
    ([status, { description, schema, contentType = 'application/json', also = [], headers = {} }]) => {
      const events = schema && streamed.get(schema)
      const content = {
        ...(contentType !== null && {
          [contentType]: schema ? { schema: jsonSchema(schema, 'output', schemas) } : {},
        }),
        ...Object.fromEntries(also.map(type => [type, {}])),
        ...(events && { 'text/event-stream': { schema: jsonSchema(events, 'output', schemas) } }),
      }
      const told = Object.entries(headers).map(([name, text]) => [
        name,
        { description: text, schema: { type: 'string' } },
      ])
      return [status, { description, content, ...(told.length > 0 && { headers: Object.fromEntries(told) }) }]
    },
  )
  return Object.fromEntries(described)
}

function failures(endpoint: Endpoint, schemas: Json): Json {
  const byStatus = Map.groupBy(errorsOf(endpoint), code => new GatewayError(code, '').status)
  const content = { 'application/json': { schema: jsonSchema(errorAnswer, 'output', schemas) } }
  return Object.fromEntries(
    [...byStatus].map(([status, codes]) => [
      status,
      { description: codes.map(code => `\`${code}\``).join(', '), content },
    ]),
  )
}

function jsonSchema(schema: z.ZodType, io: 'input' | 'output', schemas: Json): Json {
  const made = z.toJSONSchema(schema, {
    io,
    target: 'draft-2020-12',
    unrepresentable: 'any',
    reused: 'inline',
    override: ({ jsonSchema }) => plain(jsonSchema),
  })
  // Zod names schemas inside the one it is given; in this document they have one place for all.
  const text = JSON.stringify(made).replaceAll('"#/$defs/', '"#/components/schemas/')
  const { $schema: _dialect, $defs, ...rest } = JSON.parse(text) as Json
  Object.assign(schemas, $defs)
  return rest
}

/** Leaves out what only says how Zod checks: the bounds of safe integers, and the pattern behind a format. */
function plain(schema: z.core.JSONSchema.BaseSchema): void {
  if (schema.minimum === Number.MIN_SAFE_INTEGER) delete schema.minimum
  if (schema.maximum === Number.MAX_SAFE_INTEGER) delete schema.maximum
  if (schema.format) delete schema.pattern
}
