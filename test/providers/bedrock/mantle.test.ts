import { APIError } from 'openai'
import { BedrockOpenAI } from 'openai/bedrock'
import { startBedrockEmulator } from '../../emulators/bedrock.ts'
import { startBedrockMantle } from '../../emulators/bedrock-mantle.ts'
import { json } from '../../emulators/emulator.ts'
import { chargedNano, dataOf, saying } from '../../support/chat/gateway.ts'
import { test } from '../../support/test.ts'
import { use, useGateway } from '../../support/use.ts'

/** Bedrock's second host. */

const secret = 'bedrock-secret-0123456789'
const runtime = use(test, () => startBedrockEmulator({ region: 'us-east-1', tokens: [secret] }))
const mantle = use(test, () => startBedrockMantle({ region: 'us-east-1', tokens: [secret] }))
const gateway = useGateway(test, () => ({
  BEDROCK_API_KEY: secret,
  BEDROCK_REGIONS: 'us-east-1',
  BEDROCK_BASE_URL: runtime.url,
  BEDROCK_OPENAI_BASE_URL: `${runtime.url}/openai/v1`,
  BEDROCK_MANTLE_REGIONS: 'us-east-1,eu-west-1',
  BEDROCK_MANTLE_BASE_URL: mantle.url,
}))
test.beforeEach(() => {
  for (const emulator of [runtime, mantle]) emulator.reset()
})

async function ask(key: string, body: object) {
  const response = await gateway.fetch('/v1/chat/completions', { key, body })
  return { headers: response.headers, status: response.status, text: await response.text() }
}

const there = { provider: { only: ['bedrock/us-east-1/mantle'] } }

for (const [model, path, name, input, output] of [
  ['gpt-oss-120b', '/v1/chat/completions', 'openai.gpt-oss-120b', 0.15, 0.6],
  ['gpt-oss-20b', '/v1/chat/completions', 'openai.gpt-oss-20b', 0.07, 0.3],
  ['deepseek-v3.1', '/v1/chat/completions', 'deepseek.v3.1', 0.58, 1.68],
  ['qwen3-235b-a22b-2507', '/v1/chat/completions', 'qwen.qwen3-235b-a22b-2507', 0.22, 0.88],
  ['qwen3-coder-480b', '/v1/chat/completions', 'qwen.qwen3-coder-480b-a35b-instruct', 0.45, 1.8],
  ['grok-4.3', '/openai/v1/chat/completions', 'xai.grok-4.3', 1.25, 2.5],
] as const)
  test.serial(`200 from ${model} by its route, at its price`, async t => {
    const account = await gateway.account()
    const { status, headers, text } = await ask(account.live, saying(model, 'Hello', { ...there, n: 1 }))
    t.is(status, 200, text)
    t.is(headers.get('x-gateway-provider'), 'bedrock/us-east-1/mantle')
    t.is(headers.get('x-gateway-attempts'), '1')
    const [request] = mantle.requests
    t.is(request!.path, path)
    t.is(request!.body.model, name)
    t.is(request!.body.n, undefined)
    t.is(request!.headers.authorization, `Bearer ${secret}`)
    const { prompt_tokens, completion_tokens } = JSON.parse(text).usage
    const microUsd = prompt_tokens * input + completion_tokens * output
    t.is(await chargedNano({ gateway }, account), Math.round(Number((microUsd * 1_000 * 1.05).toFixed(4))))
  })

test.serial('200 as a stream, after the runtime was throttled: its quotas are others', async t => {
  const { live } = await gateway.account()
  const throttled = json(429, { message: 'Too many requests' }, { 'x-amzn-errortype': 'ThrottlingException' })
  runtime.next(throttled, throttled)
  const order = ['bedrock/us-east-1/openai', 'bedrock/us-east-1/mantle']
  const body = saying('gpt-oss-120b', 'Hello', { provider: { order, only: order }, stream: true })
  const { status, headers, text } = await ask(live, body)
  t.is(status, 200, text)
  t.is(headers.get('x-gateway-provider'), 'bedrock/us-east-1/mantle')
  const said = dataOf(text).flatMap(chunk => chunk.choices ?? [])
  t.is(said.map(({ delta }) => delta.content ?? '').join(''), 'Echo: Hello')
})

test('no offer where a model has no price in the region', async t => {
  const { live } = await gateway.account()
  const { status, text } = await ask(live, saying('grok-4.3', 'Hi', { provider: { only: ['bedrock/eu-west-1'] } }))
  t.true(status >= 400 && status < 600, text)
  t.is(
    mantle.requests.filter(({ body }) => body?.model === 'xai.grok-4.3' && body.messages[0].content === 'Hi').length,
    0,
  )
})

test.serial('the emulator accepts and refuses what Bedrock does, asked by OpenAI’s own client for it', async t => {
  const clientAt = (route: string, apiKey = secret) =>
    new BedrockOpenAI({ apiKey, baseURL: mantle.url + route, maxRetries: 0 })
  const hello = (model: string) => ({ model, messages: [{ role: 'user' as const, content: 'Hello' }] })
  const oss = hello('openai.gpt-oss-120b')
  const { choices } = await clientAt('/v1').chat.completions.create(oss)
  t.is(choices[0]!.message.content, 'Echo: Hello')
  const grok = await clientAt('/openai/v1').chat.completions.create(hello('xai.grok-4.3'))
  t.is(grok.choices[0]!.message.content, 'Echo: Hello')
  const refused = async (client: BedrockOpenAI, body: typeof oss & { n?: number }, status: number) => {
    const error = await t.throwsAsync<APIError>(client.chat.completions.create(body), { instanceOf: APIError })
    t.is(error?.status, status)
  }
  await refused(clientAt('/v1', 'wrong'), oss, 401)
  await refused(clientAt('/openai/v1'), oss, 400)
  await refused(clientAt('/v1'), hello('openai.gpt-9'), 404)
  await refused(clientAt('/openai/v1'), hello('openai.gpt-5.5'), 400)
  await refused(clientAt('/v1'), { ...oss, n: 2 }, 400)
})
