import Anthropic from '@anthropic-ai/sdk'
import { chatReply } from '../emulators/openai.ts'
import { chargedNano, expectedNano, generationOf, startWorld } from '../support/chat/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

/** `/v1/messages` over providers without it, by Anthropic's own SDK. What is translated how is in `messages-over-chat`. */

const world = use(test, startWorld)

function sdkOf(authToken: string): Anthropic {
  return new Anthropic({ authToken, apiKey: null, baseURL: world.gateway.url, maxRetries: 0 })
}

const weather: Anthropic.Tool = {
  name: 'get_weather',
  description: 'The weather of a city.',
  input_schema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
}

for (const model of ['gpt-4.1', 'gemini-3.5-flash']) {
  test.serial(`200 from ${model}: complete and streamed alike, billed as the chat`, async t => {
    const account = await world.gateway.account()
    const sdk = sdkOf(account.live)
    const request = { model, max_tokens: 200, messages: [{ role: 'user' as const, content: 'Hello gateway' }] }
    const { data, response } = await sdk.messages.create(request).withResponse()
    t.like(data, { type: 'message', role: 'assistant', model, stop_reason: 'end_turn' })
    t.deepEqual(
      data.content.map(block => block.type === 'text' && block.text),
      ['Echo: Hello gateway'],
    )
    const { input_tokens: prompt_tokens, output_tokens: completion_tokens } = data.usage
    t.true(prompt_tokens > 0 && completion_tokens > 0)
    const usage = { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens }
    const nano = expectedNano(model, usage)
    t.is(await chargedNano(world, account), nano)
    t.is(data.id, response.headers.get('x-generation-id')!)
    t.like(await generationOf(world, data.id), { kind: 'messages', model })

    const streamed = await sdk.messages.stream(request).finalMessage()
    t.deepEqual(
      streamed.content.map(block => block.type === 'text' && block.text),
      ['Echo: Hello gateway'],
    )
    t.is(streamed.stop_reason, 'end_turn')
    t.like(streamed.usage, { input_tokens: prompt_tokens, output_tokens: completion_tokens })
    t.is(await chargedNano(world, account), 2 * nano)
  })

  test.serial(`200 from ${model}: parallel tools, called in a stream and answered with an image`, async t => {
    const account = await world.gateway.account()
    const sdk = sdkOf(account.live)
    const messages: Anthropic.MessageParam[] = [{ role: 'user', content: 'The weather in Oslo and Rome?' }]
    const request = { model, max_tokens: 500, tools: [weather], messages }
    const called = await sdk.messages.stream(request).finalMessage()
    t.is(called.stop_reason, 'tool_use')
    const uses = called.content.filter(block => block.type === 'tool_use')
    t.true(uses.length > 0)
    t.true(
      uses.every(({ name, input }) => name === 'get_weather' && typeof (input as { city: string }).city === 'string'),
    )
    t.is(new Set(uses.map(({ id }) => id)).size, uses.length)
    const [first, ...others] = uses
    const image = { type: 'base64' as const, media_type: 'image/png' as const, data: 'iVBORw0KGgo=' }
    const results: Anthropic.ToolResultBlockParam[] = [
      ...others.map(({ id }) => ({ type: 'tool_result' as const, tool_use_id: id, content: 'rain', is_error: true })),
      { type: 'tool_result', tool_use_id: first!.id, content: [{ type: 'image', source: image }] },
    ]
    const turn: Anthropic.MessageParam[] = [
      { role: 'assistant', content: called.content },
      { role: 'user', content: results },
    ]
    const answer = await sdk.messages.create({ ...request, messages: [...messages, ...turn] })
    t.is(answer.stop_reason, 'end_turn')
    t.is(answer.content[0]!.type, 'text')
  })
}

test.serial('gt_ai_gateway#14: a stream has named events and never `[DONE]`', async t => {
  const account = await world.gateway.account()
  const body = { model: 'gpt-4.1', max_tokens: 50, stream: true, messages: [{ role: 'user', content: 'Hi' }] }
  const text = await (await world.gateway.fetch('/v1/messages?beta=true', { key: account.live, body })).text()
  t.false(text.includes('[DONE]'))
  const events = text.trim().split('\n\n')
  t.true(
    events.every(event => /^event: (\w+)\ndata: \{"type":"\1"/.test(event)),
    text,
  )
  t.regex(events.at(-1)!, /^event: message_stop\n/)
})

for (const model of ['gpt-4.1', 'gemini-3.5-flash', 'claude-haiku-4-5'])
  test.serial(
    `200 from ${model}: the former name of structured output, which LiteLLM sends, is followed too`,
    async t => {
      const { live } = await world.gateway.account()
      const schema = { type: 'object', properties: { age: { type: 'integer' } }, required: ['age'] }
      const body = {
        model,
        max_tokens: 200,
        messages: [{ role: 'user', content: 'Who is it?' }],
        output_format: { type: 'json_schema', schema: { ...schema, additionalProperties: false } },
      }
      const headers = { 'anthropic-beta': 'structured-outputs-2025-11-13' }
      const response = await world.gateway.fetch('/v1/messages', { key: live, body, headers })
      t.is(response.status, 200)
      const { content } = (await response.json()) as Anthropic.Message
      t.is(typeof JSON.parse((content[0] as Anthropic.TextBlock).text).age, 'number')
    },
  )

test.serial(
  'what Claude Code sends to a model it does not know reaches the provider as a plain chat request',
  async t => {
    const account = await world.gateway.account()
    const body = {
      model: 'gpt-4.1',
      messages: [
        { role: 'user', content: [{ type: 'text', text: 'Hi', cache_control: { type: 'ephemeral' } }] },
        { role: 'system', content: 'Be quick.' },
      ],
      system: [
        { type: 'text', text: 'x-anthropic-billing-header: cc_version=2.1.330.440; cc_entrypoint=sdk-cli;' },
        { type: 'text', text: 'You are a CLI.', cache_control: { type: 'ephemeral' } },
      ],
      tools: [{ ...weather, defer_loading: true }],
      metadata: { user_id: '{"device_id":"d","account_uuid":"","session_id":"s"}' },
      max_tokens: 32_000,
      thinking: { type: 'adaptive', display: 'omitted' },
      context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
      output_config: { effort: 'high' },
    }
    const response = await world.gateway.fetch('/v1/messages?beta=true', { key: account.live, body })
    t.is(response.status, 200)
    t.is(response.headers.get('x-gateway-dropped'), 'output_config.effort,messages.content.cache_control')
    const { safety_identifier, ...sent } = world.openai.requests.at(-1)!.body
    t.regex(safety_identifier, /^[0-9a-f]{64}$/)
    t.like(sent, { model: 'gpt-4.1', max_completion_tokens: 32_000, tools: [{ type: 'function' }] })
    t.deepEqual(sent.messages, [
      { role: 'system', content: [{ type: 'text', text: 'You are a CLI.' }] },
      { role: 'user', content: [{ type: 'text', text: 'Hi' }] },
      { role: 'system', content: 'Be quick.' },
    ])
    t.deepEqual(
      Object.keys(sent).filter(name => /thinking|effort|context|output_config|metadata/.test(name)),
      [],
    )
  },
)

test.serial(
  '400 in Anthropic’s form, with the class by which clients go on without the image or the server tool',
  async t => {
    const account = await world.gateway.account()
    const source = { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' }
    const refused = async (more: object) => {
      const body = { model: 'deepseek-v3.2', max_tokens: 50, messages: [{ role: 'user', content: 'Hi' }], ...more }
      const response = await world.gateway.fetch('/v1/messages', { key: account.live, body })
      t.is(response.status, 400)
      const { type, error } = (await response.json()) as { type: string; error: { type: string; message: string } }
      t.is(type, 'error')
      t.is(error.type, 'invalid_request_error')
      return error.message
    }
    const image = { messages: [{ role: 'user', content: [{ type: 'image', source }] }] }
    t.regex(await refused(image), /\(capability_rejected: image_block\)/)
    const search = { tools: [{ type: 'web_search_20260318', name: 'web_search' }] }
    t.regex(await refused(search), /Input tag 'web_search_20260318' found using 'type'/)
    t.is(await chargedNano(world, account), 0)
  },
)

test.serial('a stream without usage is billed as it is shown; a truncated one ends as an error', async t => {
  const account = await world.gateway.account()
  const sdk = sdkOf(account.live)
  const request = { model: 'gpt-4.1', max_tokens: 50, messages: [{ role: 'user' as const, content: 'Hello gateway' }] }
  world.openai.next(chatReply({ usage: false }))
  const { usage, content } = await sdk.messages.stream(request).finalMessage()
  t.is(content.length, 1)
  const shown = { prompt_tokens: usage.input_tokens, completion_tokens: usage.output_tokens }
  const nano = expectedNano('gpt-4.1', { ...shown, total_tokens: shown.prompt_tokens + shown.completion_tokens })
  t.true(nano > 0)
  t.is(await chargedNano(world, account), nano)
  world.openai.next(chatReply({ cutAfter: 3 }))
  await t.throwsAsync(sdk.messages.stream(request).finalMessage())
})

test.serial(
  'count_tokens: as counted where the tokenizer is the model’s own, 15 % more elsewhere (copilot-api#134)',
  async t => {
    const { live } = await world.gateway.account()
    const { messages } = sdkOf(live)
    const prompt = {
      messages: [{ role: 'user' as const, content: 'Wie ist das Wetter in Zürich? '.repeat(40) }],
      tools: [weather],
    }
    const { input_tokens: own } = await messages.countTokens({ model: 'gpt-4.1', ...prompt })
    t.true(own > 250 && own < 700, String(own))
    for (const model of ['gemini-3.5-flash', 'deepseek-v3.2'])
      t.is((await messages.countTokens({ model, ...prompt })).input_tokens, Math.ceil(own * 1.15))
  },
)
