import OpenAI from 'openai'
import { z } from 'zod'
import { modelList, modelRow } from '../../api/schemas/models.ts'
import { picoPerUnit, usdPerUnit, withMargin } from '../../shared/base/money.ts'
import { loadCatalog } from '../../shared/catalog/catalog.ts'
import { endpoints } from '../../shared/catalog/schema.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import { answersError } from '../support/api/edge.ts'
import type { KeyOptions } from '../support/gateway.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

type Row = z.infer<typeof modelRow> & Record<string, unknown>
const catalog = loadCatalog()
const enabled = [...catalog.models.values()].filter(model => !model.disabled)

const gateway = useGateway(test, () => {
  const nowhere = { OPENAI_BASE_URL: 'http://127.0.0.1:9/v1', OLLAMA_BASE_URL: 'http://127.0.0.1:9/v1' }
  return { OPENAI_API_KEY: 'sk-a', GEMINI_API_KEY: 'g-a', ...nowhere }
})
const account = use(test, () => gateway.account({ usd: '0' }))

async function list(key: string, query = ''): Promise<Row[]> {
  const response = await gateway.fetch(`/v1/models${query}`, { key })
  const text = await response.text()
  if (response.status !== 200) throw new Error(text)
  return z.strictObject({ object: z.literal('list'), data: z.array(modelRow) }).parse(JSON.parse(text)).data as Row[]
}

async function listFor(environment: 'live' | 'test', options: KeyOptions, query = ''): Promise<Row[]> {
  return list(await gateway.key(account.organisationId, environment, options), query)
}

const ids = (rows: Row[]) => rows.map(({ id }) => id)

test.serial('200 with every enabled model for a test key, auto first among the chat rows', async t => {
  const rows = await list(account.test)
  t.deepEqual(ids(rows).sort(), ['auto', ...enabled.map(({ id }) => id)].sort())
  t.true(rows.length > 80)
  t.is(rows.find(({ type }) => type === 'chat')!.id, 'auto')
  t.is(rows.filter(({ id }) => id === 'auto').length, 1)
  t.false(ids(rows).includes('gpt-6-astra'), 'disabled')
  const types = new Set(rows.map(({ type }) => type))
  t.deepEqual([...types].sort(), [...new Set(enabled.map(({ type }) => type as string))].sort())
})

test.serial('200 with what a configured provider can serve for a live key', async t => {
  const rows = await list(account.live)
  // Providers whose protocol is spoken here: openai, gemini and, as it has an address, ollama.
  const configured = new Set(['openai', 'gemini', 'ollama'])
  const expected = enabled.filter(({ providers }) => providers.some(({ provider }) => configured.has(provider)))
  t.deepEqual(ids(rows).sort(), ['auto', ...expected.map(({ id }) => id)].sort())
  for (const { id, providers } of rows) {
    if (id === 'auto') continue
    t.true(providers.length > 0, id)
    t.true(
      providers.every(provider => configured.has(provider)),
      id,
    )
  }
  t.true(ids(rows).includes('qwen3-8b-local'))
  t.false(ids(rows).includes('claude-opus-5'))
})

test.serial('200 without the parameters that no provider of the model takes', async t => {
  const rows = await list(account.test)
  const parametersOf = (slug: string) => rows.find(({ id }) => id === slug)!.supported_parameters
  t.false(parametersOf('gemini-2.5-flash').includes('frequency_penalty'))
  t.true(parametersOf('gpt-4o').includes('frequency_penalty'))
})

test.serial('200 with one type each, together everything', async t => {
  const everything = await list(account.test)
  for (const type of Object.keys(endpoints)) {
    const rows = await list(account.test, `?type=${type}`)
    t.deepEqual(
      rows,
      everything.filter(row => row.type === type),
      type,
    )
  }
  t.true(ids(await list(account.test, '?type=chat')).includes('auto'))
  t.false(ids(await list(account.test, '?type=image')).includes('auto'))
})

test.serial('200 with the models of the allowlist only, auto while one of them chats', async t => {
  const both = ['gpt-4o', 'text-embedding-3-small']
  t.deepEqual(ids(await listFor('live', { model_allowlist: both })).sort(), ['auto', ...both])
  t.deepEqual(ids(await listFor('live', { model_allowlist: both }, '?type=embeddings')), ['text-embedding-3-small'])
  t.deepEqual(ids(await listFor('test', { model_allowlist: ['text-embedding-3-small'] })), ['text-embedding-3-small'])
  t.deepEqual(ids(await listFor('live', { model_allowlist: ['claude-opus-5'] })), [])
  t.deepEqual(ids(await listFor('test', { model_allowlist: ['nope'] })), [])
  t.deepEqual(ids(await listFor('test', { model_allowlist: ['OpenAI/GPT-4o'] })), ['auto', 'gpt-4o'])
})

test.serial('200 whatever else the query of a list has', async t => {
  const rows = await list(account.test)
  t.deepEqual(await list(account.test, '?limit=1000&beta=true'), rows)
  for (const path of ['/v1/videos/models', '/v1/images/models', '/v1/lipsync/models', '/v1/meshes/models']) {
    const plain = await gateway.fetch(path, { key: account.test })
    const asked = await gateway.fetch(`${path}?client_version=1&limit=1000`, { key: account.test })
    t.is(asked.status, 200, path)
    t.deepEqual(await asked.json(), await plain.json(), path)
  }
})

test.serial('200 with the list that Codex reads beside the rows, where it sends its version', async t => {
  const key = await gateway.key(account.organisationId, 'test', { model_allowlist: ['gpt-4o', 'gpt-5', 'gpt-image-1'] })
  const response = await gateway.fetch('/v1/models?client_version=0.169.0&beta=true', { key })
  const { models, ...rest } = modelList.parse(await response.json())
  t.deepEqual(rest.data, await list(key))
  t.deepEqual(
    models!.map(({ slug, priority }) => [slug, priority]),
    [
      ['auto', 0],
      ['gpt-5', 1],
      ['gpt-4o', 2],
    ],
    'models that take tools, the best first',
  )
  const gpt5 = catalog.models.get('gpt-5')!
  t.like(models![1], {
    display_name: gpt5.name,
    default_reasoning_level: 'medium',
    supports_reasoning_summaries: true,
    apply_patch_tool_type: null,
    context_window: gpt5.context_length,
    input_modalities: ['text', 'image'],
  })
  t.like(models![2], {
    default_reasoning_level: null,
    supported_reasoning_levels: [],
    supports_parallel_tool_calls: true,
  })
  const all = modelList.parse(await (await gateway.fetch('/v1/models?client_version=', { key: account.test })).json())
    .models!
  const usable = enabled.filter(row => row.type === 'chat' && row.supported_parameters.includes('tools'))
  t.deepEqual(all.map(({ slug }) => slug).sort(), ['auto', ...usable.map(({ id }) => id)].sort())
})

test.serial('304 for the version that a client has; each format and each key’s list has its own', async t => {
  const both = { 'anthropic-version': '2023-06-01' }
  const narrow = await gateway.key(account.organisationId, 'test', { model_allowlist: ['gpt-4o'] })
  const versions = new Set<string>()
  for (const [key, path, headers] of [
    [account.test, '/v1/models', {}],
    [account.test, '/v1/models?client_version=1', {}],
    [account.test, '/v1/models', both],
    [narrow, '/v1/models', {}],
  ] as const) {
    const first = await gateway.fetch(path, { key, headers })
    const etag = first.headers.get('etag')!
    t.regex(etag, /^"[\w-]{22}"$/)
    t.is(first.headers.get('x-models-etag'), etag)
    versions.add(etag)
    for (const known of [etag, `W/${etag}`, `"other", ${etag}`]) {
      const again = await gateway.fetch(path, { key, headers: { ...headers, 'if-none-match': known } })
      t.deepEqual([again.status, (await again.text()).length, again.headers.get('etag')], [304, 0, etag])
    }
    const changed = await gateway.fetch(path, { key, headers: { ...headers, 'if-none-match': '"other"' } })
    t.is(changed.status, 200)
    t.true((await changed.text()) === (await first.text()), path)
  }
  t.is(versions.size, 4)
})

test.serial(
  'responses name the version of the list that Codex reads, unless the key has a list of its own',
  async t => {
    const listed = await gateway.fetch('/v1/models?client_version=0.169.0', { key: account.test })
    const body = { model: 'gpt-4o', input: 'Hello' }
    const etagOf = async (key: string, more: object = {}) => {
      const response = await gateway.fetch('/v1/responses', { key, body: { ...body, ...more } })
      t.is(response.status, 200, await response.text())
      return response.headers.get('x-models-etag')
    }
    t.is(await etagOf(account.test), listed.headers.get('etag'))
    t.is(await etagOf(account.test, { stream: true }), listed.headers.get('etag'))
    const narrow = await gateway.key(account.organisationId, 'test', { model_allowlist: ['gpt-4o'] })
    t.is(await etagOf(narrow), null)
  },
)

test.serial('200 with one row, by every name that its model has', async t => {
  const sdk = new OpenAI({ apiKey: account.test, baseURL: `${gateway.url}/v1`, maxRetries: 0 })
  const rows = await list(account.test)
  const row = (id: string) => rows.find(one => one.id === id)
  for (const name of ['gpt-4o', 'GPT-4o', 'openai/gpt-4o', 'gpt-4o-2024-08-06', 'openai/gpt-4o-2024-11-20']) {
    t.deepEqual(await sdk.models.retrieve(name), row('gpt-4o') as unknown as OpenAI.Model, name)
    // Not every client escapes the slash.
    const plain = await gateway.fetch(`/v1/models/${name}`, { key: account.test })
    t.deepEqual(await plain.json(), row('gpt-4o'), name)
  }
  t.is((await sdk.models.retrieve('anthropic/claude-sonnet-4.5')).id, 'claude-sonnet-4-5')
  t.is((await sdk.models.retrieve('claude-sonnet-4-5-20250929')).id, 'claude-sonnet-4-5')
  t.deepEqual(await sdk.models.retrieve('auto'), row('auto') as unknown as OpenAI.Model)
  t.like(row('gpt-4o'), { display_name: 'GPT-4o', name: 'GPT-4o', context_window: 128_000, context_length: 128_000 })
  t.true(row('gpt-4o')!.aliases.includes('gpt-4o-2024-08-06'))
  for await (const model of sdk.models.list()) t.truthy(row(model.id))
})

test.serial('404 for a model that there is not, or not for this key', async t => {
  const narrow = await gateway.key(account.organisationId, 'test', { model_allowlist: ['gpt-4o-2024-08-06'] })
  const refused: [string, string][] = [
    [account.test, 'nope'],
    [account.test, 'openai/nope'],
    [account.test, 'gpt-6-astra'],
    [account.live, 'claude-opus-5'],
    [narrow, 'gpt-5'],
  ]
  for (const [key, id] of refused)
    await answersError(t, await gateway.fetch(`/v1/models/${id}`, { key }), 'model_not_found', 'model', id)
  const retired = await gateway.fetch('/v1/models/gpt-3.5-turbo', { key: account.test })
  const { error } = (await retired.json()) as { error: { code: string; message: string } }
  t.is(error.code, 'model_not_found')
  t.regex(error.message, /^`gpt-3\.5-turbo` was retired on 2026-10-23\. Use `gpt-5\.6-terra` instead\./)
  await answersError(t, await gateway.fetch('/v1/models/gpt-4o'), 'missing_api_key')
  const allowed = await gateway.fetch('/v1/models/openai/gpt-4o', { key: narrow })
  t.is(allowed.status, 200)
  t.deepEqual(ids(await list(narrow)).sort(), ['auto', 'gpt-4o'])
})

test.serial('200 for every scope, as the list belongs to no route', async t => {
  for (const scopes of ['chat', 'embeddings', 'completions']) t.true((await listFor('test', { scopes })).length > 80)
})

test.serial('200 with the row’s own facts, prices with the margin, and the kind’s own fields', async t => {
  const rows = await list(account.test)
  for (const model of enabled) {
    const row = rows.find(({ id }) => id === model.id)!
    t.like(row, { object: 'model', owned_by: model.owned_by, type: model.type, context_length: model.context_length })
    t.is(row.endpoint, model.endpoint ?? endpoints[model.type], model.id)
    for (const [field, value] of Object.entries(model.kind ?? {})) t.deepEqual(row[field], value, model.id)
    t.true(Object.keys(row.pricing).length > 0, model.id)
    for (const price of Object.values(row.pricing)) t.regex(price, /^\d+(\.\d+)?$/, model.id)
  }
  const chat = catalog.models.get('gpt-4o')!.providers[0]!.price
  const embedding = catalog.models.get('text-embedding-3-small')!.providers[0]!.price
  if (chat.unit !== 'token' || embedding.unit !== 'token') return t.fail('these models are priced by token')
  const listed = (id: string) => Object.values(rows.find(row => row.id === id)!.pricing)
  const charged = (usd: string, marginPpm: bigint) => usdPerUnit(withMargin(picoPerUnit(usd, 1_000_000), marginPpm))
  t.true(listed('gpt-4o').includes(charged(chat.input, 50_000n)))
  t.true(listed('text-embedding-3-small').includes(charged(embedding.input, 25_000n)))
  const { pricing } = rows.find(({ id }) => id === 'claude-opus-5')!
  t.deepEqual(Object.keys(pricing), [
    'prompt',
    'completion',
    'input_cache_read',
    'input_cache_write',
    'input_cache_write_1h',
    'web_search',
  ])
  t.truthy(rows.find(({ type }) => type === 'lipsync')!.takes)
  t.true(Array.isArray(rows.find(({ type }) => type === 'mesh')!.inputs))
})

test.serial('200 with the rate-limit headers of a limited key, 429 after its last request', async t => {
  const key = await gateway.key(account.organisationId, 'test', { rpm_limit: 1 })
  const first = await gateway.fetch('/v1/models', { key })
  t.is(first.headers.get('x-ratelimit-limit-requests'), '1')
  t.is(first.headers.get('x-ratelimit-remaining-requests'), '0')
  const second = await gateway.fetch('/v1/models', { key })
  await answersError(t, second, 'rate_limit_exceeded')
  t.true(Number(second.headers.get('retry-after')) >= 1)
})

test.serial('401 and 403 without a serving key', async t => {
  await answersError(t, await gateway.fetch('/v1/models'), 'missing_api_key')
  const { secret } = await gateway.services.keys.createProvisioning(account.organisationId, operatorActor)
  await answersError(t, await gateway.fetch('/v1/models', { key: secret }), 'wrong_key_type')
})
