import { GatewayError } from '../../../base/errors.ts'
import { isRawNumber } from '../../../base/exact-numbers.ts'
import { type Effort, efforts } from '../../../catalog/chat-profile.ts'
import type { ChatRequest } from '../../../kinds/chat.ts'
import type { Call, UpstreamRequest } from '../../contract.ts'
import { cleanChat, noticeableFieldsExcept, ownFields, withDropped } from '../../toolkit/request-fields.ts'
import { conversation } from './contents.ts'

/** Gemini 3 and newer take a thinking level (`traits.thinking` = `level`). */
const levels: Record<Effort, string> = {
  none: 'MINIMAL',
  minimal: 'MINIMAL',
  low: 'LOW',
  medium: 'MEDIUM',
  high: 'HIGH',
  xhigh: 'HIGH',
  max: 'HIGH',
}
/**
 * Gemini 2.5 takes a thinking budget in tokens (`traits.thinking` = `budget`); 24,576 is the maximum that all these
 * models accept.
 */
const budgets: Record<Effort, number> = {
  none: 0,
  minimal: 512,
  low: 1_024,
  medium: 8_192,
  high: 24_576,
  xhigh: 24_576,
  max: 24_576,
}
const maxCandidates = 8
const maxSeed = 2 ** 31 - 1

/** The supported fields; all others have no counterpart in Gemini. */
const supportedFields: ReadonlySet<string> = new Set([
  ...ownFields,
  ...['model', 'messages', 'max_tokens', 'max_completion_tokens', 'stream', 'stream_options', 'stop', 'n', 'seed'],
  ...['temperature', 'top_p', 'presence_penalty', 'frequency_penalty', 'logprobs', 'top_logprobs', 'logit_bias'],
  ...['tools', 'tool_choice', 'response_format', 'modalities', 'reasoning_effort'],
])

/** Converts an OpenAI chat request. Throws a GatewayError 400 naming a required field without a counterpart. */
export function chatRequest(originalCall: Call<'chat'>): UpstreamRequest {
  const { body, dropped } = cleanChat(originalCall.body, 'none')
  const call = { ...originalCall, body }
  const { target } = call
  refuseUnsupported(body)
  const method = body.stream ? 'streamGenerateContent?alt=sse' : 'generateContent'
  const config = toolConfig(body)
  const format = responseFormat(body)
  // "Forced function calling (ANY mode) with a response mime type: 'application/json' is unsupported" (recorded in vercel/ai,
  // google-structured-output-with-tools-error.json; langchain-ai/langchainjs#9126): the answer is a call, to which no format applies.
  const isFormless = config?.functionCallingConfig.mode === 'ANY' && format !== null
  const generationConfig = defined({
    ...sampling(body),
    maxOutputTokens: call.maxTokens ?? body.max_completion_tokens ?? body.max_tokens ?? undefined,
    responseModalities: responseModalities(body),
    ...(isFormless ? null : format),
    thinkingConfig: thinkingConfig(call),
  })
  const content = defined({
    ...conversation(call),
    serviceTier: target.tier,
    tools: tools(body),
    toolConfig: config,
    generationConfig: Object.keys(generationConfig).length > 0 ? generationConfig : undefined,
  })
  const request = {
    method: 'POST' as const,
    path: `/v1beta/models/${target.deployment.upstream_model}:${method}`,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(content),
  }
  const unsent = noticeableFieldsExcept(body, supportedFields)
  return withDropped(request, [...dropped, ...unsent, ...(isFormless ? ['response_format'] : [])])
}

function refuseUnsupported(body: ChatRequest): void {
  const { logit_bias, modalities, n, seed, logprobs, top_logprobs } = body
  if (Object.keys(logit_bias ?? {}).length > 0)
    throw unsupported('logit_bias is not supported by this model.', 'logit_bias')
  if (modalities?.includes('audio')) throw unsupported('This model cannot answer with audio.', 'modalities')
  if ((n ?? 1) > maxCandidates) throw unsupported(`This model gives at most ${maxCandidates} choices.`, 'n')
  if (isRawNumber(seed) || Math.abs(seed ?? 0) > maxSeed) throw unsupported('This model takes a 32-bit seed.', 'seed')
  if (top_logprobs && !logprobs) throw invalid('top_logprobs needs logprobs: true.', 'top_logprobs')
}

function sampling(body: ChatRequest) {
  const stop = typeof body.stop === 'string' ? [body.stop] : body.stop
  return {
    temperature: body.temperature ?? undefined,
    topP: body.top_p ?? undefined,
    presencePenalty: body.presence_penalty ?? undefined,
    frequencyPenalty: body.frequency_penalty ?? undefined,
    candidateCount: body.n ?? undefined,
    seed: body.seed ?? undefined,
    stopSequences: stop?.length ? stop : undefined,
    responseLogprobs: body.logprobs || undefined,
    logprobs: body.top_logprobs || undefined,
  }
}

function responseModalities(body: ChatRequest): string[] | undefined {
  const wanted = new Set(body.modalities)
  return wanted.has('image') ? [...wanted].map(modality => modality.toUpperCase()) : undefined
}

function responseFormat({ response_format: format }: ChatRequest) {
  if (!format || format.type === 'text') return null
  const responseJsonSchema = format.type === 'json_schema' ? format.json_schema.schema : undefined
  return { responseMimeType: 'application/json', responseJsonSchema }
}

function thinkingConfig({ body, target }: Call<'chat'>): object | undefined {
  const effort = efforts.find(name => name === body.reasoning_effort)
  const { thinking, min_thinking, min_thinking_budget } = target.deployment.traits ?? {}
  if (!effort) return undefined
  // Without it the answer has no summaries of thoughts, https://ai.google.dev/gemini-api/docs/thinking#summaries
  const shown = effort === 'none' ? {} : { includeThoughts: true }
  // Level and budget together are rejected upstream, so each model has exactly one of them.
  if (thinking === 'level') {
    // Uses the model's minimum where a lower level is requested.
    const isBelow = min_thinking === 'low' && levels[effort] === 'MINIMAL'
    return { thinkingLevel: isBelow ? 'LOW' : levels[effort], ...shown }
  }
  if (thinking !== 'budget') return undefined
  return { thinkingBudget: Math.max(budgets[effort], min_thinking_budget ?? 0), ...shown }
}

function tools(body: ChatRequest): [{ functionDeclarations: object[] }] | undefined {
  if (!body.tools?.length) return undefined
  const functionDeclarations = body.tools.map((tool, index) => {
    if (tool.type !== 'function')
      throw unsupported('Custom tools are not supported by this model.', `tools.${index}.type`)
    const { name, description, parameters } = tool.function
    return defined({ name, description, parametersJsonSchema: parameters })
  })
  return [{ functionDeclarations }]
}

type ToolConfig = { functionCallingConfig: { mode: string; allowedFunctionNames?: string[] } }

function toolConfig({ tool_choice: choice, tools }: ChatRequest): ToolConfig | undefined {
  if (choice === undefined || (!tools?.length && (choice === 'none' || choice === 'auto' || choice === 'validated')))
    return undefined
  if (!tools?.length) throw invalid('tool_choice needs tools.', 'tool_choice')
  if (choice === 'none') return { functionCallingConfig: { mode: 'NONE' } }
  if (choice === 'auto') return { functionCallingConfig: { mode: 'AUTO' } }
  if (choice === 'validated') return { functionCallingConfig: { mode: 'VALIDATED' } }
  if (choice === 'required') return { functionCallingConfig: { mode: 'ANY' } }
  if (choice.type !== 'function')
    throw unsupported(`A tool_choice of type "${choice.type}" is not supported by this model.`, 'tool_choice.type')
  const { name } = choice.function
  if (!tools.some(tool => tool.type === 'function' && tool.function.name === name)) {
    throw invalid(`No tool is named "${name}".`, 'tool_choice.function.name')
  }
  return { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: [name] } }
}

/** The object without its undefined fields. */
function defined<T extends object>(fields: T): Partial<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Partial<T>
}

function invalid(message: string, param: string): GatewayError {
  return new GatewayError('invalid_request', message, { param })
}

function unsupported(message: string, param: string): GatewayError {
  return new GatewayError('unsupported_capability', message, { param })
}
