import type { GatewayError } from '../../shared/base/errors.ts'
import { validate } from '../../shared/base/validate.ts'
import { loadCatalog } from '../../shared/catalog/catalog.ts'
import type { Deployment, ModelRow, ProviderRow } from '../../shared/catalog/schema.ts'
import { profileOf } from '../../shared/catalog/traits.ts'
import { directKinds, type OpenAiKind } from '../../shared/kinds/index.ts'
import { paidFields } from '../../shared/kinds/paid-fields.ts'
import type { Call, UpstreamRequest } from '../../shared/providers/contract.ts'
import { protocols } from '../../shared/providers/protocols.ts'
import { allowedFields } from '../../shared/providers/toolkit/request-fields.ts'
import { test } from '../support/test.ts'

/** Fields that some provider has a price for, or may come to have: none of them may reach any. */
const unpriced: Record<string, unknown> = {
  service_tier: 'scale',
  store: true,
  speed: 'fast',
  inference_geo: 'us',
  deferred: true,
  background: true,
  agent_count: 16,
  max_tool_calls: 3,
  image_config: { image_size: '4K' },
  prompt_cache_retention: '24h',
  prompt_cache_options: { ttl: '24h' },
  cache_control: { type: 'ephemeral', ttl: '1h' },
  documents: [{ text: 'x' }],
  citations: { enabled: true },
  safety_settings: [{ category: 'x' }],
  search_context_size: 'high',
  return_images: true,
  extra_body: { plugins: [{ id: 'web' }] },
  invented_tomorrow: { price: 'unknown' },
}

const image = { url: 'https://example.com/a.png', detail: 'ultra', resize: 1 }
const marked = { type: 'text', text: 'a', cache_control: { type: 'ephemeral', ttl: '1h', region: 'moon' }, ocr: 'best' }
const below = {
  messages: [
    { role: 'system', content: [marked] },
    { role: 'user', content: 'Draw.', priority: 'high' },
    {
      role: 'assistant',
      content: 'Here.',
      images: [{ image_url: { url: 'https://example.com/b.png' } }],
      annotations: [
        { type: 'file', file: { content: [{ type: 'image_url', image_url: { url: 'https://example.com/c.png' } }] } },
      ],
    },
    {
      role: 'user',
      content: [marked, { type: 'image_url', image_url: image }],
      cache_control: { type: 'ephemeral', ttl: '1h' },
    },
  ],
  tools: [
    {
      type: 'function',
      function: { name: 'w' },
      cache_control: { type: 'ephemeral', ttl: '1h' },
      web_search: { depth: 'deep' },
    },
  ],
  stream_options: { include_usage: true, include_extras: true },
}

const plain: Record<OpenAiKind, object> = {
  chat: { model: 'a', messages: [{ role: 'user', content: 'Hi' }], max_tokens: 9 },
  completion: { model: 'a', prompt: 'Hi', max_tokens: 9 },
  embedding: { model: 'a', input: 'Hi' },
}

function requestOf(provider: ProviderRow, kind: OpenAiKind, body: object, isRaw: boolean): UpstreamRequest {
  const price = { unit: 'token' as const, input: '1', output: '1' }
  const deployment: Deployment = { provider: provider.name, upstream_model: 'a', price }
  const raw = isRaw ? Buffer.from(JSON.stringify(body)) : null
  const png = { contentType: 'image/png', bytes: Buffer.from('png') }
  const call: Call<OpenAiKind> = {
    target: { model: { max_output_tokens: 100 } as ModelRow, deployment, provider },
    body: validate<Call<OpenAiKind>['body']>(directKinds[kind], body),
    raw,
    maxTokens: null,
    media: new Map([[image.url, png]]),
  }
  return protocols[provider.protocol]!.direct[kind]!.request(call as never)
}

const own: ProviderRow = { name: 'own', protocol: 'openai', base_url: 'http://10.0.0.5/v1', auth: 'bearer' }
const providers = [...loadCatalog().providers.values(), own].filter(
  ({ protocol }) => Object.keys(protocols[protocol]?.direct ?? {}).length > 0,
)
const kinds = ['chat', 'completion', 'embedding'] as const
const served = providers.flatMap(provider =>
  kinds.filter(kind => protocols[provider.protocol]!.direct[kind]).map(kind => ({ provider, kind })),
)
const sentBy = ({ body }: UpstreamRequest) => JSON.parse(String(body))

const speaksMessages = ({ protocol }: ProviderRow) => protocol === 'anthropic' || protocol === 'vertex_anthropic'

test('listed here: every provider of chat, completions and embeddings, and no other', t => {
  const names =
    'openai anthropic gemini openrouter groq together mistral deepseek xai fireworks ollama own azure azure/anthropic vertex vertex/anthropic vertex/openai bedrock bedrock/anthropic bedrock/global bedrock/openai bedrock/mantle moonshot zai alibaba minimax cerebras sambanova deepinfra nebius novita huggingface byteplus cohere voyage jina perplexity'.split(
      ' ',
    )
  t.deepEqual(providers.map(({ name }) => name).sort(), names.sort())
})

for (const { provider, kind } of served) {
  const marks = provider.quirks?.cache_control === true || speaksMessages(provider)
  for (const isRaw of [false, true]) {
    test(`dropped and named: what costs extra in a ${kind} to ${provider.name}${isRaw ? ', as bytes' : ''}`, t => {
      const usual = sentBy(requestOf(provider, kind, plain[kind], isRaw))
      for (const [name, value] of Object.entries(unpriced)) {
        const request = requestOf(provider, kind, { ...plain[kind], [name]: value }, isRaw)
        const sent = sentBy(request)
        const isMark = name === 'cache_control' && marks && kind === 'chat'
        t.notDeepEqual(sent[name], value, name)
        const isMoved =
          isMark && speaksMessages(provider) && profileOf({ deployment: {}, provider }).cache_marks === 'messages'
        const end = sent.messages?.at(-1).content
        t.deepEqual(isMoved ? end.at(-1)[name] : sent[name], isMark ? { type: 'ephemeral' } : usual[name], name)
        if (isMoved) t.is(sent[name], undefined)
        t.deepEqual(request.dropped, [isMark ? 'cache_control.ttl' : name], name)
      }
    })
  }

  test(`nothing is named, and no price met, in a plain ${kind} to ${provider.name}`, t => {
    const nothing = Object.fromEntries([...Object.keys(unpriced), ...Object.keys(paidFields)].map(name => [name, null]))
    const harmless = { ...nothing, service_tier: 'auto', store: false, plugins: [], search_parameters: { mode: 'off' } }
    const own = { mode: 'cost', models: ['b'], provider: { only: [provider.name] } }
    const request = requestOf(provider, kind, { ...plain[kind], ...harmless, ...own }, true)
    const sent = sentBy(request)
    t.is(request.dropped, undefined)
    const { service_tier, store, ...rest } = sent
    t.true([undefined, 'default', speaksMessages(provider) && 'auto'].includes(service_tier))
    t.true([undefined, false].includes(store))
    const said = Object.entries(rest).filter(([, value]) => value !== null)
    t.deepEqual(Object.fromEntries(said), withoutSettled(provider, kind))
  })
}

function withoutSettled(provider: ProviderRow, kind: OpenAiKind) {
  const { service_tier: _tier, store: _store, ...rest } = sentBy(requestOf(provider, kind, plain[kind], false))
  return rest
}

/** A provider that names its fields has chat only where these have messages. */
const hasChat = ({ quirks }: ProviderRow) => quirks?.request_fields?.includes('messages') ?? true

for (const { provider } of served.filter(({ provider, kind }) => kind === 'chat' && hasChat(provider))) {
  test(`dropped and named: what costs extra below the top level, to ${provider.name}`, t => {
    const request = requestOf(provider, 'chat', { ...plain.chat, ...below, stream: true }, true)
    const text = String(request.body)
    // Perplexity is asked to search by a tool of that name.
    for (const word of [
      '1h',
      'ultra',
      'resize',
      'ocr',
      '"priority"',
      'b.png',
      'c.png',
      'web_search',
      'include_extras',
      'moon',
    ])
      t.is(text.includes(word), word === 'web_search' && provider.protocol === 'perplexity', word)
    const takesMarks = provider.quirks?.cache_control === true || speaksMessages(provider)
    const mark = takesMarks ? 'cache_control.ttl' : 'cache_control'
    t.is(text.includes('cache_control'), takesMarks)
    t.deepEqual(
      [...request.dropped!].sort(),
      [
        `messages.${mark}`,
        `messages.content.${mark}`,
        ...(takesMarks ? ['messages.content.cache_control.region'] : []),
        'messages.content.image_url.detail',
        'messages.content.image_url.resize',
        'messages.content.ocr',
        'messages.annotations',
        'messages.images',
        'messages.priority',
        'stream_options.include_extras',
        `tools.${mark}`,
        'tools.web_search',
      ].sort(),
    )
  })
}

test('passed: fields that clients rely on and that cost nothing, to targets that accept unknown fields', t => {
  const harmless = {
    top_k: 3,
    min_p: 0.1,
    top_a: 0.2,
    repetition_penalty: 1.1,
    stop_token_ids: [1],
    min_tokens: 2,
    seed: 7,
    reasoning: { effort: 'low', max_tokens: 5 },
    include_reasoning: true,
    thinking: { type: 'enabled' },
    enable_thinking: false,
    thinking_budget: 9,
    chat_template_kwargs: { a: 1 },
    guided_json: {},
    verbosity: 'low',
    prediction: { type: 'content', content: 'x' },
    safety_identifier: 'u',
    user: 'u',
    logit_bias: { 5: 1 },
  }
  const request = requestOf(own, 'chat', { ...plain.chat, ...harmless }, true)
  t.deepEqual(sentBy(request), { ...plain.chat, ...harmless })
  t.is(request.dropped, undefined)
  const extra = { ...own, quirks: { extra_fields: ['my_field'] } }
  t.deepEqual(sentBy(requestOf(extra, 'chat', { ...plain.chat, my_field: 1 }, true)), { ...plain.chat, my_field: 1 })
})

test('passed: a field of one provider alone, which its row names, to a server that is strict as well', t => {
  const openai = providers.find(({ name }) => name === 'openai')!
  const taking = { ...openai, quirks: { ...openai.quirks, extra_fields: ['my_field'] } }
  for (const kind of kinds) {
    const request = requestOf(taking, kind, { ...plain[kind], my_field: 1 }, true)
    t.is(sentBy(request).my_field, 1, kind)
    t.is(request.dropped, undefined, kind)
    const other = requestOf(openai, kind, { ...plain[kind], my_field: 1 }, true)
    t.false('my_field' in sentBy(other), kind)
    t.deepEqual(other.dropped, ['my_field'], kind)
  }
})

test('no field that is refused or dropped is on a list of those that pass', t => {
  for (const kind of kinds)
    for (const name of [...Object.keys(paidFields), ...Object.keys(unpriced)])
      t.false(allowedFields[kind].has(name), name)
})

test('dropped and named: fields that Anthropic, Gemini and Mistral do not have', t => {
  const body = { ...plain.chat, top_k: 3, seed: 7, temperature: 0.5, verbosity: 'low' }
  const by = (name: string) => requestOf(providers.find(one => one.name === name)!, 'chat', body, false).dropped
  t.deepEqual(by('anthropic'), ['top_k', 'seed', 'verbosity'])
  t.deepEqual(by('gemini'), ['top_k', 'verbosity'])
  t.deepEqual(by('mistral'), ['top_k', 'verbosity'])
})

test('sent in the caller’s bytes: fields of the gateway are inserted, nothing is serialised again', t => {
  const openai = providers.find(one => one.name === 'openai')!
  const raw = ' {"model":"a", "messages":[{"role":"user","content":"é"}],"seed":12345678901234567890}'
  const body = JSON.parse(raw)
  const target = {
    model: {} as ModelRow,
    deployment: { provider: 'openai', upstream_model: 'a' } as Deployment,
    provider: openai,
  }
  const request = protocols.openai!.direct.chat!.request({
    target,
    body,
    raw: Buffer.from(raw),
    maxTokens: null,
    media: new Map(),
  })
  t.is(String(request.body), raw.replace('{', '{"service_tier":"default","store":false,'))
})

const asked: [field: string, value: unknown][] = [
  ['web_search_options', {}],
  ['web_search', true],
  ['enable_search', true],
  ['search', { mode: 'on' }],
  ['search_parameters', { mode: 'on', max_search_results: 30 }],
  ['data_sources', [{ type: 'azure_search' }]],
  ['container', 'container_1'],
  ['mcp_servers', [{ url: 'https://mcp.example' }]],
]
test('400 naming the field where an answer without it would be another one, on every route', t => {
  t.deepEqual(asked.map(([field]) => field).sort(), Object.keys(paidFields).sort())
  for (const kind of kinds)
    for (const [param, value] of asked) {
      // In chat it depends on the model: `unmetCapability`.
      if (kind === 'chat' && param === 'web_search_options') continue
      const error = t.throws(() =>
        validate<unknown>(directKinds[kind], { ...plain[kind], [param]: value }),
      ) as GatewayError
      t.deepEqual([error.status, error.code, error.param], [400, 'invalid_request', param])
    }
  for (const type of ['web_search', 'web_search_20250305', 'openrouter:web_search', 'mcp', 'code_interpreter']) {
    const tools = [{ type, function: { name: 'w' } }]
    const error = t.throws(() => validate(directKinds.chat, { ...plain.chat, tools })) as GatewayError
    t.deepEqual([error.status, error.param], [400, 'tools.0.type'])
  }
})
