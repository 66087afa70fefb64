import { newId } from '../../../base/ids.ts'
import { isObject } from '../../../base/is-object.ts'
import { unixNow } from '../../../base/time.ts'
import { isCount, type Usage } from '../../../base/usage.ts'
import { type ChatCompletion, type FinishReason, finishWith, type ToolCall } from '../../../kinds/chat.ts'
import { finishReasonOf } from '../../../kinds/messages-usage.ts'
import type { ReasoningDetail } from '../../../kinds/reasoning.ts'
import type { Call } from '../../contract.ts'
import { ProviderError } from '../../provider-error.ts'
import { calledName } from '../../toolkit/called-name.ts'
import { invalidResponse, type Json, objectIn, textIn } from '../../toolkit/json-fields.ts'
import { redactedDetail, thinkingDetail } from '../../toolkit/signed-thinking.ts'

/**
 * The finish reason for a `stopReason`. Throws a ProviderError `model_fault` where the model wrote what the service could
 * not read.
 */
export function finishReason(stopReason: string, hasCalls: boolean): FinishReason {
  switch (stopReason) {
    case 'guardrail_intervened':
    case 'content_filtered':
      return 'content_filter'
    case 'malformed_tool_use':
      throw unusable('tool_use_failed')
    case 'malformed_model_output':
      throw unusable('output_parse_failed')
    default:
      return finishWith(finishReasonOf(stopReason), hasCalls ? 'tool_calls' : null)
  }
}

function unusable(code: 'tool_use_failed' | 'output_parse_failed'): ProviderError {
  const modelFault = { code, generation: null }
  return new ProviderError('model_fault', 'The model wrote an answer that its provider cannot read.', { modelFault })
}

/** Converts a complete answer to a chat completion. Throws a ProviderError `invalid_response` when it is malformed. */
export function completionFrom(json: unknown, { target }: Call<'chat'>): ChatCompletion {
  const answer = objectIn(json, 'answer')
  const { message } = objectIn(answer.output, 'output')
  const { content } = objectIn(message, 'message')
  if (!Array.isArray(content)) throw invalidResponse('content is not a list')
  const stopReason = textIn(answer.stopReason, 'stopReason')
  const pieces = readBlocks(content)
  const usage = usageFrom(answer.usage)
  return {
    id: newId('chatcmpl'),
    object: 'chat.completion',
    created: unixNow(),
    model: target.deployment.upstream_model,
    choices: [
      {
        index: 0,
        message: {
          role: 'assistant',
          content: pieces.texts.length > 0 ? pieces.texts.join('') : null,
          refusal: null,
          ...(pieces.reasoning && { reasoning_content: pieces.reasoning }),
          ...(pieces.details.length > 0 && { reasoning_details: pieces.details }),
          ...(pieces.toolCalls.length > 0 && { tool_calls: pieces.toolCalls }),
        },
        logprobs: null,
        finish_reason: finishReason(stopReason, pieces.toolCalls.length > 0),
      },
    ],
    ...(usage && { usage }),
  }
}

/** Blocks of other types are ignored, as the SDKs do. */
function readBlocks(content: readonly unknown[]) {
  const texts: string[] = []
  const details: ReasoningDetail[] = []
  const toolCalls: ToolCall[] = []
  let reasoning = ''
  for (const item of content) {
    const block = objectIn(item, 'content block')
    if (block.text !== undefined) texts.push(textIn(block.text, 'text'))
    if (block.citationsContent !== undefined) texts.push(citedText(block.citationsContent))
    if (block.toolUse !== undefined) toolCalls.push(toolCallFrom(objectIn(block.toolUse, 'toolUse')))
    if (block.reasoningContent === undefined) continue
    const { reasoningText, redactedContent } = objectIn(block.reasoningContent, 'reasoningContent')
    if (redactedContent !== undefined)
      details.push(redactedDetail(details.length, textIn(redactedContent, 'redactedContent')))
    if (reasoningText === undefined) continue
    const { text, signature } = objectIn(reasoningText, 'reasoningText')
    reasoning += textIn(text, 'reasoning text')
    details.push(thinkingDetail(details.length, text as string, signature))
  }
  return { texts, details, toolCalls, reasoning }
}

/** The text of a block with citations. */
function citedText(block: unknown): string {
  const { content } = objectIn(block, 'citationsContent')
  return Array.isArray(content) ? content.map(part => String(objectIn(part, 'cited text').text ?? '')).join('') : ''
}

function toolCallFrom({ toolUseId, name, input }: Json): ToolCall {
  return {
    id: textIn(toolUseId, 'toolUseId'),
    type: 'function',
    function: {
      name: calledName(textIn(name, 'tool name')),
      arguments: JSON.stringify(objectIn(input ?? {}, 'tool input')),
    },
  }
}

/** The usage; undefined when it lacks a count. `inputTokens` excludes cache reads and writes. */
export function usageFrom(value: unknown): Usage | undefined {
  if (!isObject(value) || !isCount(value.inputTokens) || !isCount(value.outputTokens)) return undefined
  const { inputTokens, outputTokens } = value
  const read = isCount(value.cacheReadInputTokens) ? value.cacheReadInputTokens : 0
  const written = isCount(value.cacheWriteInputTokens) ? value.cacheWriteInputTokens : 0
  const written1h = writtenFor1h(value.cacheDetails)
  const prompt = inputTokens + read + written
  return {
    prompt_tokens: prompt,
    completion_tokens: outputTokens,
    total_tokens: prompt + outputTokens,
    ...((read > 0 || written > 0) && {
      prompt_tokens_details: {
        cached_tokens: read,
        cache_write_tokens: written,
        ...(written1h > 0 && { cache_write_1h_tokens: Math.min(written1h, written) }),
      },
    }),
  }
}

function writtenFor1h(details: unknown): number {
  if (!Array.isArray(details)) return 0
  return details.reduce((sum: number, one: unknown) => {
    const counts = isObject(one) && one.ttl === '1h' && isCount(one.inputTokens)
    return counts ? sum + (one.inputTokens as number) : sum
  }, 0)
}
