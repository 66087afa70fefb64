import { parseExact, parseWithCalls } from '../../shared/base/exact-numbers.ts'
import { startBedrockEmulator } from '../emulators/bedrock.ts'
import { startChatProvider } from '../emulators/chat-rules.ts'
import { type Emulator, events, framed, text as page, type Reply } from '../emulators/emulator.ts'
import { startWorld, upstreamSecret } from '../support/chat/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

/**
 * Numbers of tools that JavaScript's do not hold, in every direction: a tool that gets a rounded id finds nothing, and the model
 * repeats the call (https://github.com/earendil-works/pi/issues/8943).
 */

// biome-ignore lint/suspicious/noExplicitAny: bodies of every dialect
type Any = any

const moonshot = use(test, () => startChatProvider('moonshot'))
const bedrock = use(test, () => startBedrockEmulator({ tokens: [upstreamSecret] }))
const world = use(test, () =>
  startWorld({
    MOONSHOT_API_KEY: upstreamSecret,
    MOONSHOT_BASE_URL: `${moonshot.url}/v1`,
    AWS_BEARER_TOKEN_BEDROCK: upstreamSecret,
    BEDROCK_REGIONS: 'us-east-1',
    BEDROCK_US_EAST_1_BASE_URL: bedrock.url,
  }),
)
let key: string
test.before(async () => {
  key = (await world.gateway.account({ usd: '100' })).live
})

type Provider = { model: string; provider: string; emulator: () => Emulator; whole: Reply; stream: Reply | null }

const id = '2512292042121000001'
/** Arguments of a call: an id, one within a list, a number beyond the largest, and one that is exact. */
const args = `{"id":${id},"of":[{"ids":[-98765432109876543210]}],"most":1e400,"part":0.30000000000000004}`

const whole = (body: string): Reply => page(200, body, { 'content-type': 'application/json' })
const usage = '"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}'
const completion = (written: string) =>
  `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant",
  "content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"find","arguments":${written}}}]},
  "finish_reason":"tool_calls"}],${usage}}`
const chunks = (written: string) => {
  const head =
    '{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":'
  const call = `{"index":0,"id":"call_1","type":"function","function":{"name":"find","arguments":${written}}}`
  return [
    `${head}{"role":"assistant","content":null,"tool_calls":[${call}]},"finish_reason":null}]}`,
    `${head}{},"finish_reason":"tool_calls"}],${usage}}`,
    '[DONE]',
  ]
}
const generated = `{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"find","args":${args}}}]},
  "finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":5,"totalTokenCount":15}}`
const message = `{"id":"msg_1","type":"message","role":"assistant","model":"claude","content":[{"type":"tool_use","id":"toolu_1",
  "name":"find","input":${args}}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":5}}`
const messageEvents = [
  `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude","content":[],
  "stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":1}}}`,
  `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"find","input":{}}}`,
  `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":${JSON.stringify(args)}}}`,
  '{"type":"content_block_stop","index":0}',
  '{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":5}}',
  '{"type":"message_stop"}',
].map(data => `event: ${JSON.parse(data).type}\ndata: ${data.replaceAll('\n', '')}\n\n`)
/** OpenAI's own models answer Responses as such. */
const responded = (stream: boolean): Reply => {
  const call = `{"type":"function_call","id":"fc_1","call_id":"call_1","name":"find","status":"completed",
    "arguments":${JSON.stringify(args)}}`
  const response = `{"id":"resp_1","object":"response","created_at":1,"status":"completed","model":"m","output":[${call}],
    "usage":{"input_tokens":10,"output_tokens":5,"total_tokens":15}}`
  const begun = `{"id":"resp_1","object":"response","created_at":1,"status":"in_progress","model":"m","output":[]}`
  if (!stream) return whole(response)
  return streamed([
    `{"type":"response.created","sequence_number":0,"response":${begun}}`,
    `{"type":"response.output_item.done","sequence_number":1,"output_index":0,"item":${call}}`,
    `{"type":"response.completed","sequence_number":2,"response":${response}}`,
  ])
}
const converse = `{"metrics":{"latencyMs":5},"output":{"message":{"role":"assistant","content":[{"toolUse":{"toolUseId":"t1",
  "name":"find","input":${args}}}]}},"stopReason":"tool_use","usage":{"inputTokens":10,"outputTokens":5,"totalTokens":15}}`
const streamed = (payloads: string[]) => events([framed(payloads.map(one => one.replaceAll('\n', '')))])

const providers: Provider[] = [
  {
    model: 'gpt-4.1',
    provider: 'openai',
    emulator: () => world.openai,
    whole: whole(completion(JSON.stringify(args))),
    stream: streamed(chunks(JSON.stringify(args))),
  },
  {
    // Some servers give an object in place of the text.
    model: 'kimi-k2.5',
    provider: 'moonshot',
    emulator: () => moonshot,
    whole: whole(completion(args)),
    stream: streamed(chunks(args)),
  },
  {
    model: 'claude-haiku-4-5',
    provider: 'anthropic',
    emulator: () => world.anthropic,
    whole: whole(message),
    stream: events(messageEvents),
  },
  {
    model: 'gemini-2.5-flash',
    provider: 'gemini',
    emulator: () => world.gemini,
    whole: whole(generated),
    stream: streamed([generated]),
  },
  {
    model: 'nova-2-lite',
    provider: 'bedrock/us-east-1',
    emulator: () => bedrock,
    whole: whole(converse),
    stream: null,
  },
]

const properties = { id: { type: 'integer' } }
const parameters = { type: 'object', properties }
const chatTool = { type: 'function', function: { name: 'find', parameters } }
const googleTool = { functionDeclarations: [{ name: 'find', parametersJsonSchema: parameters }] }

/** A question in each dialect, and one with an earlier call and its result. */
const dialects: [name: string, ask: (model: string, stream: boolean) => [path: string, body: object]][] = [
  [
    'chat',
    (model, stream) => [
      '/v1/chat/completions',
      { model, stream, messages: [{ role: 'user', content: 'Find it.' }], tools: [chatTool] },
    ],
  ],
  [
    'messages',
    (model, stream) => [
      '/v1/messages',
      {
        model,
        stream,
        max_tokens: 100,
        messages: [{ role: 'user', content: 'Find it.' }],
        tools: [{ name: 'find', input_schema: parameters }],
      },
    ],
  ],
  [
    'responses',
    (model, stream) => [
      '/v1/responses',
      { model, stream, store: false, input: 'Find it.', tools: [{ type: 'function', name: 'find', parameters }] },
    ],
  ],
  [
    'generate content',
    (model, stream) => [
      `/v1beta/models/${model}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
      { contents: [{ role: 'user', parts: [{ text: 'Find it.' }] }], tools: [googleTool] },
    ],
  ],
]

/** A body, as a text, for one provider. */
const routed = (body: string, provider: string) => `{"provider":{"only":["${provider}"]},${body.slice(1)}`

const unwritten = (text: string) => text.replaceAll('\\', '')

for (const { model, provider, emulator, whole: answer, stream } of providers)
  for (const [dialect, ask] of dialects)
    test.serial(`200 from ${provider} to ${dialect}: the arguments of a call as the model wrote them`, async t => {
      for (const reply of stream ? [answer, stream] : [answer]) {
        emulator().reset()
        emulator().next((request, response) => {
          const own = request.path.endsWith('/responses') ? responded(reply === stream) : reply
          return own!(request, response)
        })
        const [path, body] = ask(model, reply === stream)
        const response = await world.gateway.fetch(path, { key, body: { ...body, provider: { only: [provider] } } })
        const text = await response.text()
        t.is(response.status, 200, text)
        // Parts of a stream are joined by the client.
        for (const number of [id, '-98765432109876543210', '1e400', '0.30000000000000004'])
          t.true(unwritten(text).includes(number), `${reply === stream}: ${number} in ${text}`)
      }
    })

const histories: Record<string, (model: string) => [path: string, body: string]> = {
  chat: model => [
    '/v1/chat/completions',
    `{"model":"${model}","messages":[{"role":"user","content":"Find it."},{"role":"assistant","content":null,"tool_calls":[
    {"id":"call_1","type":"function","function":{"name":"find","arguments":${JSON.stringify(args)}}}]},
    {"role":"tool","tool_call_id":"call_1","content":${JSON.stringify(`{"found":${id}}`)}}],"tools":[${JSON.stringify(chatTool)}]}`,
  ],
  messages: model => [
    '/v1/messages',
    `{"model":"${model}","max_tokens":100,"messages":[{"role":"user","content":"Find it."},{"role":"assistant","content":[
    {"type":"tool_use","id":"toolu_1","name":"find","input":${args}}]},{"role":"user","content":[{"type":"tool_result",
    "tool_use_id":"toolu_1","content":${JSON.stringify(`{"found":${id}}`)}}]}],
    "tools":[{"name":"find","input_schema":{"type":"object","properties":{"id":{"type":"integer"}}}}]}`,
  ],
  responses: model => [
    '/v1/responses',
    `{"model":"${model}","store":false,"input":[{"role":"user","content":"Find it."},{"type":"function_call","call_id":"call_1",
    "name":"find","arguments":${JSON.stringify(args)}},{"type":"function_call_output","call_id":"call_1",
    "output":${JSON.stringify(`{"found":${id}}`)}}],"tools":[${JSON.stringify({ type: 'function', name: 'find', parameters })}]}`,
  ],
  'generate content': model => [
    `/v1beta/models/${model}:generateContent`,
    `{"contents":[{"role":"user","parts":[{"text":"Find it."}]},{"role":"model","parts":[{"functionCall":{"id":"c1","name":"find",
    "args":${args}}}]},{"role":"user","parts":[{"function_response":{"id":"c1","name":"find","response":{"found":${id}}}}]}],
    "tools":[${JSON.stringify(googleTool)}]}`,
  ],
}

for (const { model, provider, emulator } of providers)
  for (const [dialect, ask] of Object.entries(histories))
    test.serial(
      `200 from ${dialect} to ${provider}: arguments and results of an earlier call as they were`,
      async t => {
        const [path, body] = ask(model)
        // A null is left out, so that the body is written again.
        const withNull = body.replace('{', `{"${path.includes('v1beta') ? 'generationConfig' : 'temperature'}":null,`)
        for (const given of [body, withNull]) {
          emulator().reset()
          const response = await world.gateway.fetch(path, { key, body: routed(given, provider) })
          t.is(response.status, 200, await response.text())
          const sent = unwritten(emulator().requests.at(-1)!.raw.toString())
          for (const number of [`"id":${id}`, '-98765432109876543210', '1e400', `"found":${id}`, '0.30000000000000004'])
            t.true(sent.includes(number), `${number} in ${sent}`)
        }
      },
    )

test.serial('200: constants of a tool’s schema as they are, and its limits as numbers', async t => {
  const inner = `{"type":"object","properties":{"id":{"type":"integer","const":${id}},"of":{"enum":[${id}],"default":${id}},
    "up":{"type":"integer","maximum":9223372036854775807,"exclusiveMaximum":true}}}`
  for (const { model, provider, emulator } of providers) {
    emulator().reset()
    const body = `{"model":"${model}","messages":[{"role":"user","content":"Hi"}],"tools":[{"type":"function","function":{
      "name":"find","parameters":${inner}}}]}`
    const response = await world.gateway.fetch('/v1/chat/completions', { key, body: routed(body, provider) })
    t.is(response.status, 200, await response.text())
    const sent = emulator().requests.at(-1)!.raw.toString()
    t.is(sent.split(id).length - 1, 3, `${provider}: ${sent}`)
  }
})

test.serial('200 with an answer that is checked against a constant and repaired', async t => {
  const schema = `{"type":"object","properties":{"id":{"type":"integer","const":${id}}},"required":["id"]}`
  const format = `{"type":"json_schema","json_schema":{"name":"found","schema":${schema}}}`
  const body = `{"model":"gpt-4.1","messages":[{"role":"user","content":"Hi"}],"response_format":${format}}`
  world.openai.reset()
  world.openai.next(
    whole(`{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant",
    "content":${JSON.stringify(`{"id":${id},}`)}},"finish_reason":"stop"}],${usage}}`),
  )
  const headers = { 'x-gateway-structured-output': 'repair' }
  const response = await world.gateway.fetch('/v1/chat/completions', { key, body: routed(body, 'openai'), headers })
  const text = await response.text()
  t.is(response.status, 200, text)
  t.is(JSON.parse(text).choices[0].message.content, `{"id":${id}}`)
})

test.serial('200 with the constants of tools that a model has searched for', async t => {
  const tool = `{"type":"function","name":"find","defer_loading":true,"description":"Finds.","parameters":{"type":"object",
    "properties":{"id":{"const":${id}}}}}`
  for (const stream of [false, true]) {
    moonshot.reset()
    moonshot.next(stream ? streamed(chunks(JSON.stringify(args))) : whole(completion(JSON.stringify(args))))
    const body = `{"model":"kimi-k2.5","store":false,"stream":${stream},"input":"Hi","tools":[{"type":"tool_search"},${tool}]}`
    const response = await world.gateway.fetch('/v1/responses', { key, body: routed(body, 'moonshot') })
    const text = await response.text()
    t.is(response.status, 200, text)
    t.true(text.includes('tool_search_output'), text)
    t.true(text.includes(`{"const":${id}}`), text)
    t.false(text.includes('rawJSON'), text)
  }
})

test.serial('200 with a seed of 64 bits as it is; 400 with a longer one', async t => {
  const ask = (seed: string, stream: boolean) => {
    world.openai.reset()
    const body = `{"model":"gpt-4.1","seed":${seed},"stream":${stream},"messages":[{"role":"user","content":"Hi"}]}`
    return world.gateway.fetch('/v1/chat/completions', { key, body: routed(body, 'openai') })
  }
  for (const stream of [false, true])
    for (const seed of ['9223372036854775807', '-9223372036854775808', '7046029254386353131']) {
      const response = await ask(seed, stream)
      t.is(response.status, 200, await response.text())
      const sent = world.openai.requests.at(-1)!.raw.toString()
      t.true(sent.includes(`"seed":${seed}`), sent)
    }
  for (const seed of ['18446744073709551615', '1e400', '1.5']) {
    const response = await ask(seed, false)
    t.is(response.status, 400)
    t.is(((await response.json()) as Any).error.param, 'seed')
  }
})

test('kept numbers: within arguments only, in linear time', t => {
  const written = (text: string) => JSON.stringify(parseWithCalls(text))
  const big = '12345678901234567890'
  t.is(
    written(`{"id":${big},"input":${big},"a":{"args":[${big}]}}`),
    written('{"id":12345678901234567000,"input":12345678901234567000,"a":{"args":[12345678901234567000]}}'),
  )
  for (const text of [
    `{"input":{"a\\"\\\\":[{"b":${big}},"${big}",[[],${big}]]},"c":"\\\\"}`,
    `{"__proto__":{"args":{"__proto__":{"a":-${big}}}}}`,
    '{"args":{"a":0.1000000000000000055,"b":1e-400,"c":1e400,"d":9007199254740993,"e":[9007199254740992,0.1]}}',
  ])
    t.is(written(text), text)
  t.is(written(`{ "args" : { "x" : [ 1 , ${big} ] , "x" : [ 1 , 2 ] } }`), '{"args":{"x":[1,2]}}', 'a repeated name')
  t.is(JSON.stringify(parseExact(`[${big}]`)), `[${big}]`)
  const many = (parseExact(`[${Array(50_000).fill(big).join(',')}]`) as Any[]).filter(one => typeof one === 'number')
  t.is(many.length, 40_000, 'as many as are kept')
})
