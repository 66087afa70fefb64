import { converseReply, startBedrockEmulator } from '../emulators/bedrock.ts'
import { json, type Recorded, type Reply } from '../emulators/emulator.ts'
import { startGeminiEmulator } from '../emulators/gemini.ts'
import { streamed } from '../emulators/gemini-interactions.ts'
import { chargedNano, dataOf, saying } from '../support/chat/gateway.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

/** `parallel_tool_calls: false` at providers without such a setting. */

const token = 'bedrock-api-key-emulated'
const gemini = use(test, () => startGeminiEmulator())
const bedrock = use(test, () => startBedrockEmulator({ tokens: [token] }))
const gateway = useGateway(test, () => ({
  GEMINI_API_KEY: 'upstream-secret',
  GEMINI_BASE_URL: gemini.url,
  AWS_BEARER_TOKEN_BEDROCK: token,
  BEDROCK_REGIONS: 'us-east-1',
  BEDROCK_US_EAST_1_BASE_URL: bedrock.url,
}))

const names = ['weather_in_oslo', 'weather_in_rome']
const parts = names.map(name => ({ functionCall: { name, args: { days: 3 } } }))
const answer = {
  candidates: [{ content: { role: 'model', parts }, finishReason: 'STOP', index: 0 }],
  usageMetadata: { promptTokenCount: 8, candidatesTokenCount: 9, totalTokenCount: 17 },
}
const isStream = ({ path }: Recorded) => path.includes('streamGenerateContent')
const twoCalls: Record<string, Reply> = {
  'gemini-3.5-flash': (request, response) =>
    (isStream(request) ? streamed([answer]) : json(200, answer))(request, response),
  'deepseek-v3.2': converseReply({
    content: names.map((name, i) => ({ toolUse: { toolUseId: `call_${i}`, name, input: { days: 3 } } })),
    stopReason: 'tool_use',
  }),
}
const parameters = { type: 'object', properties: { days: { type: 'integer' } } }
const chat = { tools: names.map(name => ({ type: 'function', function: { name, parameters } })) }
const messages = { max_tokens: 500, tools: names.map(name => ({ name, input_schema: parameters })) }
const responses = { tools: names.map(name => ({ type: 'function', name, parameters, strict: false })) }

/** The calls in an answer or a stream of any dialect; a response states the tools of its request, too. */
function calledIn(text: string, stream: boolean): string[] {
  const answers = stream ? dataOf(text) : [JSON.parse(text)]
  const called = JSON.stringify(answers, (key, value) => (key === 'tools' ? undefined : value))
  return names.filter(name => called.includes(name))
}

for (const [model, reply] of Object.entries(twoCalls))
  for (const stream of [false, true])
    test.serial(
      `200 with one call of ${model}, in every dialect, where one is asked for: stream ${stream}`,
      async t => {
        const account = await gateway.account()
        const provider = {
          only: [model.startsWith('gemini') ? 'gemini' : 'bedrock/us-east-1'],
          require_parameters: true,
        }
        const ask = async (path: string, body: object) => {
          const emulator = model.startsWith('gemini') ? gemini : bedrock
          emulator.next(reply)
          const response = await gateway.fetch(path, { key: account.live, body: { ...body, stream, provider } })
          const text = await response.text()
          t.is(response.status, 200, text)
          t.is(response.headers.get('x-gateway-dropped'), null)
          return calledIn(text, stream)
        }
        const asked = saying(model, 'The weather in Oslo and Rome?')
        for (const single of [true, false]) {
          const expected = single ? names.slice(0, 1) : names
          const isParallel = single ? { parallel_tool_calls: false } : {}
          t.deepEqual(await ask('/v1/chat/completions', { ...asked, ...chat, ...isParallel }), expected)
          const choice = { tool_choice: { type: 'auto', disable_parallel_tool_use: single } }
          t.deepEqual(await ask('/v1/messages', { ...asked, ...messages, ...choice }), expected)
          const input = { model, input: 'The weather?', store: false }
          t.deepEqual(await ask('/v1/responses', { ...input, ...responses, ...isParallel }), expected)
        }
        t.true((await chargedNano({ gateway }, account)) > 0)
      },
    )
