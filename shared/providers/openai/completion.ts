import type { ProviderRow } from '../../catalog/schema.ts'
import type { Completion, CompletionChoice } from '../../kinds/completion.ts'
import type { DirectAdapter } from '../contract.ts'
import { decoder, finishReason } from './decoder.ts'
import { reportedFailure } from './failure.ts'
import { invalid, isObject, type Json } from './json.ts'
import { askForUsage, draft, post } from './request.ts'
import { extrasOf, normaliseUsage } from './usage.ts'

/** `POST /completions`, the legacy text completions. */
export const completion: DirectAdapter<'completion'> = {
  native: true,
  request(call) {
    const request = draft('completion', call)
    askForUsage(request)
    if (call.maxTokens !== null && call.body.max_tokens !== call.maxTokens) request.changes.max_tokens = call.maxTokens
    return post('/completions', request)
  },
  answer(json, { target }) {
    if (!isObject(json)) throw invalid('it is not an object')
    if (isObject(json.error)) throw reportedFailure(json)
    if (!Array.isArray(json.choices) || json.choices.length === 0) throw invalid('it has no choices')
    const choices = json.choices.map(choiceFrom)
    return {
      ...head(json, target.provider),
      choices: choices.map(choice => ({ ...choice, finish_reason: choice.finish_reason ?? 'stop' })),
    }
  },
  stream: ({ target }) => decoder(json => chunkFrom(json, target.provider)),
}

function chunkFrom(json: Json, provider: ProviderRow): Completion | null {
  const chunk = head(json, provider)
  if (!Array.isArray(json.choices)) return chunk.usage ? chunk : null
  return { ...chunk, choices: json.choices.map(choiceFrom) }
}

function head(json: Json, provider: ProviderRow): Completion {
  const { usage, obfuscation: _padding, provider: _route, ...others } = json
  const counted = normaliseUsage(usage)
  return {
    ...others,
    id: typeof json.id === 'string' ? json.id : '',
    object: 'text_completion',
    created: typeof json.created === 'number' ? json.created : Math.floor(Date.now() / 1000),
    model: typeof json.model === 'string' ? json.model : '',
    choices: [],
    ...(counted && { usage: { ...counted, ...extrasOf(json, provider) } }),
  }
}

function choiceFrom(choice: unknown, position: number): CompletionChoice {
  if (!isObject(choice) || typeof choice.text !== 'string') throw invalid(`choice ${position} has no text`)
  const reason = choice.finish_reason ? finishReason(choice.finish_reason) : null
  return {
    ...choice,
    index: Number.isInteger(choice.index) ? (choice.index as number) : position,
    text: choice.text,
    logprobs: choice.logprobs ?? null,
    finish_reason: reason === 'tool_calls' || reason === 'function_call' ? 'stop' : reason,
  }
}
