import type OpenAI from 'openai'
import { zodTextFormat } from 'openai/helpers/zod'
import { z } from 'zod'
import type { Usage } from '../../../shared/base/usage.ts'
import type { ResponsesObject } from '../../../shared/kinds/responses-answer.ts'
import { chatReply, startOpenAiEmulator } from '../../emulators/openai.ts'
import { chargedNano, dataOf, expectedNano, generationOf, startWorld } from '../../support/chat/gateway.ts'
import { openResponse, openResponseEvent } from '../../support/chat/open-responses.ts'
import { withoutSdkFields } from '../../support/chat/responses.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

/** `/v1/responses` over providers without it, by OpenAI's own SDK. What is translated how is in `responses-over-chat`. */

const together = use(test, startOpenAiEmulator)
const world = use(test, () => {
  const { url } = together
  return startWorld({ TOGETHER_API_KEY: 'k', TOGETHER_BASE_URL: `${url}/v1`, OPENROUTER_API_KEY: '' })
})

type Input = OpenAI.Responses.ResponseInputItem[]
type Shown = { input_tokens: number; output_tokens: number; input_tokens_details: { cached_tokens: number } }

function usageOf({ input_tokens, output_tokens, input_tokens_details }: Shown): Usage {
  return {
    prompt_tokens: input_tokens,
    completion_tokens: output_tokens,
    total_tokens: input_tokens + output_tokens,
    prompt_tokens_details: input_tokens_details,
  }
}

const weather: OpenAI.Responses.FunctionTool = {
  type: 'function',
  name: 'get_weather',
  description: 'The weather of a city.',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  strict: false,
}
const models = ['llama-4-maverick', 'claude-haiku-4-5', 'gemini-3.5-flash']

for (const model of models) {
  test.serial(`200 from ${model}: complete and streamed alike, billed as the chat`, async t => {
    const account = await world.gateway.account()
    const sdk = world.sdk(account.live)
    const request = { model, max_output_tokens: 200, input: 'Hello gateway', metadata: { a: 'b' } }
    const { data, response } = await sdk.responses.create(request).withResponse()
    openResponse.parse(data)
    t.like(data, { model, status: 'completed', output_text: 'Echo: Hello gateway', metadata: { a: 'b' } })
    const nano = expectedNano(model, usageOf(data.usage!))
    t.true(nano > 0)
    t.is(await chargedNano(world, account), nano)
    t.is(data.id, response.headers.get('x-generation-id')!)
    t.like(await generationOf(world, data.id), { kind: 'responses', model, finishReason: 'stop' })

    const streamed = await sdk.responses.stream(request).finalResponse()
    openResponse.parse(withoutSdkFields(streamed as unknown as ResponsesObject))
    t.like(streamed, { model, status: 'completed', output_text: 'Echo: Hello gateway' })
    t.deepEqual(streamed.usage, data.usage)
    t.is(await chargedNano(world, account), 2 * nano)
  })

  test.serial(`200 from ${model}: tools are called in a stream and answered, an output with an image`, async t => {
    const account = await world.gateway.account()
    const sdk = world.sdk(account.live)
    const input: Input = [{ role: 'user', content: 'The weather in Oslo and Rome?' }]
    const request = { model, tools: [weather, { type: 'web_search' as const }], max_output_tokens: 500 }
    const first = await sdk.responses.stream({ ...request, input }).finalResponse()
    const calls = first.output.filter(item => item.type === 'function_call')
    t.true(calls.length > 0)
    t.true(calls.every(({ name, arguments: json }) => name === 'get_weather' && JSON.parse(json).city))
    t.is(new Set(calls.map(({ call_id: id }) => id)).size, calls.length)
    t.true(calls.every(({ id, call_id: callId }) => id !== callId))
    const image = {
      type: 'input_image' as const,
      image_url: 'data:image/png;base64,iVBORw0KGgo=',
      detail: 'auto' as const,
    }
    for (const item of first.output) input.push(item as Input[number])
    for (const [index, { call_id }] of calls.entries())
      input.push({ type: 'function_call_output', call_id, output: index === 0 ? [image] : 'rain' })
    const answer = await sdk.responses.create({ ...request, input })
    openResponse.parse(answer)
    t.is(answer.status, 'completed')
    t.is(answer.output.at(-1)!.type, 'message')
    const usages = [first, answer].map(({ usage }) => expectedNano(model, usageOf(usage!)))
    t.is(await chargedNano(world, account), usages[0]! + usages[1]!)
  })

  test.serial(`200 from ${model}: structured output is parsed`, async t => {
    const account = await world.gateway.account()
    const schema = z.object({ city: z.string(), days: z.int() })
    const { output_parsed: parsed } = await world.sdk(account.live).responses.parse({
      model,
      input: 'Where?',
      max_output_tokens: 500,
      text: { format: zodTextFormat(schema, 'place') },
    })
    t.true(schema.safeParse(parsed).success, JSON.stringify(parsed))
  })
}

test.serial('a stream on the wire: named events that Open Responses knows, numbered from 0, and `[DONE]`', async t => {
  const account = await world.gateway.account()
  const body = { model: 'llama-4-maverick', input: 'Hi', stream: true }
  const response = await world.gateway.fetch('/v1/responses', { key: account.live, body })
  const text = await response.text()
  const events = text.trim().split('\n\n')
  t.is(events.pop(), 'data: [DONE]')
  t.true(events.every(event => /^event: ([\w.]+)\ndata: \{"type":"\1"/.test(event)))
  const id = response.headers.get('x-generation-id')!
  for (const [index, data] of dataOf(events.join('\n')).entries()) {
    const event = openResponseEvent.parse(data)
    t.is(event.sequence_number, index)
    if ('response' in event) t.is(event.response.id, id)
  }
})

test.serial('what Codex sends reaches the provider as a plain chat request', async t => {
  const account = await world.gateway.account()
  const body = {
    model: 'llama-4-maverick',
    input: [
      { type: 'message', role: 'developer', content: [{ type: 'input_text', text: 'You are Codex.' }] },
      { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'The weather in Oslo?' }] },
    ],
    tools: [
      { type: 'custom', name: 'apply_patch', format: { type: 'grammar', syntax: 'lark', definition: 'start: "x"' } },
      { type: 'web_search', external_web_access: true },
      { type: 'namespace', name: 'multi_agent_v1', tools: [{ type: 'function', name: 'spawn_agent' }] },
    ],
    tool_choice: 'auto',
    parallel_tool_calls: false,
    reasoning: { effort: 'medium', summary: 'auto' },
    store: false,
    include: ['reasoning.encrypted_content'],
    prompt_cache_key: 'session',
    client_metadata: { a: 'b' },
  }
  const response = await world.gateway.fetch('/v1/responses', { key: account.live, body })
  t.is(response.status, 200)
  t.is(response.headers.get('x-gateway-dropped'), 'reasoning.effort,tools.web_search')
  const { messages, tools, ...sent } = together.requests.at(-1)!.body
  t.deepEqual(messages, [
    { role: 'system', content: 'You are Codex.' },
    { role: 'user', content: 'The weather in Oslo?' },
  ])
  t.deepEqual(
    tools.map((tool: { function: { name: string } }) => tool.function.name),
    ['apply_patch', 'multi_agent_v1__spawn_agent'],
  )
  t.deepEqual(
    Object.keys(sent).filter(name => /reasoning|include|store|metadata|input/.test(name)),
    [],
  )
  const { output } = (await response.json()) as ResponsesObject
  t.like(output[0], { type: 'custom_tool_call', name: 'apply_patch' })
})

test.serial('the reasoning of Claude goes back with its signature, by a summary as Codex asks for it', async t => {
  const account = await world.gateway.account()
  const sdk = world.sdk(account.live)
  const request = {
    model: 'claude-haiku-4-5',
    tools: [weather],
    max_output_tokens: 5_000,
    store: false,
    reasoning: { effort: 'low' as const, summary: 'auto' as const },
  }
  const input: Input = [{ role: 'user', content: 'The weather in Oslo?' }]
  const first = await sdk.responses.stream({ ...request, input }).finalResponse()
  const [reasoning] = first.output
  t.is(reasoning!.type, 'reasoning')
  const { summary, encrypted_content: state } = reasoning as OpenAI.Responses.ResponseReasoningItem
  t.true(summary[0]!.text.length > 0)
  t.regex(state!, /^hg1\./)
  for (const item of first.output) {
    input.push(item as Input[number])
    if (item.type === 'function_call')
      input.push({ type: 'function_call_output', call_id: item.call_id, output: 'rain' })
  }
  const { data: second, response } = await sdk.responses.create({ ...request, input }).withResponse()
  t.is(second.status, 'completed')
  t.is(response.headers.get('x-gateway-reasoning-dropped'), null)
  const { messages } = world.anthropic.requests.at(-1)!.body
  t.like(messages[1].content[0], { type: 'thinking', thinking: summary[0]!.text })
  t.falsy(messages[1].content[0].signature.startsWith('hg1.'))
})

test.serial('400 that names the item or field in Responses, without a charge', async t => {
  const account = await world.gateway.account()
  const refused = async (body: object) => {
    const response = await world.gateway.fetch('/v1/responses', {
      key: account.live,
      body: { model: 'llama-4-maverick', input: 'Hi', ...body },
    })
    t.is(response.status, 400)
    return ((await response.json()) as { error: { param: string } }).error.param
  }
  t.is(await refused({ input: [{ type: 'item_reference', id: 'msg_1' }] }), 'input.0.type')
  t.is(await refused({ tools: [weather], tool_choice: { type: 'web_search' } }), 'tool_choice')
  const orphan = { type: 'function_call_output', call_id: 'a', output: '' }
  t.is(await refused({ input: [orphan] }), 'input')
  t.is(await chargedNano(world, account), 0)
})

test.serial('a stream without usage is billed as it is shown; a truncated one ends as a failed response', async t => {
  const account = await world.gateway.account()
  const sdk = world.sdk(account.live)
  const request = { model: 'llama-4-maverick', input: 'Hello gateway' }
  together.next(chatReply({ usage: false }))
  const { usage } = await sdk.responses.stream(request).finalResponse()
  const nano = expectedNano('llama-4-maverick', usageOf(usage!))
  t.true(nano > 0)
  t.is(await chargedNano(world, account), nano)
  together.next(chatReply({ cutAfter: 3 }))
  const body = { ...request, stream: true }
  const text = await (await world.gateway.fetch('/v1/responses', { key: account.live, body })).text()
  const [error, last, done] = dataOf(text).slice(-3)
  t.is(done, '[DONE]')
  t.like(openResponseEvent.parse(error), { type: 'error', error: { type: 'server_error', code: 'server_error' } })
  t.is(error.sequence_number + 1, last.sequence_number)
  t.like(openResponseEvent.parse(last), { type: 'response.failed', response: { status: 'failed' } })
})

test.serial('200 from the sandbox for test keys, streamed or not', async t => {
  const account = await world.gateway.account()
  const sdk = world.sdk(account.test)
  const request = { model: 'gpt-4.1', input: 'Hello gateway' }
  const complete = await sdk.responses.create(request)
  openResponse.parse(complete)
  t.true(complete.output_text.length > 0)
  const streamed = await sdk.responses.stream(request).finalResponse()
  openResponse.parse(withoutSdkFields(streamed as unknown as ResponsesObject))
  t.is(streamed.output_text, complete.output_text)
})
