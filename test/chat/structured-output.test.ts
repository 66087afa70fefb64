import Anthropic from '@anthropic-ai/sdk'
import { GoogleGenAI } from '@google/genai'
import OpenAI from 'openai'
import { zodResponseFormat, zodTextFormat } from 'openai/helpers/zod'
import { z } from 'zod'
import { chatRules } from '../emulators/chat-rules.ts'
import { Emulator, json, type Recorded, type Reply } from '../emulators/emulator.ts'
import { startOpenAiEmulator } from '../emulators/openai.ts'
import { chargedNano, dataOf, expectedNano, generationOf, saying } from '../support/chat/gateway.ts'
import { eventually } from '../support/gateway.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

/** A model without schemas that thinks unless it is told not to, one whose provider streams none, and one that has them. */
const deepseekModel = 'deepseek-v4-pro'
const llama = 'llama-3.3-70b-instruct'
const native = 'gpt-5.6-luna'

type Wrote = { text?: string; calls?: { name?: string; args: string }[]; finish?: string }

const usage = { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 }
const head = { id: 'chatcmpl-emulated', created: 1_795_132_800, model: 'up' }

/** What a model writes; calls without a name are of the last tool that it was offered. */
function writes({ text, calls = [], finish = calls.length > 0 ? 'tool_calls' : 'stop' }: Wrote): Reply {
  return (request, response) => {
    const { stream, tools = [] } = request.body
    const made = calls.map(({ name = tools.at(-1)?.function.name, args }, index) => ({
      id: `call_${index}`,
      type: 'function',
      function: { name, arguments: args },
    }))
    if (!stream) {
      const message = { role: 'assistant', content: text ?? null, ...(made.length > 0 && { tool_calls: made }) }
      const choices = [{ index: 0, message, finish_reason: finish }]
      return json(200, { ...head, object: 'chat.completion', choices, usage })(request, response)
    }
    const deltas: object[] = [{ role: 'assistant', content: '' }]
    for (const piece of (text ?? '').match(/.{1,4}/gsu) ?? []) deltas.push({ content: piece })
    for (const [index, call] of made.entries()) {
      deltas.push({ tool_calls: [{ index, ...call, function: { ...call.function, arguments: '' } }] })
      for (const piece of call.function.arguments.match(/.{1,3}/gsu) ?? [])
        deltas.push({ tool_calls: [{ index, function: { arguments: piece } }] })
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const write = (choices: object[], more = {}) =>
      response.write(`data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', choices, ...more })}\n\n`)
    for (const delta of deltas) write([{ index: 0, delta, finish_reason: null }])
    write([{ index: 0, delta: {}, finish_reason: finish }])
    write([], { usage })
    response.end('data: [DONE]\n\n')
  }
}

/** A provider whose answers are set for each request by `next`. */
function startProvider(): Promise<Emulator> {
  return Emulator.start(writes({ text: 'Echo' }))
}

/** A reply of a provider that keeps to its rules. */
function obeying(provider: 'deepseek' | 'groq' | 'lenient', wrote: Wrote): Reply {
  return (request: Recorded, response) => {
    const refusals = chatRules[provider].map(rule => rule.refusal(request.body))
    const refusal = refusals.find(Boolean) as Reply | undefined
    return (refusal ?? writes(wrote))(request, response)
  }
}

const openai = use(test, startOpenAiEmulator)
const deepseek = use(test, startProvider)
const groq = use(test, startProvider)
const gateway = useGateway(test, () => ({
  OPENAI_API_KEY: 'sk-upstream',
  OPENAI_BASE_URL: `${openai.url}/v1`,
  DEEPSEEK_API_KEY: 'sk-upstream',
  DEEPSEEK_BASE_URL: deepseek.url,
  GROQ_API_KEY: 'sk-upstream',
  GROQ_BASE_URL: `${groq.url}/openai/v1`,
}))
test.beforeEach(() => {
  for (const emulator of [openai, deepseek, groq]) emulator.reset()
})

const city = z.object({ name: z.string(), population: z.number().int() })
const oslo = { name: 'Oslo', population: 717_710 }
const osloJson = JSON.stringify(oslo)
const format = zodResponseFormat(city, 'city')
const { schema } = format.json_schema
const header = 'x-gateway-structured-output'
const sdk = (key: string) => new OpenAI({ apiKey: key, baseURL: `${gateway.url}/v1`, maxRetries: 0 })
const sent = (emulator: Emulator) => emulator.requests.at(-1)!.body

async function ask(key: string, body: object, headers: Record<string, string> = {}, path = '/v1/chat/completions') {
  const response = await gateway.fetch(path, { key, body, headers })
  const text = await response.text()
  return { status: response.status, headers: response.headers, text, json: () => JSON.parse(text) }
}
const asking = (model: string, more: object = {}) =>
  saying(model, 'Describe Oslo.', { response_format: format, ...more })

test.serial('200 from a model that thinks: its JSON mode and the schema in the prompt, checked', async t => {
  const { live } = await gateway.account()
  deepseek.next(obeying('deepseek', { text: `Here it is:\n\`\`\`json\n${osloJson}\n\`\`\`\nBye` }))
  const { data, response } = await sdk(live)
    .chat.completions.parse(asking(deepseekModel) as never)
    .withResponse()
  t.deepEqual(data.choices[0]!.message.parsed, oslo)
  t.is(data.choices[0]!.message.content, osloJson)
  t.is(response.headers.get(header), 'prompt, validated')
  const body = sent(deepseek)
  t.deepEqual(body.response_format, { type: 'json_object' })
  t.is(body.tools, undefined)
  t.is(body.messages[0].role, 'system')
  t.true(body.messages[0].content.includes(JSON.stringify(schema)))
})

test.serial('200 from one that is told not to think: a forced tool, whose arguments are the answer', async t => {
  const { live } = await gateway.account()
  deepseek.next(obeying('deepseek', { calls: [{ args: osloJson }], text: 'Here you are' }))
  const answer = await ask(live, asking(deepseekModel, { reasoning_effort: 'none' }))
  t.is(answer.headers.get(header), 'tool, validated', answer.text)
  const [choice] = answer.json().choices
  t.deepEqual(choice.message, { role: 'assistant', content: osloJson })
  t.is(choice.finish_reason, 'stop')
  const { tools, tool_choice } = sent(deepseek)
  t.deepEqual(tools[0].function.parameters, schema)
  t.deepEqual(tool_choice, { type: 'function', function: { name: tools[0].function.name } })
})

test.serial('200 of a stream: the arguments of the tool come as text while they are made', async t => {
  const { live } = await gateway.account()
  groq.next(obeying('groq', { calls: [{ args: osloJson }] }))
  const stream = sdk(live).chat.completions.stream(asking(llama) as never)
  let pieces = 0
  stream.on('content.delta', () => void pieces++)
  const completion = await stream.finalChatCompletion()
  t.deepEqual(completion.choices[0]!.message.parsed, oslo, JSON.stringify(completion))
  t.is(completion.choices[0]!.finish_reason, 'stop')
  t.is(completion.choices[0]!.message.tool_calls, undefined)
  t.true(pieces > 5, String(pieces))
})

test.serial('200 of a stream by the prompt: without the text around the JSON', async t => {
  const { live } = await gateway.account()
  deepseek.next(obeying('deepseek', { text: `Sure:\n\`\`\`json\n${osloJson}\n\`\`\`` }))
  const answer = await ask(live, asking(deepseekModel, { stream: true }))
  t.is(answer.headers.get(header), 'prompt')
  const text = dataOf(answer.text).flatMap(chunk => chunk.choices?.[0]?.delta.content ?? [])
  t.is(text.join(''), osloJson)
})

const weather = { type: 'function', function: { name: 'weather', parameters: { type: 'object', properties: {} } } }

test.serial('200 beside tools of the client: any tool is forced, and its own calls stay calls', async t => {
  const { live } = await gateway.account()
  for (const stream of [false, true]) {
    groq.next(obeying('groq', { calls: [{ name: 'weather', args: '{}' }] }))
    const called = await ask(live, asking(llama, { tools: [weather], stream }))
    t.is(called.status, 200, called.text)
    t.is(sent(groq).tool_choice, 'required')
    t.is(sent(groq).tools.length, 2)
    t.regex(called.text, /"finish_reason":"tool_calls"/)
    t.regex(called.text, /"name":"weather"/)
    groq.next(obeying('groq', { calls: [{ args: osloJson }] }))
    const answered = await ask(live, asking(llama, { tools: [weather], stream }))
    t.regex(answered.text, /"finish_reason":"stop"/)
    t.notRegex(answered.text, /tool_calls/)
  }
  groq.next(obeying('groq', { calls: [{ name: 'weather', args: '{}' }] }))
  const forced = await ask(live, asking(llama, { tools: [weather], tool_choice: 'required' }))
  t.is(forced.json().choices[0].finish_reason, 'tool_calls')
  t.is(sent(groq).tools.length, 1)
})

test.serial('200 repaired: only the form was wrong', async t => {
  const { live } = await gateway.account()
  deepseek.next(obeying('deepseek', { text: '{"name": "Oslo", "population": 717710,' }))
  const answer = await ask(live, asking(deepseekModel))
  t.is(answer.headers.get(header), 'prompt, validated, repaired')
  t.deepEqual(JSON.parse(answer.json().choices[0].message.content), oslo)
})

test.serial(
  '200 from the next model when the first ignores the schema; the caller pays for the answer it gets',
  async t => {
    const account = await gateway.account()
    deepseek.next(obeying('deepseek', { text: '{"name": "Oslo", "population": "many"}' }))
    groq.next(obeying('groq', { calls: [{ args: osloJson }] }))
    const answer = await ask(account.live, asking(deepseekModel, { models: [llama] }))
    t.is(answer.status, 200, answer.text)
    t.is(answer.headers.get('x-gateway-model'), llama)
    t.is(answer.headers.get('x-gateway-attempts'), '2')
    t.is(answer.headers.get(header), 'tool, validated')
    const costNano = expectedNano(llama, usage, { provider: 'groq' })
    t.is(answer.json().usage.cost, costNano / 1e9)
    t.is(await chargedNano({ gateway }, account), costNano)
    const row = await generationOf({ gateway } as never, answer.headers.get('x-generation-id')!)
    t.is(row.attempts, 2)
  },
)

test.serial(
  '400 with what was written when no model holds to the schema: two answers are made, the last one is paid',
  async t => {
    const account = await gateway.account()
    const invalid = '{"name": "Oslo"}'
    for (const _ of [1, 2]) deepseek.next(obeying('deepseek', { text: invalid }))
    const answer = await ask(account.live, asking(deepseekModel))
    t.is(answer.status, 400)
    const { error } = answer.json()
    t.is(error.code, 'json_validate_failed')
    t.is(error.failed_generation, invalid)
    t.regex(error.message, /population/)
    t.is(deepseek.requests.length, 2)
    t.is(answer.headers.get('x-gateway-attempts'), '2')
    t.is(await chargedNano({ gateway }, account), expectedNano(deepseekModel, usage))
    const row = await generationOf({ gateway } as never, answer.headers.get('x-generation-id')!)
    t.is(row.attempts, 2)
    t.is(row.errorCode, 'json_validate_failed')
  },
)

test.serial(
  '499 when the client leaves before an answer that is not valid: it is paid, and no other is made',
  async t => {
    const account = await gateway.account()
    const [asked, left] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    deepseek.next(async (request, response) => {
      asked.resolve()
      await left.promise
      writes({ text: '{"name": "Oslo"}' })(request, response)
    })
    const leaving = new AbortController()
    const call = { key: account.live, body: asking(deepseekModel), signal: leaving.signal }
    const answer = gateway.fetch('/v1/chat/completions', call)
    await asked.promise
    leaving.abort()
    await t.throwsAsync(answer)
    // It has noticed when it answers requests that came later.
    for (let i = 0; i < 3; i++) await (await gateway.fetch('/healthz')).text()
    left.resolve()
    const { db } = gateway.services
    const where = { organisationId: account.organisationId }
    await eventually(async () => (await db.generation.count({ where })) === 1, 'it is booked')
    const row = await db.generation.findFirstOrThrow({ where })
    t.like(row, { status: 499, errorCode: 'client_closed_request', attempts: 1, estimated: false })
    t.is(await chargedNano({ gateway }, account), expectedNano(deepseekModel, usage))
    t.is(deepseek.requests.length, 1)
  },
)

test.serial('200 as it is from a model with the format, unless the caller has it checked', async t => {
  const { live } = await gateway.account()
  const fenced = `\`\`\`json\n${osloJson}\n\`\`\``
  openai.next(writes({ text: fenced }))
  const plain = await ask(live, asking(native))
  t.is(plain.headers.get(header), 'native')
  t.is(plain.json().choices[0].message.content, fenced)

  openai.next(writes({ text: fenced }))
  const healed = await ask(live, asking(native, { plugins: [{ id: 'response-healing' }] }))
  t.is(healed.headers.get(header), 'native, validated, repaired')
  t.is(healed.headers.get('x-gateway-dropped'), null)
  t.is(healed.json().choices[0].message.content, osloJson)

  openai.next(writes({ text: fenced }))
  groq.next(obeying('groq', { calls: [{ args: osloJson }] }))
  const checked = await ask(live, asking(native, { models: [llama] }), { [header]: 'validate' })
  t.is(checked.headers.get('x-gateway-model'), llama)
  const wrong = await ask(live, asking(native), { [header]: 'sometimes' })
  t.is(wrong.status, 400)
  t.is(wrong.json().error.param, header)
})

test.serial('200 for an answer that reached its limit, and for a refusal: neither is held to the schema', async t => {
  const { live } = await gateway.account()
  groq.next(obeying('groq', { calls: [{ args: '{"name": "Os' }], finish: 'length' }))
  const cut = await ask(live, asking(llama, { max_tokens: 5 }))
  t.is(cut.status, 200)
  t.is(cut.json().choices[0].finish_reason, 'length')
  t.is(cut.json().choices[0].message.content, '{"name": "Os')
  t.is(cut.headers.get(header), 'tool')
  deepseek.next(obeying('deepseek', { text: '', finish: 'content_filter' }))
  t.is((await ask(live, asking(deepseekModel))).json().choices[0].finish_reason, 'content_filter')
})

test.serial('200 in the other dialects by their SDKs', async t => {
  const { live } = await gateway.account()
  const answers = () => groq.next(obeying('groq', { calls: [{ args: osloJson }] }))
  answers()
  const responses = await sdk(live).responses.parse({
    model: llama,
    input: 'Describe Oslo.',
    text: { format: zodTextFormat(city, 'city') },
    store: false,
  })
  t.deepEqual(responses.output_parsed, oslo)

  const anthropic = new Anthropic({ apiKey: live, baseURL: gateway.url, maxRetries: 0 })
  const asked = { model: llama, max_tokens: 100, messages: [{ role: 'user' as const, content: 'Describe Oslo.' }] }
  const output_config = { format: { type: 'json_schema' as const, schema: schema as Record<string, unknown> } }
  answers()
  const message = await anthropic.messages.create({ ...asked, output_config })
  t.deepEqual(message.content, [{ type: 'text', text: osloJson }] as never)
  t.is(message.stop_reason, 'end_turn')
  answers()
  const streamed = await anthropic.messages.stream({ ...asked, output_config }).finalText()
  t.is(streamed, osloJson)

  const google = new GoogleGenAI({ apiKey: live, httpOptions: { baseUrl: gateway.url } })
  const config = { responseMimeType: 'application/json', responseJsonSchema: schema }
  answers()
  const content = await google.models.generateContent({ model: llama, contents: 'Describe Oslo.', config })
  t.is(content.text, osloJson)
  t.is(sent(groq).tool_choice.type, 'function')
})

test.serial('200 under the rules of each dialect: an invalid answer goes to the next model', async t => {
  const { live } = await gateway.account()
  const body = {
    model: deepseekModel,
    models: [llama],
    max_tokens: 100,
    messages: [{ role: 'user', content: 'Oslo?' }],
    output_config: { format: { type: 'json_schema', schema } },
  }
  deepseek.next(obeying('deepseek', { text: '{}' }))
  groq.next(obeying('groq', { calls: [{ args: osloJson }] }))
  const answer = await ask(live, body, { 'anthropic-version': '2023-06-01' }, '/v1/messages')
  t.is(answer.status, 200, answer.text)
  t.is(answer.json().content[0].text, osloJson)
  t.is(answer.headers.get('x-gateway-attempts'), '2')
})

test.serial(
  'require_parameters keeps to models with the format; auto takes others only where there is none',
  async t => {
    const { live } = await gateway.account()
    const strict = await ask(live, asking(deepseekModel, { provider: { require_parameters: true } }))
    t.is(strict.status, 400)
    t.regex(strict.json().error.message, /response_format/)
    const chosen = await ask(live, asking('auto'))
    t.is(chosen.headers.get(header), 'native')
    deepseek.next(obeying('deepseek', { text: osloJson }))
    const only = await ask(live, asking('auto', { provider: { only: ['deepseek'] } }))
    t.is(only.status, 200, only.text)
    t.is(only.headers.get(header), 'prompt, validated')
  },
)

test.serial(
  '200 for test keys: the sandbox holds to the schema, and the header says what a live answer would be',
  async t => {
    const account = await gateway.account()
    const answer = await ask(account.test, asking(llama))
    t.is(answer.status, 200, answer.text)
    t.notThrows(() => city.parse(JSON.parse(answer.json().choices[0].message.content)))
    t.is(answer.headers.get(header), 'tool')
  },
)
