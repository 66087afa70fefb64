import OpenAI from 'openai'
import { zodTextFormat } from 'openai/helpers/zod'
import type { ResponseCreateParamsStreaming, ResponseInputItem } from 'openai/resources/responses/responses'
import { z } from 'zod'
import type { Usage } from '../../../shared/base/usage.ts'
import { listUnknownNames } from '../../../shared/engine/unknown-names.ts'
import { openReasoningSealer } from '../../../shared/providers/toolkit/reasoning-envelope.ts'
import { events, json } from '../../emulators/emulator.ts'
import { insufficientQuota, serverError } from '../../emulators/openai.ts'
import { reasoningState, responsesReply } from '../../emulators/openai-responses.ts'
import { chargedNano, dataOf, expectedNano, generationOf, startWorld } from '../../support/chat/gateway.ts'
import type { Account } from '../../support/gateway.ts'
import { type ExecutionContext, test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

// A model must have one provider, so that its failures are not made good by the other.
const world = use(test, () => startWorld({ OPENROUTER_API_KEY: '' }))
test.beforeEach(() => world.openai.reset())

/** With OpenRouter as a second provider. */
const both = use(test, startWorld)
const answered = {
  id: 'resp_1',
  object: 'response',
  model: 'm',
  status: 'completed',
  output: [{ type: 'message', content: [{ type: 'output_text', text: 'Hi' }] }],
  usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
}

const model = 'gpt-4o-mini'
const hi = { model, input: 'Hello' }
const live = () => world.gateway.account({ usd: '100' })
const sent = () => world.openai.requests.at(-1)!

async function post(key: string, body: object | string, headers: Record<string, string> = {}) {
  const response = await fetch(`${world.gateway.url}/v1/responses`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
  return { status: response.status, headers: response.headers, text: await response.text() }
}

function usageOf({ input_tokens, output_tokens }: { input_tokens: number; output_tokens: number }): Usage {
  return { prompt_tokens: input_tokens, completion_tokens: output_tokens, total_tokens: 0 }
}

async function assertCharged(t: ExecutionContext, account: Account, usages: Usage[], id = model) {
  const expected = usages.reduce((sum, usage) => sum + expectedNano(id, usage), 0)
  t.is(await chargedNano(world, account), expected)
}

test.serial('responses.create: the provider’s own answer, charged to the nano-dollar', async t => {
  const account = await live()
  const { status, headers, text } = await post(account.live, { ...hi, metadata: { a: 'b' } })
  t.is(status, 200, text)
  const response = JSON.parse(text)
  t.is(response.id, 'resp_emulated')
  t.is(response.output[0].content[0].text, 'Echo: Hello')
  t.deepEqual(response.metadata, { a: 'b' })
  t.is(headers.get('x-gateway-upstream-model'), 'gpt-4o-mini-2026-01-01')
  t.like(sent().body, { store: false, service_tier: 'default', input: 'Hello' })
  t.is(sent().path, '/v1/responses')
  t.like(await generationOf(world, headers.get('x-generation-id')!), {
    kind: 'responses',
    status: 200,
    finishReason: 'stop',
    model,
    upstreamId: 'resp_emulated',
  })
  await assertCharged(t, account, [usageOf(response.usage)])
})

test.serial('cached tokens and cache writes have their own prices', async t => {
  const account = await live()
  const details = { input_tokens: 1_000, input_tokens_details: { cached_tokens: 600, cache_write_tokens: 300 } }
  world.openai.next(responsesReply({ details }))
  const { headers } = await post(account.live, { ...hi, model: 'gpt-5.6-luna' })
  const { costNano, cachedTokens } = await generationOf(world, headers.get('x-generation-id')!)
  t.is(cachedTokens, 600)
  // Per million: 0.2 input, 0.02 cached, 0.25 written, 1.2 output; 3 + 16 tokens of output; 5 % margin.
  t.is(Number(costNano), Math.round((100 * 200 + 600 * 20 + 300 * 250 + 19 * 1_200) * 1.05))
})

test.serial('stream().finalResponse(): a tool round trip with reasoning, and parsed output', async t => {
  const account = await live()
  const client = world.sdk(account.live)
  const reasoner = 'gpt-5-mini'
  const input: ResponseInputItem[] = [{ role: 'user', content: 'weather in Oslo and Rome' }]
  const tools = [{ type: 'function' as const, name: 'w', parameters: { type: 'object' }, strict: false }]
  const first = await client.responses.stream({ model: reasoner, input, tools }).finalResponse()
  t.deepEqual(
    first.output.map(({ type }) => type),
    ['reasoning', 'function_call', 'function_call'],
  )
  t.deepEqual(sent().body.include, ['reasoning.encrypted_content'])
  for (const item of first.output) {
    input.push(item as ResponseInputItem)
    if (item.type === 'function_call')
      input.push({ type: 'function_call_output', call_id: item.call_id, output: 'rain' })
  }
  const second = await client.responses.stream({ model: reasoner, input, tools, store: false }).finalResponse()
  t.is(second.output_text, 'Echo: rain')
  t.is(sent().body.input[1].encrypted_content, reasoningState)
  t.is(sent().body.include, undefined)
  const format = zodTextFormat(z.object({ city: z.string() }), 'place')
  const parsed = await client.responses.parse({ model, input: 'Where?', text: { format } })
  t.is(typeof parsed.output_parsed?.city, 'string')
  const spent = [first, second].reduce((sum, { usage }) => sum + expectedNano(reasoner, usageOf(usage!)), 0)
  t.is(await chargedNano(world, account), spent + expectedNano(model, usageOf(parsed.usage!)))
})

test.serial('the client’s bytes go out as they are, but for what is not offered', async t => {
  const { live: key } = await live()
  const written = (name: string, before: string, after: string) =>
    `{${before} "stream": false,"input":[{"role":"user","content":[{"type":"input_text","text":"\\u00e9 é 🙂","new":1.0}]}],"model" : "${name}" ,"reasoning":{"summary":"auto"}${after}}`
  const extra = ',"store":null,"client_metadata":{"a":"b"},"moderation":{"model":"x"},"mode":"cost"'
  const { status, text, headers } = await post(key, written('gpt-4o-mini-2024-07-18', '', extra))
  t.is(status, 200, text)
  t.is(sent().raw.toString(), written(model, '"store":false,"service_tier":"default",', ''))
  t.is(headers.get('x-gateway-dropped'), 'moderation')
})

test.serial('events pass byte for byte, with unknown ones; `[DONE]` follows once', async t => {
  const account = await live()
  const response = { id: 'resp_1', object: 'response', model: 'm', output: [], status: 'in_progress' }
  const usage = { input_tokens: 12, output_tokens: 20, total_tokens: 32 }
  const item = { type: 'brand_new', id: 'x' }
  const list = [
    { type: 'response.created', response, sequence_number: 0 },
    { type: 'response.output_item.added', output_index: 0, item, sequence_number: 1 },
    { type: 'brand.new', any: [1.0], text: 'é🙂', sequence_number: 2 },
    { type: 'response.output_item.done', output_index: 0, item, sequence_number: 3 },
    {
      type: 'response.completed',
      response: { ...response, status: 'completed', output: [item], usage },
      sequence_number: 4,
    },
  ]
  const passing = list.map(event => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
  for (const extra of [[], ['data: [DONE]\n\n']]) {
    world.openai.next(events([...passing, ...extra]))
    const { text, headers } = await post(account.live, { ...hi, stream: true })
    t.is(text, `${passing.join('')}data: [DONE]\n\n`)
    const booked = await generationOf(world, headers.get('x-generation-id')!)
    t.like(booked, { promptTokens: 12, completionTokens: 20, upstreamId: 'resp_1', finishReason: 'stop' })
  }
  await assertCharged(t, account, [usageOf(usage), usageOf(usage)])
})

test.serial('a lower ceiling becomes max_output_tokens; an answer that it ends is incomplete', async t => {
  const { organisationId } = await live()
  const key = await world.gateway.key(organisationId, 'live', { monthly_spend_cap_usd: 0.002 } as never)
  const { status, headers, text } = await post(key, hi)
  t.is(status, 200, text)
  const clamped = Number(headers.get('x-gateway-max-tokens-clamped'))
  t.true(clamped > 0)
  t.is(sent().body.max_output_tokens, clamped)
  // Until it is settled, the first answer's reservation takes up the cap.
  await generationOf(world, headers.get('x-generation-id')!)
  const short = await post(key, { ...hi, input: 'Hello '.repeat(40), max_output_tokens: 16, stream: true })
  const last = dataOf(short.text).at(-2)
  t.like(last, { type: 'response.incomplete', response: { incomplete_details: { reason: 'max_output_tokens' } } })
  t.like(await generationOf(world, short.headers.get('x-generation-id')!), { finishReason: 'length' })
})

test.serial('streams that break end with `response.failed`, billed once for what was delivered', async t => {
  const failing = (code: string, message: string) => responsesReply({ failAfter: 6, error: { code, message } })
  for (const [reply, code, type] of [
    [responsesReply({ cutAfter: 6 }), 'server_error', 'server_error'],
    [responsesReply({ failAfter: 6 }), 'server_error', 'server_error'],
    [failing('rate_limit_exceeded', 'Slow'), 'rate_limit_exceeded', 'rate_limit_exceeded'],
    [failing('context_length_exceeded', 'Long'), 'context_length_exceeded', 'invalid_request_error'],
  ] as const) {
    const account = await live()
    world.openai.next(reply)
    const { text, headers } = await post(account.live, { ...hi, stream: true })
    const all = dataOf(text)
    t.is(all.at(-1), '[DONE]')
    const { message } = all.at(-2).response.error
    t.deepEqual(all.at(-3).error, { type, code, message, param: null })
    t.regex(text, /^event: error\ndata: \{"type":"error",/m)
    t.like(all.at(-2), {
      type: 'response.failed',
      response: { id: 'resp_emulated', status: 'failed', error: { code } },
    })
    t.deepEqual(
      all.slice(0, -1).map(({ sequence_number }) => sequence_number),
      all.slice(0, -1).map((_, number) => number),
    )
    const { promptTokens, completionTokens } = await generationOf(world, headers.get('x-generation-id')!)
    t.true(completionTokens > 0)
    await assertCharged(t, account, [usageOf({ input_tokens: promptTokens, output_tokens: completionTokens })])
  }
})

test.serial('a failure before the first item is retried, not passed', async t => {
  const account = await live()
  world.openai.next(responsesReply({ failAfter: 2 }))
  const final = await world.sdk(account.live).responses.stream(hi).finalResponse()
  t.is(final.output_text, 'Echo: Hello')
  t.is(world.openai.requests.length, 2)
  await assertCharged(t, account, [usageOf(final.usage!)])
})

test.serial('used-up credits are 429 `insufficient_quota`, which Codex does not repeat', async t => {
  const { live: key } = await world.gateway.account({ usd: '0.000001' })
  for (const stream of [false, true]) {
    const { status, headers, text } = await post(key, { ...hi, model: 'o3', stream })
    t.is(status, 429)
    t.is(headers.get('x-should-retry'), 'false')
    t.like(JSON.parse(text).error, {
      type: 'insufficient_quota',
      code: 'insufficient_quota',
      metadata: { code: 'insufficient_credits' },
    })
  }
  const client = world.sdk(key)
  await t.throwsAsync(client.responses.create({ ...hi, model: 'o3' }), { instanceOf: OpenAI.RateLimitError })
})

test.serial('the provider’s refusals: too long, invalid, its own account', async t => {
  const { live: key } = await live()
  const long = await post(key, { ...hi, input: 'too long', stream: true })
  t.is(long.status, 400)
  t.like(JSON.parse(long.text).error, { code: 'context_length_exceeded', param: 'input' })
  const ownLimit = await post(key, { ...hi, input: 'x'.repeat(2_000_000) })
  t.is(ownLimit.status, 400)
  t.like(JSON.parse(ownLimit.text).error, { code: 'context_length_exceeded', param: 'input' })
  const detail = { message: 'Bad format.', type: 'invalid_request_error', param: 'text.format', code: null }
  world.openai.next(json(400, { error: detail }))
  const invalid = await post(key, hi)
  t.is(invalid.status, 400)
  t.like(JSON.parse(invalid.text).error, { message: 'Bad format.', param: 'text.format' })
  for (const reply of [insufficientQuota, serverError]) {
    world.openai.next(...Array(8).fill(reply))
    const failed = await post(key, { ...hi, model: reply === serverError ? 'gpt-4.1' : 'gpt-4o' })
    t.is(failed.status, 502)
    t.is(failed.headers.get('x-should-retry'), reply === serverError ? null : 'false')
    t.is(JSON.parse(failed.text).error.code, 'upstream_error')
    world.openai.reset()
  }
})

const shot = { type: 'computer_screenshot', image_url: 'https://example.com/screen.png' }
const stored = { type: 'computer_screenshot', file_id: 'file-1' }
const screenshots = Array.from({ length: 60 }, (_, i) => ({
  type: 'computer_call_output',
  call_id: `call_${i}`,
  output: shot,
}))

test.serial('402 where the wallet does not cover the images of a request, also its screenshots', async t => {
  for (const input of [
    [{ role: 'user', content: screenshots.map(() => ({ type: 'input_image', image_url: shot.image_url })) }],
    [{ role: 'user', content: screenshots.map(() => shot) }],
    screenshots,
  ]) {
    const { live: poor } = await world.gateway.account({ usd: '0.03' })
    const { status, text } = await post(poor, { model: 'gpt-5', input, max_output_tokens: 50 })
    t.is(JSON.parse(text).error.code, 'insufficient_quota', `${status}`)
  }
  t.is(world.openai.requests.length, 0)
  const { live: key } = await live()
  world.openai.next(json(200, answered))
  t.is((await post(key, { model: 'gpt-5', input: screenshots })).status, 200)
  t.deepEqual(sent().body.input, screenshots)
})

test.serial('400 that names the field, also where its name is that of a property of every object', async t => {
  const { live: key } = await live()
  for (const name of ['__proto__', 'constructor', 'toString']) {
    const message = `Unknown parameter: '${name}'.`
    world.openai.next(json(400, { error: { message, type: 'invalid_request_error', param: name, code: null } }))
    const { status, text } = await post(key, hi)
    t.deepEqual([status, JSON.parse(text).error.param], [400, name])
  }
})

test.serial('what needs storage, or the operator’s account, is 400 and names its field', async t => {
  const { live: key } = await live()
  const user = { role: 'user', content: [{ type: 'input_file', file_id: 'file-1' }] }
  for (const [body, param] of [
    [{ store: true }, 'store'],
    [{ previous_response_id: 'resp_1' }, 'previous_response_id'],
    [{ conversation: 'conv_1' }, 'conversation'],
    [{ background: true }, 'background'],
    [{ prompt: { id: 'pmpt_1' } }, 'prompt'],
    [{ input: [{ type: 'item_reference', id: 'msg_1' }] }, 'input.0.type'],
    [{ input: [{ type: 'program', id: 'p' }] }, 'input.0.type'],
    [{ input: [user], model: 'gpt-5-mini' }, 'input.0.content.0.file_id'],
    [{ input: [{ ...screenshots[0], output: stored }], model: 'gpt-5-mini' }, 'input.0.output.file_id'],
    [{ input: [{ role: 'user', content: [stored] }], model: 'gpt-5-mini' }, 'input.0.content.0.file_id'],
  ] as const) {
    const { status, text } = await post(key, { ...hi, ...body })
    t.is(status, 400, text)
    t.like(JSON.parse(text).error, { code: 'unsupported_capability', param })
  }
  t.is(world.openai.requests.length, 0)
})

test.serial('400 for a search that has loaded a tool which the provider runs', async t => {
  const { live: key } = await live()
  const output = (tools: object[]) => [
    { type: 'tool_search_call', call_id: 'c1', execution: 'client', arguments: {} },
    { type: 'tool_search_output', call_id: 'c1', execution: 'client', tools },
  ]
  const own = { type: 'function', name: 'f', parameters: { type: 'object', properties: {} }, strict: false }
  const refused = await post(key, { model: 'gpt-5.4', input: output([own, { type: 'web_search' }]) })
  t.is(refused.status, 400, refused.text)
  t.like(JSON.parse(refused.text).error, { code: 'unsupported_capability', param: 'input.1.tools.1.type' })
})

test.serial('hosted tools without a price are left out, unless `tool_choice` names them; namespaces pass', async t => {
  const { live: key } = await live()
  const inner = { type: 'function', name: 'spawn', parameters: { type: 'object', properties: {} }, strict: false }
  const kept = [
    { type: 'function', name: 'f', parameters: { type: 'object', properties: {} }, strict: false },
    { type: 'custom', name: 'apply_patch', format: { type: 'grammar', syntax: 'lark', definition: 'x' } },
    { type: 'namespace', name: 'agents', description: 'd', tools: [inner] },
  ]
  const hosted = ['web_search_preview', 'image_generation', 'code_interpreter', 'mcp', 'tool_search', 'local_shell']
  const tools = [...kept, ...hosted.map(type => ({ type }))]
  const answer = await post(key, { ...hi, tools, tool_choice: 'auto' })
  t.is(answer.status, 200, answer.text)
  t.deepEqual(sent().body.tools, kept)
  t.is(answer.headers.get('x-gateway-dropped'), hosted.map(type => `tools.${type}`).join(','))
  for (const tool_choice of [
    { type: 'web_search_preview' },
    { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'mcp', server_label: 's' }] },
  ]) {
    const refused = await post(key, { ...hi, tools, tool_choice })
    t.is(refused.status, 400)
    t.like(JSON.parse(refused.text).error, { code: 'unsupported_capability', param: 'tool_choice' })
  }
  await post(key, { ...hi, tools: kept, tool_choice: 'validated' })
  t.is(sent().body.tool_choice, 'auto')
  const none = await post(key, { ...hi, tools: [{ type: 'web_search_preview' }], tool_choice: 'required' })
  t.is(none.status, 400)
})

test.serial(
  'sent: functions in a namespace with properties, and not deferred where no search would load them',
  async t => {
    const { live: key } = await live()
    const whole = { type: 'function', name: 'spawn', parameters: { type: 'object', properties: {} }, strict: false }
    const { parameters: _parameters, ...function_ } = whole
    const given = [function_, { ...whole, parameters: { type: 'object' }, defer_loading: true }]
    const namespace = { type: 'namespace', name: 'agents', description: 'd' }
    const answer = await post(key, { ...hi, tools: [{ ...namespace, tools: given }] })
    t.is(answer.status, 200, answer.text)
    t.deepEqual(sent().body.tools, [{ ...namespace, tools: [whole, whole] }])
  },
)

test.serial('reasoning of another provider is left out, and names where to go first', async t => {
  const account = await live()
  const { signingSecret } = world.gateway.services
  const sealer = await openReasoningSealer(signingSecret, {
    organisationId: account.organisationId,
    environment: 'live',
  } as never)
  const envelope = sealer!.seal({ provider: 'anthropic', credentialId: null, model: 'claude-haiku-4-5', state: 's' })
  const input = [
    { role: 'user', content: 'Hi' },
    { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: envelope },
    { type: 'reasoning', id: 'rs_2', summary: [] },
    { role: 'assistant', content: 'Yo' },
    { role: 'user', content: 'And?' },
  ]
  const { status, text, headers } = await post(account.live, { ...hi, input })
  t.is(status, 200, text)
  t.deepEqual(sent().body.input, [input[0], input[3], input[4]])
  t.is(headers.get('x-gateway-reasoning-dropped'), '1')
})

test.serial('Codex: the session header keeps a conversation with one API key', async t => {
  const { live: key } = await live()
  const body: ResponseCreateParamsStreaming = {
    model,
    stream: true,
    input: [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Hello' }] }],
    tools: [{ type: 'web_search', external_web_access: true } as never],
    tool_choice: 'auto',
    parallel_tool_calls: false,
    reasoning: { summary: 'auto' },
    store: false,
    include: ['reasoning.encrypted_content'],
    prompt_cache_key: 'thread-1',
  }
  const codex = { ...body, client_metadata: { 'x-codex-window-id': 'w' } }
  const { text } = await post(key, codex, { 'session-id': 'thread-1', originator: 'codex_exec' })
  t.is(dataOf(text).at(-2).type, 'response.completed', text)
  t.is(sent().body.prompt_cache_key, 'thread-1')
  t.is(sent().headers['session-id'], undefined)
})

test.serial('penalties go to the provider that takes them', async t => {
  const { live: key } = await both.gateway.account()
  const body = { model: 'gpt-5-mini', input: 'Hello', presence_penalty: 0.5, frequency_penalty: 0 }
  for (const [name, expected, dropped] of [
    ['openrouter', [0.5, 0], null],
    ['openai', [undefined, undefined], 'presence_penalty,frequency_penalty'],
  ] as const) {
    both[name].next(json(200, answered))
    const response = await both.gateway.fetch('/v1/responses', { key, body: { ...body, provider: { only: [name] } } })
    t.is(response.status, 200, await response.text())
    const { presence_penalty, frequency_penalty } = both[name].requests.at(-1)!.body
    t.deepEqual([presence_penalty, frequency_penalty], expected)
    t.is(response.headers.get('x-gateway-dropped'), dropped)
  }
})

test.serial(
  '200: what uses the operator’s account or is unknown is dropped, named and counted; 400 for a prompt',
  async t => {
    const { live: key } = await live()
    const costly = {
      prompt_cache_options: { ttl: '12h', comparison_response_id: 'resp_other' },
      access_programs: { cyber: 'daybreak_red' },
      multi_agent: { max_concurrent_subagents: 8 },
      plugins: [{ id: 'web' }],
      service_tier: 'scale',
      next_year: { a: 1 },
    }
    const named = 'prompt_cache_options,access_programs,multi_agent,plugins,service_tier,next_year'
    for (const name of [model, 'claude-sonnet-4-6']) {
      const { status, headers, text } = await post(key, { ...hi, model: name, ...costly })
      t.is(status, 200, text)
      t.is(headers.get('x-gateway-dropped'), named)
    }
    t.deepEqual(sent().body, { ...hi, store: false, service_tier: 'default' })
    await world.gateway.services.unknownNames.flush()
    const names = (await listUnknownNames(world.gateway.services.redis)).map(({ kind, name }) => `${kind} ${name}`)
    t.true(names.includes('field responses.next_year'))
    t.false(names.includes('field responses.plugins'))
    const refused = await post(key, { ...hi, prompt: { id: 'pmpt_other' } })
    t.deepEqual([refused.status, JSON.parse(refused.text).error.param], [400, 'prompt'])
  },
)
