import {
  failed,
  rateLimited as limited,
  messageEvents,
  messageReply,
  overloaded,
  sse,
} from '../../emulators/anthropic.ts'
import { checkRequest } from '../../emulators/anthropic-rules.ts'
import { chatRules } from '../../emulators/chat-rules.ts'
import { events, framed, json, type Recorded, type Reply, reset } from '../../emulators/emulator.ts'
import { geminiError, rateLimited as limitedByGoogle } from '../../emulators/gemini.ts'
import { generateFault, isSigning, signaturePrefix } from '../../emulators/gemini-rules.ts'
import { chatChunk, failure, rateLimited as limitedByOpenAi, serverError } from '../../emulators/openai.ts'
import { isReasoner, reasoningState, responsesReply } from '../../emulators/openai-responses.ts'
import type { Answer, Asked, BreakingFault, Fault } from './scripted-model.ts'
import type { Call, Tool } from './tools.ts'

// biome-ignore lint/suspicious/noExplicitAny: bodies of every shape
type Body = any
/** The tokens that a provider states, by the names of the catalog's prices. */
export type Usage = { input: number; cached_input: number; cache_write: number; cache_write_1h: number; output: number }
type RefusingFault = Exclude<Fault, BreakingFault>

/** How an API is asked, and how it answers. */
export type Dialect = {
  /** The model that a request names. */
  modelOf(request: Recorded): string
  read(request: Recorded): Omit<Asked, 'raw'>
  /** What the API refuses in a request. */
  refusalOf(request: Recorded): Reply | null
  usageOf(request: Recorded, answer: Answer): Usage
  reply(request: Recorded, answer: Answer, usage: Usage): Reply
  faults: Record<RefusingFault, Reply>
  /** A stream that begins to answer, and then has an error event or is cut. */
  broken(request: Recorded, answer: Answer, usage: Usage, fault: BreakingFault): Reply
}

const reasoningTokens = 16
let calls = 0
const newId = (prefix: string) => `${prefix}${++calls}`

function textsOf(content: Body): string {
  if (typeof content === 'string') return content
  return (content ?? []).map((part: Body) => part.text ?? '').join('\n')
}

/** The texts after the model's last answer. */
function lastTextOf(messages: Body[], isModels: (message: Body) => boolean, textOf: (message: Body) => string): string {
  return messages
    .slice(messages.findLastIndex(isModels) + 1)
    .map(textOf)
    .join('\n')
}

/** Four bytes are a token; these shares of the prompt are read from the cache and written to it. */
function usageFor({ raw }: Recorded, answer: Answer, share: { read: number; written?: number }, thoughts = 0): Usage {
  const prompt = Math.ceil(raw.length / 4)
  const [read, written] = [Math.floor(prompt * share.read), Math.floor(prompt * (share.written ?? 0))]
  const isFor1h = raw.includes('"ttl":"1h"')
  return {
    input: prompt - read - written,
    cached_input: read,
    cache_write: isFor1h ? 0 : written,
    cache_write_1h: isFor1h ? written : 0,
    output: Math.ceil(JSON.stringify([answer.text, answer.calls.map(({ input }) => input)]).length / 4) + thoughts,
  }
}

/** The beginning of a stream, and how it breaks. */
function brokenStream(pieces: string[], fault: BreakingFault, event: string): Reply {
  const begun = pieces.slice(0, fault === 'early' ? 1 : 3)
  return fault !== 'event' ? events(begun, { end: 'cut', intervalMs: 20 }) : events([...begun, event])
}

const halves = (text: string) => [text.slice(0, 12), text.slice(12)].filter(Boolean)

const anthropicDialect: Dialect = {
  modelOf: ({ body }) => body.model,
  read({ body }) {
    const textOf = ({ content }: Body) =>
      textsOf(typeof content === 'string' ? content : content.filter(({ type }: Body) => type === 'text'))
    const tools = (body.tools ?? []).filter(({ input_schema }: Body) => input_schema)
    return {
      lastText: lastTextOf(body.messages, ({ role }) => role === 'assistant', textOf),
      tools: tools.map(({ name, input_schema: schema }: Body) => ({ name, schema, isCustom: false })),
    }
  },
  refusalOf({ body, headers }) {
    const fault = checkRequest(body, String(headers['anthropic-version']), String(headers['anthropic-beta'] ?? ''))
    return fault === null ? null : failed(400, 'invalid_request_error', fault)
  },
  usageOf: (request, answer) =>
    usageFor(request, answer, request.raw.includes('"cache_control"') ? { read: 0.5, written: 0.25 } : { read: 0 }),
  reply: (_request, answer, usage) => messageReply(messageOf(answer, usage)),
  faults: {
    overloaded,
    limited: limited(1),
    failed: failed(500, 'api_error', 'Internal server error'),
    overflow: failed(400, 'invalid_request_error', 'prompt is too long: 214000 tokens > 200000 maximum'),
  },
  broken(request, answer, usage, fault) {
    if (!request.body.stream) return fault !== 'event' ? reset : this.faults.failed
    const message = {
      ...messageOf(answer, usage),
      id: 'msg_b',
      type: 'message',
      role: 'assistant',
      model: request.body.model,
    }
    const pieces = messageEvents({ stop_sequence: null, stop_details: null, ...message } as never).map(sse)
    return brokenStream(
      pieces,
      fault,
      sse({ type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } } as never),
    )
  },
}

function messageOf({ text, calls }: Answer, { input, cached_input, cache_write, cache_write_1h, output }: Usage) {
  const uses = calls.map(({ tool, input }) => ({ type: 'tool_use', id: newId('toolu_'), name: tool.name, input }))
  return {
    content: [{ type: 'text', text }, ...uses],
    stop_reason: calls.length > 0 ? 'tool_use' : 'end_turn',
    usage: {
      input_tokens: input,
      cache_creation_input_tokens: cache_write + cache_write_1h,
      cache_read_input_tokens: cached_input,
      cache_creation: { ephemeral_5m_input_tokens: cache_write, ephemeral_1h_input_tokens: cache_write_1h },
      output_tokens: output,
    },
  }
}

const openAiFaults: Record<RefusingFault, Reply> = {
  overloaded: failure(503, 'The server is currently overloaded.', 'server_error', 'server_is_overloaded'),
  limited: limitedByOpenAi('1'),
  failed: serverError,
  overflow: failure(
    400,
    "This model's maximum context length is 128000 tokens. However, your messages resulted in 140000 tokens. Please reduce the length of the messages.",
    'invalid_request_error',
    'context_length_exceeded',
  ),
}
const openAiError = { message: 'The server had an error.', type: 'server_error', param: null, code: null }

const chatDialect: Dialect = {
  modelOf: ({ body }) => body.model,
  read: ({ body }) => ({
    lastText: lastTextOf(
      body.messages,
      ({ role }) => role === 'assistant',
      ({ role, content }) => (role === 'user' ? textsOf(content) : ''),
    ),
    tools: (body.tools ?? []).map(({ type, custom, function: fn }: Body): Tool => {
      return { name: (fn ?? custom).name, schema: fn?.parameters, isCustom: type === 'custom' }
    }),
  }),
  refusalOf: ({ body }) => chatRules.openai.map(rule => rule.refusal(body)).find(Boolean) || null,
  usageOf: (request, answer) =>
    usageFor(request, answer, { read: 0.3 }, isReasoner(request.body.model) ? reasoningTokens : 0),
  reply(request, answer, usage) {
    if (request.body.stream) return events([framed(chatChunks(answer, usage)), 'data: [DONE]\n\n'])
    const choices = [{ index: 0, message: chatMessage(answer), logprobs: null, finish_reason: finishOf(answer) }]
    return json(200, { ...chatChunk({}), object: 'chat.completion', choices, usage: chatUsage(usage) })
  },
  faults: openAiFaults,
  broken(request, answer, usage, fault) {
    if (!request.body.stream) return fault !== 'event' ? reset : serverError
    const pieces = chatChunks(answer, usage).map(chunk => framed([chunk]))
    return brokenStream(pieces, fault, framed([{ error: openAiError }]))
  },
}

const finishOf = ({ calls }: Answer) => (calls.length > 0 ? 'tool_calls' : 'stop')

function chatMessage({ text, calls }: Answer): Body {
  const tool_calls = calls.map(({ tool: { name, isCustom }, input }) => {
    const id = newId('call_')
    if (isCustom) return { id, type: 'custom', custom: { name, input } }
    return { id, type: 'function', function: { name, arguments: JSON.stringify(input) } }
  })
  return { role: 'assistant', content: text, refusal: null, ...(calls.length > 0 && { tool_calls }) }
}

function chatChunks(answer: Answer, usage: Usage): object[] {
  const { content, tool_calls = [] } = chatMessage(answer)
  const deltas = tool_calls.flatMap((call: Body, index: number) => {
    if (call.custom) return [{ tool_calls: [{ index, ...call }] }]
    const head = { index, ...call, function: { ...call.function, arguments: '' } }
    const pieces = halves(call.function.arguments).map(part => ({ index, function: { arguments: part } }))
    return [head, ...pieces].map(piece => ({ tool_calls: [piece] }))
  })
  return [
    chatChunk({ role: 'assistant', content: '' }),
    ...halves(content).map(part => chatChunk({ content: part })),
    ...deltas.map((delta: object) => chatChunk(delta)),
    chatChunk({}, finishOf(answer)),
    { ...chatChunk({}), choices: [], usage: chatUsage(usage) },
  ]
}

function chatUsage({ input, cached_input, output }: Usage): object {
  const prompt_tokens = input + cached_input
  return {
    prompt_tokens,
    completion_tokens: output,
    total_tokens: prompt_tokens + output,
    prompt_tokens_details: { cached_tokens: cached_input, audio_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 0, audio_tokens: 0 },
  }
}

const responsesDialect: Dialect = {
  modelOf: ({ body }) => body.model,
  read({ body }) {
    const items: Body[] = typeof body.input === 'string' ? [{ role: 'user', content: body.input }] : body.input
    const isModels = ({ type, role }: Body) => role === 'assistant' || /_call$|reasoning/.test(type ?? '')
    const tools = (body.tools ?? []).flatMap((tool: Body) =>
      tool.type === 'namespace' ? tool.tools.map((one: Body) => ({ ...one, namespace: tool.name })) : [tool],
    )
    return {
      lastText: lastTextOf(items, isModels, ({ role, content }) => (role === 'user' ? textsOf(content) : '')),
      tools: tools
        .filter(({ name }: Body) => name)
        .map(({ name, parameters: schema, type, namespace }: Body): Tool => {
          return { name, schema, isCustom: type === 'custom', ...(namespace && { namespace }) }
        }),
    }
  },
  /** The emulator's own reply checks the request. */
  refusalOf: () => null,
  usageOf: (request, answer) =>
    usageFor(request, answer, { read: 0.3 }, isReasoner(request.body.model) ? reasoningTokens : 0),
  reply: ({ body }, answer, usage) =>
    responsesReply({ output: outputOf(body, answer), details: responsesUsage(usage) }),
  faults: openAiFaults,
  broken: ({ body }, answer, usage, fault) =>
    responsesReply({
      output: outputOf(body, answer),
      details: responsesUsage(usage),
      ...(fault === 'event' ? { failAfter: 4 } : { cutAfter: fault === 'early' ? 1 : 4 }),
    }),
}

function outputOf({ model }: Body, { text, calls }: Answer): Body[] {
  const thought = { type: 'reasoning', id: newId('rs_'), summary: [], encrypted_content: reasoningState }
  const content = [{ type: 'output_text', text, annotations: [], logprobs: [] }]
  const message = { type: 'message', id: newId('msg_'), role: 'assistant', status: 'completed', content }
  return [...(isReasoner(model) ? [thought] : []), message, ...calls.map(callItem)]
}

function callItem({ tool: { name, isCustom, namespace }, input }: Call): Body {
  const head = { call_id: newId('call_'), name, status: 'completed', ...(namespace && { namespace }) }
  if (isCustom) return { type: 'custom_tool_call', id: newId('ctc_'), ...head, input }
  return { type: 'function_call', id: newId('fc_'), ...head, arguments: JSON.stringify(input) }
}

function responsesUsage({ input, cached_input, output }: Usage): object {
  return {
    input_tokens: input + cached_input,
    input_tokens_details: { cached_tokens: cached_input, cache_write_tokens: 0 },
    output_tokens: output,
    total_tokens: input + cached_input + output,
  }
}

const geminiModel = ({ path }: Recorded) => /\/models\/([^/:]+):/.exec(path)?.[1] ?? ''
const isGeminiStream = ({ path }: Recorded) => path.endsWith(':streamGenerateContent')

const geminiDialect: Dialect = {
  modelOf: geminiModel,
  read({ body }) {
    const textOf = ({ parts }: Body) => textsOf(parts.filter(({ functionResponse }: Body) => !functionResponse))
    const declarations = (body.tools ?? []).flatMap(({ functionDeclarations }: Body) => functionDeclarations ?? [])
    return {
      lastText: lastTextOf(body.contents, ({ role }) => role === 'model', textOf),
      tools: declarations.map(({ name, parameters, parametersJsonSchema }: Body) => {
        return { name, schema: parametersJsonSchema ?? parameters, isCustom: false }
      }),
    }
  },
  refusalOf(request) {
    const fault = generateFault(geminiModel(request), request.body)
    return fault === null ? null : geminiError(400, 'INVALID_ARGUMENT', fault)
  },
  usageOf: (request, answer) => usageFor(request, answer, { read: 0.3 }, reasoningTokens),
  reply(request, answer, usage) {
    const steps = geminiSteps(request, answer, usage)
    if (isGeminiStream(request)) return events([framed(steps, { eol: '\r\n' })])
    const parts = steps.flatMap(({ candidates }) => candidates[0].content.parts).filter(({ text }: Body) => text !== '')
    return json(200, {
      ...steps.at(-1),
      candidates: [{ content: { role: 'model', parts }, index: 0, finishReason: 'STOP' }],
    })
  },
  faults: {
    overloaded: geminiError(503, 'UNAVAILABLE', 'The model is overloaded. Please try again later.'),
    limited: limitedByGoogle('1s'),
    failed: geminiError(500, 'INTERNAL', 'An internal error has occurred.'),
    overflow: geminiError(
      400,
      'INVALID_ARGUMENT',
      'The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).',
    ),
  },
  broken(request, answer, usage, fault) {
    if (!isGeminiStream(request)) return fault !== 'event' ? reset : this.faults.failed
    const begun = geminiSteps(request, answer, usage)
    const error = {
      error: { code: 503, message: 'The model is overloaded. Please try again later.', status: 'UNAVAILABLE' },
    }
    return brokenStream(
      begun.map(step => framed([step], { eol: '\r\n' })),
      fault,
      framed([error], { eol: '\r\n' }),
    )
  },
}

/** The events of an answer. Gemini 3 signs the first call, or ends a text with a signature. */
function geminiSteps(request: Recorded, { text, calls }: Answer, usage: Usage): Body[] {
  const model = geminiModel(request)
  const thoughtSignature = Buffer.from(`${signaturePrefix}${newId('')}`).toString('base64')
  const signed = (isFirst: boolean) => (isSigning(model) && isFirst ? { thoughtSignature } : {})
  const parts = [
    ...halves(text).map(half => ({ text: half })),
    ...calls.map(({ tool: { name }, input }, index) => {
      const functionCall = { name, args: input, ...(isSigning(model) && { id: newId('fc') }) }
      return { functionCall, ...signed(index === 0) }
    }),
    { text: '', ...signed(calls.length === 0) },
  ]
  const usageMetadata = {
    promptTokenCount: usage.input + usage.cached_input,
    cachedContentTokenCount: usage.cached_input,
    candidatesTokenCount: usage.output - reasoningTokens,
    thoughtsTokenCount: reasoningTokens,
    totalTokenCount: usage.input + usage.cached_input + usage.output,
  }
  return parts.map((part, index) => {
    const finish = index === parts.length - 1 && { finishReason: 'STOP' }
    return {
      candidates: [{ content: { role: 'model', parts: [part] }, index: 0, ...finish }],
      usageMetadata,
      modelVersion: model,
    }
  })
}

/** The dialect of a request to a provider; null for what generates no text. */
export function dialectOf(provider: string, { path, method }: Recorded): Dialect | null {
  if (method !== 'POST') return null
  if (provider === 'anthropic') return path === '/v1/messages' ? anthropicDialect : null
  if (provider === 'gemini') return /:(streamG|g)enerateContent$/.test(path) ? geminiDialect : null
  if (path === '/v1/responses') return responsesDialect
  return path === '/v1/chat/completions' ? chatDialect : null
}
