import { EventStreamCodec } from '@smithy/eventstream-codec'
import { fromUtf8, toUtf8 } from '@smithy/util-utf8'
import { failed as anthropicFailed, anthropicReply } from './anthropic.ts'
import { type AccessKey, denied, signatureFault } from './aws-signature.ts'
import { converseFault } from './bedrock-rules.ts'
import { jsonWordMissing, lacksJsonWord, refused } from './chat-rule.ts'
import { Emulator, json, type Recorded, type Reply } from './emulator.ts'
import { reply as openAiReply } from './openai.ts'

// biome-ignore lint/suspicious/noExplicitAny: request bodies of every shape
type Any = any

export type BedrockOptions = {
  region?: string
  keys?: readonly AccessKey[]
  /** API keys; any is accepted if there are none. */
  tokens?: readonly string[]
  now?: () => number
}

/**
 * The runtime of Amazon Bedrock in one region: checks bearer tokens and signatures, refuses what Converse refuses, echoes the
 * last user message, and calls a tool when the user mentions the weather. It has Converse, InvokeModel for embeddings, and
 * the routes in the shapes of Anthropic (`/anthropic`) and OpenAI (`/openai/v1`).
 */
export function startBedrockEmulator(options: BedrockOptions = {}): Promise<Emulator> {
  return Emulator.start(bedrockReply(options))
}

export function bedrockReply({ region = 'us-east-1', keys = [], tokens = [], now = Date.now }: BedrockOptions): Reply {
  const anthropic = anthropicReply(now)
  const cache = new Set<string>()
  return (request, response) => {
    const fault = authFault(request, { region, keys, tokens, now })
    if (fault) return fault(request, response)
    const asBearer = { ...request.headers, authorization: 'Bearer checked' }
    const { path } = request
    const beta = path.startsWith('/anthropic/') && unknownBeta(String(request.headers['anthropic-beta'] ?? ''))
    if (beta) return anthropicFailed(400, 'invalid_request_error', 'invalid beta flag')(request, response)
    if (path.startsWith('/anthropic/') && hasImageUrl(request.body))
      return anthropicFailed(400, 'invalid_request_error', onlyBase64)(request, response)
    if (path.startsWith('/anthropic/'))
      return anthropic({ ...request, path: path.slice(10), headers: asBearer }, response)
    if (path.startsWith('/openai/') && /gpt-oss/.test(request.body?.model))
      return json(200, thoughtful)(request, response)
    // LiteLLM 1.110.2, `bedrock_request_needs_converse`.
    if (path.startsWith('/openai/') && lacksJsonWord(request.body ?? {}))
      return refused(jsonWordMissing, 'messages')(request, response)
    if (path.startsWith('/openai/'))
      return openAiReply({ ...request, path: path.slice(7), headers: asBearer }, response)
    return runtimeReply(request, cache)(request, response)
  }
}

/** gpt-oss in OpenAI's API: its thoughts are in the content (CherryHQ/cherry-studio#10225; LiteLLM 1.110.2, `split_reasoning_tag`). */
const thoughtful = {
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 1,
  model: 'openai.gpt-oss-120b-1:0',
  choices: [
    {
      index: 0,
      finish_reason: 'stop',
      message: { role: 'assistant', content: '<reasoning>They greet me.</reasoning>Echo: Hello' },
    },
  ],
  usage: { prompt_tokens: 1, completion_tokens: 9, total_tokens: 10 },
}

/** "Base64 image sources only", at Vertex AI as well: platform.claude.com/docs/en/build-with-claude/vision. */
export const onlyBase64 =
  "messages.0.content.0.image.source.type: Input tag 'url' found using 'type' does not match 'base64'"

export function hasImageUrl(body: unknown): boolean {
  return JSON.stringify(body ?? null).includes('"source":{"type":"url"')
}

/** As tried one by one in router-for-me/CLIProxyAPI#4750, and as AWS lists them (BerriAI/litellm#19877). */
const knownBetas =
  /^(?:claude-code-20250219|interleaved-thinking-2025-05-14|context-management-2025-06-27|structured-outputs-2025-12-15|computer-use-202[45]-\d\d-\d\d|token-efficient-tools-2025-02-19|output-128k-2025-02-19|dev-full-thinking-2025-05-14|context-1m-2025-08-07|effort-2025-11-24|tool-search-tool-2025-10-19|tool-examples-2025-10-29|compact-2026-01-12)$/

function unknownBeta(header: string): boolean {
  return header.split(',').some(name => name.trim() !== '' && !knownBetas.test(name.trim()))
}

function authFault(request: Recorded, { region, keys, tokens, now }: Required<BedrockOptions>): Reply | null {
  const { authorization = '' } = request.headers
  const token = /^Bearer (\S+)$/.exec(authorization)?.[1]
  if (token !== undefined) {
    const isKnown = tokens.length === 0 || tokens.includes(token)
    return isKnown
      ? null
      : denied(403, 'AccessDeniedException', 'Authentication failed: Please make sure your API Key is valid.')
  }
  if (!authorization) return denied(403, 'MissingAuthenticationTokenException', 'Missing Authentication Token')
  return signatureFault(request, { keys, region, service: 'bedrock', now })
}

function runtimeReply({ method, path, body }: Recorded, cache: Set<string>): Reply {
  if (method === 'GET' && path === '/async-invoke') return json(200, { asyncInvokeSummaries: [] })
  const [, model = '', operation] = /^\/model\/([^/]+)\/(converse|converse-stream|invoke)$/.exec(path) ?? []
  if (method !== 'POST' || !operation) return failed('UnknownOperationException', '', 404)
  const id = decodeURIComponent(model)
  // Newer models have profiles only (anthropics/anthropic-sdk-python#894).
  if (/^anthropic\.claude-(?:[a-z]+-)?[45]/.test(id))
    return failed(
      'ValidationException',
      `Invocation of model ID ${id} with on-demand throughput isn’t supported. Retry your request with the ID or ARN of an inference profile that contains this model.`,
    )
  if (operation === 'invoke') return invoked(id, body)
  if (body === null) return failed('SerializationException', 'The body is not JSON.')
  const fault = converseFault(body, id)
  if (fault) return failed(fault.type, fault.message, fault.status)
  const answer = answerTo(body, id, cache)
  return converseReply(answer)
}

/** An error answer of the runtime, its name in the header as botocore's parsers expect it. */
export function failed(type: string, message: string, status = 400, headers: Record<string, string> = {}): Reply {
  return json(
    status,
    { message },
    { 'x-amzn-requestid': 'emulated', 'x-amzn-errortype': `${type}:http://internal.amazon.com/coral/`, ...headers },
  )
}

export const throttled = failed('ThrottlingException', 'Too many requests, please wait before trying again.', 429)
export const unavailable = failed('ServiceUnavailableException', 'Bedrock is unable to process your request.', 503)
export const notReady = failed('ModelNotReadyException', 'The model is not ready for inference.', 429)

export type ConverseAnswer = { content: Any[]; stopReason: string; usage: Record<string, unknown> }

/** Answers with this, whole or streamed as the path asks. */
export function converseReply({
  content = [],
  stopReason = 'end_turn',
  usage = countsOf(10, 5),
}: Partial<ConverseAnswer>): Reply {
  return (request, response) => {
    if (!request.path.endsWith('-stream')) {
      const output = { message: { role: 'assistant', content } }
      return json(200, { metrics: { latencyMs: 5 }, output, stopReason, usage })(request, response)
    }
    return frames(converseEvents({ content, stopReason, usage }))(request, response)
  }
}

type Frame = { type: string; payload: Any; exception?: boolean }

/** The events of an answer, texts in pieces of five characters. */
export function converseEvents({ content, stopReason, usage }: ConverseAnswer): Frame[] {
  const list: Frame[] = [{ type: 'messageStart', payload: { p: 'abcdef', role: 'assistant' } }]
  for (const [contentBlockIndex, block] of content.entries()) {
    const { toolUse } = block
    const { toolUseId, name } = toolUse ?? {}
    if (toolUse)
      list.push({ type: 'contentBlockStart', payload: { contentBlockIndex, start: { toolUse: { toolUseId, name } } } })
    for (const delta of deltasOf(block))
      list.push({ type: 'contentBlockDelta', payload: { contentBlockIndex, delta, p: 'abc' } })
    list.push({ type: 'contentBlockStop', payload: { contentBlockIndex, p: 'ab' } })
  }
  list.push({ type: 'messageStop', payload: { stopReason } })
  list.push({ type: 'metadata', payload: { metrics: { latencyMs: 5 }, usage } })
  return list
}

function deltasOf({ text, toolUse, reasoningContent }: Any): Any[] {
  if (text !== undefined) return inFives(text).map(piece => ({ text: piece }))
  if (toolUse) {
    const input = JSON.stringify(toolUse.input)
    return input === '{}' ? [] : inFives(input).map(piece => ({ toolUse: { input: piece } }))
  }
  const { redactedContent, reasoningText } = reasoningContent
  if (redactedContent) return [{ reasoningContent: { redactedContent } }]
  const pieces = inFives(reasoningText.text).map(piece => ({ reasoningContent: { text: piece } }))
  return [...pieces, { reasoningContent: { signature: reasoningText.signature } }]
}

function inFives(text: string): string[] {
  return text.match(/.{1,5}/gsu) ?? []
}

/** An exception within a stream. */
export function exception(type: string, message: string, more: object = {}): Frame {
  return { type, payload: { message, ...more }, exception: true }
}

const codec = new EventStreamCodec(toUtf8, fromUtf8)

/** The bytes of a frame. */
export function frameOf({ type, payload, exception: isException = false }: Frame): Buffer {
  const header = (value: string) => ({ type: 'string' as const, value })
  const headers = {
    [isException ? ':exception-type' : ':event-type']: header(type),
    ':content-type': header('application/json'),
    ':message-type': header(isException ? 'exception' : 'event'),
  }
  return Buffer.from(codec.encode({ headers, body: fromUtf8(JSON.stringify(payload)) }))
}

/** A stream of these frames, or bytes as they are, each sent once the one before has left; `end` as in `events`. */
export function frames(
  list: readonly (Frame | Buffer)[],
  { end = 'close' }: { end?: 'close' | 'cut' | 'hang' } = {},
): Reply {
  return async (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/vnd.amazon.eventstream', 'x-amzn-requestid': 'emulated' })
    for (const one of list) {
      if (response.destroyed) return
      const bytes = Buffer.isBuffer(one) ? one : frameOf(one)
      await new Promise(resolve => response.write(bytes, resolve))
    }
    if (end === 'cut') response.socket?.resetAndDestroy()
    else if (end === 'close') response.end()
  }
}

function countsOf(input: number, output: number, more: object = {}): Record<string, unknown> {
  return { inputTokens: input, outputTokens: output, totalTokens: input + output, serverToolUsage: {}, ...more }
}

function tokens(value: unknown): number {
  return Math.ceil((typeof value === 'string' ? value : JSON.stringify(value ?? '')).length / 4)
}

function answerTo(body: Any, model: string, cache: Set<string>): ConverseAnswer {
  const last = body.messages.at(-1)
  const text = last.content.flatMap(textsOf).join(' ')
  const { thinking, reasoningConfig, reasoning_effort } = body.additionalModelRequestFields ?? {}
  const isThinking = (thinking && thinking.type !== 'disabled') || reasoningConfig || reasoning_effort
  const signature = model.includes('anthropic') ? { signature: 'c2lnbmVk' } : {}
  const thoughts = isThinking ? [{ reasoningContent: { reasoningText: { text: 'Let me think.', ...signature } } }] : []
  const calls = callsFor(body, text, last)
  const whole = body.outputConfig?.textFormat ? '{"answer":"text"}' : `Echo: ${text}`
  const max = body.inferenceConfig?.maxTokens ?? 4096
  const isCut = tokens(whole) > max
  const content = calls.length > 0 ? [...thoughts, ...calls] : [...thoughts, { text: whole.slice(0, max * 4) }]
  const stopReason = calls.length > 0 ? 'tool_use' : isCut ? 'max_tokens' : 'end_turn'
  return { content, stopReason, usage: usageOf(body, tokens(content), cache) }
}

/** What is before the last cache point is written once, and read afterwards; `inputTokens` is the rest. */
function usageOf(body: Any, output: number, cache: Set<string>): Record<string, unknown> {
  const blocks = [
    ...(body.toolConfig?.tools ?? []),
    ...(body.system ?? []),
    ...body.messages.flatMap((one: Any) => one.content),
  ]
  const at = blocks.findLastIndex(block => block.cachePoint)
  const cached = tokens(blocks.slice(0, at + 1).filter(block => !block.cachePoint))
  const rest = tokens(blocks.slice(at + 1))
  if (at < 0) return countsOf(rest, output)
  const key = JSON.stringify(blocks.slice(0, at))
  const isKnown = cache.has(key)
  cache.add(key)
  const { ttl = '5m' } = blocks[at].cachePoint
  return countsOf(rest, output, {
    cacheReadInputTokens: isKnown ? cached : 0,
    cacheWriteInputTokens: isKnown ? 0 : cached,
    cacheDetails: isKnown ? [] : [{ ttl, inputTokens: cached }],
  })
}

function callsFor({ toolConfig, additionalModelRequestFields: fields }: Any, text: string, last: Any): Any[] {
  const specs = (toolConfig?.tools ?? []).flatMap((tool: Any) => tool.toolSpec ?? [])
  const { any, tool } = toolConfig?.toolChoice ?? {}
  const own = fields?.tool_choice?.type
  const isAnswered = last.content.some((block: Any) => block.toolResult)
  const isForced = any || tool || own === 'any' || own === 'tool'
  if (specs.length === 0 || own === 'none' || !(isForced || (/weather/i.test(text) && !isAnswered))) return []
  const spec = specs.find((one: Any) => one.name === tool?.name) ?? specs[0]
  const field = Object.keys(spec.inputSchema.json.properties ?? {})[0]
  const cities = ['Oslo', 'Rome', 'Paris'].filter(city => text.includes(city))
  const wanted = (cities.length > 0 ? cities : ['Oslo']).slice(
    0,
    fields?.tool_choice?.disable_parallel_tool_use ? 1 : 3,
  )
  return wanted.map((city, index) => ({
    toolUse: { toolUseId: `tooluse_${index + 1}`, name: spec.name, input: field ? { [field]: city } : {} },
  }))
}

function textsOf(block: Any): string[] {
  if (block.text !== undefined) return [block.text]
  if (block.toolResult) return block.toolResult.content.flatMap(textsOf)
  return block.cachePoint ? [] : [`[${Object.keys(block)[0]}]`]
}

const vectorOf = (length: number) => Array.from({ length }, (_, index) => (index % 2 === 0 ? 0.25 : -0.5))

/** Titan's and Cohere's embeddings. */
function invoked(model: string, body: Any): Reply {
  if (model.includes('titan-embed')) {
    const { inputText, dimensions = 1024, ...others } = body ?? {}
    if (typeof inputText !== 'string' || inputText === '' || Object.keys(others).some(name => name !== 'normalize'))
      return failed(
        'ValidationException',
        'Malformed input request: expected minLength: 1, actual: 0, please reformat your input and try again.',
      )
    if (![256, 512, 1024].includes(dimensions))
      return failed('ValidationException', `Malformed input request: ${dimensions} is not a valid enum value`)
    return json(200, { embedding: vectorOf(dimensions), inputTextTokenCount: tokens(inputText) })
  }
  const { texts, input_type: type, output_dimension: dimension = 1536 } = body ?? {}
  if (!Array.isArray(texts) || texts.length === 0 || texts.length > 96 || !type)
    return failed(
      'ValidationException',
      'Malformed input request: required key [input_type] not found, please reformat your input and try again.',
    )
  const float = texts.map(() => vectorOf(dimension))
  // vercel/ai#15973
  const counted = { 'x-amzn-bedrock-input-token-count': String(texts.length * 100) }
  return json(200, { id: 'emulated', embeddings: { float }, response_type: 'embeddings_by_type', texts }, counted)
}
