import type { z } from 'zod'
import type { Access, Endpoint, Form, FormFile, ResponseSpec } from '../endpoint.ts'
import { isRepeatable, takesNulls } from '../request-lifecycle.ts'
import { streamed } from '../schemas/core.ts'
import type { AnswerHeaderName } from '../schemas/headers.ts'
import type { Components, Json } from './components.ts'
import { errorResponses, headersTooLargeResponse, unexpectedErrorResponse } from './errors.ts'
import exampleAnswers from './examples.json' with { type: 'json' }
import { commonHeaders, headerParameters, headersOf } from './headers.ts'

const examples: Record<string, unknown> = exampleAnswers
const bytes = { type: 'string', format: 'binary', contentMediaType: 'application/octet-stream' }

/** The OpenAPI operation of an endpoint. */
export function buildOperation(endpoint: Endpoint, components: Components): Json {
  const { method, path, tag, summary, description, access, body, form } = endpoint
  const operationId = endpoint.operationId ?? `${method} ${path}`.replace(/\W+/g, '_')
  return {
    tags: [tag],
    summary,
    ...(description && { description }),
    operationId,
    security: securityOf(access),
    parameters: [
      ...pathParameters(endpoint),
      ...queryParameters(endpoint, components),
      ...headerParameters(endpoint, components),
    ],
    ...((body || form) && { requestBody: requestBody(endpoint, operationId, components) }),
    responses: responses(endpoint, components),
  }
}

function securityOf(access: Access): Json[] {
  if (access === 'public') return []
  return access === 'provisioning' ? [{ provisioning: [] }] : [{ key: [] }, { apiKey: [] }]
}

/**
 * The request body, named after the operation. Its schema is not a component: openapi-typescript would require every
 * field with a default. A form that OpenAI has comes first, because generators use the first of several content types.
 */
function requestBody(endpoint: Endpoint, operationId: string, components: Components): Json {
  const { body, optionalBody, form, example } = endpoint
  const name = `${operationId.charAt(0).toUpperCase()}${operationId.slice(1)}Body`
  const schema = body && components.body(body, takesNulls(endpoint))
  const json = schema && !form?.only && { 'application/json': { schema, example } }
  const multipart = form && {
    'multipart/form-data': { schema: formSchema(form, schema ?? {}), example: form.example },
  }
  const content = form?.jsonFirst ? { ...json, ...multipart } : { ...multipart, ...json }
  return components.refer('requestBodies', name, { required: !optionalBody, content })
}

/** The files of a form, and the fields of the equivalent JSON body that a form can carry. */
function formSchema(form: Form, body: BodySchema): Json {
  const { files, names = {}, lists = [], only } = form
  const { properties = {}, required = [], dependentRequired } = body
  const isOwn = (field: string) => !(field in names) && !files.some(file => file.name === field)
  const isPlain = (field: string) => lists.includes(field) || !/array|object/.test(String(properties[field]?.type))
  const fields = Object.entries(properties).filter(([field]) => isOwn(field) && isPlain(field))
  const needed = [...files.filter(file => file.required).map(file => file.name), ...required.filter(isOwn)]
  return {
    type: 'object',
    properties: {
      ...Object.fromEntries(files.map(file => [file.name, fileSchema(file)])),
      ...Object.fromEntries(fields.map(([field, property]) => [field, withoutNull(property)])),
    },
    ...(needed.length > 0 && { required: needed }),
    ...(only && dependentRequired && { dependentRequired }),
    additionalProperties: body.additionalProperties ?? false,
  }
}

/** Text fields of a form cannot be null. */
function withoutNull({ type, enum: values, ...schema }: Json): Json {
  const types = [type].flat().filter(one => one !== undefined && one !== 'null')
  return {
    ...schema,
    ...(types.length > 0 && { type: types[0] }),
    ...(Array.isArray(values) && { enum: values.filter(value => value !== null) }),
  }
}

type BodySchema = {
  properties?: Record<string, Json>
  required?: string[]
  dependentRequired?: Json
  additionalProperties?: unknown
}

function fileSchema({ description, max = 1 }: FormFile): Json {
  if (max === 1) return { ...bytes, description }
  return { anyOf: [bytes, { type: 'array', items: bytes, minItems: 1, maxItems: max }], description }
}

const inPath: Record<string, string> = {
  id: 'The id of the object.',
  model: 'The id of the model.',
  hash: 'The `hash` of the key.',
  key: 'The storage key of the file.',
  token: 'The secret token of the URL.',
  provider: 'The name of the provider.',
  asset: 'The name of the file.',
  item: 'The id of the item.',
  replay: 'The id of the replay.',
  scope: '`organisation`, or the id of a member.',
  name: 'The name of the preset.',
}

function pathParameters({ path }: Endpoint): Json[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    description: inPath[name!],
    schema: { type: 'string' },
  }))
}

function queryParameters({ query }: Endpoint, components: Components): Json[] {
  const fields = query ? components.schema(query, 'input') : {}
  const required = (fields.required ?? []) as string[]
  return Object.entries((fields.properties ?? {}) as Record<string, Json>).map(
    ([name, { description, ...schema }]) => ({
      name,
      in: 'query',
      required: required.includes(name),
      ...(description !== undefined && { description }),
      schema,
    }),
  )
}

function responses(endpoint: Endpoint, components: Components): Json {
  const answers = Object.entries(endpoint.answers).map(([status, answer]) => [
    status,
    response(endpoint, answer, components),
  ])
  const isUpgrade = 101 in endpoint.answers
  const isPlain = endpoint.access === 'public' && endpoint.method === 'get' && !endpoint.path.includes('{')
  return {
    ...Object.fromEntries(answers),
    ...errorResponses(endpoint, components),
    ...(isPlain && { 431: headersTooLargeResponse(components) }),
    ...(isUpgrade && { default: unexpectedErrorResponse(components) }),
  }
}

function response(endpoint: Endpoint, answer: ResponseSpec, components: Components): Json {
  const { description, schema, contentType = 'application/json', also = [], headers = [] } = answer
  const events = answer.events ?? (schema && streamed.get(schema))
  const content = {
    ...(contentType !== null && {
      [contentType]: { schema: schemaOf(contentType, schema, components), ...exampleOf(endpoint, contentType) },
    }),
    ...Object.fromEntries(also.map(type => [type, { schema: schemaOf(type, undefined, components) }])),
    ...(events && { 'text/event-stream': { schema: components.schema(events, 'output') } }),
  }
  const names: AnswerHeaderName[] = [
    ...commonHeaders(endpoint),
    ...headers,
    ...(isRepeatable(endpoint) ? (['idempotent-replayed'] as const) : []),
  ]
  return {
    description,
    headers: headersOf(names, components),
    ...(Object.keys(content).length > 0 && { content }),
  }
}

/** An answer of the sandbox to a call of the endpoint, if there is one. */
function exampleOf({ method, path }: Endpoint, type: string): { example?: unknown } {
  const name = `${method.toUpperCase()} ${path}`
  return type === 'application/json' && Object.hasOwn(examples, name) ? { example: examples[name] } : {}
}

function schemaOf(type: string, schema: z.ZodType | undefined, components: Components): Json {
  if (schema) return components.schema(schema, 'output')
  return type.startsWith('text/') ? { type: 'string' } : bytes
}
