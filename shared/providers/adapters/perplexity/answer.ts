import { isObject } from '../../../base/is-object.ts'
import type { Usage } from '../../../base/usage.ts'
import type { ProviderRow } from '../../../catalog/schema.ts'
import type { ChatCompletion, FinishReason, SearchResult, ToolCall, UrlCitation } from '../../../kinds/chat.ts'
import type { Call } from '../../contract.ts'
import { invalidResponse, type Json } from '../../toolkit/json-fields.ts'
import { count, extrasOf, normaliseUsage } from '../openai/answer.ts'
import { reportedFailure } from '../openai/failure.ts'
import { failureOfResponse, responseFrom } from '../openai/responses-answer.ts'
import { builtInTools } from './request.ts'

/** More are left out: an answer of a few thousand tokens has no more marks. */
const maxCitations = 500

/** The parts of an answer that chat completions have. */
type Parts = {
  text: string
  toolCalls: ToolCall[]
  results: SearchResult[]
  finishReason: FinishReason
  usage: Usage | undefined
}

/** Converts a complete answer to a chat completion, with its sources as Sonar's chat completions had them. */
export function completionFrom(json: unknown, { target }: Call<'chat'>): ChatCompletion {
  if (isObject(json) && isObject(json.error) && json.object !== 'response') throw reportedFailure(json)
  const response = responseFrom(json)
  const { text, toolCalls, results, finishReason, usage } = partsOf(response, target.provider)
  const annotations = citationsIn(text, results)
  return {
    id: response.id,
    object: 'chat.completion',
    created: Number.isSafeInteger(response.created_at) ? (response.created_at as number) : 0,
    model: typeof response.model === 'string' ? response.model : target.deployment.upstream_model,
    choices: [
      {
        index: 0,
        message: {
          role: 'assistant',
          content: text === '' ? null : text,
          refusal: null,
          ...(toolCalls.length > 0 && { tool_calls: toolCalls }),
          ...(annotations.length > 0 && { annotations }),
        },
        logprobs: null,
        finish_reason: finishReason,
      },
    ],
    ...sourcesOf(results),
    ...(usage && { usage }),
  }
}

/** The sources of an answer as members of it: `citations` are the URLs of `search_results`. */
export function sourcesOf(results: SearchResult[]): Pick<ChatCompletion, 'citations' | 'search_results'> {
  if (results.length === 0) return {}
  return { citations: results.map(({ url }) => url), search_results: results }
}

/**
 * Reads an answer. Runs that failed have the status 200 (response-and-streaming.md of perplexityai/api-platform-developers). Throws a
 * ProviderError for these, and when it is malformed.
 */
export function partsOf(response: Json & { output: Json[] }, provider: ProviderRow): Parts {
  const { status, output } = response
  if (status === 'failed' || status === 'cancelled') throw failureOfResponse(response)
  if (status !== 'completed' && status !== 'incomplete' && status !== 'requires_action')
    throw invalidResponse('the run has not ended')
  const toolCalls = output.flatMap(toolCallFrom)
  return {
    text: output.flatMap(item => (item.type === 'message' ? textsOf(item) : [])).join(''),
    toolCalls,
    results: output.flatMap(item => (item.type === 'search_results' ? resultsOf(item) : [])),
    finishReason: toolCalls.length > 0 ? 'tool_calls' : status === 'incomplete' ? 'length' : 'stop',
    usage: usageOf(response.usage, provider),
  }
}

function textsOf({ content }: Json): string[] {
  if (!Array.isArray(content)) return []
  return content.flatMap(part =>
    isObject(part) && part.type === 'output_text' && typeof part.text === 'string' ? part.text : [],
  )
}

/** A call of one of the caller's functions; the provider's own tools are shown in the same form while they run. */
export function toolCallFrom(item: Json): ToolCall[] {
  const { type, call_id: id, name, arguments: args } = item
  if (type !== 'function_call' || builtInTools.has(String(name))) return []
  if (typeof id !== 'string' || typeof name !== 'string') throw invalidResponse('a call has no id or name')
  return [{ id, type: 'function', function: { name, arguments: typeof args === 'string' && args ? args : '{}' } }]
}

/** The pages of an item `search_results`. */
export function resultsOf({ results }: Json): SearchResult[] {
  if (!Array.isArray(results)) return []
  return results.flatMap(result => {
    if (!isObject(result) || typeof result.url !== 'string') return []
    const { id, url, title, date, last_updated, snippet, source } = result
    return [{ id: Number(id), title: String(title ?? ''), url, date, last_updated, snippet, source } as SearchResult]
  })
}

/** The marks `[7]` of a text as citations of the results of that id. */
export function citationsIn(text: string, results: readonly SearchResult[]): UrlCitation[] {
  if (results.length === 0) return []
  const byId = new Map(results.map(result => [result.id, result]))
  const citations: UrlCitation[] = []
  for (const { 0: mark, 1: id, index } of text.matchAll(/\[(\d{1,4})\]/g)) {
    const result = byId.get(Number(id))
    if (!result) continue
    const { url, title } = result
    const place = { start_index: index, end_index: index + mark.length }
    citations.push({ type: 'url_citation', url_citation: { ...place, url, title } })
    if (citations.length === maxCitations) break
  }
  return citations
}

/** The usage, with the searches and the cost that it states; undefined when it lacks a count. */
function usageOf(usage: unknown, provider: ProviderRow): Usage | undefined {
  if (!isObject(usage)) return undefined
  const { input_tokens_details: input, output_tokens_details: output, tool_calls_details: tools } = usage
  const written = isObject(input) ? input.cache_creation_input_tokens : undefined
  const read = isObject(input) ? (input.cached_tokens ?? input.cache_read_input_tokens) : undefined
  const own = normaliseUsage({
    prompt_tokens: usage.input_tokens,
    completion_tokens: usage.output_tokens,
    total_tokens: usage.total_tokens,
    prompt_tokens_details: { cached_tokens: read, cache_write_tokens: written },
    completion_tokens_details: output,
  })
  if (!own) return undefined
  const searches = isObject(tools) && isObject(tools.search_web) ? count(tools.search_web.invocation) : undefined
  return { ...own, ...(searches && { web_searches: searches }), ...extrasOf({ usage }, provider) }
}
