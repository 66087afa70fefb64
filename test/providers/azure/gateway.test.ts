import OpenAI, { AzureOpenAI } from 'openai'
import { startAnthropicEmulator } from '../../emulators/anthropic.ts'
import { azureError, filteredWord, startAzure, tooManyRequests, wrongKey } from '../../emulators/azure.ts'
import { chargedNano, dataOf, saying } from '../../support/chat/gateway.ts'
import { wav } from '../../support/media/sounds.ts'
import { test } from '../../support/test.ts'
import { use, useGateway } from '../../support/use.ts'

const apiKey = 'azure-secret-0123456789'
const east = use(test, () =>
  startAzure({
    apiKey,
    deployments: {
      'prod-five': 'gpt-5.4',
      omni: 'gpt-4o',
      small: 'gpt-4o-mini',
      smaller: 'gpt-5-mini',
      vectors: 'text-embedding-3-small',
      voice: 'tts-1',
      ears: 'whisper-1',
      painter: 'gpt-image-1-mini',
    },
  }),
)
const europe = use(test, () =>
  startAzure({ apiKey, deployments: { five: 'gpt-5.4', omni: 'gpt-4o', small: 'gpt-4o-mini', smaller: 'gpt-5-mini' } }),
)
const claude = use(test, () => startAnthropicEmulator())
const gateway = useGateway(test, () => ({
  AZURE_REGIONS: 'eastus,sweden-central',
  AZURE_API_KEY: apiKey,
  AZURE_EASTUS_BASE_URL: `${east.url}/openai/v1`,
  AZURE_EASTUS_DEPLOYMENTS:
    'gpt-5.4=prod-five,gpt-4o=omni,gpt-4o-mini=small,gpt-5-mini=smaller,claude-haiku-4-5=my-claude,text-embedding-3-small=vectors,tts-1=voice,whisper-1=ears,gpt-image-1-mini=painter,gpt-4.1=gone',
  AZURE_EASTUS_ANTHROPIC_BASE_URL: claude.url,
  AZURE_SWEDEN_CENTRAL_BASE_URL: `${europe.url}/openai/v1`,
  AZURE_SWEDEN_CENTRAL_DEPLOYMENTS: 'gpt-5.4=five@eu,gpt-4o=omni@eu,gpt-4o-mini=small@eu,gpt-5-mini=smaller@eu',
}))
test.beforeEach(() => {
  for (const emulator of [east, europe]) emulator.reset()
})

async function ask(key: string, body: object, path = '/v1/chat/completions') {
  const response = await gateway.fetch(path, { key, body })
  return { headers: response.headers, status: response.status, text: await response.text() }
}

/** The price of an answer at these rates in USD per million, with the margin of 5 %. */
function nano({ prompt_tokens, completion_tokens }: OpenAI.CompletionUsage, input: number, output: number): number {
  return Math.round(Number(((prompt_tokens * input + completion_tokens * output) * 1_000 * 1.05).toFixed(4)))
}

test.serial('200 from the deployment that the operator named, with the key in its own header', async t => {
  const account = await gateway.account()
  const { status, headers, text } = await ask(account.live, saying('gpt-5.4'))
  t.is(status, 200, text)
  t.is(headers.get('x-gateway-provider'), 'azure/eastus')
  const answer = JSON.parse(text)
  t.is(answer.provider, 'azure/eastus')
  t.is(answer.choices[0].message.content, 'Echo: Hello gateway')
  const [request] = east.requests
  t.is(request!.path, '/openai/v1/chat/completions')
  t.is(request!.body.model, 'prod-five')
  t.is(request!.headers['api-key'], apiKey)
  t.is(request!.headers.authorization, undefined)
  t.is(await chargedNano({ gateway }, account), nano(answer.usage, 2.5, 15))
})

test.serial('200 as a stream without the chunk of the content filter’s results, charged once', async t => {
  const account = await gateway.account()
  const { status, text } = await ask(account.live, saying('gpt-5.4', 'Hello', { stream: true }))
  t.is(status, 200, text)
  const chunks = dataOf(text)
  const said = chunks.flatMap(chunk => chunk.choices ?? []).map(choice => choice.delta?.content ?? '')
  t.is(said.join(''), 'Echo: Hello')
  t.true(chunks.filter(chunk => chunk !== '[DONE]').every(chunk => chunk.id !== ''))
  t.is(await chargedNano({ gateway }, account), nano(chunks.at(-2).usage, 2.5, 15))
})

for (const [title, reply, model, deployment, input, output] of [
  ['429 with a time', tooManyRequests, 'gpt-4o', 'omni', 2.75, 11],
  ['500', azureError(500, 'InternalServerError', 'The server had an error.'), 'gpt-4o-mini', 'small', 0.165, 0.66],
  ['401', wrongKey, 'gpt-5-mini', 'smaller', 0.275, 2.2],
] as const)
  test.serial(`200 from another region after a ${title}, charged at the price of its zone`, async t => {
    east.next(reply)
    const account = await gateway.account()
    const { status, headers, text } = await ask(account.live, saying(model, 'Hi'))
    t.is(status, 200, text)
    t.is(headers.get('x-gateway-provider'), 'azure/sweden-central')
    t.is(headers.get('x-gateway-attempts'), '2')
    t.is(europe.requests[0]!.body.model, deployment)
    t.is(await chargedNano({ gateway }, account), nano(JSON.parse(text).usage, input, output))
  })

test.serial('200 at the region that a request names, or ignores, or at the provider', async t => {
  const account = await gateway.account()
  const served = async (provider: object) =>
    (await ask(account.live, saying('gpt-5.4', 'Hi', { provider }))).headers.get('x-gateway-provider')
  t.is(await served({ only: ['azure/sweden-central'] }), 'azure/sweden-central')
  t.is(await served({ order: ['azure/sweden-central', 'azure'] }), 'azure/sweden-central')
  t.is(await served({ ignore: ['azure/eastus'] }), 'azure/sweden-central')
  t.regex((await served({ only: ['azure'] }))!, /^azure\//)
  const { status, text } = await ask(account.live, saying('gpt-5.4', 'Hi', { provider: { only: ['azure/mars'] } }))
  t.is(status, 400, text)
  t.regex(text, /azure\/eastus/)
})

test.serial('400 with the words of Azure’s content filter, and no other region is asked', async t => {
  const account = await gateway.account()
  const { status, text } = await ask(account.live, saying('gpt-5.4', `Something ${filteredWord}`))
  t.is(status, 400, text)
  t.regex(text, /content management policy/)
  t.is(east.requests.length + europe.requests.length, 1)
  t.is(await chargedNano({ gateway }, account), 0)
})

test.serial('502 for a deployment that the resource does not have', async t => {
  const account = await gateway.account()
  const { status, text } = await ask(account.live, saying('gpt-4.1'))
  t.is(status, 502, text)
  t.is(JSON.parse(text).error.code, 'upstream_error', text)
  t.false(text.includes(apiKey))
})

test.serial('200 for embeddings, speech and an image', async t => {
  const account = await gateway.account()
  const vectors = await ask(account.live, { model: 'text-embedding-3-small', input: 'Hello' }, '/v1/embeddings')
  t.is(vectors.status, 200, vectors.text)
  const speech = await ask(account.live, { model: 'tts-1', input: 'Hello', voice: 'alloy' }, '/v1/audio/speech')
  t.is(speech.status, 200, speech.text.slice(0, 300))
  const image = await ask(account.live, { model: 'gpt-image-1-mini', prompt: 'A cat' }, '/v1/images')
  t.is(image.status, 200, image.text.slice(0, 300))
  t.deepEqual(
    east.requests.map(({ path, body }) => [path, body.model]),
    [
      ['/openai/v1/embeddings', 'vectors'],
      ['/openai/v1/audio/speech', 'voice'],
      ['/openai/v1/images/generations', 'painter'],
    ],
  )
})

test.serial('200 for a transcription, whose form names the deployment', async t => {
  const account = await gateway.account()
  const form = new FormData()
  form.set('model', 'whisper-1')
  form.set('file', new Blob([new Uint8Array(wav(500))], { type: 'audio/wav' }), 'talk.wav')
  const headers = { authorization: `Bearer ${account.live}` }
  const response = await fetch(`${gateway.url}/v1/audio/transcriptions`, { method: 'POST', headers, body: form })
  const text = await response.text()
  t.is(response.status, 200, text)
  t.regex(text, /This is what/)
  t.is(east.requests[0]!.path, '/openai/v1/audio/transcriptions')
  t.regex(east.requests[0]!.raw.toString('latin1'), /name="model"\r\n(?:[^\r]+\r\n)*\r\nears/)
})

test.serial('200 from Claude in Foundry, by Anthropic’s protocol, with the resource’s key', async t => {
  const account = await gateway.account()
  const { status, headers, text } = await ask(account.live, saying('claude-haiku-4-5'))
  t.is(status, 200, text)
  t.is(headers.get('x-gateway-provider'), 'azure/eastus/anthropic')
  const [request] = claude.requests
  t.is(request!.path, '/v1/messages')
  t.is(request!.headers['x-api-key'], apiKey)
  t.is(request!.body.model, 'my-claude')
  t.is(await chargedNano({ gateway }, account), nano(JSON.parse(text).usage, 1, 5))
})

test.serial('200 for a Responses request, sent to the deployment as it is', async t => {
  const account = await gateway.account()
  const { status, text } = await ask(account.live, { model: 'gpt-5.4', input: 'Hello' }, '/v1/responses')
  t.is(status, 200, text)
  t.is(east.requests[0]!.path, '/openai/v1/responses')
  t.is(east.requests[0]!.body.model, 'prod-five')
})

test.serial('200 for a chat request with functions, sent in the format that takes them beside reasoning', async t => {
  const account = await gateway.account()
  const tools = [{ type: 'function', function: { name: 'weather', parameters: { type: 'object', properties: {} } } }]
  const body = { ...saying('gpt-5.4'), tools, reasoning_effort: 'high' }
  const { status, headers, text } = await ask(account.live, body)
  t.is(status, 200, text)
  t.is(headers.get('x-gateway-adjusted'), null)
  t.is(JSON.parse(text).choices[0].message.content, 'Echo: Hello gateway')
  t.is(east.requests[0]!.path, '/openai/v1/responses')
  t.like(east.requests[0]!.body, { model: 'prod-five', reasoning: { effort: 'high' } })
})

test.serial('200 of the models, with the regions of each', async t => {
  const account = await gateway.account()
  const response = await gateway.fetch('/v1/models', { key: account.live })
  const { data } = (await response.json()) as { data: { id: string; providers: string[] }[] }
  t.deepEqual(data.find(({ id }) => id === 'gpt-5.4')!.providers, ['azure/eastus', 'azure/sweden-central'])
  const route = await ask(account.live, saying('gpt-5.4'), '/v1/route')
  t.regex(route.text, /gpt-5.4@azure\/sweden-central/)
})

test.serial('the emulator accepts and refuses what Azure does, asked by OpenAI’s own clients', async t => {
  const v1 = new OpenAI({ apiKey, baseURL: `${east.url}/openai/v1`, maxRetries: 0 })
  const dated = (apiVersion: string) => new AzureOpenAI({ apiKey, endpoint: east.url, apiVersion, maxRetries: 0 })
  const body = { model: 'omni', messages: [{ role: 'user' as const, content: 'Hello' }] }
  t.is((await v1.chat.completions.create(body)).choices[0]!.message.content, 'Echo: Hello')
  t.is((await dated('2024-10-21').chat.completions.create(body)).choices[0]!.message.content, 'Echo: Hello')
  for await (const { choices } of await v1.chat.completions.create({ ...body, stream: true })) {
    t.deepEqual(choices, [])
    break
  }
  const refusals: [Promise<unknown>, number, string][] = [
    [dated('1999-01-01').chat.completions.create(body), 400, 'BadRequest'],
    [v1.chat.completions.create({ ...body, model: 'gpt-4o' }), 404, 'DeploymentNotFound'],
    [v1.chat.completions.create({ ...body, model: 'voice' }), 400, 'OperationNotSupported'],
    [new OpenAI({ apiKey: 'no', baseURL: v1.baseURL, maxRetries: 0 }).models.list(), 401, '401'],
    [
      v1.chat.completions.create({ ...body, messages: [{ role: 'user', content: filteredWord }] }),
      400,
      'content_filter',
    ],
  ]
  for (const [call, status, code] of refusals) {
    const error = await t.throwsAsync<InstanceType<typeof OpenAI.APIError>>(call)
    t.is(error?.status, status, code)
    t.is(error?.code, code)
  }
})
