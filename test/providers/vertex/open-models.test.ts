import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import OpenAI, { APIError } from 'openai'
import { Emulator, json } from '../../emulators/emulator.ts'
import { federatedCredentials, startTokenServices } from '../../emulators/token-services.ts'
import { startVertex } from '../../emulators/vertex.ts'
import { notEnabled, openModelError } from '../../emulators/vertex-open-models.ts'
import { chargedNano, dataOf, saying } from '../../support/chat/gateway.ts'
import { png } from '../../support/media/png.ts'
import { test } from '../../support/test.ts'
import { use, useFolder, useGateway } from '../../support/use.ts'

/** Open models and Grok at Vertex AI, through its endpoint in OpenAI's form. */

const project = 'emulated-project'
const folder = useFolder(test)
const tokens = use(test, () => startTokenServices())
const vertex = use(test, () => startVertex({ project, acceptsToken: token => tokens.isValid(token) }))
const image = png(8)
const files = use(test, () =>
  Emulator.start((_request, response) => {
    response.writeHead(200, { 'content-type': 'image/png' })
    response.end(image)
  }),
)
const gateway = useGateway(test, () => {
  const subject = join(folder, 'subject-token')
  writeFileSync(subject, 'emulated.subject.token')
  return {
    ALLOW_PRIVATE_URLS: 'true',
    VERTEX_PROJECT: project,
    VERTEX_REGIONS: 'global,us-central1,us-east5',
    VERTEX_CREDENTIALS: federatedCredentials(tokens.emulator.url, subject),
    VERTEX_OPENAI_BASE_URL: `${vertex.url}/v1/projects/{project}/locations/{region}/endpoints/openapi`,
  }
})
test.beforeEach(() => vertex.reset())

const atVertex = { provider: { only: ['vertex'] } }

async function ask(key: string, body: object, path = '/v1/chat/completions') {
  const response = await gateway.fetch(path, { key, body })
  return { headers: response.headers, status: response.status, text: await response.text() }
}

type Used = { prompt_tokens: number; completion_tokens: number }
function nano({ prompt_tokens, completion_tokens }: Used, input: number, output: number): number {
  return Math.round(Number(((prompt_tokens * input + completion_tokens * output) * 1_000 * 1.05).toFixed(4)))
}

for (const [model, location, name, input, output] of [
  ['gpt-oss-120b', 'global', 'openai/gpt-oss-120b-maas', 0.09, 0.36],
  ['llama-4-maverick', 'us-east5', 'meta/llama-4-maverick-17b-128e-instruct-maas', 0.35, 1.15],
  ['llama-4-scout', 'us-east5', 'meta/llama-4-scout-17b-16e-instruct-maas', 0.25, 0.7],
  ['deepseek-v4.1-flash', 'global', 'deepseek-ai/deepseek-v4.1-flash-maas', 0.3, 1.2],
  ['glm-5.2', 'global', 'zai-org/glm-5.2-maas', 1.4, 4.4],
  ['grok-4.7', 'global', 'xai/grok-4.7', 2, 6],
  ['grok-4.20-reasoning', 'global', 'xai/grok-4.20-reasoning', 1.25, 2.5],
] as const)
  test.serial(`200 from ${model} at ${location}, authorized by a token, at its price`, async t => {
    const account = await gateway.account()
    const { status, headers, text } = await ask(account.live, saying(model, 'Hello gateway', atVertex))
    t.is(status, 200, text)
    t.is(headers.get('x-gateway-provider'), `vertex/${location}/openai`)
    t.is(headers.get('x-gateway-attempts'), '1')
    const [request] = vertex.requests
    t.is(request!.path, `/v1/projects/${project}/locations/${location}/endpoints/openapi/chat/completions`)
    t.is(request!.body.model, name)
    t.regex(String(request!.headers.authorization), /^Bearer /)
    const { choices, usage } = JSON.parse(text)
    t.is(choices[0].message.content, 'Echo: Hello gateway')
    t.is(choices[0].message.reasoning_content, 'Thinking of an echo.')
    t.is(await chargedNano({ gateway }, account), nano(usage, input, output))
  })

test.serial('200 as a stream with its usage, and as Messages and Responses', async t => {
  const account = await gateway.account()
  const { status, text } = await ask(account.live, saying('glm-5.2', 'Hello', { ...atVertex, stream: true }))
  t.is(status, 200, text)
  const said = dataOf(text).flatMap(chunk => chunk.choices ?? [])
  t.is(said.map(({ delta }) => delta.content ?? '').join(''), 'Echo: Hello')
  t.is(said.map(({ delta }) => delta.reasoning_content ?? '').join(''), 'Thinking of an echo.')
  t.true(vertex.requests[0]!.body.stream_options.include_usage)
  const messages = await ask(account.live, { ...saying('glm-5.2', 'Hi', atVertex), max_tokens: 20 }, '/v1/messages')
  t.is(messages.status, 200, messages.text)
  const responses = await ask(account.live, { model: 'glm-5.2', input: 'Hi', ...atVertex }, '/v1/responses')
  t.is(responses.status, 200, responses.text)
  t.true(vertex.requests.every(({ path }) => path.endsWith('/endpoints/openapi/chat/completions')))
})

test.serial('200 for an image by URL: its bytes are sent', async t => {
  const { live } = await gateway.account()
  const url = `${files.url}/a.png`
  const messages = [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }]
  const { status, text } = await ask(live, { model: 'grok-4.7', ...atVertex, messages })
  t.is(status, 200, text)
  const sent = vertex.requests.at(-1)!.body.messages[0].content[0]
  t.is(sent.image_url.url, `data:image/png;base64,${image.toString('base64')}`)
})

test.serial('200 with what these models do not take changed or left out, and named', async t => {
  const { live } = await gateway.account()
  const tool = { type: 'function', function: { name: 'report', parameters: { type: 'object', properties: {} } } }
  const forced = { tools: [tool], tool_choice: 'required', ...atVertex }
  const called = await ask(live, saying('gpt-oss-120b', 'Hi', forced))
  t.is(called.status, 200, called.text)
  t.is(vertex.requests[0]!.body.tool_choice, 'auto')
  const reasoned = await ask(live, saying('glm-5.2', 'Hi', { ...atVertex, reasoning_effort: 'high' }))
  t.is(reasoned.status, 200, reasoned.text)
  t.is(vertex.requests[1]!.body.reasoning_effort, undefined)
  t.regex(
    reasoned.headers.get('x-gateway-dropped') ?? reasoned.headers.get('x-gateway-adjusted') ?? '',
    /reasoning_effort/,
  )
})

for (const [title, refusal] of [
  ['a model that the project has not enabled', notEnabled('openai/models/gpt-oss-120b-maas')],
  ['a 429 in an array', openModelError(429, 'RESOURCE_EXHAUSTED', 'Resource exhausted. Please try again later.')],
  ['a 503 of a proxy', json(503, 'no healthy upstream')],
] as const)
  test.serial(`200 from another location after ${title}`, async t => {
    const { live } = await gateway.account()
    vertex.next(refusal)
    const { status, headers, text } = await ask(live, saying('gpt-oss-120b', 'Hi', atVertex))
    t.is(status, 200, text)
    t.is(headers.get('x-gateway-attempts'), '2')
    t.is(new Set(vertex.requests.map(({ path }) => path)).size, 2)
  })

test.serial('400 in the words of Google for a request that it refuses, without the project', async t => {
  const { live } = await gateway.account()
  const words = 'Invalid value for temperature in projects/123456789/locations/global.'
  vertex.next(openModelError(400, 'INVALID_ARGUMENT', words))
  const { status, text } = await ask(live, saying('glm-5.2', 'Hi', atVertex))
  t.is(status, 400, text)
  t.regex(text, /Invalid value for temperature/)
  t.false(text.includes('123456789'))
})

test.serial('the emulator accepts and refuses what Vertex AI does, asked by OpenAI’s own client', async t => {
  const exchange = { grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange', subject_token: 'x' }
  const given = await fetch(`${tokens.emulator.url}/v1/token`, { method: 'POST', body: new URLSearchParams(exchange) })
  const { access_token: apiKey } = (await given.json()) as { access_token: string }
  const clientAt = (location: string, own = apiKey, name = project) =>
    new OpenAI({
      apiKey: own,
      baseURL: `${vertex.url}/v1/projects/${name}/locations/${location}/endpoints/openapi`,
      maxRetries: 0,
    })
  const hello = (model: string) => ({ model, messages: [{ role: 'user' as const, content: 'Hello' }] })
  const glm = hello('zai-org/glm-5.2-maas')
  const { choices } = await clientAt('global').chat.completions.create(glm)
  t.is(choices[0]!.message.content, 'Echo: Hello')
  const refused = async (client: OpenAI, body: object, status: number) => {
    const error = await t.throwsAsync<APIError>(client.chat.completions.create(body as typeof glm), {
      instanceOf: APIError,
    })
    t.is(error?.status, status)
  }
  await refused(clientAt('global', 'expired'), glm, 401)
  await refused(clientAt('global', apiKey, 'another'), glm, 403)
  await refused(clientAt('us-east5'), glm, 404)
  await refused(clientAt('global'), hello('glm-5.2'), 400)
  await refused(clientAt('global'), { ...glm, verbosity: 'low' }, 400)
  const tools = [{ type: 'function', function: { name: 'report' } }]
  const forced = { ...hello('openai/gpt-oss-120b-maas'), tools, tool_choice: 'required' }
  await refused(clientAt('global'), forced, 400)
})
