import Ajv2020 from 'ajv/dist/2020.js'
import { z } from 'zod'
import { isGooglePath } from '../../api/google-dialect.ts'
import { isMessagesPath, isResponsesPath } from '../../api/http-response.ts'
import { openApiDocument } from '../../api/openapi/document.ts'
import { errorsOf } from '../../api/openapi/errors.ts'
import { endpoints } from '../../api/routes/index.ts'
import { webhookEvents } from '../../api/webhook-events.ts'
import { GatewayError } from '../../shared/base/errors.ts'
import { messagesErrorStatus } from '../../shared/engine/messages-error.ts'
import { type Answer, type OpenApi, objectsIn, operationsIn, resolved } from '../support/api/openapi.ts'
import { countTurns } from '../support/event-loop.ts'
import { test } from '../support/test.ts'

/** What holds for the whole document, so for every route that is added. How the server answers is in `openapi.test.ts`. */
const built = await countTurns(() => openApiDocument(endpoints))
const document = JSON.parse(JSON.stringify(built.result)) as OpenApi
const operations = operationsIn(document)
const ajv = new Ajv2020.default({ strict: false, validateFormats: false, allErrors: true })
ajv.addSchema(document, 'document')

test('built without stopping the process', t => {
  t.true(built.turns >= endpoints.length, `${built.turns} turns of the event loop`)
})

test('an OpenAPI 3.1 document of the right structure', t => {
  t.is(document.openapi, '3.1.0')
  t.deepEqual(Object.keys(document).sort(), ['components', 'info', 'openapi', 'paths', 'servers', 'tags', 'webhooks'])
  for (const field of ['title', 'version', 'description']) t.is(typeof document.info[field], 'string')
  for (const { name, path, operation } of operations) {
    t.true(path.startsWith('/'), name)
    for (const requirement of operation.security)
      for (const scheme of Object.keys(requirement)) t.truthy(document.components.securitySchemes[scheme], name)
    const named = operation.parameters.map(({ in: where, name }) => `${where} ${name}`)
    t.is(new Set(named).size, named.length, name)
    const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, parameter]) => `path ${parameter}`)
    for (const parameter of inPath) t.true(named.includes(parameter), name)
    t.true(Object.keys(operation.responses).length > 0, name)
    for (const [status, { description, content = {} }] of Object.entries(operation.responses)) {
      t.regex(status, /^([1-5]\d\d|default)$/, name)
      t.truthy(description, name)
      for (const type of Object.keys(content)) t.regex(type, /^[\w*]+\/[\w.+*-]+$/, name)
    }
  }
})

test('references lead somewhere, every component is referred to, and schemas are JSON Schema 2020-12', t => {
  const references = new Set([...objectsIn(document)].map(({ $ref }) => $ref).filter(ref => typeof ref === 'string'))
  t.true(references.size > 100)
  for (const reference of references) t.truthy(resolved(document, { $ref: reference }), String(reference))
  // Generators follow references to whole components only.
  for (const reference of references) t.regex(String(reference), /^#\/components\/\w+\/[^/]+$/)
  const { securitySchemes: _, ...components } = document.components
  for (const [kind, parts] of Object.entries(components))
    for (const name of Object.keys(parts as object)) t.true(references.has(`#/components/${kind}/${name}`), name)
  for (const [name, schema] of Object.entries(document.components.schemas)) t.true(ajv.validateSchema(schema), name)
  for (const { name, operation } of operations)
    for (const { content = {} } of [operation.requestBody ?? {}, ...Object.values(operation.responses)] as Answer[])
      for (const { schema } of Object.values(content)) t.true(ajv.validateSchema(schema), name)
})

test('every registered route is documented, and nothing else', t => {
  const registered = endpoints.map(({ method, path }) => `${method.toUpperCase()} ${path}`)
  t.deepEqual(operations.map(({ name }) => name).sort(), registered.sort())
})

test('every operation has a name of its own, a summary and a section', t => {
  const sections = new Set(document.tags.map(({ name }) => name))
  t.true(document.tags.every(({ description }) => description.length > 0))
  const ids = operations.map(({ operation }) => operation.operationId)
  t.is(new Set(ids).size, ids.length)
  for (const { name, operation } of operations) {
    t.regex(String(operation.operationId), /^[a-z]+(?:[A-Z][a-z]*)+$/, `${name} needs an operationId as \`createFile\``)
    t.regex(operation.summary, /^[A-Z].*[^.]$/, name)
    for (const tag of operation.tags) t.true(sections.has(tag), `${name}: ${tag} is no section of api/openapi/tags.ts`)
  }
  const used = new Set(
    [...operations, ...operationsIn(document, 'webhooks')].flatMap(({ operation }) => operation.tags),
  )
  t.deepEqual(
    [...sections].filter(tag => !used.has(tag)),
    [],
  )
})

test('every parameter and every header of an answer is described', t => {
  for (const { name, operation } of operations) {
    for (const parameter of operation.parameters) {
      t.truthy(parameter.description, `${name} ${parameter.name}`)
      t.truthy(parameter.schema, `${name} ${parameter.name}`)
    }
    for (const [status, { headers }] of Object.entries(operation.responses))
      if (/^[2-5]/.test(status) && status !== '431') t.truthy(headers?.['x-request-id'], `${name} ${status}`)
  }
  for (const header of Object.values(document.components.headers)) t.truthy(header.description)
})

test('every body has a name, an example that its schema takes, and fields that are described', t => {
  const obvious = ['input', 'prompt', 'name', 'user', 'model']
  for (const { name, path, method, operation } of operations) {
    for (const [type, { schema, example }] of Object.entries(operation.requestBody?.content ?? {})) {
      const { $ref = '' } = document.paths[path]![method]!.requestBody as { $ref?: string }
      t.regex($ref, /^#\/components\/requestBodies\/[A-Z]\w+Body$/, name)
      const validate = ajv.compile({ $ref: `document${$ref}/content/${type.replace('/', '~1')}/schema` })
      t.truthy(example, `${name} ${type}: give its route an example`)
      t.true(validate(example), `${name} ${type}: ${ajv.errorsText(validate.errors)}`)
      const body = resolved(document, schema)
      for (const [field, property] of Object.entries(body.properties ?? {})) {
        const told = property.description ?? resolved(document, property).description
        t.true(Boolean(told) || obvious.includes(field), `${name}: describe \`${field}\``)
      }
    }
  }
})

test('a form that OpenAI has comes before the JSON body, with its files as binary strings', t => {
  const forms = operations.filter(({ operation }) => 'multipart/form-data' in (operation.requestBody?.content ?? {}))
  t.true(forms.length > 4)
  for (const { name, path, operation } of forms) {
    const { content } = operation.requestBody!
    // Ours alone.
    if (path !== '/v1/images') t.is(Object.keys(content)[0], 'multipart/form-data', name)
    const { properties } = resolved(document, content['multipart/form-data']!.schema)
    const files = [...objectsIn(properties)].filter(({ format }) => format === 'binary')
    t.true(files.length > 0, name)
    for (const file of files) t.like(file, { type: 'string', contentMediaType: 'application/octet-stream' }, name)
  }
})

test('defaults are values that their schema takes', t => {
  const withDefault = [...objectsIn(document.components)].filter(({ default: value }) => value !== undefined)
  t.true(withDefault.length > 20)
  for (const schema of withDefault) {
    const { oneOf: _, ...alone } = JSON.parse(
      JSON.stringify(schema).replaceAll('"#/components', '"document#/components'),
    )
    t.true(ajv.validate(alone, schema.default), JSON.stringify(schema))
  }
})

test('a field with a default is optional for generated clients', t => {
  // openapi-typescript takes one below `components.schemas` for one that is always there.
  for (const [name, schema] of Object.entries(document.components.schemas))
    for (const { properties, required = [] } of objectsIn(schema))
      for (const [field, property] of Object.entries(properties ?? {}))
        t.true(
          property.default === undefined || required.includes(field),
          `describe the default of ${name}.${field} in words`,
        )
})

test('unions of objects that differ by a constant say by which', t => {
  const { discriminator } = document.components.schemas.ChatMessage!
  t.is(discriminator?.propertyName, 'role')
  t.is(discriminator?.mapping.user, '#/components/schemas/ChatUserMessage')
  for (const schema of [...objectsIn(document)].filter(({ discriminator }) => discriminator)) {
    const mapped = Object.values(schema.discriminator!.mapping)
    t.deepEqual(mapped.sort(), schema.oneOf!.map(({ $ref }) => $ref!).sort())
  }
})

test('rules between fields are in the schemas', t => {
  const takes = (name: string, value: object) =>
    ajv.validate({ $ref: `document#/components/requestBodies/${name}/content/application~1json/schema` }, value)
  t.true(takes('CreateBatchBody', { input_file_id: 'file-1', endpoint: '/v1/embeddings' }))
  t.false(takes('CreateBatchBody', { input_file_id: 'file-1' }))
  t.false(takes('CreateBatchBody', { input_file_id: 'file-1', endpoint: '/v1/embeddings', requests: [{}] }))
  t.true(takes('CreateMeshBody', { prompt: 'A chest' }))
  t.false(takes('CreateMeshBody', {}))
  t.false(takes('CreateMeshBody', { prompt: 'A chest', image_url: 'https://example.com/a.png' }))
  t.false(takes('CreateFaceSwapBody', { video_url: 'https://a.b/c', face_image_url: 'https://a.b/c' }))
  t.true(takes('CreateAvatarVideoBody', { avatar_id: 'a', script: 'Hello', voice_id: 'b' }))
  t.false(takes('CreateAvatarVideoBody', { avatar_id: 'a', script: 'Hello' }))
  t.false(takes('CreateChatCompletionBody', { model: 'auto', messages: [{ role: 'user', content: 'a' }], n: 0 }))
})

function errorFormatOf(path: string, failure: GatewayError): { name: string; status: number; shownCode?: string } {
  if (isMessagesPath(path)) return { name: 'MessagesErrorResponse', status: messagesErrorStatus(failure) }
  if (isGooglePath(path)) return { name: 'GoogleErrorResponse', status: failure.status }
  if (!isResponsesPath(path)) return { name: 'ErrorResponse', status: failure.status }
  return failure.status === 402
    ? { name: 'ResponsesErrorResponse', status: 429, shownCode: 'insufficient_quota' }
    : { name: 'ResponsesErrorResponse', status: failure.status }
}

test('errors are one schema with an example of each code', t => {
  const validators = Object.fromEntries(
    ['ErrorResponse', 'GoogleErrorResponse', 'MessagesErrorResponse', 'ResponsesErrorResponse'].map(name => [
      name,
      ajv.compile({ $ref: `document#/components/schemas/${name}` }),
    ]),
  )
  for (const endpoint of endpoints) {
    const { responses } = document.paths[endpoint.path]![endpoint.method]!
    for (const code of errorsOf(endpoint)) {
      const failure = new GatewayError(code, '')
      const { name, status, shownCode = code } = errorFormatOf(endpoint.path, failure)
      const { schema, examples } = resolved(document, responses[status]!).content!['application/json']!
      t.is(schema.$ref, `#/components/schemas/${name}`)
      const { value } = resolved(document, examples![code]!) as unknown as {
        value: {
          error: {
            code: string
            message: string
            metadata?: { code?: string }
            details?: { metadata?: { code?: string } }[]
          }
        }
      }
      t.true(validators[name]!(value), code)
      t.is(value.error.details?.[0]?.metadata?.code ?? value.error.code, shownCode)
      if (shownCode !== code) t.is(value.error.metadata?.code, code)
      t.not(value.error.message, 'The request failed.', `${code} needs an example in api/openapi/errors.ts`)
    }
  }
})

test('what is refused because it costs apart is not offered', t => {
  for (const { properties } of objectsIn(document.components))
    for (const field of ['plugins', 'search_parameters', 'mcp_servers']) t.false(field in (properties ?? {}))
})

test('webhooks are documented with their headers and payloads', t => {
  const sent = operationsIn(document, 'webhooks')
  t.deepEqual(
    sent.map(({ path }) => path).filter(type => /^(job|batch)\./.test(type)),
    ['job', 'batch'].flatMap(object => ['completed', 'failed', 'cancelled', 'expired'].map(end => `${object}.${end}`)),
  )
  for (const { path, operation } of sent) {
    const names = operation.parameters.map(({ name }) => name)
    t.deepEqual(names, ['webhook-id', 'webhook-timestamp', 'webhook-signature'])
    const { properties } = resolved(document, operation.requestBody!.content['application/json']!.schema)
    t.is(properties?.type?.const, path)
  }
})

test('the sample of each webhook event has the form that the document promises', t => {
  for (const [type, { data, sample }] of Object.entries(webhookEvents)) {
    const { success, error } = data.safeParse(sample(Date.UTC(2026, 10, 27), 'org_sample'))
    t.true(success, `${type}: ${error && z.prettifyError(error)}`)
  }
})
