import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Anthropic from '@anthropic-ai/sdk'
import { GoogleGenAI } from '@google/genai'
import { countTokens, geminiError, rateLimited } from '../../emulators/gemini.ts'
import { tokensPerSecond } from '../../emulators/gemini-interactions.ts'
import { federatedCredentials, startTokenServices } from '../../emulators/token-services.ts'
import { startVertex } from '../../emulators/vertex.ts'
import { chargedNano, dataOf, saying } from '../../support/chat/gateway.ts'
import { test } from '../../support/test.ts'
import { use, useFolder, useGateway } from '../../support/use.ts'

const project = 'emulated-project'
const expressKey = 'express-secret-0123456789'
const folder = useFolder(test)
const tokens = use(test, () => startTokenServices())
const vertex = use(test, () =>
  startVertex({
    project,
    acceptsToken: token => tokens.isValid(token),
    apiKey: expressKey,
    locations: { 'claude-opus-5': ['global'] },
  }),
)
const gateway = useGateway(test, () => {
  const subject = join(folder, 'subject-token')
  writeFileSync(subject, 'emulated.subject.token')
  return {
    VERTEX_PROJECT: project,
    VERTEX_REGIONS: 'global,europe-west1,express',
    VERTEX_CREDENTIALS: federatedCredentials(tokens.emulator.url, subject),
    VERTEX_BASE_URL: `${vertex.url}/v1beta1/projects/{project}/locations/{region}`,
    VERTEX_ANTHROPIC_BASE_URL: `${vertex.url}/v1/projects/{project}/locations/{region}`,
    VERTEX_EXPRESS_BASE_URL: `${vertex.url}/v1beta1`,
    VERTEX_EXPRESS_API_KEY: expressKey,
  }
})
test.beforeEach(() => vertex.reset())

const global = { provider: { only: ['vertex/global'] } }

async function ask(key: string, body: object, path = '/v1/chat/completions') {
  const response = await gateway.fetch(path, { key, body })
  return { headers: response.headers, status: response.status, text: await response.text() }
}

type Used = { prompt_tokens: number; completion_tokens: number }
function nano({ prompt_tokens, completion_tokens }: Used, input: number, output: number): number {
  return Math.round(Number(((prompt_tokens * input + completion_tokens * output) * 1_000 * 1.05).toFixed(4)))
}

test.serial('200 from Gemini at a location, authorized by one token for all requests', async t => {
  const account = await gateway.account()
  const answers = await Promise.all(
    [1, 2, 3].map(() => ask(account.live, saying('gemini-3.5-flash', 'Hello gateway', global))),
  )
  for (const { status, text } of answers) t.is(status, 200, text)
  t.is(answers[0]!.headers.get('x-gateway-attempts'), '1')
  t.is(answers[0]!.headers.get('x-gateway-provider'), 'vertex/global')
  const [request] = vertex.requests
  t.is(
    request!.path,
    `/v1beta1/projects/${project}/locations/global/publishers/google/models/gemini-3.5-flash:generateContent`,
  )
  t.is(tokens.given, 1)
  t.is(new Set(vertex.requests.map(({ headers }) => headers.authorization)).size, 1)
  const { usage } = JSON.parse(answers[0]!.text)
  t.is(await chargedNano({ gateway }, account), 3 * nano(usage, 1.5, 9))
})

test.serial(
  '200 for Gemini’s format as it is, with the role that Vertex AI asks for, and tokens counted there',
  async t => {
    const { live } = await gateway.account()
    const contents = [{ role: 'user', parts: [{ text: 'Hello gateway' }] }]
    const plain = { contents, generationConfig: { temperature: 0.5, responseModalities: ['TEXT'] } }
    const path = '/v1beta/models/gemini-3.5-flash'
    const known = await ask(live, plain, `${path}:generateContent`)
    t.is(known.status, 200, known.text)
    t.deepEqual(vertex.requests[0]!.body, plain)
    t.is(JSON.parse(known.text).candidates[0].content.parts[0].text, 'Echo: Hello gateway')
    const withoutRole = { contents: [{ parts: [{ text: 'Hello gateway' }] }] }
    const mended = await ask(live, withoutRole, `${path}:streamGenerateContent?alt=sse`)
    t.is(mended.status, 200, mended.text)
    t.deepEqual(vertex.requests[1]!.body.contents, contents)
    const counted = await ask(live, withoutRole, `${path}:countTokens`)
    t.is(counted.status, 200, counted.text)
    t.is(JSON.parse(counted.text).totalTokens, Math.ceil(JSON.stringify(contents).length / 4))
  },
)

test.serial(
  '200 for calls of functions whose arguments are streamed in parts, and whole where there is no stream',
  async t => {
    const account = await gateway.account()
    const functionDeclarations = [
      { name: 'weather', parameters: { type: 'OBJECT', properties: { city: { type: 'STRING' } } } },
    ]
    const functionCallingConfig = { mode: 'AUTO', streamFunctionCallArguments: true }
    const body = {
      contents: [{ role: 'user', parts: [{ text: 'Hello gateway' }] }],
      tools: [{ functionDeclarations }],
      toolConfig: { functionCallingConfig },
    }
    const path = '/v1beta/models/gemini-3.5-flash'
    const streamed = await ask(account.live, body, `${path}:streamGenerateContent?alt=sse`)
    t.is(streamed.status, 200, streamed.text)
    t.deepEqual(vertex.requests[0]!.body, body)
    const answers = dataOf(streamed.text)
    t.deepEqual(
      answers.map(answer => answer.candidates[0].content.parts[0].functionCall.partialArgs?.[0].stringValue),
      [undefined, 'Os', 'lo', undefined],
    )
    t.is(answers.at(-1).candidates[0].finishReason, 'STOP')
    t.is(await chargedNano({ gateway }, account), nano({ prompt_tokens: 10, completion_tokens: 5 }, 1.5, 9))
    const whole = await ask(account.live, body, `${path}:generateContent`)
    t.is(whole.status, 200, whole.text)
    t.deepEqual(vertex.requests[1]!.body.toolConfig, { functionCallingConfig: { mode: 'AUTO' } })
  },
)

test.serial('400 before it is sent for an answer to continue where Gemini refuses one', async t => {
  const { live } = await gateway.account()
  const messages = [
    { role: 'user', content: 'Tell a story.' },
    { role: 'assistant', content: 'Once' },
  ]
  const refused = await ask(live, { model: 'gemini-3.6-flash', messages })
  t.is(refused.status, 400, refused.text)
  t.like(JSON.parse(refused.text).error, { code: 'unsupported_capability', param: 'messages' })
  t.is(vertex.requests.length, 0)
  const continued = await ask(live, { model: 'gemini-3.5-flash', messages })
  t.is(continued.status, 200, continued.text)
})

test.serial('200 as a stream of Gemini', async t => {
  const account = await gateway.account()
  const { status, text } = await ask(account.live, saying('gemini-2.5-flash', 'Hello', { stream: true }))
  t.is(status, 200, text)
  const said = dataOf(text).flatMap(chunk => chunk.choices ?? [])
  t.is(said.map(({ delta }) => delta.content ?? '').join(''), 'Echo: Hello')
  t.is(vertex.requests[0]!.query.get('alt'), 'sse')
})

test.serial('200 from another location after a 429, at the price of locations', async t => {
  vertex.next(rateLimited())
  const account = await gateway.account()
  const { status, headers, text } = await ask(account.live, saying('gemini-3.6-flash'))
  t.is(status, 200, text)
  t.is(headers.get('x-gateway-attempts'), '2')
  t.is(headers.get('x-gateway-provider'), 'vertex/global')
  const regional = await ask(
    account.live,
    saying('gemini-3.6-flash', 'Hi', { provider: { only: ['vertex/europe-west1'] } }),
  )
  t.is(regional.status, 200, regional.text)
  t.regex(vertex.requests.at(-1)!.path, /locations\/europe-west1\//)
  const charged = nano(JSON.parse(text).usage, 1.5, 7.5) + nano(JSON.parse(regional.text).usage, 1.65, 8.25)
  t.is(await chargedNano({ gateway }, account), charged)
})

test.serial('200 in express mode by its API key, and no token', async t => {
  const account = await gateway.account()
  const body = saying('gemini-3.5-flash', 'Hi', { provider: { only: ['vertex/express'] } })
  const { status, text } = await ask(account.live, body)
  t.is(status, 200, text)
  const [{ path, headers }] = vertex.requests as [(typeof vertex.requests)[0]]
  t.is(path, '/v1beta1/publishers/google/models/gemini-3.5-flash:generateContent')
  t.is(headers['x-goog-api-key'], expressKey)
  t.is(headers.authorization, undefined)
})

test.serial('200 from Claude by rawPredict, with the version in the body and the model in the path', async t => {
  const account = await gateway.account()
  const { status, headers, text } = await ask(account.live, saying('claude-sonnet-4-5'))
  t.is(status, 200, text)
  t.is(headers.get('x-gateway-provider'), 'vertex/global/anthropic')
  const [request] = vertex.requests
  t.is(
    request!.path,
    `/v1/projects/${project}/locations/global/publishers/anthropic/models/claude-sonnet-4-5@20250929:rawPredict`,
  )
  t.is(request!.body.anthropic_version, 'vertex-2023-10-16')
  t.is(request!.body.model, undefined)
  t.is(request!.headers['anthropic-version'], undefined)
  t.is(await chargedNano({ gateway }, account), nano(JSON.parse(text).usage, 3, 15))
  const regional = await ask(
    account.live,
    saying('claude-sonnet-4-5', 'Hi', { provider: { order: ['vertex/europe-west1'] } }),
  )
  t.is(regional.headers.get('x-gateway-provider'), 'vertex/europe-west1/anthropic')
})

test.serial(
  '200 for Messages of Anthropic’s client, streamed and counted, with its betas where they are taken',
  async t => {
    const account = await gateway.account()
    const client = new Anthropic({ apiKey: account.live, baseURL: gateway.url, maxRetries: 0 })
    const body = { model: 'claude-haiku-4-5', max_tokens: 100, messages: [{ role: 'user' as const, content: 'Hello' }] }
    const betas = { headers: { 'anthropic-beta': 'context-management-2025-06-27' } }
    const message = await client.messages.create(body, betas)
    t.is(message.type, 'message')
    const types: string[] = []
    for await (const { type } of await client.messages.create({ ...body, stream: true }, betas)) types.push(type)
    t.is(types.at(-1), 'message_stop')
    const counted = await client.messages.countTokens({ model: body.model, messages: body.messages }, betas)
    t.true(counted.input_tokens > 0)
    const paths = vertex.requests.map(({ path }) => path.split('/models/')[1])
    t.deepEqual(paths, [
      'claude-haiku-4-5@20251001:rawPredict',
      'claude-haiku-4-5@20251001:streamRawPredict',
      'count-tokens:rawPredict',
    ])
    t.is(vertex.requests[0]!.headers['anthropic-beta'], 'context-management-2025-06-27')
    t.is(vertex.requests[2]!.headers['anthropic-beta'], undefined)
  },
)

test.serial(
  '200 for Messages with betas that Vertex AI does not know: they are not sent, nor what they open',
  async t => {
    const account = await gateway.account()
    const response = await gateway.fetch('/v1/messages', {
      key: account.live,
      headers: {
        // As Claude Code sends them (ex-machina-co/opencode-anthropic-auth#174).
        'anthropic-beta':
          'claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27,advisor-tool-2026-03-01,cache-diagnosis-2026-04-07,advanced-tool-use-2025-11-20',
      },
      body: {
        model: 'claude-haiku-4-5',
        max_tokens: 100,
        messages: [{ role: 'user', content: 'Hello' }],
        context_management: { edits: [] },
      },
    })
    t.is(response.status, 200, await response.clone().text())
    const [sent] = vertex.requests
    t.is(
      sent!.headers['anthropic-beta'],
      'claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27,tool-search-tool-2025-10-19',
    )
    t.true('context_management' in sent!.body)
    t.regex(String(response.headers.get('x-gateway-dropped')), /anthropic-beta/)
  },
)

test.serial(
  '200 from the location that has a model, after the refusal of one that has not, which is no fault of the account',
  async t => {
    const account = await gateway.account()
    const order = ['vertex/europe-west1', 'vertex/global']
    const { status, headers, text } = await ask(account.live, saying('claude-opus-5', 'Hi', { provider: { order } }))
    t.is(status, 200, text)
    t.is(headers.get('x-gateway-attempts'), '2')
    t.is(headers.get('x-gateway-provider'), 'vertex/global/anthropic')
    const alone = await ask(
      account.live,
      saying('claude-opus-5', 'Hi', { provider: { only: ['vertex/europe-west1'] } }),
    )
    t.is(JSON.parse(alone.text).error.metadata.attempts[0].reason, 'model_unavailable')
  },
)

test.serial('200 for embeddings, one request for each text', async t => {
  const account = await gateway.account()
  for (const [model, method] of [
    ['gemini-embedding-001', 'predict'],
    ['gemini-embedding-2', 'embedContent'],
  ] as const) {
    vertex.reset()
    const { status, text } = await ask(
      account.live,
      { model, input: ['One', 'Two texts'], dimensions: 4 },
      '/v1/embeddings',
    )
    t.is(status, 200, text)
    const { data, usage } = JSON.parse(text)
    t.is(data.length, 2)
    t.is(data[0].embedding.length, 4)
    t.is(usage.prompt_tokens, 4)
    t.is(vertex.requests.length, 2)
    t.true(vertex.requests.every(({ path }) => path.endsWith(`${model}:${method}`)))
  }
})

test.serial('200 for speech, with its instructions as metadata of the text', async t => {
  const account = await gateway.account()
  const body = { model: 'gemini-3.8-flash-tts', input: 'Hello there', voice: 'Kore', instructions: 'Whisper' }
  const response = await gateway.fetch('/v1/audio/speech', {
    key: account.live,
    body: { ...body, response_format: 'wav' },
  })
  const sound = Buffer.from(await response.arrayBuffer())
  t.is(response.status, 200, sound.toString('latin1', 0, 300))
  t.is(response.headers.get('x-gateway-provider'), 'vertex/global')
  t.is(sound.toString('latin1', 0, 4), 'RIFF')
  const [request] = vertex.requests
  t.is(
    request!.path,
    `/v1beta1/projects/${project}/locations/global/publishers/google/models/gemini-3.8-flash-tts:streamGenerateContent`,
  )
  t.deepEqual(request!.body.contents[0].parts, [{ text: 'Hello there', speechMetadata: { style: 'Whisper' } }])
  const tokens = Math.ceil(('Hello there'.length / 15) * tokensPerSecond)
  const used = { prompt_tokens: countTokens('Hello there'), completion_tokens: tokens }
  t.is(await chargedNano({ gateway }, account), nano(used, 1, 18))
})

test.serial('200 with a new token after a 401 for a revoked one', async t => {
  const account = await gateway.account()
  const only = { provider: { only: ['vertex/europe-west1'] } }
  t.is((await ask(account.live, saying('gemini-2.5-flash-lite', 'Hi', only))).status, 200)
  tokens.revoke()
  const refused = await ask(account.live, saying('gemini-2.5-flash-lite', 'Hi', only))
  t.is(refused.status, 502, refused.text)
  t.false(refused.text.includes('emulated-token'))
  const { status, text } = await ask(account.live, saying('gemini-2.5-pro', 'Hi', only))
  t.is(status, 200, text)
})

test.serial(
  '502 without any of the identity service’s words while it refuses, and no call of the provider',
  async t => {
    tokens.revoke()
    const account = await gateway.account()
    const only = { provider: { only: ['vertex/global'] } }
    await ask(account.live, saying('gemini-2.5-flash', 'Hi', only))
    vertex.reset()
    tokens.emulator.next(geminiError(403, 'PERMISSION_DENIED', 'secret words of the service'))
    const { status, text } = await ask(account.live, saying('gemini-3.1-flash-lite', 'Hi', only))
    t.is(status, 502, text)
    t.false(text.includes('secret words'))
    t.is(vertex.requests.length, 0)
  },
)

test.serial('the emulator accepts and refuses what Vertex AI does, asked by Google’s own client', async t => {
  const clientOf = (options: object) =>
    new GoogleGenAI({ vertexai: true, ...options, httpOptions: { baseUrl: vertex.url } })
  const services = (await (
    await fetch(`${tokens.emulator.url}/v1/token`, {
      method: 'POST',
      body: new URLSearchParams({ grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange', subject_token: 'x' }),
    })
  ).json()) as { access_token: string }
  const headers = { Authorization: `Bearer ${services.access_token}` }
  const authorized = (location: string, own = headers) =>
    new GoogleGenAI({
      vertexai: true,
      project,
      location,
      httpOptions: { baseUrl: vertex.url, headers: own },
      googleAuthOptions: { authClient: quiet },
    })
  const said = await authorized('global').models.generateContent({ model: 'gemini-3.5-flash', contents: 'Hello' })
  t.is(said.text, 'Echo: Hello')
  const vectors = await authorized('global').models.embedContent({ model: 'gemini-embedding-001', contents: 'Hello' })
  t.is(vectors.embeddings!.length, 1)
  const spoken = await authorized('global').models.generateContent({
    model: 'gemini-3.8-flash-tts',
    contents: [{ role: 'user', parts: [{ text: 'Hello', speechMetadata: { style: 'Whisper' } }] }],
    config: {
      responseModalities: ['AUDIO'],
      speechConfig: { voiceConfig: { prebuiltVoiceConfig: { voiceName: 'Kore' } } },
    },
  })
  t.truthy(spoken.data)
  const express = await clientOf({ apiKey: expressKey }).models.generateContent({
    model: 'gemini-3.5-flash',
    contents: 'Hi',
  })
  t.is(express.text, 'Echo: Hi')
  const wrong = { Authorization: 'Bearer expired' }
  await t.throwsAsync(
    authorized('global', wrong).models.generateContent({ model: 'gemini-3.5-flash', contents: 'Hi' }),
    {
      message: /UNAUTHENTICATED/,
    },
  )
})

/** Adds no header of its own: each client has its token in the options. */
const quiet = { getRequestHeaders: async () => new Headers() } as never
