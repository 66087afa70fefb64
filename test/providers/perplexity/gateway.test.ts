import OpenAI from 'openai'
import { agentReply, searchUsd, startPerplexity } from '../../emulators/perplexity.ts'
import { chargedNano, dataOf, generationOf } from '../../support/chat/gateway.ts'
import { eventually } from '../../support/gateway.ts'
import { test } from '../../support/test.ts'
import { use, useGateway } from '../../support/use.ts'

const perplexity = use(test, startPerplexity)
const gateway = useGateway(test, () => ({ PERPLEXITY_API_KEY: 'pplx-secret', PERPLEXITY_BASE_URL: perplexity.url }))
test.beforeEach(() => perplexity.reset())

// biome-ignore lint/suspicious/noExplicitAny: answers and bodies of every shape
type Any = any

const model = 'sonar'
const sdkOf = (apiKey: string) => new OpenAI({ apiKey, baseURL: `${gateway.url}/v1`, maxRetries: 0 })
const messages = [{ role: 'user' as const, content: 'What is new?' }]
const weather = {
  type: 'function' as const,
  function: { name: 'weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } },
}

test.serial('the emulator takes, gives and refuses what OpenAI’s client sees at Perplexity', async t => {
  const client = new OpenAI({ apiKey: 'key', baseURL: `${perplexity.url}/v1`, maxRetries: 0 })
  const asked = { model: 'perplexity/sonar', input: 'Hello', tools: [{ type: 'web_search' as const }] }
  const answer = await client.responses.create(asked)
  t.is(answer.output_text, 'Echo: Hello[2]')
  t.is((answer.usage as Any).cost.currency, 'USD')
  const types: string[] = []
  for await (const event of await client.responses.create({ ...asked, stream: true })) types.push(event.type)
  t.is(types.at(-1), 'response.completed')
  const refusals: [body: object, message: RegExp][] = [
    [{ ...asked, text: { format: { type: 'text' } } }, /unknown field "text"/],
    [{ ...asked, stop: ['x'] }, /unknown field "stop"/],
    [{ ...asked, model: 'perplexity/sonar-pro' }, /Invalid model/],
    [{ ...asked, tools: [{ type: 'function', name: 'web_search', parameters: {}, strict: null }] }, /is reserved/],
  ]
  for (const [body, message] of refusals) await t.throwsAsync(client.responses.create(body as Any), { message })
  await t.throwsAsync(client.chat.completions.create({ model: 'sonar', messages }), { message: /Sonar is now/ })
  const other = new OpenAI({ apiKey: 'invalid', baseURL: `${perplexity.url}/v1`, maxRetries: 0 })
  await t.throwsAsync(other.responses.create(asked), { instanceOf: OpenAI.AuthenticationError })
})

test.serial('200 with sources, whole and streamed, charged by what Perplexity states', async t => {
  const account = await gateway.account()
  const sdk = sdkOf(account.live)
  const whole = (await sdk.chat.completions.create({ model, messages })) as Any
  t.is(whole.choices[0].message.content, 'Echo: What is new?[2]')
  t.deepEqual(whole.citations, ['https://a.example/one', 'https://b.example/two'])
  t.like(whole.search_results[1], { id: 2, title: 'Page 2', url: 'https://b.example/two', date: '2026-11-01' })
  t.deepEqual(whole.choices[0].message.annotations, [
    {
      type: 'url_citation',
      url_citation: { start_index: 18, end_index: 21, url: 'https://b.example/two', title: 'Page 2' },
    },
  ])
  t.false('cost_details' in whole.usage)
  t.deepEqual(perplexity.requests[0]!.body, {
    model: 'perplexity/sonar',
    input: [{ type: 'message', role: 'user', content: 'What is new?' }],
    tools: [{ type: 'web_search' }],
    tool_choice: { type: 'web_search' },
    max_tool_calls: 5,
    store: false,
  })
  t.is(perplexity.requests[0]!.path, '/v1/agent')
  const stream = await sdk.chat.completions.create({
    model: 'perplexity/sonar',
    messages,
    stream: true,
    stream_options: { include_usage: true },
  })
  let text = ''
  let last: Any
  let usage: Any
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? ''
    if (chunk.choices[0]?.finish_reason) last = chunk
    usage = chunk.usage ?? usage
  }
  t.is(text, whole.choices[0].message.content)
  t.deepEqual(last.citations, whole.citations)
  t.deepEqual(last.search_results, whole.search_results)
  t.deepEqual(last.choices[0].delta.annotations, whole.choices[0].message.annotations)
  t.is(usage.total_tokens, whole.usage.total_tokens)
  const { prompt_tokens: input, completion_tokens: output } = whole.usage
  const eachUsd = (input * 0.25 + output * 2.5) / 1e6 + searchUsd
  const logged = await generationOf({ gateway } as Any, whole.id)
  t.is(logged.webSearches, 1)
  t.is(logged.upstreamId, 'resp_emulated')
  t.is(await chargedNano({ gateway }, account), 2 * Math.round(Math.round(eachUsd * 1e9) * 1.05))
})

test.serial('searches are reserved at their price, and charged by the catalog where no cost is stated', async t => {
  const account = await gateway.account()
  let reservedNano = 0n
  perplexity.next(async (request, response) => {
    reservedNano = (await gateway.services.wallets.view(account.organisationId)).reservedNano
    await agentReply({ searches: 9, usage: { cost: undefined } })(request, response)
  })
  const answer = (await sdkOf(account.live).chat.completions.create({ model, messages, max_tokens: 100 })) as Any
  // Five searches, and the prompt after each with the results so far.
  const resultTokens = (5_000 * 5 * 6) / 2
  t.true(reservedNano > BigInt(Math.round((5 * 0.0025 + (resultTokens * 0.25) / 1e6) * 1.05 * 1e9)))
  const { prompt_tokens: input, completion_tokens: output } = answer.usage
  t.is((await generationOf({ gateway } as Any, answer.id)).webSearches, 5)
  const usd = (input * 0.25 + output * 2.5) / 1e6 + 5 * 0.0025
  t.is(await chargedNano({ gateway }, account), Math.round(usd * 1.05 * 1e9))
})

test.serial('402 where the wallet does not cover the searches', async t => {
  const account = await gateway.account({ usd: '0.01' })
  const error = await t.throwsAsync(sdkOf(account.live).chat.completions.create({ model, messages, max_tokens: 1 }))
  t.is((error as Any).status, 402)
  t.is(perplexity.requests.length, 0)
})

test.serial('the fields of Sonar’s chat completions become those of the search', async t => {
  const { live } = await gateway.account()
  const body = {
    model,
    messages: [{ role: 'system', content: 'Be brief.' }, ...messages],
    web_search_options: {
      search_context_size: 'high',
      user_location: { type: 'approximate', approximate: { country: 'NO', city: 'Oslo', timezone: 'Europe/Oslo' } },
    },
    search_domain_filter: ['example.com'],
    search_recency_filter: 'week',
    num_search_results: 7,
    language_preference: 'no',
    max_tokens: 200,
    temperature: 0.2,
    top_k: 5,
    presence_penalty: 0.5,
    return_images: true,
    stop: ['END'],
  }
  const response = await gateway.fetch('/v1/chat/completions', { key: live, body })
  t.is(response.status, 200, await response.text())
  t.deepEqual(response.headers.get('x-gateway-dropped')!.split(',').sort(), [
    'presence_penalty',
    'return_images',
    'stop',
    'top_k',
  ])
  const { input, tools, ...rest } = perplexity.requests[0]!.body
  t.deepEqual(input[0], { type: 'message', role: 'system', content: 'Be brief.' })
  t.deepEqual(tools, [
    {
      type: 'web_search',
      search_context_size: 'high',
      user_location: { country: 'NO', city: 'Oslo' },
      max_results: 7,
      filters: { search_domain_filter: ['example.com'], search_recency_filter: 'week' },
    },
  ])
  t.like(rest, { max_output_tokens: 200, temperature: 0.2, language_preference: 'no' })
  const off = await gateway.fetch('/v1/chat/completions', {
    key: live,
    body: { model, messages, disable_search: true },
  })
  t.false('citations' in ((await off.json()) as object))
  t.false('tools' in perplexity.requests[1]!.body)
})

test.serial('400 for options of a search at a model that does not search, and for what Perplexity refuses', async t => {
  const { live } = await gateway.account()
  const send = (more: object) =>
    gateway.fetch('/v1/chat/completions', { key: live, body: { model, messages, ...more } })
  const refusals: [more: object, code: string, param: string][] = [
    [
      { web_search_options: { search_context_size: 'huge' } },
      'invalid_request',
      'web_search_options.search_context_size',
    ],
    [{ search_recency_filter: 'decade' }, 'invalid_request', 'search_recency_filter'],
    [{ n: 2 }, 'unsupported_capability', 'n'],
    [{ tools: [{ ...weather, function: { name: 'web_search' } }] }, 'unsupported_capability', 'tools.0.function.name'],
    [
      { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://a.example/a.png' } }] }] },
      'unsupported_capability',
      'messages',
    ],
  ]
  for (const [more, code, param] of refusals) {
    const response = await send(more)
    const { error } = (await response.json()) as Any
    t.deepEqual([response.status, error.code, error.param], [400, code, param], error.message)
  }
  const retired = await send({ model: 'sonar-pro' })
  t.is(retired.status, 404)
  t.regex(await retired.text(), /sonar/)
})

test.serial('200 with functions of the caller, called and answered, beside the search', async t => {
  const { live } = await gateway.account()
  const sdk = sdkOf(live)
  const question = [{ role: 'user' as const, content: 'The weather in Oslo and Rome?' }]
  const first = await sdk.chat.completions.create({ model, messages: question, tools: [weather] })
  const calls = first.choices[0]!.message.tool_calls!
  t.is(first.choices[0]!.finish_reason, 'tool_calls')
  t.deepEqual(
    calls.map((call: Any) => [call.id, call.function.name, call.function.arguments]),
    [
      ['call_0', 'weather', '{"city":"Oslo"}'],
      ['call_1', 'weather', '{"city":"Rome"}'],
    ],
  )
  t.deepEqual(perplexity.requests[0]!.body.tool_choice, 'auto')
  t.is(perplexity.requests[0]!.body.tools.length, 2)
  let streamed: Any[] = []
  const stream = await sdk.chat.completions.create({ model, messages: question, tools: [weather], stream: true })
  for await (const { choices } of stream) streamed = [...streamed, ...(choices[0]?.delta.tool_calls ?? [])]
  t.deepEqual(
    streamed.map(({ index, id }) => [index, id]),
    [
      [0, 'call_0'],
      [1, 'call_1'],
    ],
  )
  const results = calls.map(({ id }) => ({ role: 'tool' as const, tool_call_id: id, content: 'sunny' }))
  const final = await sdk.chat.completions.create({
    model,
    messages: [...question, first.choices[0]!.message, ...results],
    tools: [weather],
  })
  t.is(final.choices[0]!.finish_reason, 'stop')
  t.deepEqual(
    perplexity.requests.at(-1)!.body.input.map(({ type }: Any) => type),
    ['message', 'function_call', 'function_call', 'function_call_output', 'function_call_output'],
  )
  const choice = { type: 'function' as const, function: { name: 'weather' } }
  await sdk.chat.completions.create({ model, messages: question, tools: [weather], tool_choice: choice })
  t.like(perplexity.requests.at(-1)!.body, { tool_choice: { name: 'weather' }, tools: [{ type: 'function' }] })
})

test.serial('200 in the formats of Responses, Messages and Gemini, and by JSON schema', async t => {
  const { live } = await gateway.account()
  const response = await sdkOf(live).responses.create({ model, input: 'What is new?' })
  t.is(response.output_text, 'Echo: What is new?[2]')
  const message = await gateway.fetch('/v1/messages', { key: live, body: { model, messages, max_tokens: 50 } })
  t.is(((await message.json()) as Any).content[0].text, 'Echo: What is new?[2]')
  const content = { contents: [{ parts: [{ text: 'What is new?' }] }] }
  const generated = await gateway.fetch(`/v1beta/models/${model}:generateContent`, { key: live, body: content })
  t.is(((await generated.json()) as Any).candidates[0].content.parts[0].text, 'Echo: What is new?[2]')
  const json_schema = {
    name: 'answer',
    schema: { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] },
  }
  const format = { type: 'json_schema' as const, json_schema }
  const typed = await sdkOf(live).chat.completions.create({ model, messages, response_format: format })
  t.is(typeof JSON.parse(typed.choices[0]!.message.content!).n, 'number')
})

test.serial('a failed run within a 200, a broken stream and a cut answer are what they are', async t => {
  const account = await gateway.account()
  const send = (stream: boolean) =>
    gateway.fetch('/v1/chat/completions', { key: account.live, body: { model, messages, stream } })
  const failing = agentReply({ status: 'failed' })
  perplexity.next(failing, failing, failing)
  t.true((await send(false)).status >= 500)
  perplexity.reset()
  perplexity.next(agentReply({ cutAfter: 9 }))
  const events = dataOf(await (await send(true)).text())
  t.truthy(events.findLast(event => event.error))
  perplexity.next(agentReply({ status: 'incomplete' }))
  const cut = (await (await send(false)).json()) as Any
  t.is(cut.choices[0].finish_reason, 'length')
  perplexity.next(agentReply({ usage: null }))
  const counted = (await (await send(false)).json()) as Any
  t.true(counted.usage.estimated)
  await eventually(async () => (await chargedNano({ gateway }, account)) > 0, 'what was delivered is charged')
})
