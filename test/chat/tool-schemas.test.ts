import { startAnthropicEmulator } from '../emulators/anthropic.ts'
import { startChatProvider } from '../emulators/chat-rules.ts'
import type { Emulator } from '../emulators/emulator.ts'
import { dataOf } from '../support/chat/gateway.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

/** Schemas of tools and answers that providers refuse, as their emulators do (`emulators/schema-rules.ts`). */
const emulators = {
  anthropic: use(test, () => startAnthropicEmulator()),
  openai: use(test, () => startChatProvider('openai')),
  moonshot: use(test, () => startChatProvider('moonshot')),
  xai: use(test, () => startChatProvider('xai')),
  groq: use(test, () => startChatProvider('groq')),
  cerebras: use(test, () => startChatProvider('cerebras')),
  mistral: use(test, () => startChatProvider('mistral')),
}
const gateway = useGateway(test, () => {
  const env: Record<string, string> = {}
  for (const [name, { url }] of Object.entries(emulators)) {
    env[`${name.toUpperCase()}_API_KEY`] = 'upstream-secret'
    env[`${name.toUpperCase()}_BASE_URL`] = name === 'anthropic' ? url : `${url}/v1`
  }
  return env
})
test.beforeEach(() => {
  for (const emulator of Object.values(emulators)) emulator.reset()
})

type Provider = keyof typeof emulators
type Schema = Record<string, unknown>
const models: Record<Provider, string> = {
  anthropic: 'claude-sonnet-4-5',
  openai: 'gpt-4o',
  moonshot: 'kimi-k2.5',
  xai: 'grok-4.3',
  groq: 'gpt-oss-120b',
  cerebras: 'gpt-oss-120b',
  mistral: 'mistral-medium-3.5',
}
const weather = [{ role: 'user', content: 'What is the weather in Oslo?' }]
const path = '/v1/chat/completions'
const tool = (parameters: Schema, more: Schema = {}) => ({
  type: 'function',
  function: { name: 'weather', parameters, ...more },
})

async function ask(provider: Provider, body: object, to = path) {
  const { live } = await gateway.account()
  const content = { model: models[provider], provider: { only: [provider] }, ...body }
  const response = await gateway.fetch(to, { key: live, body: content })
  const text = await response.text()
  const { headers, status } = response
  return {
    status,
    text,
    dropped: headers.get('x-gateway-dropped'),
    adjusted: headers.get('x-gateway-adjusted'),
    headers,
  }
}

/** Asks in chat with these tools; the parameters as they were sent. */
async function send(provider: Provider, ...parameters: Schema[]) {
  const tools = parameters.map(one => tool(one))
  const { status, text, adjusted } = await ask(provider, { messages: weather, tools })
  const sent = (emulators[provider] as Emulator).requests.at(-1)!.body.tools
  const schemas: Schema[] = sent.map((one: Schema) => one.input_schema ?? (one.function as Schema).parameters)
  return { status, text, adjusted, schemas }
}

const place = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }

test.serial('200 with tuples and exclusive limits as older drafts have them, in the words of 2020-12', async t => {
  const point = { type: 'array', items: [{ type: 'number' }, { type: 'number' }], additionalItems: false }
  const level = { type: 'number', minimum: 0, exclusiveMinimum: true, maximum: 9, exclusiveMaximum: false }
  const parameters = {
    type: 'object',
    properties: { city: { type: 'string' }, level, deep: { items: point, type: 'array' } },
  }
  for (const provider of ['anthropic', 'openai', 'moonshot', 'xai'] as const) {
    const { status, text, schemas, adjusted } = await send(provider, parameters)
    t.is(status, 200, `${provider}: ${text}`)
    t.is(adjusted, null, provider)
    const { deep, level: sentLevel } = schemas[0]!.properties as Record<string, Schema>
    t.like((deep as { items: Schema }).items.prefixItems, point.items, provider)
    t.deepEqual(sentLevel, { type: 'number', exclusiveMinimum: 0, maximum: 9 } as Schema, provider)
  }
})

test.serial('200 with alternatives at the root, merged into one object that tells of them', async t => {
  const anyOf = [
    { type: 'object', properties: { city: { type: 'string' }, day: { const: 'today' } }, required: ['city', 'day'] },
    { $ref: '#/$defs/ByDay' },
  ]
  const $defs = {
    ByDay: { type: 'object', properties: { day: { type: 'string' }, zip: { type: 'string' } }, required: ['day'] },
  }
  for (const provider of ['anthropic', 'openai', 'moonshot'] as const) {
    const { status, text, schemas, adjusted } = await send(provider, { description: 'Where.', anyOf, $defs })
    t.is(status, 200, `${provider}: ${text}`)
    t.is(adjusted, 'tools.0.function.parameters', provider)
    const [schema] = schemas
    t.deepEqual(Object.keys(schema!.properties as object), ['city', 'day', 'zip'], provider)
    t.like((schema!.properties as Record<string, Schema>).day, { anyOf: [{ const: 'today' }, { type: 'string' }] })
    t.deepEqual(schema!.required, ['day'], provider)
    t.is(schema!.description, `Where.\n\n{anyOf: ${JSON.stringify(anyOf)}}`, provider)
  }
  const either = { ...place, anyOf: [{ required: ['city'] }, { required: ['zip'] }], not: { required: ['x'] } }
  for (const provider of ['anthropic', 'openai', 'moonshot'] as const) t.is((await send(provider, either)).status, 200)
  const parts = { allOf: [place, { properties: { zip: { type: 'string' } } }] }
  for (const provider of ['anthropic', 'openai', 'moonshot'] as const) {
    const { status, adjusted, schemas } = await send(provider, parts)
    t.is(status, 200)
    t.is(adjusted, null, 'nothing is lost')
    t.like(schemas[0], { required: ['city'], properties: { city: { type: 'string' }, zip: { type: 'string' } } })
  }
})

test.serial('200 with keys that Claude refuses: the caller has its own in calls, and in earlier ones', async t => {
  const long = `settings__${'approved__'.repeat(7)}`
  const key = 'filter[city]'
  const parameters = { type: 'object', properties: { [key]: { type: 'string' }, [long]: {} }, required: [key] }
  for (const stream of [false, true]) {
    const { status, text, adjusted } = await ask('anthropic', { messages: weather, tools: [tool(parameters)], stream })
    t.is(status, 200, text)
    t.is(adjusted, null)
    const calls = stream
      ? dataOf(text).flatMap(chunk => chunk.choices?.[0]?.delta.tool_calls ?? [])
      : JSON.parse(text).choices[0].message.tool_calls
    const written = calls.map((call: { function: { arguments?: string } }) => call.function.arguments ?? '').join('')
    t.deepEqual(JSON.parse(written), { [key]: 'Oslo' })
    t.is(calls[0].function.name, 'weather')
  }
  const call = { id: 'call_1', type: 'function', function: { name: 'weather', arguments: `{"${key}":"Rome"}` } }
  const again = [
    ...weather,
    { role: 'assistant', content: null, tool_calls: [call] },
    { role: 'tool', tool_call_id: 'call_1', content: 'sun' },
  ]
  t.is((await ask('anthropic', { messages: again, tools: [tool(parameters)] })).status, 200)
  const { messages, tools } = emulators.anthropic.requests.at(-1)!.body
  const [sentKey] = Object.keys(tools[0].input_schema.properties)
  t.deepEqual(messages[1].content[0].input, { [sentKey!]: 'Rome' })
  t.deepEqual(tools[0].input_schema.required, [sentKey])
})

test.serial('200 with strict tools at Claude whose parameters have no type, which are closed objects, too', async t => {
  for (const parameters of [{}, { properties: { city: { type: 'string' } } }]) {
    const { status, text } = await ask('anthropic', { messages: weather, tools: [tool(parameters, { strict: true })] })
    t.is(status, 200, text)
    const [{ strict, input_schema: sent }] = emulators.anthropic.requests.at(-1)!.body.tools
    t.true(strict)
    t.like(sent, { type: 'object', additionalProperties: false })
  }
})

test.serial('200 with more strict tools than Claude compiles: the first stay strict', async t => {
  const closed = { ...place, additionalProperties: false }
  const named = (count: number, parameters: Schema) =>
    Array.from({ length: count }, (_, i) => tool(parameters, { name: `tool_${i}`, strict: true }))
  const strictOf = () => emulators.anthropic.requests.at(-1)!.body.tools.filter((one: Schema) => one.strict).length
  const many = await ask('anthropic', { messages: weather, tools: named(22, closed) })
  t.is(many.status, 200, many.text)
  t.is(many.dropped, 'tools.20.function.strict,tools.21.function.strict')
  t.is(strictOf(), 20)
  const optional = { type: 'object', properties: { a: {}, b: { type: 'object', properties: { c: {}, d: {} } } } }
  t.is((await ask('anthropic', { messages: weather, tools: named(9, optional) })).status, 200)
  t.is(strictOf(), 6)
  const nullable = { type: 'object', properties: { city: { type: ['string', 'null'] } }, required: ['city'] }
  t.is((await ask('anthropic', { messages: weather, tools: named(18, nullable) })).status, 200)
  t.is(strictOf(), 16)
  const tree = { type: 'object', properties: { next: { $ref: '#' } }, required: ['next'] }
  t.is((await ask('anthropic', { messages: weather, tools: named(1, tree) })).status, 200)
  t.is(strictOf(), 0)
})

test.serial('200 with a format of answers that Claude does not compile: it is asked for in another way', async t => {
  const properties = Object.fromEntries(Array.from({ length: 25 }, (_, i) => [`p${i}`, { type: 'string' }]))
  const tree = {
    type: 'object',
    properties: { city: { type: 'string' }, next: { $ref: '#/$defs/Node' } },
    $defs: { Node: { properties: { next: { $ref: '#/$defs/Node' } } } },
  }
  for (const schema of [{ type: 'object', properties }, tree]) {
    const format = { type: 'json_schema', json_schema: { name: 'x', schema } }
    const body = { messages: weather, response_format: format, reasoning_effort: 'none' }
    const { status, text, headers } = await ask('anthropic', body)
    t.is(status, 200, text)
    t.regex(headers.get('x-gateway-structured-output')!, /^tool/)
    t.is(emulators.anthropic.requests.at(-1)!.body.output_config?.format, undefined)
  }
  const named = { type: 'object', properties: { 'filter[city]': { type: 'string' }, ...properties } }
  for (const stream of [false, true]) {
    const response_format = { type: 'json_schema', json_schema: { name: 'x', schema: named } }
    const asked = { messages: weather, response_format, reasoning_effort: 'none', stream }
    const { status, text } = await ask('anthropic', asked)
    t.is(status, 200, text)
    const content = stream
      ? dataOf(text)
          .map(chunk => chunk.choices?.[0]?.delta.content ?? '')
          .join('')
      : JSON.parse(text).choices[0].message.content
    t.deepEqual(JSON.parse(content), { 'filter[city]': 'Oslo' }, 'the caller’s keys also where the answer is a call')
  }
  const either = { type: 'object', properties, anyOf: [{ required: ['p0'] }, { required: ['p1'] }] }
  const told = { type: 'json_schema', json_schema: { name: 'x', schema: either } }
  const merged = await ask('anthropic', { messages: weather, response_format: told, reasoning_effort: 'none' })
  t.is(merged.status, 200, merged.text)
  t.is(merged.adjusted, 'response_format')
  const body = {
    input: 'Hi',
    reasoning: { effort: 'none' },
    text: { format: { type: 'json_schema', name: 'x', schema: tree } },
  }
  t.is((await ask('anthropic', body, '/v1/responses')).status, 200)
})

test.serial('200 with arrays of anything at OpenAI, also in Responses', async t => {
  const list = { type: 'array', description: 'Any.' }
  const parameters = {
    type: 'object',
    properties: { city: { type: 'string' }, list, more: { type: ['array', 'null'] } },
  }
  const { status, text, schemas, adjusted } = await send('openai', parameters)
  t.is(status, 200, text)
  t.is(adjusted, null)
  t.like(schemas[0]!.properties, { list: { ...list, items: {} }, more: { type: ['array', 'null'], items: {} } })
  const body = {
    input: 'Hi',
    tools: [{ type: 'function', name: 'weather', parameters: { anyOf: [parameters, place] } }],
  }
  const native = await ask('openai', body, '/v1/responses')
  t.is(native.adjusted, 'tools.0.parameters')
  const [sent] = emulators.openai.requests.at(-1)!.body.tools
  t.like(sent.parameters, { type: 'object', properties: { list: { items: {} } }, anyOf: undefined })
})

test.serial('200 at Moonshot with a type in each place where it wants one, and with names that it takes', async t => {
  const parameters = {
    type: 'object',
    properties: {
      city: { description: 'Any.' },
      mode: { enum: ['a', 'b'] },
      size: { enum: [1, null] },
      mixed: { enum: ['a', 1] },
      item: { $ref: '#/definitions/Item', type: 'object', description: 'An item.' },
      when: { type: 'string', anyOf: [{ format: 'date' }, { const: 'now' }] },
      one: { oneOf: [{ type: 'string' }, { minimum: 3 }] },
      task: { ...place, anyOf: [{ required: ['city'] }, { properties: { zip: {} }, required: ['zip'] }] },
    },
    definitions: { Item: { properties: { name: { type: 'string' } } } },
  }
  const { status, text, schemas, adjusted } = await send('moonshot', parameters)
  t.is(status, 200, text)
  t.is(adjusted, 'tools.0.function.parameters')
  const any = ['string', 'number', 'boolean', 'object', 'array', 'null']
  t.like(schemas[0]!.properties, {
    city: { type: any },
    mode: { type: 'string' },
    size: { type: ['integer', 'null'] },
    mixed: { type: ['string', 'integer'], description: '{enum: ["a",1]}' },
    item: { $ref: '#/$defs/Item', description: 'An item.' },
    when: {
      anyOf: [
        { type: 'string', format: 'date' },
        { type: 'string', const: 'now' },
      ],
    },
    one: { anyOf: [{ type: 'string' }, { type: 'number', minimum: 3 }] },
    task: { type: 'object', required: ['city'] },
  })
  const branch = { properties: {}, anyOf: [{ $ref: '#/definitions/Node' }, { $ref: '#/definitions/Node' }] }
  const Node = { type: 'object', properties: { city: { type: 'string' }, left: branch, right: branch } }
  const endless = await send('moonshot', { ...Node, definitions: { Node } })
  t.is(endless.status, 200, endless.text)
  t.true(JSON.stringify(endless.schemas).length < 20_000, 'definitions that refer to themselves do not multiply')
  let nested: Schema = place
  for (let depth = 0; depth < 20; depth++)
    nested = {
      type: 'object',
      properties: { a: {} },
      anyOf: [{ properties: { b: nested } }, { properties: { a: place } }],
    }
  const many = {
    type: 'object',
    properties: Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`p${i}`, nested])),
  }
  const texts = await send('moonshot', many, many)
  t.is(texts.status, 200, texts.text)
  const given = 2 * JSON.stringify(many).length
  t.true(JSON.stringify(texts.schemas).length < 3 * given, 'texts of alternatives within alternatives do not multiply')
  const tools = [{ type: 'function', function: { name: '21st_magic', parameters: place } }]
  const { text: answer } = await ask('moonshot', { messages: weather, tools })
  t.is(JSON.parse(answer).choices[0].message.tool_calls[0].function.name, '21st_magic', answer)
})

test.serial(
  '200 with strict tools beside others at Cerebras, which takes strict ones alone: none is strict',
  async t => {
    const closed = { ...place, additionalProperties: false }
    const strict = (name: string) => tool(closed, { name, strict: true })
    const mixed = [strict('a'), tool(place, { name: 'b' }), tool(place, { name: 'c', strict: false })]
    const { status, text, dropped } = await ask('cerebras', { messages: weather, tools: mixed })
    t.is(status, 200, text)
    t.is(dropped, 'tools.0.function.strict')
    const flags = () =>
      emulators.cerebras.requests.at(-1)!.body.tools.map((one: Schema) => (one.function as Schema).strict)
    t.deepEqual(flags(), [undefined, undefined, undefined])
    const all = await ask('cerebras', { messages: weather, tools: [strict('a'), strict('b')] })
    t.is(all.status, 200, all.text)
    t.is(all.dropped, null)
    t.deepEqual(flags(), [true, true])
    const named = (name: string) => ({ name, input_schema: closed })
    const tools = [{ ...named('a'), strict: true }, named('b')]
    const messages = await ask('cerebras', { messages: weather, max_tokens: 50, tools }, '/v1/messages')
    t.is(messages.status, 200, messages.text)
  },
)

test.serial('200 with `parallel_tool_calls: false` at Cerebras, which refuses it: it is left out', async t => {
  for (const [parallel, dropped] of [
    [false, 'parallel_tool_calls'],
    [true, null],
  ] as const) {
    const answer = await ask('cerebras', { messages: weather, tools: [tool(place)], parallel_tool_calls: parallel })
    t.is(answer.status, 200, answer.text)
    t.is(answer.dropped, dropped)
    t.is(emulators.cerebras.requests.at(-1)!.body.parallel_tool_calls, undefined)
  }
  const tools = [{ name: 'weather', input_schema: place }]
  const choice = { type: 'auto', disable_parallel_tool_use: true }
  const body = { messages: weather, max_tokens: 50, tools, tool_choice: choice }
  const messages = await ask('cerebras', body, '/v1/messages')
  t.is(messages.status, 200, messages.text)
})

test.serial('200 with tools and a format of answers at Cerebras: it is asked for in another way', async t => {
  const response_format = { type: 'json_schema', json_schema: { name: 'x', schema: place } }
  const { status, text, headers } = await ask('cerebras', { messages: weather, tools: [tool(place)], response_format })
  t.is(status, 200, text)
  t.regex(headers.get('x-gateway-structured-output')!, /^prompt/)
  t.is(emulators.cerebras.requests.at(-1)!.body.response_format, undefined)
})

test.serial('200 with strict schemas that Groq’s strict mode refuses: they are sent, but not as strict', async t => {
  const loose = {
    type: 'object',
    properties: { city: { type: 'string' }, day: { type: 'string' } },
    required: ['city'],
  }
  const closed = { ...place, additionalProperties: false }
  const tools = [tool(loose, { strict: true }), tool(closed, { name: 'b', strict: true })]
  const called = await ask('groq', { messages: weather, tools })
  t.is(called.status, 200, called.text)
  t.is(called.dropped, 'tools.0.function.strict')
  const [first, second] = emulators.groq.requests.at(-1)!.body.tools
  t.deepEqual([first.function.strict, first.function.parameters, second.function.strict], [undefined, loose, true])
  for (const [schema, strict] of [
    [loose, false],
    [place, false],
    [closed, true],
  ] as const) {
    const format = { type: 'json_schema', json_schema: { name: 'x', schema, strict: true } }
    const { status, text, adjusted } = await ask('groq', { messages: weather, response_format: format })
    t.is(status, 200, text)
    t.is(adjusted, strict ? null : 'response_format')
    t.like(emulators.groq.requests.at(-1)!.body.response_format.json_schema, { schema, strict })
  }
  const text = { format: { type: 'json_schema', name: 'x', schema: loose, strict: true } }
  const responses = await ask('groq', { input: 'Hi', text }, '/v1/responses')
  t.is(responses.status, 200, responses.text)
})

test.serial('200 with a JSON object where no message has the word that OpenAI and Groq require', async t => {
  const messages = [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Where is Oslo?' },
  ]
  const response_format = { type: 'json_object' }
  for (const provider of ['openai', 'groq'] as const) {
    const { status, text, adjusted } = await ask(provider, { messages, response_format })
    t.is(status, 200, `${provider}: ${text}`)
    t.is(adjusted, 'messages', provider)
    const [system, user] = emulators[provider].requests.at(-1)!.body.messages
    t.is(system.content, 'Be brief.\n\nAnswer with one JSON object.', provider)
    t.is(user.content, 'Where is Oslo?', provider)
    const parts = [{ type: 'text', text: 'Where is Oslo? Say it in json.' }]
    const said = await ask(provider, { messages: [{ role: 'user', content: parts }], response_format })
    t.is(said.status, 200, said.text)
    t.is(said.adjusted, null, provider)
  }
  const { live } = await gateway.account()
  const contents = [{ role: 'user', parts: [{ text: 'Where is Oslo?' }] }]
  const response = await gateway.fetch('/v1beta/models/llama-3.3-70b-instruct:generateContent', {
    key: live,
    body: { contents, generationConfig: { responseMimeType: 'application/json' }, provider: { only: ['groq'] } },
  })
  t.is(response.status, 200, await response.text())
})

for (const model of ['gpt-5.6-terra', 'gpt-5.5', 'gpt-5.4-mini', 'gpt-6-luna'])
  test.serial(
    `200 with tools and ${model}, in chat and in Messages, in the format that takes them beside reasoning`,
    async t => {
      const tools = [tool(place)]
      const plain = await ask('openai', { model, messages: weather, tools })
      const wanted = await ask('openai', { model, messages: weather, tools, reasoning_effort: 'high' })
      const own = [{ name: 'weather', input_schema: place }]
      const message = await ask('openai', { model, max_tokens: 500, messages: weather, tools: own }, '/v1/messages')
      for (const { status, text, adjusted } of [plain, wanted, message]) {
        t.is(status, 200, text)
        t.is(adjusted, null)
      }
      t.deepEqual(
        emulators.openai.requests.map(({ path, body }) => [path, body.reasoning?.effort]),
        [undefined, 'high', undefined].map(effort => ['/v1/responses', effort]),
      )
      const beyond = await ask('openai', { model, messages: weather, tools, reasoning_effort: 'high', seed: 1 })
      t.is(beyond.status, 200, beyond.text)
      t.is(beyond.adjusted, 'reasoning_effort')
      t.is(emulators.openai.requests.at(-1)!.body.reasoning_effort, 'none')
      const without = await ask('openai', { model, messages: weather, reasoning_effort: 'max' })
      t.is(without.status, 200, without.text)
      t.is(emulators.openai.requests.at(-1)!.body.reasoning_effort, 'xhigh')
    },
  )
