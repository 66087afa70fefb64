import type { ServerResponse } from 'node:http'
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import { fakeInstance } from '../../shared/providers/sandbox/chat/schema-faker.ts'
import { png } from '../support/media/png.ts'
import { Emulator, json, type Reply } from './emulator.ts'
import { audioTokensIn, refusalOfSound, speaks, spoken } from './openai-chat-sound.ts'
import { responsesReply } from './openai-responses.ts'
import { refusalOfTier, tierOf } from './openai-tiers.ts'

// biome-ignore lint/suspicious/noExplicitAny: request bodies of every shape, as they came over the wire
type Body = any

/** The emulator's whole tokenizer: four characters are a token. */
export function tokensIn(text: string): number {
  return Math.ceil(text.length / 4)
}

/** Tokens a chat request is charged for: the text of all its messages. */
export function promptTokens(messages: Body[]): number {
  return tokensIn(messages.map(({ content }) => textOf(content)).join(''))
}

/** Tokens a reasoning model (name starting with `o` or `gpt-5`) thinks for before each answer. */
export const reasoningTokens = 16

/** An OpenAI upstream on a free port of loopback (or `port`); `url` is without the `/v1`. */
export function startOpenAiEmulator(port = 0): Promise<Emulator> {
  return Emulator.start(reply, port)
}

/** What OpenAI answers: chat, responses, completions, embeddings and the list of models. */
export const reply: Reply = (request, response) => {
  if (!/^Bearer \S+/.test(request.headers.authorization ?? '')) return invalidKey(request, response)
  if (request.method === 'GET' && request.path === '/v1/models') return models(request, response)
  if (request.method !== 'POST')
    return failure(404, 'Unknown URL.', 'invalid_request_error', 'unknown_url')(request, response)
  if (request.path === '/v1/chat/completions') return chatReply()(request, response)
  if (request.path === '/v1/completions') return completions(request, response)
  if (request.path === '/v1/responses') return responsesReply()(request, response)
  if (request.path === '/v1/embeddings') return embeddings(request, response)
  if (request.path === '/v1/moderations') return moderations(request, response)
  return failure(404, 'Unknown URL.', 'invalid_request_error', 'unknown_url')(request, response)
}

/** An error as OpenAI writes it. */
export function failure(status: number, message: string, type: string, code: string | null, headers = {}): Reply {
  return json(status, { error: { message, type, param: null, code } }, { 'x-request-id': 'req_emulated', ...headers })
}

export const invalidKey = failure(
  401,
  'Incorrect API key provided: sk-emul*****cret.',
  'invalid_request_error',
  'invalid_api_key',
)
export const insufficientQuota = failure(
  429,
  'You exceeded your current quota.',
  'insufficient_quota',
  'insufficient_quota',
)
export const serverError = failure(500, 'The server had an error.', 'server_error', null)
export const contextLength = failure(400, 'Your input is too long.', 'invalid_request_error', 'context_length_exceeded')
export const modelNotFound = failure(404, 'The model does not exist.', 'invalid_request_error', 'model_not_found')
export const contentPolicy = failure(400, 'Not allowed.', 'invalid_request_error', 'content_policy_violation')

export function rateLimited(retryAfter = '1'): Reply {
  return failure(429, 'Rate limit reached.', 'requests', 'rate_limit_exceeded', { 'retry-after': retryAfter })
}

const models = json(200, {
  object: 'list',
  data: ['gpt-test', 'o-test'].map(id => ({ id, object: 'model', created: 1_700_000_000, owned_by: 'emulator' })),
})

/** `Moderation.Categories` of openai 7. */
const moderated = [
  'harassment',
  'harassment/threatening',
  'hate',
  'hate/threatening',
  'illicit',
  'illicit/violent',
  'self-harm',
  'self-harm/instructions',
  'self-harm/intent',
  'sexual',
  'sexual/minors',
  'violence',
  'violence/graphic',
]

/** Flags what has the word `kill`. Lists of texts have a result for each, lists of parts one for all (`ModerationCreateParams`). */
const moderations: Reply = (request, response) => {
  const { model = 'omni-moderation-latest', input, ...others } = request.body ?? {}
  const [stranger] = Object.keys(others)
  if (stranger) return unsupportedParameter(stranger)(request, response)
  if (!['omni-moderation-latest', 'omni-moderation-2024-09-26'].includes(model))
    return failure(404, 'The model does not exist.', 'invalid_request_error', 'model_not_found')(request, response)
  if (typeof input !== 'string' && !(Array.isArray(input) && input.length > 0))
    return failure(400, 'Invalid input.', 'invalid_request_error', 'invalid_type')(request, response)
  const isParts = typeof input !== 'string' && typeof input[0] === 'object'
  const texts = isParts ? [input.map(({ text = '' }) => text).join(' ')] : [input].flat()
  const results = texts.map((text: string) => {
    const flagged = /\bkill\b/.test(text)
    const categories = Object.fromEntries(moderated.map(name => [name, flagged && name === 'violence']))
    const scores = Object.fromEntries(moderated.map(name => [name, flagged && name === 'violence' ? 0.98 : 0.001]))
    const types = Object.fromEntries(moderated.map(name => [name, ['text']]))
    return { flagged, categories, category_scores: scores, category_applied_input_types: types }
  })
  return json(200, { id: 'modr-emulated', model, results })(request, response)
}

const unsupportedParameter = (name: string) =>
  failure(400, `Unrecognized request argument supplied: ${name}`, 'invalid_request_error', null)

/** Departures of a chat answer from the ordinary one; the stream ones concern `stream: true` only. */
export type ChatReplyOptions = {
  /** Wait before the first byte. */
  delayMs?: number
  /** Break the connection after this many chunks. */
  cutAfter?: number
  /** Report an error after this many chunks, and end. */
  errorAfter?: number
  eol?: '\n' | '\r\n'
  /** Send every byte on its own, so that characters of several bytes are split. */
  bytewise?: boolean
  comments?: boolean
  /** Leave out `[DONE]`. */
  done?: false
  /** Leave out the usage. */
  usage?: false
  /** The tier that it is served at; null = the answer names none. */
  tier?: string | null
}

/** Answers a chat request; without options as OpenAI does. */
export function chatReply(options: ChatReplyOptions = {}): Reply {
  return async (request, response) => {
    if (options.delayMs) await sleep(options.delayMs)
    const refusal = refusalOfSound(request.body) ?? refusalOfTier(request.body)
    if (refusal) return refusal(request, response)
    const answer = answerTo(request.body)
    if (options.tier !== undefined) answer.service_tier = options.tier ?? undefined
    const headers = { 'x-request-id': 'req_emulated' }
    if (!request.body.stream) {
      if (options.usage === false) delete answer.usage
      return json(200, answer, headers)(request, response)
    }
    response.writeHead(200, { 'content-type': 'text/event-stream', ...headers })
    await stream(chunksOf(answer, request.body), response, options)
  }
}

/** Writes the events; `options` bend them. */
async function stream(chunks: Body[], response: ServerResponse, options: ChatReplyOptions): Promise<void> {
  const end = (options.eol ?? '\n').repeat(2)
  // Each write waits until it has left, and each leaves in a packet of its own.
  const write = async (text: string) => {
    const bytes = Buffer.from(text + end)
    const size = options.bytewise ? 1 : bytes.length
    for (let i = 0; i < bytes.length && !response.destroyed; i += size) {
      await new Promise(resolve => response.write(bytes.subarray(i, i + size), resolve))
      await turn()
    }
  }
  for (const [position, chunk] of chunks.entries()) {
    if (position === options.cutAfter) return void response.destroy()
    if (position === options.errorAfter) {
      const error = { message: 'The server had an error.', type: 'server_error', param: null, code: null }
      await write(`data: ${JSON.stringify({ error })}`)
      return void response.end()
    }
    if (options.usage === false && chunk.choices.length === 0) continue
    if (options.comments) await write(': EMULATOR PROCESSING')
    await write(`data: ${JSON.stringify(chunk)}`)
    if (response.destroyed) return
  }
  if (options.done !== false) await write('data: [DONE]')
  response.end()
}

function textOf(content: Body): string {
  if (typeof content === 'string') return content
  return (content ?? []).map((part: Body) => part.text ?? '').join('')
}

/** The echo: what the last user said, and which images, sounds and files came with it. */
function echoOf(messages: Body[]): string {
  const content = messages.findLast(({ role }) => role === 'user')?.content ?? ''
  const parts = Array.isArray(content)
    ? content.filter(({ type }) => type !== 'text').map(({ type }) => ` [${type}]`)
    : []
  return `Echo: ${textOf(content)}${parts.join('')}`
}

/** One call for each capitalised word after "in" or "and", when a tool is offered and the weather asked for. */
function toolCalls({ messages, tools }: Body): Body[] | null {
  const last = messages.at(-1)
  if (!tools?.length || last.role !== 'user' || !/weather/i.test(textOf(last.content))) return null
  const cities = [...textOf(last.content).matchAll(/\b(?:in|and) ([A-Z]\w+)/g)].map(([, city]) => city)
  if (cities.length === 0) return null
  const [{ custom, function: called }] = tools
  return cities.map((city, position) => ({
    id: `call_emulated${position + 1}`,
    ...(custom
      ? { type: 'custom', custom: { name: custom.name, input: city } }
      : { type: 'function', function: { name: called.name, arguments: JSON.stringify({ city }) } }),
  }))
}

/** The schema that a system prompt asks to answer by. */
export function schemaInPrompt(system: string): Body {
  const [, schema] = /JSON Schema:\n(\{.*\})/.exec(system) ?? []
  return schema && JSON.parse(schema)
}

function answerTo(body: Body): Body {
  const calls = toolCalls(body)
  const schema = body.response_format?.json_schema?.schema ?? schemaInPrompt(textOf(body.messages[0].content))
  const whole = calls ? '' : schema ? JSON.stringify(fakeInstance(schema)) : echoOf(body.messages)
  const limit = body.max_completion_tokens ?? body.max_tokens
  const text = limit ? whole.slice(0, limit * 4) : whole
  const length = text.length < whole.length
  const message: Body = { role: 'assistant', content: calls ? null : text, refusal: null, annotations: [] }
  if (calls) message.tool_calls = calls
  if (body.modalities?.includes('image')) {
    message.images = [{ type: 'image_url', image_url: { url: `data:image/png;base64,${png(1).toString('base64')}` } }]
  }
  if (speaks(body)) Object.assign(message, { content: null, audio: spoken(body, text) })
  const choices = Array.from({ length: body.n ?? 1 }, (_, index) => ({
    index,
    message,
    logprobs: body.logprobs ? logprobs(text, body.top_logprobs) : null,
    finish_reason: calls ? 'tool_calls' : length ? 'length' : 'stop',
  }))
  const usage = usageOf(
    body,
    calls ? JSON.stringify(calls.map(call => call.function?.arguments ?? call.custom.input)) : text,
  )
  return {
    id: 'chatcmpl-emulated',
    object: 'chat.completion',
    created: 1_795_132_800,
    model: body.model,
    choices,
    usage,
    service_tier: tierOf(body),
    system_fingerprint: 'fp_emulated',
  }
}

function usageOf(body: Body, text: string): Body {
  const reasoning = /^(o|gpt-5)/.test(body.model) ? reasoningTokens : 0
  const prompt = promptTokens(body.messages)
  const audio = speaks(body) ? audioTokensIn(text) : 0
  const completion = (tokensIn(text) + audio + reasoning) * (body.n ?? 1)
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: { cached_tokens: 0, audio_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: reasoning * (body.n ?? 1), audio_tokens: audio * (body.n ?? 1) },
  }
}

function logprobs(text: string, top = 0): Body {
  const content = (text.match(/.{1,4}/gsu) ?? []).map(token => {
    const entry = { token, bytes: [...Buffer.from(token)], logprob: -0.1 }
    return { ...entry, top_logprobs: Array.from({ length: top }, () => entry) }
  })
  return { content, refusal: null }
}

function chunksOf(answer: Body, body: Body): Body[] {
  const asked = body.stream_options?.include_usage === true
  const padded = body.stream_options?.include_obfuscation !== false
  const { usage, choices, ...head } = answer
  const chunk = (parts: Body[]) => {
    const extras = { ...(asked && { usage: null }), ...(padded && { obfuscation: 'x9' }) }
    return { ...head, object: 'chat.completion.chunk', choices: parts, ...extras }
  }
  const chunks = choices.flatMap(({ index, message, logprobs: told, finish_reason }: Body) => [
    ...deltasOf(message).map((delta, position) => {
      return chunk([{ index, delta, logprobs: position === 1 ? told : null, finish_reason: null }])
    }),
    chunk([{ index, delta: {}, logprobs: null, finish_reason }]),
  ])
  return asked ? [...chunks, { ...chunk([]), usage }] : chunks
}

/** One chunk of a stream that a test composes; `more` adds to its top level. */
export function chatChunk(delta: object, finish_reason: string | null = null, more: object = {}): object {
  const head = { id: 'chatcmpl-emulated', object: 'chat.completion.chunk', created: 1_795_132_800, model: 'up' }
  return { ...head, choices: [{ index: 0, delta, finish_reason }], ...more }
}

/** Text in pieces of five characters, tool arguments in pieces of three. */
function deltasOf({ content, tool_calls: calls = [], audio, images }: Body): Body[] {
  const deltas: Body[] = [{ role: 'assistant', content: content === null ? null : '', refusal: null }]
  for (const piece of content?.match(/.{1,5}/gsu) ?? []) deltas.push({ content: piece })
  for (const [index, call] of calls.entries()) {
    if (call.custom) {
      deltas.push({ tool_calls: [{ index, ...call }] })
      continue
    }
    deltas.push({ tool_calls: [{ index, ...call, function: { ...call.function, arguments: '' } }] })
    for (const piece of call.function.arguments.match(/.{1,3}/gsu)) {
      deltas.push({ tool_calls: [{ index, function: { arguments: piece } }] })
    }
  }
  if (images) deltas.push({ images })
  if (audio) {
    const { id, transcript, data, expires_at } = audio
    deltas.push({ audio: { id, transcript } }, { audio: { data } }, { audio: { expires_at } })
  }
  return deltas
}

const completions: Reply = async (request, response) => {
  const { body } = request
  const prompts: string[] = [body.prompt].flat()
  const limit = (body.max_tokens ?? 16) * 4
  const choices = prompts.map((prompt, index) => {
    const whole = `Echo: ${prompt}`
    const text = `${body.echo ? prompt : ''}${whole.slice(0, limit)}`
    return { index, text, logprobs: null, finish_reason: whole.length > limit ? 'length' : 'stop' }
  })
  const prompt = tokensIn(prompts.join(''))
  const completion = choices.reduce((sum, { text }) => sum + tokensIn(text), 0)
  const usage = { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion }
  const head = { id: 'cmpl-emulated', object: 'text_completion', created: 1_795_132_800, model: body.model }
  if (!body.stream) return json(200, { ...head, choices, usage })(request, response)
  const asked = body.stream_options?.include_usage === true
  const chunk = (parts: Body[]) => ({ ...head, choices: parts, ...(asked && { usage: null }) })
  const chunks = choices.flatMap(choice => [
    ...(choice.text.match(/.{1,5}/gsu) ?? []).map(text => chunk([{ ...choice, text, finish_reason: null }])),
    chunk([{ ...choice, text: '' }]),
  ])
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  await stream(asked ? [...chunks, { ...chunk([]), usage }] : chunks, response, {})
}

/** The vector of a text: 1, then its length over 1000, then zeros. */
export function vectorOf(text: string, dimensions: number): number[] {
  return Array.from({ length: dimensions }, (_, i) => (i === 0 ? 1 : i === 1 ? Math.fround(text.length / 1000) : 0))
}

const embeddings: Reply = (request, response) => {
  const { input, model, dimensions = 8, encoding_format: format } = request.body
  const inputs: Body[] = typeof input === 'string' || typeof input[0] === 'number' ? [input] : input
  const data = inputs.map((one, index) => {
    const vector = vectorOf(String(one), dimensions)
    const embedding = format === 'base64' ? Buffer.from(Float32Array.from(vector).buffer).toString('base64') : vector
    return { object: 'embedding', index, embedding }
  })
  const tokens = inputs.reduce((sum, one) => sum + (typeof one === 'string' ? tokensIn(one) : one.length), 0)
  return json(200, { object: 'list', data, model, usage: { prompt_tokens: tokens, total_tokens: tokens } })(
    request,
    response,
  )
}
