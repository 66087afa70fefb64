import { once } from 'node:events'
import { WebSocket } from 'ws'
import { findForeignPath } from '../../api/foreign-paths.ts'
import { endpoints } from '../../api/routes/index.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

const gateway = useGateway(test)
const account = use(test, () => gateway.account())

type Case = [method: string, path: string, names: string]

const google: Case[] = [
  ['POST', '/v1/v1beta/models/gemini-3.5-flash:generateContent', 'POST /v1beta/models/{model}:generateContent'],
  ['POST', '/models/gemini-3.5-flash:generateContent', 'POST /v1beta/models/{model}:generateContent'],
  ['POST', '/v1beta/tunedModels/mine:generateContent', 'POST /v1beta/models/{model}:generateContent'],
  ['POST', '/models/gemini-3.5-flash:countTokens', 'POST /v1beta/models/{model}:countTokens'],
  ['POST', '/models/gemini-embedding-001:embedContent', 'POST /v1beta/models/{model}:batchEmbedContents'],
  ['POST', '/v1beta/models/imagen-4:predict', 'POST /v1/images'],
  ['POST', '/v1beta/models/veo-3.1:predictLongRunning', 'POST /v1/videos'],
  ['POST', '/v1beta/models/gemini-3.5-flash:batchGenerateContent', 'POST /v1/batches'],
  ['POST', '/v1beta/cachedContents', 'Send the contents with each request'],
  ['GET', '/v1/cachedContents/abc', 'Send the contents with each request'],
  ['PATCH', '/v1beta1/projects/p/locations/us-central1/cachedContents/1', 'Send the contents with each request'],
  ['POST', '/upload/v1beta/files', '`inlineData`'],
  // google-genai and @google/genai 3 have these below /v1.
  ['POST', '/v1/interactions', 'POST /v1beta/models/{model}:generateContent'],
  ['GET', '/v1/interactions/v1_abc', 'POST /v1beta/models/{model}:generateContent'],
  ['POST', '/v1beta/interactions', 'POST /v1beta/models/{model}:generateContent'],
  ['POST', '/v1/fileSearchStores', 'POST /v1beta/models/{model}:batchEmbedContents'],
  ['POST', '/v1/auth_tokens', 'POST /v1/realtime/client_secrets'],
  ['GET', '/v1/tuningJobs', 'POST /v1beta/models/{model}:generateContent'],
]

/** Paths with routes of our own, which the test below asks for with a key of ours. */
const sharedWithGoogle: Case[] = [
  ['GET', '/v1/files', '`inlineData`'],
  ['GET', '/v1/files/abc', '`inlineData`'],
  ['GET', '/v1/batches/abc', 'POST /v1/batches'],
  ['GET', '/v1/agents', 'POST /v1beta/models/{model}:generateContent'],
  ['POST', '/v1/decisions', 'POST /v1beta/models/{model}:generateContent'],
]

const openai: Case[] = [
  ['POST', '/openai/deployments/my-gpt/chat/completions?api-version=2026-10-01', 'POST /v1/chat/completions'],
  ['POST', '/openai/deployments/my-emb/embeddings?api-version=2026-10-01', 'POST /v1/embeddings'],
  ['POST', '/openai/v1/chat/completions', '/v1/chat/completions'],
  ['POST', '/openai/v1/responses', '/v1/responses'],
  ['POST', '/v1beta/openai/chat/completions', '/v1/chat/completions'],
  ['POST', '/v1beta/openai/embeddings', '/v1/embeddings'],
  ['POST', '/chat/completions', '/v1/chat/completions'],
  ['POST', '/v1/v1/chat/completions', '/v1/chat/completions'],
  ['POST', '/api/v0/chat/completions', '/v1/chat/completions'],
  ['GET', '/api/v0/models', '/v1/models'],
  ['GET', '/models', '/v1/models'],
  ['POST', '/anthropic/v1/messages', '/v1/messages'],
  ['POST', '/messages', '/v1/messages'],
  ['POST', '/v1/api/v1/keys', '/api/v1/keys'],
  ['POST', '/api/rerank', 'POST /v1/rerank'],
  ['POST', '/generate', 'POST /v1/chat/completions'],
  ['POST', '/generate_stream', 'POST /v1/chat/completions'],
  ['POST', '/v1/listen?model=nova-3', 'POST /v1/audio/transcriptions'],
  ['POST', '/v1/text-to-speech/21m00Tcm4TlvDq8ikWAM', 'POST /v1/audio/speech'],
  ['POST', '/v1/text-to-speech/21m00Tcm4TlvDq8ikWAM/stream', 'POST /v1/audio/speech'],
  ['GET', '/health', 'GET /healthz'],
  ['POST', '/v1/uploads/upload_1/parts', 'POST /v1/files'],
  ['POST', '/v1/assistants', 'POST /v1/responses'],
  ['POST', '/v1/threads/thread_1/runs', 'POST /v1/responses'],
  ['POST', '/v1/vector_stores', 'Vector stores are not offered'],
  ['GET', '/v1/vector_stores/vs_1/files', 'Vector stores are not offered'],
  ['POST', '/v1/fine_tuning/jobs', 'Fine-tuning is not offered'],
  ['POST', '/v1/fine_tuning/jobs/j_1/cancel', 'Fine-tuning is not offered'],
  ['POST', '/v1/chat/moderations', 'POST /v1/moderations'],
  ['GET', '/v1/evals', 'Evals and graders are not offered'],
  ['POST', '/v1/containers', 'Containers are not offered'],
  ['POST', '/v1/chatkit/sessions', 'POST /v1/responses'],
  ['POST', '/v1/images/variations', 'POST /v1/images/edits'],
  ['GET', '/v1/organization/usage/completions', 'GET /api/v1/usage'],
  ['GET', '/v1/organization/projects', '/api/v1/keys'],
  ['GET', '/v1/chat/completions/chatcmpl-1', 'POST /v1/responses'],
  ['POST', '/v1/responses/resp_1/compact', 'POST /v1/responses/compact'],
  ['POST', '/v1/videos/edits', 'POST /v1/videos'],
  ['POST', '/v1/realtime/calls', 'WebSocket at /v1/realtime'],
  // The offer of WebRTC as the beta took it: the SDP is the body and the model is in the query.
  ['POST', '/v1/realtime?model=gpt-4o-realtime-preview', 'WebSocket at /v1/realtime'],
  ['GET', '/openai/v1/models', 'use OpenAI’s client, with a base URL that ends with /v1'],
  ['POST', '/v1/fim/completions', 'POST /v1/completions'],
  ['POST', '/v1/agents/completions', 'POST /v1/chat/completions'],
  ['POST', '/v1/chat/completions/chat/completions', 'Did you mean /v1/chat/completions? Check the base URL'],
  ['POST', '/v1/chat/completions/embeddings', 'Did you mean /v1/embeddings? Check the base URL'],
  ['GET', '/v1/chat/completions/models', 'Did you mean /v1/models? Check the base URL'],
  ['POST', '/v1beta/chat/completions', 'Did you mean POST /v1/chat/completions? Check the base URL'],
  ['POST', '/v1beta/responses', 'Did you mean POST /v1/responses? Check the base URL'],
  ['POST', '/v1beta/audio/speech', 'Did you mean POST /v1/audio/speech? Check the base URL'],
  ['GET', '/v1/agents', 'POST /v1/chat/completions'],
  // openai 3.57 (Python), resources/beta/agents and others.
  ['POST', '/v1/agents/sessions', 'Agents of OpenAI and Mistral are not offered: use POST /v1/responses'],
  ['GET', '/v1/vaults/vault_1/credentials', 'Agents of OpenAI and Mistral are not offered: use POST /v1/responses'],
  ['POST', '/v1/live/sessions', 'WebSocket at /v1/realtime'],
  ['POST', '/v1/live/sessions/sess_1/accept', 'WebSocket at /v1/realtime'],
  ['POST', '/v1/decisions', 'POST /v1/responses'],
  ['POST', '/v1/content_provenance_checks', 'no other route takes their place'],
  ['GET', '/v1/safety/cases/case_1', 'no other route takes their place'],
  ['GET', '/v1/webhook_endpoints', '/api/v1/webhook-endpoints'],
  ['GET', '/v1/webhook_event_types', '/api/v1/webhook-endpoints'],
  ['POST', '/v1/language-model', 'POST /v1/chat/completions'],
  ['POST', '/v1/embedding-model', 'POST /v1/embeddings'],
  ['POST', '/v1/batch/jobs', 'POST /v1/batches'],
  ['GET', '/v1/batch/jobs/b_1', 'POST /v1/batches'],
  ['POST', '/v1/conversations/conv_1/restart', 'POST /v1/responses'],
  ['GET', '/v1/libraries', 'POST /v1/embeddings'],
  ['POST', '/v1/classifications', 'no other route takes their place'],
  ['GET', '/v1/deployments', 'use POST /v1/chat/completions'],
  ['POST', '/v1/multimodalembeddings', 'POST /v1/embeddings'],
  ['POST', '/v1/contextualizedembeddings', 'POST /v1/embeddings'],
  ['POST', '/v1/voice-changer/abc', 'no other route takes their place'],
  ['POST', '/v1/audio-isolation', 'no other route takes their place'],
  ['POST', '/v1/text-to-voice/design', 'no other route takes their place'],
  ['GET', '/v1/history', 'no other route takes their place'],
  ['GET', '/v1/convai/agents', 'WebSocket at /v1/realtime'],
  ['POST', '/v1/single-use-token/realtime_scribe', 'POST /v1/realtime/client_secrets'],
  ['GET', '/v1/usage/character-stats', 'GET /api/v1/usage'],
  ['GET', '/v1/dubbing', 'no other route takes their place'],
  ['POST', '/v1/read?summarize=v2', 'no other route takes their place'],
  // @ai-sdk/xai 5 and @ai-sdk/fireworks 3.
  ['POST', '/v1/tts', 'POST /v1/audio/speech'],
  ['POST', '/v1/realtime/translations/client_secrets', 'Sessions that translate are not offered'],
  ['POST', '/v1/stt', 'POST /v1/audio/transcriptions'],
  ['POST', '/v1/workflows/accounts/fireworks/models/flux-1-schnell-fp8/text_to_image', 'POST /v1/images'],
]

const details: Case[] = [
  ['POST', '/v1/models/black-forest-labs/flux/predictions', 'POST /v1/images'],
  ['POST', '/v1/predictions', 'POST /v1/images'],
  ['GET', '/v1/predictions/abc', 'POST /v1/images'],
  ['POST', '/v1/deployments/acme/flux/predictions', 'POST /v1/images'],
  ['GET', '/v1/collections', 'POST /v1/images'],
  ['POST', '/v1/trainings', 'POST /v1/images'],
  ['POST', '/fal-ai/flux/schnell', 'POST /v1/images'],
]

const anthropic: Case[] = [
  ['POST', '/v1/complete', 'POST /v1/messages'],
  ['POST', '/v1/messages/batches', 'POST /v1/batches'],
  ['GET', '/v1/messages/batches/msgbatch_1/results', 'POST /v1/batches'],
  ['GET', '/v1/organizations/usage_report/messages', 'GET /api/v1/usage'],
  [
    'POST',
    '/v1/projects/p/locations/us-east5/publishers/anthropic/models/claude-sonnet-5-5:streamRawPredict',
    'POST /v1/messages',
  ],
  // anthropic 2.14 (Python), resources/beta.
  ['GET', '/v1/deployments/dep_1', 'Managed agents of Anthropic are not offered'],
  ['POST', '/v1/deployment_runs', 'Managed agents of Anthropic are not offered'],
  ['GET', '/v1/dreams/dream_1', 'Managed agents of Anthropic are not offered'],
  ['POST', '/v1/tunnels/tunnel_1/reveal_token', 'Managed agents of Anthropic are not offered'],
  ['GET', '/v1/compliance/review/cases', 'The compliance reviews of Anthropic are not offered'],
]

const ollama: Case[] = [
  ['POST', '/api/chat', 'POST /v1/chat/completions'],
  ['POST', '/v1/api/chat', 'POST /v1/chat/completions'],
  ['POST', '/api/generate', 'POST /v1/completions'],
  ['GET', '/api/tags', 'GET /v1/models'],
  ['POST', '/api/embed', 'POST /v1/embeddings'],
]

const bedrock: Case[] = [
  ['POST', '/model/anthropic.claude-sonnet-5-5-v1%3A0/converse', 'POST /v1/chat/completions'],
  ['POST', '/model/anthropic.claude-sonnet-5-5-v1%3A0/invoke', 'POST /v1/messages'],
]

const cohere: Case[] = [
  ['POST', '/v2/chat', 'POST /v1/chat/completions'],
  ['POST', '/v1/chat', 'POST /v1/chat/completions'],
  ['POST', '/v2/embed', 'POST /v1/embeddings'],
  ['POST', '/v1/embed', 'POST /v1/embeddings'],
]

const headersOf = {
  google: { 'x-goog-api-key': 'AIza-other' },
  openai: {},
  anthropic: { 'anthropic-version': '2023-06-01' },
  ollama: {},
  bedrock: {},
  cohere: {},
  details: {},
}
// biome-ignore lint/suspicious/noExplicitAny: bodies of seven APIs
const messageIn: { [dialect: string]: (body: any, status: number) => unknown } = {
  google: ({ error, ...rest }, status) =>
    error.code === status && error.status === 'NOT_FOUND' && Object.keys(rest).length === 0 && error.message,
  openai: ({ error }) => error.code === 'not_found' && error.type === 'not_found_error' && error.message,
  anthropic: ({ type, error }) => type === 'error' && error.type === 'not_found_error' && error.message,
  ollama: ({ error }) => error,
  bedrock: ({ message }) => message,
  cohere: ({ message }) => message,
  details: ({ detail, message }) => message === detail && detail,
}

for (const [dialect, cases] of Object.entries({ google, openai, anthropic, ollama, bedrock, cohere, details }))
  for (const [method, path, names] of cases)
    test(`404 without a key that names what is offered, as its clients read it: ${method} ${path}`, async t => {
      for (const key of [undefined, account.test]) {
        const headers = headersOf[dialect as keyof typeof headersOf]
        const sent = { method, headers, ...(key && { key }), ...(method === 'POST' && { body: {} }) }
        const response = await gateway.fetch(path, sent)
        const text = await response.text()
        t.is(response.status, 404, text)
        const message = messageIn[dialect]!(JSON.parse(text), response.status)
        t.is(typeof message, 'string', text)
        t.true(String(message).includes(names), text)
        t.true(String(message).startsWith(`There is no ${method} ${path.split('?')[0]}. `), text)
      }
    })

test('405 for a base URL that ends with a route names the route that was meant', async t => {
  const cases = [
    ['/v1/responses/responses', 'takes HEAD, GET, DELETE, not POST. Did you mean /v1/responses? Check the base URL'],
    ['/v1/models/chat/completions', 'takes HEAD, GET, not POST. Did you mean /v1/chat/completions? Check the base URL'],
    ['/v1/models/gpt-4o', '/v1/models/gpt-4o takes HEAD, GET, not POST.'],
  ] as const
  for (const [path, says] of cases) {
    const response = await gateway.fetch(path, { key: account.test, method: 'POST', body: {} })
    const { error } = (await response.json()) as { error: { message: string } }
    t.is(response.status, 405)
    t.true(error.message.includes(says), error.message)
    t.is(error.message.includes('Did you mean'), says.includes('Did you mean'))
  }
})

test('404 for Anthropic’s clients on files, which are OpenAI’s here, and 200 for all others', async t => {
  const headers = { 'anthropic-version': '2023-06-01', 'anthropic-beta': 'files-api-2025-04-14' }
  for (const path of ['/v1/files', '/v1/files/file_1', '/v1/files/file_1/content', '/v1/skills']) {
    const response = await gateway.fetch(path, { key: account.test, headers })
    const { type, error } = (await response.json()) as { type: string; error: { type: string; message: string } }
    t.is(response.status, 404)
    t.deepEqual([type, error.type], ['error', 'not_found_error'])
    t.regex(error.message, /POST \/v1\/messages/)
  }
  t.is((await gateway.fetch('/v1/files', { key: account.test })).status, 200)
  t.is((await gateway.fetch('/v1/models', { key: account.test, headers })).status, 200)
})

test('404 for Google’s clients on files and batches, which are OpenAI’s here, and 200 with a key of ours', async t => {
  for (const [method, path, names] of sharedWithGoogle) {
    const response = await gateway.fetch(path, { method, headers: { 'x-goog-api-key': account.test } })
    const text = await response.text()
    t.is(response.status, 404, text)
    t.true(String(messageIn.google!(JSON.parse(text), 404)).includes(names), text)
  }
  for (const path of ['/v1/files', '/v1/batches'])
    t.is((await gateway.fetch(path, { key: account.test, headers: { 'x-goog-api-key': 'other' } })).status, 200)
})

test('no route of our own is taken for another API’s, but by Anthropic’s and Google’s clients', t => {
  const files = ['/v1/files', '/v1/files/{id}', '/v1/files/{id}/content', '/v1/files/{id}/url']
  const shared = {
    messages: new Set(files),
    google: new Set([...files, '/v1/batches', '/v1/batches/{id}', '/v1/batches/{id}/cancel']),
  }
  for (const { method, path } of endpoints)
    for (const client of ['messages', 'google', null] as const) {
      const asked = { method: method.toUpperCase(), path: path.replace(/\{\w+\}/g, 'id_1'), client }
      const isTaken = client !== null && shared[client].has(path)
      t.is(findForeignPath(asked, () => null) !== null, isTaken, `${client}: ${method} ${path}`)
    }
})

test('415 of an upload in parts names the route for whole files', async t => {
  const body = { bytes: 3, filename: 'a.jsonl', mime_type: 'text/jsonl', purpose: 'batch' }
  const response = await gateway.fetch('/v1/uploads', { key: account.test, body })
  t.is(response.status, 415)
  t.regex(await response.text(), /POST \/v1\/files/)
})

test('401 that says where a key was sent and where to send it, and shows none of it', async t => {
  const { live } = account
  const cases: [headers: Record<string, string>, query: string, names: RegExp][] = [
    [{ 'x-goog-api-key': live }, '', /`x-goog-api-key`/],
    [{ 'api-key': live }, '', /`api-key`/],
    [{ 'xi-api-key': 'other' }, '', /`xi-api-key`/],
    [{ 'x-anything': live }, '', /`x-anything`/],
    [{}, `?key=${live}`, /in the URL/],
    [{}, `?api_key=other`, /in the URL/],
    [{}, `?anything=${live}`, /in the URL/],
    [{}, '', /^Send your API key/],
  ]
  for (const [headers, query, names] of cases)
    for (const [method, path] of [
      ['GET', '/v1/balance'],
      ['POST', '/v1/chat/completions'],
    ] as const) {
      const response = await gateway.fetch(path + query, { method, headers, ...(method === 'POST' && { body: {} }) })
      const text = await response.text()
      t.is(response.status, 401, text)
      t.is(response.headers.get('www-authenticate'), 'Bearer')
      const { error } = JSON.parse(text)
      t.regex(error.message, names)
      t.true(error.message.endsWith('Send your API key as `Authorization: Bearer <key>` or `x-api-key: <key>`.'))
      t.false(text.includes(live))
      const isGoogle = 'x-goog-api-key' in headers
      t.deepEqual([error.code, error.status], isGoogle ? [401, 'UNAUTHENTICATED'] : ['missing_api_key', undefined])
    }
  const response = await gateway.fetch('/api/v1/keys', { headers: { 'x-api-key': live } })
  const { error } = (await response.json()) as { error: { message: string } }
  t.regex(error.message, /^Keys are not accepted as `x-api-key`\. Send your provisioning key as `Authorization: Bearer/)
})

test('200 for a key in quotes, as files of environment variables have it', async t => {
  const accepted: Record<string, string>[] = [
    { authorization: `Bearer "${account.test}"` },
    { authorization: `bearer   '${account.test}'` },
    { 'x-api-key': `"${account.test}"` },
    { authorization: 'Bearer other', 'x-api-key': `"${account.test}"` },
  ]
  for (const headers of accepted)
    t.is((await gateway.fetch('/v1/models', { headers })).status, 200, JSON.stringify(headers))
  const half = { authorization: `Bearer "${account.test}` }
  t.is((await gateway.fetch('/v1/models', { headers: half })).status, 401)
})

test('426 at the sockets of other APIs names ours', async t => {
  const cases: [path: string, names: RegExp][] = [
    ['/openai/realtime?deployment=x', /\/v1\/realtime/],
    ['/realtime?model=x', /\/v1\/realtime/],
    ['/v1/v1/responses', /\/v1\/responses/],
    ['/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent', /\/v1\/realtime/],
    ['/v1/listen', /POST \/v1\/audio\/transcriptions/],
    ['/v1/chat/completions', /Send a plain HTTP request/],
  ]
  for (const [path, names] of cases) {
    const socket = new WebSocket(gateway.url.replace('http', 'ws') + path)
    socket.on('error', () => {})
    const [, response] = await once(socket, 'unexpected-response')
    t.is(response.statusCode, 426)
    const text = Buffer.concat(await response.toArray()).toString()
    t.regex(text, names)
    socket.terminate()
  }
})
