import Anthropic from '@anthropic-ai/sdk'
import { cutMidStream, errorMidStream, failed, messageReply, overloaded } from '../../emulators/anthropic.ts'
import { events, json } from '../../emulators/emulator.ts'
import { chargedNano, expectedNano, generationOf, startWorld } from '../../support/chat/gateway.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

// A model must have one provider, so that its failures are not made good by the other.
const world = use(test, () => startWorld({ OPENROUTER_API_KEY: '' }))
test.beforeEach(() => world.anthropic.reset())

const model = 'claude-sonnet-4-5-20250929'
const hi = { model, max_tokens: 100, messages: [{ role: 'user' as const, content: 'Hello' }] }

function sdk(apiKey: string): Anthropic {
  return new Anthropic({ apiKey, baseURL: world.gateway.url, maxRetries: 0 })
}

async function post(key: string, body: object | string, headers: Record<string, string> = {}, path = '/v1/messages') {
  const response = await fetch(world.gateway.url + path, {
    method: 'POST',
    headers: { 'x-api-key': key, 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
  return { status: response.status, headers: response.headers, text: await response.text() }
}

/** The total charge, and the price of `usage` at our price of the model. */
async function assertCharged(
  t: import('ava').ExecutionContext,
  account: Awaited<ReturnType<typeof live>>,
  usages: Anthropic.Usage[],
) {
  const expected = usages.map(usage => {
    const prompt_tokens = usage.input_tokens
    const completion_tokens = usage.output_tokens
    return expectedNano('claude-sonnet-4-5', { prompt_tokens, completion_tokens, total_tokens: 0 })
  })
  t.is(
    await chargedNano(world, account),
    expected.reduce((sum, nano) => sum + nano, 0),
  )
}

function live() {
  return world.gateway.account({ usd: '100' })
}

test.serial('messages.create: the provider’s own answer, byte for byte, charged to the nano-dollar', async t => {
  const account = await live()
  const { status, headers, text } = await post(account.live, hi)
  t.is(status, 200, text)
  const message = JSON.parse(text) as Anthropic.Message
  t.is(message.id, 'msg_emulated')
  t.deepEqual(message.content, [{ type: 'text', text: 'Echo: Hello' }] as never)
  t.is(headers.get('request-id'), headers.get('x-request-id'))
  const booked = await generationOf(world, headers.get('x-generation-id')!)
  t.like(booked, {
    kind: 'messages',
    status: 200,
    finishReason: 'stop',
    model: 'claude-sonnet-4-5',
    upstreamId: 'msg_emulated',
  })
  const shown = await world.gateway.fetch(`/v1/generation?id=${booked.id}`, { key: account.live })
  t.is(shown.status, 200)
  await assertCharged(t, account, [message.usage])
})

test.serial('stream().finalMessage(): text, thinking with its signature, tools', async t => {
  const account = await live()
  const client = sdk(account.live)
  const tools = [{ name: 'w', input_schema: { type: 'object' as const, properties: { city: { type: 'string' } } } }]
  const thinking = { type: 'enabled' as const, budget_tokens: 1024 }
  const messages: Anthropic.MessageParam[] = [{ role: 'user', content: 'weather in Oslo and Rome' }]
  const first = await client.messages.stream({ ...hi, max_tokens: 2_000, messages, tools, thinking }).finalMessage()
  t.is(first.stop_reason, 'tool_use')
  t.deepEqual(
    first.content.map(({ type }) => type),
    ['thinking', 'tool_use', 'tool_use'],
  )
  t.like(first.content[0], { thinking: 'Let me think.', signature: 'c2lnbmVk' })
  messages.push(
    { role: 'assistant', content: first.content },
    {
      role: 'user',
      content: first.content.flatMap(block =>
        block.type === 'tool_use' ? [{ type: 'tool_result' as const, tool_use_id: block.id, content: 'rain' }] : [],
      ),
    },
  )
  const second = await client.messages.stream({ ...hi, max_tokens: 2_000, messages, tools, thinking }).finalMessage()
  t.is(second.stop_reason, 'end_turn')
  // 9router#2866, litellm#25322: the signed block goes back as it came.
  t.deepEqual(world.anthropic.requests.at(-1)!.body.messages[1].content[0], first.content[0])
  await assertCharged(t, account, [first.usage, second.usage])
})

test.serial(
  'the client’s bytes go out as they are, but for `model` and our own fields (inference-gateway#478)',
  async t => {
    const { live: key } = await live()
    world.anthropic.next(messageReply({ content: [{ type: 'text', text: 'ok' }] }))
    const written = (name: string, ours: string) =>
      `{ "stream": false,${ours} "metadata":{"b":1.0,"a":"\\u00e9 é 🙂"},"max_tokens":32000 ,"model" : "${name}",\n"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1.330; cch=1;"},{"type":"text","text":"Be brief","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"text","text":"Hi","cache_control":{"type":"ephemeral"}},{"type":"new_block","x":1e2}]},{"role":"system","content":"s"}],"tools":[{"name":"t","input_schema":{"type":"object"},"defer_loading":true}]}`
    const betas = 'claude-code-20250219, interleaved-thinking-2025-05-14,never-heard-of'
    const headers = {
      'anthropic-beta': betas,
      'anthropic-version': '2023-06-01',
      'x-claude-code-session-id': 's',
      accept: 'application/json',
    }
    const { status, text } = await post(
      key,
      written(model, ' "mode":"cost","models":["claude-sonnet-4-5"],'),
      headers,
      '/v1/messages?beta=true',
    )
    t.is(status, 200, text)
    const request = world.anthropic.requests.at(-1)!
    t.is(request.raw.toString(), written('claude-sonnet-4-5', ''))
    t.is(request.query.get('beta'), 'true')
    t.is(request.headers['anthropic-beta'], betas)
    t.is(request.headers['x-claude-code-session-id'], undefined)
    t.false(JSON.stringify(request.headers).includes(key))
  },
)

test.serial('events pass byte for byte, with `ping` and unknown ones; never `[DONE]` (gt_ai_gateway#14)', async t => {
  const account = await live()
  const usage = { input_tokens: 12, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 1 }
  const message = {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'm',
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage,
  }
  const list = [
    ['message_start', { type: 'message_start', message }],
    ['ping', { type: 'ping' }],
    ['content_block_start', { type: 'content_block_start', index: 0, content_block: { type: 'new_kind', text: '' } }],
    ['content_block_delta', { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'é🙂' } }],
    ['brand_new', { type: 'brand_new', any: [1.0] }],
    ['content_block_stop', { type: 'content_block_stop', index: 0 }],
    [
      'message_delta',
      { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens: 20 } },
    ],
    ['message_stop', { type: 'message_stop' }],
  ] as const
  const sent = list.map(([name, data]) => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`)
  world.anthropic.next(events(sent))
  const { text, headers } = await post(account.live, { ...hi, stream: true })
  t.is(text, sent.join(''))
  t.regex(headers.get('content-type')!, /^text\/event-stream/)
  t.like(await generationOf(world, headers.get('x-generation-id')!), {
    promptTokens: 12,
    completionTokens: 20,
    upstreamId: 'msg_1',
  })
  await assertCharged(t, account, [{ input_tokens: 12, output_tokens: 20 } as Anthropic.Usage])
})

test.serial(
  'a lower ceiling lowers max_tokens and the thinking budget with it (clove#39, CLIProxyAPI#413)',
  async t => {
    const { organisationId } = await live()
    const clamp = async (capUsd: number, body: object) => {
      const key = await world.gateway.key(organisationId, 'live', { monthly_spend_cap_usd: capUsd } as never)
      const { status, text, headers } = await post(key, body)
      t.is(status, 200, text)
      return {
        sent: world.anthropic.requests.at(-1)!.body,
        clamped: Number(headers.get('x-gateway-max-tokens-clamped')),
      }
    }
    const thinking = { budget_tokens: 31_999, type: 'enabled', display: 'omitted' }
    const context_management = { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] }
    const body = { ...hi, max_tokens: 32_000, thinking, context_management }
    world.anthropic.next(messageReply({}), messageReply({}))
    const some = await clamp(0.1, body)
    t.true(some.clamped > 1_024 && some.clamped < 32_000)
    t.is(some.sent.max_tokens, some.clamped)
    t.deepEqual(some.sent.thinking, { ...thinking, budget_tokens: some.clamped - 1 })
    t.deepEqual(some.sent.context_management, context_management)
    const little = await clamp(0.015, body)
    t.true(little.clamped > 0 && little.clamped <= 1_024)
    t.deepEqual(little.sent, {
      ...hi,
      model: 'claude-sonnet-4-5',
      max_tokens: little.clamped,
      thinking: { type: 'disabled' },
    })
  },
)

test.serial(
  'a provider’s 4xx passes byte for byte, with its advice (CLIProxyAPI#2866, claude-code-router#1799)',
  async t => {
    const { live: key } = await live()
    for (const stream of [false, true])
      for (const [status, type, message] of [
        [400, 'invalid_request_error', 'messages.1.content.0: `thinking` blocks are bound to a different conversation'],
        [400, 'invalid_request_error', 'prompt is too long: 210000 tokens > 200000 maximum'],
        [400, 'invalid_request_error', 'input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000'],
        [413, 'request_too_large', 'Request exceeds the maximum size'],
      ] as const) {
        const body = { type: 'error', error: { type, message }, request_id: 'req_upstream' }
        world.anthropic.next(
          json(status, body, {
            'x-should-retry': 'false',
            'anthropic-ratelimit-unified-status': 'allowed',
            'anthropic-organization-id': 'org_1',
          }),
        )
        const answer = await post(key, { ...hi, stream })
        t.is(answer.status, status)
        t.is(answer.text, JSON.stringify(body))
        t.is(answer.headers.get('x-should-retry'), 'false')
        t.is(answer.headers.get('anthropic-ratelimit-unified-status'), 'allowed')
        t.is(answer.headers.get('anthropic-organization-id'), null)
      }
    await t.throwsAsync(
      sdk(key).messages.create({ ...hi, temperature: 1.5 } as Anthropic.MessageCreateParamsNonStreaming),
      {
        instanceOf: Anthropic.BadRequestError,
      },
    )
  },
)

test.serial('a failure of our account is not shown; overload is 529 with what clients retry on', async t => {
  const { live: key } = await live()
  world.anthropic.next(
    failed(400, 'invalid_request_error', 'Your credit balance is too low to access the Anthropic API'),
  )
  const broke = await post(key, hi)
  t.is(broke.status, 502)
  t.false(broke.text.includes('credit'))
  t.is(JSON.parse(broke.text).error.type, 'api_error')
  const model = 'claude-haiku-4-5'
  world.anthropic.next(...Array<typeof overloaded>(8).fill(overloaded))
  const busy = await post(key, { ...hi, model })
  t.is(busy.status, 529)
  t.like(JSON.parse(busy.text), { type: 'error', error: { type: 'overloaded_error' } })
})

test.serial('an error as the first event is retried, not passed (litellm#6532, #6957)', async t => {
  const account = await live()
  const error = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }
  world.anthropic.next(events([`event: error\ndata: ${JSON.stringify(error)}\n\n`]))
  const final = await sdk(account.live).messages.stream(hi).finalMessage()
  t.deepEqual(final.content, [{ type: 'text', text: 'Echo: Hello' }] as never)
  t.is(world.anthropic.requests.length, 2)
  await assertCharged(t, account, [final.usage])
})

test.serial(
  'a stream that breaks ends with one error event and is billed once, at the provider’s count of the prompt',
  async t => {
    for (const [reply, type] of [
      [errorMidStream(), 'overloaded_error'],
      [cutMidStream, 'api_error'],
    ] as const) {
      const account = await live()
      world.anthropic.next(reply)
      const { text, headers } = await post(account.live, { ...hi, stream: true })
      const last = text.trim().split('\n\n').at(-1)!
      t.true(last.startsWith('event: error\ndata: '), text)
      const failure = JSON.parse(last.slice('event: error\ndata: '.length))
      t.like(failure, { type: 'error', error: { type }, request_id: headers.get('request-id') })
      t.false(text.includes('message_stop'))
      const { promptTokens, completionTokens } = await generationOf(world, headers.get('x-generation-id')!)
      t.is(promptTokens, 10)
      t.true(completionTokens > 0)
      await assertCharged(t, account, [
        { input_tokens: promptTokens, output_tokens: completionTokens } as Anthropic.Usage,
      ])
    }
  },
)

test.serial('tools and options that the provider bills apart are refused in its words (9router#4011)', async t => {
  const { live: key } = await live()
  for (const type of ['code_execution_20260521', 'advisor_20260301', 'web_search_2', 'new_tool_20270101']) {
    const tool = await post(key, { ...hi, tools: [{ type, name: 'x', max_uses: 1 }] })
    t.is(tool.status, 400)
    t.regex(JSON.parse(tool.text).error.message, new RegExp(`Input tag '${type}' found using 'type' does not match`))
  }
  for (const [param, value] of [
    ['speed', 'fast'],
    ['inference_geo', 'us'],
    ['service_tier', 'flex'],
    ['fallbacks', 'default'],
    ['fallbacks', [{ model: 'claude-opus-5' }]],
  ] as const) {
    const { status, text } = await post(key, { ...hi, [param]: value })
    t.is(status, 400)
    const error = { type: 'invalid_request_error', code: 'unsupported_capability', param }
    t.like(JSON.parse(text), { type: 'error', error })
  }
  t.is(world.anthropic.requests.length, 0)
  const usual = { speed: 'standard', service_tier: 'auto', inference_geo: null, fallbacks: [] }
  world.anthropic.next(messageReply({}))
  t.is((await post(key, { ...hi, ...usual })).status, 200)
})

const searched = {
  input_tokens: 4_000,
  output_tokens: 50,
  server_tool_use: { web_search_requests: 3, web_fetch_requests: 9 },
}
const search = { type: 'web_search_20260318', name: 'web_search', max_uses: 8 }

test.serial('web searches are reserved by max_uses, charged each, and logged (free-claude-code#576)', async t => {
  for (const stream of [false, true]) {
    const account = await live()
    world.anthropic.next(messageReply({ usage: searched, content: [{ type: 'text', text: 'Found' }] }))
    const { status, headers, text } = await post(account.live, { ...hi, stream, tools: [search] })
    t.is(status, 200, text)
    t.deepEqual(world.anthropic.requests.at(-1)!.body.tools, [search])
    const usage = { prompt_tokens: 4_000, completion_tokens: 50, total_tokens: 4_050 }
    t.is(await chargedNano(world, account), expectedNano('claude-sonnet-4-5', usage) + 3 * 10_500_000)
    const id = headers.get('x-generation-id')!
    t.like(await generationOf(world, id), { webSearches: 3 })
    const shown = await world.gateway.fetch(`/v1/generation?id=${id}`, { key: account.live })
    t.is(((await shown.json()) as { usage: { web_searches: number } }).usage.web_searches, 3)
  }
  const { live: poor } = await world.gateway.account({ usd: '0.5' })
  world.anthropic.next(messageReply({ usage: searched }))
  t.is((await post(poor, { ...hi, tools: [{ ...search, max_uses: 1 }] })).status, 200)
  t.is((await post(poor, { ...hi, tools: [{ ...search, max_uses: 20 }] })).status, 402)
  const { live: key } = await live()
  for (const max_uses of [undefined, 0, 1.5, 21, 'many']) {
    const { status, text } = await post(key, { ...hi, tools: [{ ...search, max_uses }] })
    t.is(status, 400)
    t.like(JSON.parse(text).error, { code: 'invalid_request', param: 'tools.0.max_uses' })
  }
})

test.serial('200 with the toolsets of browsers and computers, whose schemas the provider adds and bills', async t => {
  const tools = [{ type: 'browser_toolset_20260801', configs: { zoom: { enabled: false } } }]
  const asked = { ...hi, model: 'claude-haiku-4-5' }
  const account = await live()
  for (const own of [tools, [{ type: 'computer_toolset_20260801' }]]) {
    const { status, text } = await post(account.live, { ...asked, tools: own })
    t.is(status, 200, text)
    t.deepEqual(world.anthropic.requests.at(-1)!.body.tools, own)
  }
  const { live: poor } = await world.gateway.account({ usd: '0.01' })
  t.is((await post(poor, asked)).status, 200)
  t.is((await post(poor, { ...asked, tools })).status, 402)
})

test.serial(
  'pages that the provider fetches, and what MCP servers return, are reserved and charged in full',
  async t => {
    const fetches = { type: 'web_fetch_20250910', name: 'web_fetch' }
    const mcp = { mcp_servers: [{ type: 'url', name: 'm', url: 'https://mcp.example.com' }] }
    const asked = { ...hi, model: 'claude-haiku-4-5' }
    const { live: poor } = await world.gateway.account({ usd: '1' })
    for (const more of [
      { tools: [fetches] },
      { tools: [{ ...fetches, max_content_tokens: 10 }] },
      { tools: [{ type: 'mcp_toolset', mcp_server_name: 'm' }] },
      mcp,
    ])
      t.is((await post(poor, { ...asked, ...more })).status, 402)
    t.is(world.anthropic.requests.length, 0)
    const account = await live()
    world.anthropic.next(messageReply({ usage: { input_tokens: 1_900_000, output_tokens: 20 } }))
    const { status, headers, text } = await post(account.live, { ...asked, ...mcp, tools: [fetches] })
    t.is(status, 200, text)
    t.like(await generationOf(world, headers.get('x-generation-id')!), { waiver: null, promptTokens: 1_900_000 })
    const usage = { prompt_tokens: 1_900_000, completion_tokens: 20, total_tokens: 1_900_020 }
    t.is(await chargedNano(world, account), expectedNano('claude-haiku-4-5', usage))
    // `max_uses` bounds what is reserved: the prompt is read once more.
    world.anthropic.next(messageReply({}))
    t.is((await post(poor, { ...asked, tools: [{ ...fetches, max_uses: 1 }] })).status, 200)
  },
)

const blocks = (one: object) => Array.from({ length: 100 }, () => one)
const document = (source: object) => ({ type: 'document', source })
const fetched = (content: object) => ({
  type: 'web_fetch_tool_result',
  tool_use_id: 'srvtoolu_1',
  content: { type: 'web_fetch_result', url: 'https://example.com', content },
})

test.serial('images and documents count wherever they are: in documents of blocks, in results of tools', async t => {
  const image = { type: 'image', source: { type: 'url', url: 'https://example.com/a.png' } }
  const ofImages = document({ type: 'content', content: blocks(image) })
  const page = document({ type: 'url', url: 'https://example.com/a.pdf' })
  for (const content of [
    blocks(image),
    [ofImages],
    [{ type: 'tool_result', tool_use_id: 't', content: [ofImages] }],
    [{ type: 'mcp_tool_result', tool_use_id: 't', content: blocks(image) }],
    [fetched(ofImages)],
    [fetched(page)],
  ]) {
    const { live: poor } = await world.gateway.account({ usd: '0.3' })
    const { status, text } = await post(poor, { ...hi, messages: [{ role: 'user', content }] })
    t.is(status, 402, text)
  }
  t.is(world.anthropic.requests.length, 0)
  const { live: key } = await live()
  world.anthropic.next(messageReply({}))
  const messages = [{ role: 'user', content: [ofImages, fetched(page), { type: 'image_like', source: 1 }] }]
  t.is((await post(key, { ...hi, messages })).status, 200)
  t.deepEqual(world.anthropic.requests.at(-1)!.body.messages, messages)
})

test.serial('files of the operator’s account are refused wherever they are', async t => {
  const { live: key } = await live()
  const file = { type: 'file', file_id: 'file_1' }
  const image = { type: 'image', source: file }
  for (const [content, param] of [
    [[document(file)], '0'],
    [[document({ type: 'content', content: [image] })], '0.source.content.0'],
    [[{ type: 'tool_result', tool_use_id: 't', content: [image] }], '0.content.0'],
    [[fetched(document(file))], '0.content.content'],
    [[{ type: 'container_upload', file_id: 'file_1' }], '0'],
  ] as const) {
    const { status, text } = await post(key, { ...hi, messages: [{ role: 'user', content }] })
    t.is(status, 400, text)
    t.like(JSON.parse(text).error, { code: 'unsupported_capability', param: `messages.0.content.${param}` })
  }
})

test.serial('a summary of the conversation by the provider is charged: the usual counters exclude it', async t => {
  const summary = {
    type: 'compaction',
    input_tokens: 900,
    output_tokens: 70,
    cache_read_input_tokens: 0,
    cache_creation_input_tokens: 0,
  }
  const message = { ...summary, type: 'message', input_tokens: 100, output_tokens: 20 }
  const usage = { input_tokens: 100, output_tokens: 20, iterations: [summary, message] }
  const context_management = { edits: [{ type: 'compact_20260112' }] }
  for (const stream of [false, true]) {
    const account = await live()
    world.anthropic.next(messageReply({ usage, content: [{ type: 'text', text: 'Yes' }] }))
    const { status, text } = await post(account.live, { ...hi, stream, context_management })
    t.is(status, 200, text)
    const all = { prompt_tokens: 1_000, completion_tokens: 90, total_tokens: 1_090 }
    t.is(await chargedNano(world, account), expectedNano('claude-sonnet-4-5', all))
  }
})

test.serial('signed thinking stays with providers that can read it; others say so in a way clients act on', async t => {
  const { live: key } = await live()
  const messages = [
    { role: 'user', content: 'Hi' },
    {
      role: 'assistant',
      content: [
        { type: 'thinking', thinking: 'Hm', signature: 'c2ln' },
        { type: 'text', text: 'Yo' },
      ],
    },
    { role: 'user', content: 'And?' },
  ]
  const kept = await post(key, { ...hi, model: 'gpt-5', models: ['claude-sonnet-4-5'], messages })
  t.is(kept.status, 200, kept.text)
  t.is(kept.headers.get('x-gateway-provider'), 'anthropic')
  const refused = await post(key, { ...hi, model: 'gpt-5', messages })
  t.is(refused.status, 400)
  t.regex(JSON.parse(refused.text).error.message, /\(capability_rejected: thinking_signature\)$/)
})

test.serial('count_tokens: the provider’s count, free; ours where it fails, rounded up', async t => {
  const account = await live()
  const { messages } = hi
  world.anthropic.next(json(200, { input_tokens: 4_321 }))
  const client = sdk(account.live)
  const counted = await post(account.live, { model, messages }, {}, '/v1/messages/count_tokens?beta=true')
  t.deepEqual(JSON.parse(counted.text), { input_tokens: 4_321 })
  const { path, query, body } = world.anthropic.requests.at(-1)!
  t.is(`${path}?${query}`, '/v1/messages/count_tokens?beta=true')
  t.deepEqual(body, { model: 'claude-sonnet-4-5', messages })
  world.anthropic.next(overloaded)
  const { input_tokens } = await client.messages.countTokens({ model, messages })
  t.true(input_tokens >= 1 && input_tokens < 50)
  world.anthropic.next(failed(400, 'invalid_request_error', 'messages: bad'))
  await t.throwsAsync(client.messages.countTokens({ model, messages }), { message: /messages: bad/ })
  t.is(await chargedNano(world, account), 0)
})
