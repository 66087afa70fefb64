import { isObject } from '../../../base/is-object.ts'
import { createdAt, isUnixTime } from '../../../base/time.ts'
import type { ProviderRow } from '../../../catalog/schema.ts'
import { type Completion, type CompletionChoice, usualMaxTokens } from '../../../kinds/completion.ts'
import type { DirectAdapter } from '../../contract.ts'
import { invalidResponse, type Json } from '../../toolkit/json-fields.ts'
import { assertTakesInput } from '../../toolkit/token-inputs.ts'
import {
  extrasOf,
  finishReason,
  mapUnlessSame,
  normaliseHead,
  normaliseUsage,
  reportsError,
  usageIn,
} from './answer.ts'
import { createDecoder } from './decoder.ts'
import { reportedFailure } from './failure.ts'
import { beginRequest, post, requestUsage } from './request.ts'

/** `POST /completions`, the legacy text completions. */
export const completion: DirectAdapter<'completion'> = {
  native: true,
  request(call) {
    assertTakesInput(call.target.provider, call.body.prompt, 'prompt')
    const request = beginRequest('completion', call)
    requestUsage(request)
    // Servers have other limits where none is sent, or no limit, and no more is reserved.
    const maxTokens = call.maxTokens ?? call.body.max_tokens ?? usualMaxTokens
    if (call.body.max_tokens !== maxTokens) request.changes.max_tokens = maxTokens
    return post('/completions', request)
  },
  answer(json, { target }) {
    if (!isObject(json)) throw invalidResponse('it is not an object')
    if (reportsError(json)) throw reportedFailure(json)
    if (!Array.isArray(json.choices) || json.choices.length === 0) throw invalidResponse('it has no choices')
    const whole = normaliseHead(json, target.provider)
    whole.object = 'text_completion'
    whole.choices = mapUnlessSame(json.choices, wholeChoiceFrom)
    return whole as Completion
  },
  stream: ({ target }) =>
    createDecoder({
      read: json => chunkFrom(json, target.provider),
      passes: ({ created }) => created === undefined || isUnixTime(created),
    }),
}

function chunkFrom(json: Json, provider: ProviderRow): Completion | null {
  const chunk = head(json, provider)
  if (!Array.isArray(json.choices)) return chunk.usage ? chunk : null
  return { ...chunk, choices: json.choices.map(choiceFrom) }
}

function head(json: Json, provider: ProviderRow): Completion {
  const { usage: _usage, obfuscation: _padding, provider: _route, ...otherFields } = json
  const ownUsage = normaliseUsage(usageIn(json))
  return {
    ...otherFields,
    id: typeof json.id === 'string' ? json.id : '',
    object: 'text_completion',
    created: createdAt(json.created),
    model: typeof json.model === 'string' ? json.model : '',
    choices: [],
    ...(ownUsage && { usage: { ...ownUsage, ...extrasOf(json, provider) } }),
  }
}

function wholeChoiceFrom(choice: unknown, position: number): CompletionChoice {
  const read = choiceFrom(choice, position)
  return read.finish_reason === null ? { ...read, finish_reason: 'stop' } : read
}

function choiceFrom(choice: unknown, position: number): CompletionChoice {
  // A chunk that only finishes may have none.
  const isSilent = isObject(choice) && choice.text == null && Boolean(choice.finish_reason)
  if (!isObject(choice) || !(typeof choice.text === 'string' || isSilent))
    throw invalidResponse(`choice ${position} has no text`)
  const reason = choice.finish_reason ? finishReason(choice) : null
  const finish_reason = reason === 'tool_calls' || reason === 'function_call' ? 'stop' : reason
  const index = Number.isInteger(choice.index) ? (choice.index as number) : position
  const { logprobs = null } = choice
  const text = typeof choice.text === 'string' ? choice.text : ''
  if (
    choice.text === text &&
    choice.index === index &&
    choice.logprobs === logprobs &&
    choice.finish_reason === finish_reason
  )
    return choice as CompletionChoice
  return { ...choice, index, text, logprobs, finish_reason }
}
