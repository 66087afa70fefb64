import Ajv2020, { type ValidateFunction } from 'ajv/dist/2020.js'
import { errorsOf } from '../../api/openapi/errors.ts'
import { endpoints } from '../../api/routes/index.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import { bytesOf } from '../../shared/io/bytes.ts'
import { SseParser } from '../../shared/io/sse.ts'
import { provisioningKey, validBodies } from '../support/api/edge.ts'
import { asExample, writeExamples } from '../support/api/example-answers.ts'
import { fileCalls } from '../support/api/file-calls.ts'
import { logExportCalls, madeExport } from '../support/api/log-export-calls.ts'
import { type OpenApi, operationsIn, resolved, type Schema } from '../support/api/openapi.ts'
import { exampleRequest } from '../support/api/openapi-examples.ts'
import { madeProviderKey, providerKeyCalls } from '../support/api/provider-key-calls.ts'
import { madeEndpoint, webhookEndpointCalls, withAddress } from '../support/api/webhook-endpoint-calls.ts'
import { batchCalls } from '../support/batches/calls.ts'
import { delayedCalls } from '../support/delayed/calls.ts'
import { mediaCalls } from '../support/jobs/calls.ts'
import { syncMediaCalls } from '../support/media/calls.ts'
import { realtimeCalls } from '../support/realtime/calls.ts'
import { conversationPath, storedResponseCalls } from '../support/responses/calls.ts'
import { keepingAccount } from '../support/responses/world.ts'
import { type ExecutionContext, test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'
import { paymentCalls, paymentEnvironment } from '../support/wallet/payments.ts'

// biome-ignore lint/suspicious/noExplicitAny: a JSON document whose shape is what these tests check
type Json = any
let provisioning: string

const gateway = useGateway(test, paymentEnvironment({ url: 'http://127.0.0.1:9' }))
const account = use(test, () => keepingAccount({ gateway }, { usd: '25' }))
test.before(async () => {
  provisioning = await provisioningKey(gateway, account.organisationId)
})
const document = use(test, async () => (await (await gateway.fetch('/openapi.json')).json()) as OpenApi)
const ajv = use(test, () => new Ajv2020.default({ strict: false, validateFormats: false, allErrors: true }))
test.before(() => {
  ajv.addSchema(document, 'document')
})

test.serial('streamed answers, guards and idempotency are documented', t => {
  for (const path of ['/v1/chat/completions', '/v1/completions']) {
    const { content = {} } = document.paths[path]!.post!.responses['200']!
    t.deepEqual(Object.keys(content), ['application/json', 'text/event-stream'])
  }
  for (const { method, operation, name } of operationsIn(document)) {
    const header = operation.parameters.some(parameter => parameter.name === 'Idempotency-Key')
    t.is(header, method === 'post' && operation.security.length > 0, name)
    t.is(operation.security.length === 0, !operation.responses['401'], name)
  }
})

const anthropic = { 'anthropic-version': '2023-06-01' }
type Call = { path?: string; key?: string; body?: unknown; method?: string; headers?: Record<string, string> }
type Documented = { success: () => Call[] | Promise<Call[]>; errors: () => Call[] }

async function madeKey(): Promise<string> {
  const { row } = await gateway.services.keys.create(account.organisationId, { environment: 'test' }, operatorActor)
  return `/api/v1/keys/${row.hash}`
}

/** The path of a preset that has two versions. */
async function madePreset(): Promise<string> {
  for (const temperature of [0.2, 0.3])
    await gateway.services.presets.save(
      account.organisationId,
      'support',
      { model: 'auto', temperature },
      operatorActor,
    )
  return '/api/v1/presets/support'
}
const noPreset = '/api/v1/presets/nothing'

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
const budget = '/api/v1/budgets/organisation'
const nowhere = `/api/v1/keys/${'0'.repeat(64)}`
const strangers = (): Call[] => [{}, { key: `svc_pk_${'a'.repeat(40)}` }, { key: account.live }]

function magical(body: object, magic: string): object {
  const text = `sandbox:${magic}`
  if ('messages' in body) return { ...body, messages: [{ role: 'user', content: text }] }
  return { ...body, ['prompt' in body ? 'prompt' : 'input']: text }
}

const contents = [{ role: 'user', parts: [{ text: 'Hello' }] }]
const ofGemini = (method: string, body: object, model = 'gemini-3.5-flash') => {
  const path = `/v1beta/models/${model}:${method}`
  return {
    success: () => [{ key: account.test, path, body }],
    errors: () => [
      ...[{}, { key: provisioning }].map(call => ({ ...call, path, body })),
      { key: account.test, path, body: '{' },
      { key: account.test, path, body: {} },
      { key: account.test, path: `/v1beta/models/nope:${method}`, body },
    ],
  }
}
const geminiCalls: Record<string, Documented> = {
  'POST /v1beta/models/{model}:generateContent': ofGemini('generateContent', { contents }),
  'POST /v1beta/models/{model}:streamGenerateContent': ofGemini('streamGenerateContent', { contents }),
  'POST /v1beta/models/{model}:countTokens': ofGemini('countTokens', { contents }),
  'POST /v1beta/models/{model}:embedContent': ofGemini(
    'embedContent',
    { content: contents[0]! },
    'gemini-embedding-001',
  ),
  'POST /v1beta/models/{model}:batchEmbedContents': ofGemini(
    'batchEmbedContents',
    { requests: [{ content: contents[0]! }] },
    'gemini-embedding-001',
  ),
  'GET /v1beta/models': {
    success: () => [{ key: account.test }, { key: account.test, path: '/v1beta/models?pageSize=3' }],
    errors: () => [{}, { key: provisioning }, { key: account.test, path: '/v1beta/models?pageToken=x' }],
  },
  'GET /v1beta/models/{model}': {
    success: () => [{ key: account.test, path: '/v1beta/models/gemini-3.5-flash' }],
    errors: () => [{ path: '/v1beta/models/x' }, { key: account.test, path: '/v1beta/models/x' }],
  },
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
  'POST /v1/messages': {
    success: () => streamed(validBodies['/v1/messages']),
    errors: () => serving(validBodies['/v1/messages']),
  },
  'POST /v1/messages/count_tokens': {
    success: () => [{ key: account.test, body: validBodies['/v1/messages/count_tokens'] }],
    // It asks no provider, so the sandbox’s failures do not concern it.
    errors: () => serving(validBodies['/v1/messages/count_tokens']).slice(0, -2),
  },
  'POST /v1/responses': {
    success: () => streamed(validBodies['/v1/responses']),
    errors: () => serving(validBodies['/v1/responses']),
  },
  'POST /v1/embeddings': {
    success: () =>
      ['float', 'base64'].map(encoding_format => ({
        key: account.test,
        body: { ...validBodies['/v1/embeddings'], encoding_format },
      })),
    errors: () => serving(validBodies['/v1/embeddings']),
  },
  ...geminiCalls,
  'POST /v1/route': {
    success: () =>
      ['auto', 'gpt-5.6-luna'].map(model => ({ key: account.test, body: { ...validBodies['/v1/route'], model } })),
    errors: () => serving(validBodies['/v1/route']).slice(0, -2),
  },
  'GET /v1/models': {
    success: () => [
      ...[account.test, account.live].map(key => ({ key })),
      { key: account.test, path: '/v1/models?type=mesh' },
      { key: account.test, path: '/v1/models?client_version=0.169.0' },
      { key: account.test, path: '/v1/models?limit=5', headers: anthropic },
    ],
    errors: () => [{}, { key: provisioning }, { key: account.test, path: '/v1/models?type=x' }],
  },
  'GET /v1/models/{model}': {
    success: () =>
      ['gpt-4o', 'auto', 'openai/gpt-4o'].flatMap(id =>
        [{}, anthropic].map(headers => ({ key: account.test, path: `/v1/models/${id}`, headers })),
      ),
    errors: () => [
      { path: '/v1/models/x' },
      ...[provisioning, account.test].map(key => ({ key, path: '/v1/models/x' })),
    ],
  },
  'GET /v1/balance': { success: () => [{ key: account.live }], errors: () => [{}, { key: provisioning }] },
  'POST /v1/feedback': {
    success: async () => [{ key: account.test, body: { generation_id: await madeGeneration(), score: 1 } }],
    errors: () => [
      {},
      { key: account.test, body: { generation_id: 'nope', score: 1 } },
      { key: account.test, body: {} },
    ],
  },
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
  ...storedResponseCalls(() => ({ gateway, account, provisioning })),
  ...batchCalls(() => ({ gateway, account, provisioning })),
  ...delayedCalls(() => ({ gateway, account, provisioning })),
  ...providerKeyCalls(() => ({ gateway, account, provisioning })),
  ...webhookEndpointCalls(() => ({ gateway, account, provisioning })),
  ...logExportCalls(() => ({ gateway, account, provisioning })),
  ...fileCalls(() => ({ gateway, account, provisioning })),
  ...syncMediaCalls(() => ({ account, provisioning })),
  ...mediaCalls(() => ({ gateway, account, provisioning })),
  ...realtimeCalls(() => ({ account, provisioning })),
  ...paymentCalls,
  'GET /api/v1/usage': {
    success: () => [
      { key: provisioning },
      { key: provisioning, path: '/api/v1/usage?granularity=total&group_by=key,model' },
      { key: provisioning, path: '/api/v1/usage?format=csv' },
    ],
    errors: () => [
      ...strangers(),
      { key: provisioning, path: '/api/v1/usage?group_by=colour' },
      { key: provisioning, path: '/api/v1/usage?key=none' },
    ],
  },
  'GET /api/v1/budgets': {
    success: async () => {
      await gateway.fetch(budget, { key: provisioning, method: 'PUT', body: { limit_usd: 500 } })
      return [{ key: provisioning }]
    },
    errors: strangers,
  },
  'PUT /api/v1/budgets/{scope}': {
    success: () => [{ key: provisioning, path: budget, body: { limit_usd: 500, blocks: false, alert_percents: [90] } }],
    errors: () => [
      { key: provisioning, path: budget, body: { limit_usd: -1 } },
      { key: provisioning, path: '/api/v1/budgets/nobody', body: { limit_usd: 1 } },
    ],
  },
  'DELETE /api/v1/budgets/{scope}': {
    success: async () => {
      await gateway.fetch(budget, { key: provisioning, method: 'PUT', body: { limit_usd: 500 } })
      return [{ key: provisioning, path: budget }]
    },
    errors: () => [{ key: provisioning, path: '/api/v1/budgets/nobody' }],
  },
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
  'GET /api/v1/presets': {
    success: async () => [{ key: provisioning, path: (await madePreset()).replace('/support', '') }],
    errors: strangers,
  },
  'GET /api/v1/presets/{name}': {
    success: async () => [{ key: provisioning, path: await madePreset() }],
    errors: () => [
      ...strangers().map(call => ({ ...call, path: noPreset })),
      { key: provisioning, path: noPreset },
      { key: provisioning, path: '/api/v1/presets/Not%20A%20Name' },
    ],
  },
  'POST /api/v1/presets/{name}': {
    success: async () => [{ key: provisioning, path: await madePreset(), body: { model: 'auto', temperature: 0.4 } }],
    errors: () => [
      ...strangers().map(call => ({ ...call, path: noPreset, body: { model: 'auto' } })),
      { key: provisioning, path: noPreset, body: {} },
      { key: provisioning, path: noPreset, body: { model: '@preset/other' } },
      { key: provisioning, path: noPreset, body: { temperatur: 1 } },
    ],
  },
  'GET /api/v1/presets/{name}/versions': {
    success: async () => [{ key: provisioning, path: `${await madePreset()}/versions` }],
    errors: () => [
      ...strangers().map(call => ({ ...call, path: `${noPreset}/versions` })),
      { key: provisioning, path: `${noPreset}/versions` },
    ],
  },
  'POST /api/v1/presets/{name}/current': {
    success: async () => [{ key: provisioning, path: `${await madePreset()}/current`, body: { version: 1 } }],
    errors: () => [
      ...strangers().map(call => ({ ...call, path: `${noPreset}/current`, body: { version: 1 } })),
      { key: provisioning, path: `${noPreset}/current`, body: { version: 1 } },
      { key: provisioning, path: `${noPreset}/current`, body: { version: 0 } },
    ],
  },
  'DELETE /api/v1/presets/{name}': {
    success: async () => [{ key: provisioning, path: await madePreset() }],
    errors: () => [...strangers().map(call => ({ ...call, path: noPreset })), { key: provisioning, path: noPreset }],
  },
  'DELETE /api/v1/response-cache': { success: () => [{ key: provisioning }], errors: strangers },
  'GET /healthz': { success: () => [{}], errors: none },
  'GET /readyz': { success: () => [{}], errors: none },
  'GET /openapi.json': { success: () => [{}], errors: none },
}

test.serial('ok: this test calls every endpoint of the document', t => {
  t.deepEqual(
    Object.keys(calls).sort(),
    operationsIn(document)
      .map(({ name }) => name)
      .sort(),
  )
})

/** The first answer of each operation; `UPDATE_EXAMPLES=1` writes them into the document. */
const seen: Record<string, unknown> = {}
test.after.always(() => {
  if (process.env.UPDATE_EXAMPLES) writeExamples(seen)
})

for (const endpoint of endpoints) {
  const name = `${endpoint.method.toUpperCase()} ${endpoint.path}`
  test.serial(`answers as documented: ${name}`, async t => {
    const { success, errors } = calls[name]!
    for (const call of await success()) {
      const { status, body } = await conforms(t, name, call)
      if (name !== 'GET /openapi.json' && typeof body === 'object') seen[name] ??= asExample(body, gateway.url)
      t.true([200, 201, 202].includes(status), `${name} ${status} ${JSON.stringify(call)}`)
    }
    const documented = new Set<string>(errorsOf(endpoint))
    for (const call of errors()) {
      const { status, body } = await conforms(t, name, call)
      t.true(status >= 400 && status !== 500, `${name} ${status}`)
      const code = body.error.details?.[0]?.metadata?.code ?? body.error.code
      t.true(documented.has(code), `${name}: ${code}`)
    }
    t.is(errors().length === 0, endpoint.access === 'public' && !endpoint.path.includes('{'), name)
  })
}

/** The id of a request that was answered. */
async function madeGeneration(): Promise<string> {
  const body = { model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'Hello' }] }
  const response = await gateway.fetch('/v1/chat/completions', { key: account.test, body })
  await response.text()
  return response.headers.get('x-generation-id')!
}

test.serial('200 with every body that the document has as an example', async t => {
  for (const { name, path, method, operation } of operationsIn(document))
    for (const [type, { example }] of Object.entries(operation.requestBody?.content ?? {})) {
      const key = 'provisioning' in operation.security[0]! ? provisioning : account.test
      const address = path
        .replace('/api/v1/budgets/{scope}', budget)
        .replace('/api/v1/keys/{hash}', path.includes('{hash}') ? await madeKey() : '')
        .replace('/api/v1/presets/{name}', path.includes('/presets/{name}') ? await madePreset() : '')
        .replace(
          '/api/v1/webhook-endpoints/{id}',
          path.includes('-endpoints/{id}') ? await madeEndpoint(gateway, account.organisationId) : '',
        )
        .replace(
          '/api/v1/provider-keys/{id}',
          path.includes('provider-keys/{id}') ? await madeProviderKey(gateway, account.organisationId) : '',
        )
        .replace(
          '/api/v1/log-exports/{id}',
          path.includes('-exports/{id}') ? await madeExport(gateway, account.organisationId) : '',
        )
        .replace('{model}', path.includes(':') && path.includes('mbed') ? 'gemini-embedding-001' : 'gemini-3.5-flash')
        .replace(
          '/v1/conversations/{id}',
          path.startsWith('/v1/conversations/{id}') ? await conversationPath(gateway, key) : '',
        )
      const real =
        path === '/v1/feedback'
          ? { ...(example as object), generation_id: await madeGeneration() }
          : path === '/api/v1/webhook-endpoints' || path === '/api/v1/log-exports'
            ? withAddress(example)
            : example
      const { body, headers } = await exampleRequest(type, real)
      const sent = {
        method: method.toUpperCase(),
        body: body!,
        headers: { ...headers, authorization: `Bearer ${key}` },
      }
      const response = await fetch(gateway.url + address, sent)
      t.true(response.ok, `${name} ${type}: ${response.status} ${(await response.text()).slice(0, 300)}`)
    }
})

test.serial('the document has an example of every JSON answer, and each is valid', t => {
  for (const { name, operation } of operationsIn(document)) {
    const [status] = Object.keys(operation.responses)
    const { content = {} } = resolved(document, operation.responses[status!]!)
    const media = content['application/json']
    // Only providers call their callbacks.
    if (!media || name === 'GET /openapi.json' || name.startsWith('POST /callbacks/')) continue
    t.not(media.example, undefined, `${name} has no example: run this test with UPDATE_EXAMPLES=1`)
    const validate = validatorOf(media.schema)
    t.true(validate(media.example), `${name}: ${ajv.errorsText(validate.errors)}`)
  }
})

const validators = new Map<string, ValidateFunction>()

/** The compiled schema of an answer; many answers have the same one, such as that of errors. */
function validatorOf(schema: Schema): ValidateFunction {
  const text = JSON.stringify(schema).replaceAll('"#/', '"document#/')
  const known = validators.get(text)
  if (known) return known
  const compiled = ajv.compile(JSON.parse(text))
  validators.set(text, compiled)
  return compiled
}

/** Makes a call and holds its answer to the document: its status, its content type and its schema. */
async function conforms(t: ExecutionContext, name: string, call: Call): Promise<{ status: number; body: Json }> {
  const [method, template] = name.split(' ') as [string, string]
  const { path = template.replace('{hash}', '0'.repeat(64)), ...options } = call
  const response = await gateway.fetch(path, { ...options, method })
  const text = await response.text()
  const shown = `${name} ${JSON.stringify(call).slice(0, 200)} → ${response.status} ${text.slice(0, 300)}`
  const answer = document.paths[template]![method.toLowerCase()]!.responses[response.status]
  if (!answer) return t.fail(`${shown} (status)`)
  const { content = {}, headers = {} } = resolved(document, answer)
  for (const name of response.headers.keys())
    if (/^(x-(?!accel-|content-)|retry-after|www-auth|idempotent)/.test(name))
      t.true(name in headers, `${shown} (${name})`)
  const type = (response.headers.get('content-type') ?? '').split(';')[0]!
  const schema = (content[type] ?? content['*/*'])?.schema
  t.truthy(schema, `${shown} (${type})`)
  if (schema?.type === 'string') return { status: response.status, body: text }
  const validate = validatorOf(schema!)
  t.false(validate({ nothing: true }), `${shown}: a schema that takes anything proves nothing`)
  const bodies = type === 'text/event-stream' ? pieces(t, text) : [JSON.parse(text)]
  for (const body of bodies) t.true(validate(body), `${shown}: ${ajv.errorsText(validate.errors)}`)
  return { status: response.status, body: bodies[0] }
}

/** The JSON pieces of an event stream, which ends with `[DONE]`. */
function pieces(t: ExecutionContext, text: string): Json[] {
  const data = new SseParser().push(Buffer.from(text)).map(event => event.data)
  t.true(['[DONE]', '{"type":"message_stop"}'].includes(data.pop()!))
  t.true(data.length > 1)
  return data.map(one => JSON.parse(one))
}
