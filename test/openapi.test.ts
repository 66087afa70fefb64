import Ajv2020 from 'ajv/dist/2020.js'
import test, { type ExecutionContext } from 'ava'
import { errorsOf } from '../api/openapi/errors.ts'
import { endpoints } from '../api/routes/index.ts'
import { bytesOf } from '../shared/io/bytes.ts'
import { SseParser } from '../shared/io/sse.ts'
import { operatorActor } from '../shared/keys/audit.ts'
import { delayedCalls } from './support/async-calls.ts'
import { batchCalls } from './support/batch-calls.ts'
import { provisioningKey, validBodies } from './support/edge.ts'
import { fileCalls } from './support/file-calls.ts'
import { type Account, freshStores, type Gateway, startGateway } from './support/gateway.ts'
import { instantCalls } from './support/instant-calls.ts'
import { mediaCalls } from './support/media-calls.ts'
import { paymentCalls, paymentEnvironment } from './support/payments.ts'
import { realtimeCalls } from './support/realtime-calls.ts'

// biome-ignore lint/suspicious/noExplicitAny: a JSON document whose shape is what these tests check
type Json = any

let gateway: Gateway
let stores: Awaited<ReturnType<typeof freshStores>>
let account: Account
let provisioning: string
let document: Json
let ajv: Ajv2020.default

test.before(async () => {
  stores = await freshStores()
  gateway = await startGateway(stores, paymentEnvironment({ url: 'http://127.0.0.1:9' }))
  account = await gateway.account()
  provisioning = await provisioningKey(gateway, account.organisationId)
  document = await (await gateway.fetch('/openapi.json')).json()
  ajv = new Ajv2020.default({ strict: false, validateFormats: false, allErrors: true })
  ajv.addSchema(document, 'document')
})
test.after.always(async () => {
  await gateway?.close()
  await stores?.drop()
})

type Operation = { name: string; path: string; method: string; operation: Json }

function operations(): Operation[] {
  return Object.entries(document.paths as Json).flatMap(([path, item]) =>
    Object.entries(item as Json).map(([method, operation]) => ({
      name: `${method.toUpperCase()} ${path}`,
      path,
      method,
      operation: operation as Json,
    })),
  )
}

/** Every object inside a JSON document. */
function* objectsIn(value: Json): Generator<Json> {
  if (typeof value !== 'object' || value === null) return
  yield value
  for (const member of Object.values(value)) yield* objectsIn(member)
}

test.serial('200 with an OpenAPI 3.1 document of the right structure', t => {
  t.is(document.openapi, '3.1.0')
  t.deepEqual(Object.keys(document).sort(), ['components', 'info', 'openapi', 'paths', 'servers'])
  for (const field of ['title', 'version']) t.is(typeof document.info[field], 'string')
  const ids = new Set<string>()
  for (const { name, path, operation } of operations()) {
    t.true(path.startsWith('/'), name)
    t.false(ids.has(operation.operationId), name)
    t.regex(operation.operationId, /^[A-Za-z0-9_]+$/)
    ids.add(operation.operationId)
    t.truthy(operation.summary, name)
    t.true(operation.tags.length > 0, name)
    for (const requirement of operation.security)
      for (const scheme of Object.keys(requirement)) t.truthy(document.components.securitySchemes[scheme], name)
    const named = operation.parameters.map((parameter: Json) => `${parameter.in} ${parameter.name}`)
    t.is(new Set(named).size, named.length, name)
    for (const parameter of operation.parameters) {
      t.true(['path', 'query', 'header'].includes(parameter.in), name)
      t.is(typeof parameter.schema, 'object', name)
      if (parameter.in === 'path') t.true(parameter.required && path.includes(`{${parameter.name}}`), name)
    }
    const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, parameter]) => `path ${parameter}`)
    for (const parameter of inPath) t.true(named.includes(parameter), name)
    t.true(Object.keys(operation.responses).length > 0, name)
    for (const [status, response] of Object.entries(operation.responses as Json)) {
      t.regex(status, /^[1-5]\d\d$/, name)
      t.is(typeof (response as Json).description, 'string', name)
      for (const type of Object.keys((response as Json).content)) t.regex(type, /^\w+\/[\w.+*-]+$/, name)
    }
  }
})

test.serial('200 with references that lead somewhere and schemas that are JSON Schema 2020-12', t => {
  const references = [...objectsIn(document)].map(({ $ref }) => $ref).filter(value => typeof value === 'string')
  t.true(references.length > 50)
  for (const reference of new Set<string>(references)) {
    const steps = reference.replace(/^#\//, '').split('/')
    t.not(
      steps.reduce<Json>((at, step) => at?.[step], document),
      undefined,
      reference,
    )
  }
  for (const name of Object.keys(document.components.schemas))
    t.true(ajv.validateSchema(document.components.schemas[name]), name)
  for (const { name, operation } of operations()) {
    const media = [operation.requestBody, ...Object.values(operation.responses as Json)].filter(Boolean)
    for (const { content } of media as Json[])
      for (const { schema } of Object.values(content as Json) as Json[])
        if (schema) t.true(ajv.validateSchema(schema), name)
  }
})

test.serial('every registered route is documented, and nothing else', t => {
  const registered = endpoints.map(({ method, path }) => `${method.toUpperCase()} ${path}`)
  t.deepEqual(
    operations()
      .map(({ name }) => name)
      .sort(),
    [...registered].sort(),
  )
})

test.serial('streamed answers, guards and idempotency are documented', t => {
  for (const path of ['/v1/chat/completions', '/v1/completions']) {
    const { content } = document.paths[path].post.responses['200']
    t.deepEqual(Object.keys(content), ['application/json', 'text/event-stream'])
  }
  for (const { method, operation, name } of operations()) {
    const header = operation.parameters.some((parameter: Json) => parameter.name === 'Idempotency-Key')
    t.is(header, method === 'post' && operation.security.length > 0, name)
    t.is(operation.security.length === 0, !operation.responses['401'], name)
  }
})

type Call = { path?: string; key?: string; body?: unknown; method?: string; headers?: Record<string, string> }
type Documented = { success: () => Call[] | Promise<Call[]>; errors: () => Call[] }

async function madeKey(): Promise<string> {
  const { row } = await gateway.services.keys.create(account.organisationId, { environment: 'test' }, operatorActor)
  return `/api/v1/keys/${row.hash}`
}

async function generationPath(): Promise<string> {
  const body = validBodies['/v1/chat/completions']
  const response = await gateway.fetch('/v1/chat/completions', { key: account.test, body })
  return `/v1/generation?id=${response.headers.get('x-generation-id')}`
}

async function filePath(): Promise<string> {
  const { files, blobs } = gateway.services
  const contentType = 'application/octet-stream'
  const expiresAtMs = Date.now() + 60_000
  const file = {
    organisationId: account.organisationId,
    environment: 'live',
    purpose: 'result',
    filename: 'a',
    contentType,
    expiresAtMs,
  } as const
  const { storageKey } = await files.store(bytesOf(Buffer.from('bytes')), file)
  return (await blobs.signedUrl({ key: storageKey, contentType }, expiresAtMs)).slice(gateway.url.length)
}

/** A multipart form with one file. */
function formOf(file: string, field = 'file') {
  const headers = { 'content-type': 'multipart/form-data; boundary=x' }
  const disposition = `Content-Disposition: form-data; name="${field}"; filename="a.wav"`
  return { headers, body: `--x\r\n${disposition}\r\n\r\n${file}\r\n--x--\r\n` }
}

const streamed = (body: object): Call[] => [
  { key: account.test, body },
  { key: account.test, body: { ...body, stream: true } },
  { key: account.test, body: { ...body, stream: true, stream_options: { include_usage: true } } },
]
const serving = (body: object): Call[] => [
  { body },
  { key: `svc_sk_live_${'a'.repeat(40)}`, body },
  { key: provisioning, body },
  { key: account.test, body: '{' },
  { key: account.test, body: { ...body, model: 5 } },
  { key: account.test, body: { ...body, model: undefined } },
  { key: account.test, body: { ...body, model: 'nope' } },
  { key: account.test, body, headers: { 'content-type': 'text/plain' } },
  { key: account.live, body },
  ...['fail', 'rate_limit'].map(magic => ({ key: account.test, body: magical(body, magic) })),
]
const none = () => [] as Call[]
const nowhere = `/api/v1/keys/${'0'.repeat(64)}`
const strangers = (): Call[] => [{}, { key: `svc_pk_${'a'.repeat(40)}` }, { key: account.live }]

function magical(body: object, magic: string): object {
  const text = `sandbox:${magic}`
  if ('messages' in body) return { ...body, messages: [{ role: 'user', content: text }] }
  return { ...body, ['prompt' in body ? 'prompt' : 'input']: text }
}

/** Real calls of every endpoint: some that it answers, and some that it refuses. A new endpoint adds its own. */
const calls: Record<string, Documented> = {
  'POST /v1/chat/completions': {
    success: () => streamed(validBodies['/v1/chat/completions']),
    errors: () => serving(validBodies['/v1/chat/completions']),
  },
  'POST /v1/completions': {
    success: () => streamed(validBodies['/v1/completions']),
    errors: () => serving(validBodies['/v1/completions']),
  },
  'POST /v1/embeddings': {
    success: () =>
      ['float', 'base64'].map(encoding_format => ({
        key: account.test,
        body: { ...validBodies['/v1/embeddings'], encoding_format },
      })),
    errors: () => serving(validBodies['/v1/embeddings']),
  },
  'POST /v1/route': {
    success: () =>
      ['auto', 'gpt-5.6-luna'].map(model => ({ key: account.test, body: { ...validBodies['/v1/route'], model } })),
    errors: () => serving(validBodies['/v1/route']).slice(0, -2),
  },
  'GET /v1/models': {
    success: () => [{ key: account.test }, { key: account.live }, { key: account.test, path: '/v1/models?type=mesh' }],
    errors: () => [{}, { key: provisioning }, { key: account.test, path: '/v1/models?type=x' }],
  },
  'GET /v1/balance': { success: () => [{ key: account.live }], errors: () => [{}, { key: provisioning }] },
  'GET /v1/generation': {
    success: async () => [{ key: account.test, path: await generationPath() }],
    errors: () => [{}, { key: account.test }, { key: account.test, path: '/v1/generation?id=nope' }],
  },
  'POST /v1/uploads': {
    success: () => [{ key: account.test, ...formOf('RIFFsizeWAVEfmt ') }],
    errors: () => [
      formOf(''),
      { key: provisioning, ...formOf('') },
      ...['', 'text'].map(file => ({ key: account.test, ...formOf(file) })),
      { key: account.test, body: {} },
      { key: account.test, ...formOf('RIFFsizeWAVEfmt ', 'other') },
    ],
  },
  'GET /files/{key}': {
    success: async () => [{ path: await filePath() }],
    errors: () => [{ path: '/files/a/b.png' }, { path: '/files/a/b.png?type=image/png&name=&expires=1&signature=x' }],
  },
  ...batchCalls(() => ({ gateway, account, provisioning })),
  ...delayedCalls(() => ({ gateway, account, provisioning })),
  ...fileCalls(() => ({ gateway, account, provisioning })),
  ...instantCalls(() => ({ account, provisioning })),
  ...mediaCalls(() => ({ gateway, account, provisioning })),
  ...realtimeCalls(() => ({ account, provisioning })),
  ...paymentCalls,
  'GET /api/v1/keys': {
    success: () => [{ key: provisioning }, { key: provisioning, path: '/api/v1/keys?limit=1&include_revoked=true' }],
    errors: () => [...strangers(), { key: provisioning, path: '/api/v1/keys?limit=0' }],
  },
  'POST /api/v1/keys': {
    success: () => [
      { key: provisioning, body: {} },
      {
        key: provisioning,
        body: { name: 'x', scopes: 'chat', rpm_limit: 5, monthly_spend_cap_usd: 1, expires_in_days: 1 },
      },
    ],
    errors: () => [
      ...strangers().map(call => ({ ...call, body: {} })),
      { key: provisioning, body: { colour: 1 } },
      { key: provisioning, body: { rpm_limit: 'x' } },
    ],
  },
  'GET /api/v1/keys/{hash}': {
    success: async () => [{ key: provisioning, path: await madeKey() }],
    errors: () => [...strangers(), { key: provisioning, path: nowhere }],
  },
  'PATCH /api/v1/keys/{hash}': {
    success: async () => [{ key: provisioning, path: await madeKey(), body: { mode: 'cost', disabled: true } }],
    errors: () => [
      ...strangers().map(call => ({ ...call, body: {} })),
      { key: provisioning, path: nowhere, body: {} },
      { key: provisioning, path: nowhere, body: { rpm_limit: -1 } },
    ],
  },
  'POST /api/v1/keys/{hash}/roll': {
    success: async () => [{ key: provisioning, path: `${await madeKey()}/roll` }],
    errors: () => [...strangers(), { key: provisioning, path: `${nowhere}/roll` }],
  },
  'DELETE /api/v1/keys/{hash}': {
    success: async () => [{ key: provisioning, path: await madeKey() }],
    errors: () => [...strangers(), { key: provisioning, path: nowhere }],
  },
  'GET /healthz': { success: () => [{}], errors: none },
  'GET /readyz': { success: () => [{}], errors: none },
  'GET /openapi.json': { success: () => [{}], errors: none },
  'GET /docs': { success: () => [{}], errors: none },
  'GET /docs/{asset}': {
    success: () => [{ path: '/docs/start.js' }, { path: '/docs/swagger-ui-bundle.js' }],
    errors: () => [{ path: '/docs/package.json' }, { path: '/docs/..%2fpackage.json' }],
  },
}

test.serial('every endpoint has its calls here', t => {
  t.deepEqual(
    Object.keys(calls).sort(),
    operations()
      .map(({ name }) => name)
      .sort(),
  )
})

for (const endpoint of endpoints) {
  const name = `${endpoint.method.toUpperCase()} ${endpoint.path}`
  test.serial(`answers as documented: ${name}`, async t => {
    const { success, errors } = calls[name]!
    for (const call of await success()) {
      const { status } = await conforms(t, name, call)
      t.true([200, 201, 202].includes(status), `${name} ${status} ${JSON.stringify(call)}`)
    }
    const documented = new Set<string>(errorsOf(endpoint))
    for (const call of errors()) {
      const { status, body } = await conforms(t, name, call)
      t.true(status >= 400 && status !== 500, `${name} ${status}`)
      t.true(documented.has(body.error.code), `${name}: ${body.error.code}`)
    }
    t.is(errors().length === 0, endpoint.access === 'public' && !endpoint.path.includes('{'), name)
  })
}

/** Makes a call and holds its answer to the document: its status, its content type and its schema. */
async function conforms(t: ExecutionContext, name: string, call: Call): Promise<{ status: number; body: Json }> {
  const [method, template] = name.split(' ') as [string, string]
  const { path = template.replace('{hash}', '0'.repeat(64)), ...options } = call
  const response = await gateway.fetch(path, { ...options, method })
  const text = await response.text()
  const shown = `${name} ${JSON.stringify(call).slice(0, 200)} → ${response.status} ${text.slice(0, 300)}`
  const documented = document.paths[template][method.toLowerCase()].responses[response.status]
  t.truthy(documented, shown)
  const type = (response.headers.get('content-type') ?? '').split(';')[0]!
  t.true(type in documented.content, `${shown} (${type})`)
  if (!documented.content[type].schema) return { status: response.status, body: text }
  const pointer = ['paths', template, method.toLowerCase(), 'responses', response.status, 'content', type, 'schema']
  const steps = pointer.map(step => encodeURIComponent(String(step).replaceAll('~', '~0').replaceAll('/', '~1')))
  const validate = ajv.compile({ $ref: `document#/${steps.join('/')}` })
  t.false(validate({ nothing: true }), `${shown}: a schema that takes anything proves nothing`)
  const bodies = type === 'text/event-stream' ? pieces(t, text) : [JSON.parse(text)]
  for (const body of bodies) t.true(validate(body), `${shown}: ${ajv.errorsText(validate.errors)}`)
  return { status: response.status, body: bodies[0] }
}

/** The JSON pieces of an event stream, which ends with `[DONE]`. */
function pieces(t: ExecutionContext, text: string): Json[] {
  const data = new SseParser().push(Buffer.from(text)).map(event => event.data)
  t.is(data.pop(), '[DONE]')
  t.true(data.length > 1)
  return data.map(one => JSON.parse(one))
}
