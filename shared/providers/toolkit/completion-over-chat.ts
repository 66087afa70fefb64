import { GatewayError } from '../../base/errors.ts'
import { namesIn } from '../../base/names.ts'
import { sumUsages, type Usage } from '../../base/usage.ts'
import type { ChatChunk, ChatCompletion, ChatRequest } from '../../kinds/chat.ts'
import {
  type Completion,
  type CompletionChoice,
  type CompletionRequest,
  usualMaxTokens,
} from '../../kinds/completion.ts'
import type { Call, DirectAdapter, UpstreamRequest } from '../contract.ts'
import type { SseEvent, StreamDecoder } from '../stream-decoder.ts'
import { allowedFields, noticeableFieldsExcept, ownFields, withDropped } from './request-fields.ts'

/**
 * Old tools still send `POST /v1/completions`, which few providers accept today. It is rewritten to the current
 * format around the provider’s own chat adapter, so that all protocols and the sandbox have it, and the answer is
 * rewritten back.
 *
 * Each prompt becomes one user message of a separate request. At most 128 prompts are accepted, and eight requests
 * run concurrently (`shared/chat/attempt.ts`).
 *
 * - Choices are numbered as OpenAI does: prompt `p`, choice `i` of `n` is `p × n + i`. Streams are interleaved.
 * - All requests go to one provider. The first failure aborts the others; before the first piece all prompts fail
 *   over to another provider, after it the stream ends with the error event.
 * - The usage is the sum. The price is summed per request, because it can depend on the length of a prompt. If one of
 *   the answers has no usage, all are counted by the tokenizer (`usage.estimated`).
 * - `logprobs`, `suffix`, `best_of` and prompts of tokens cannot be expressed: 400 `unsupported_capability`. Members that
 *   only chat has are left out.
 */

/** Maximum prompts per request; each takes an upstream request. */
const maxPrompts = 128

/**
 * Serves legacy completions by a chat model: each prompt becomes one user message, and the responses' texts are
 * returned.
 */
export function completionOverChat(chat: DirectAdapter<'chat'>): DirectAdapter<'completion'> {
  return {
    native: false,
    request: call => chatRequests(chat, call)[0]!,
    requests: call => chatRequests(chat, call),
    answer(json, call) {
      const chats = asChats(call)
      const jsons = chats.length === 1 ? [json] : (json as unknown[])
      const answers = chats.map((one, part) => chat.answer(jsons[part], one))
      const usage = totalUsage(answers.map(answer => answer.usage))
      const prompts = promptsOf(call.body)
      const choices = answers.flatMap((answer, part) =>
        answer.choices.map(choice => ({
          index: indexOf(choice.index, part, call.body),
          text: (call.body.echo ? prompts[part]! : '') + (choice.message.content ?? ''),
          logprobs: null,
          finish_reason: finishReason(choice.finish_reason),
        })),
      )
      return completion(answers[0]!, choices, usage)
    },
    stream: chat.stream && (call => new PartsDecoder(call, asChats(call).map(chat.stream!))),
  }
}

/** Merges the streams of a call's prompts: choices are numbered across them, and their usages are summed. */
class PartsDecoder implements StreamDecoder<Completion> {
  readonly #body: CompletionRequest
  readonly #prompts: readonly string[]
  readonly #decoders: readonly StreamDecoder<ChatChunk>[]
  readonly #usages: (Usage | undefined)[]
  readonly #started = new Set<number>()

  constructor({ body }: Call<'completion'>, decoders: readonly StreamDecoder<ChatChunk>[]) {
    this.#body = body
    this.#prompts = promptsOf(body)
    this.#decoders = decoders
    this.#usages = decoders.map(() => undefined)
  }

  get done(): boolean {
    return this.#decoders.every(({ done }) => done)
  }

  get webSearches(): number {
    return this.#decoders.reduce((sum, { webSearches = 0 }) => sum + webSearches, 0)
  }

  get over(): boolean {
    return this.#decoders.every(({ over }) => over === true)
  }

  push(event: SseEvent, part = 0): Completion[] {
    return this.#decoders[part]!.push(event).map(chunk => this.#piece(chunk, part))
  }

  #piece(chunk: ChatChunk, part: number): Completion {
    if (chunk.usage) this.#usages[part] = chunk.usage
    const choices = chunk.choices.map(({ index: choiceIndex, delta, finish_reason }) => {
      const index = indexOf(choiceIndex, part, this.#body)
      const isFirst = !this.#started.has(index)
      this.#started.add(index)
      return {
        index,
        text: (isFirst && this.#body.echo ? this.#prompts[part]! : '') + (delta.content ?? ''),
        logprobs: null,
        finish_reason: finish_reason && finishReason(finish_reason),
      }
    })
    return completion(chunk, choices, chunk.usage ? totalUsage(this.#usages) : undefined)
  }
}

/** OpenAI's numbering: the choices of the first prompt, then those of the second. */
function indexOf(index: number, part: number, { n }: CompletionRequest): number {
  return part * (n ?? 1) + index
}

/** The total usage; undefined until every response has reported its own. */
function totalUsage(usages: readonly (Usage | null | undefined)[]): Usage | undefined {
  const reported = usages.filter(usage => usage != null)
  const [first, ...others] = reported
  if (!first || reported.length < usages.length) return undefined
  return others.length === 0 ? first : sumUsages([first, ...others])
}

function completion(
  answer: Omit<ChatCompletion | ChatChunk, 'choices' | 'object'>,
  choices: CompletionChoice[],
  usage: Usage | undefined,
): Completion {
  const { id, created, model } = answer
  return {
    id: id.replace(/^chatcmpl/, 'cmpl'),
    object: 'text_completion',
    created,
    model,
    choices,
    ...(usage && { usage }),
  }
}

function finishReason(reason: ChatCompletion['choices'][number]['finish_reason']): CompletionChoice['finish_reason'] {
  return reason === 'tool_calls' || reason === 'function_call' ? 'stop' : reason
}

/** The prompts of a request. Throws 400 for prompts that a chat model does not take. */
function promptsOf({ prompt }: CompletionRequest): string[] {
  const prompts: unknown[] = Array.isArray(prompt) ? prompt : [prompt]
  if (prompts.length <= maxPrompts && prompts.every(one => typeof one === 'string')) return prompts as string[]
  const message = `This model is a chat model: it takes up to ${maxPrompts} prompts per request, as text.`
  throw new GatewayError('unsupported_capability', message, { param: 'prompt' })
}

/** What models that think are told of it, also by the clients of completions. */
const thinkingFields = namesIn('reasoning reasoning_effort thinking enable_thinking verbosity')
/** The members that chat has as well. Those of chat alone are not sent, as nothing is reserved for them: its limit has another name. */
const sentFields: ReadonlySet<string> = new Set([...allowedFields.completion, ...ownFields, ...thinkingFields])

/** The requests for the prompts, which name the members that are left out. */
function chatRequests(chat: DirectAdapter<'chat'>, call: Call<'completion'>): UpstreamRequest[] {
  const dropped = noticeableFieldsExcept(call.body, sentFields)
  return asChats(call).map(one => {
    const request = chat.request(one)
    return withDropped(request, [...(request.dropped ?? []), ...dropped])
  })
}

/** One chat call per prompt. */
function asChats(call: Call<'completion'>): Call<'chat'>[] {
  const { prompt: _prompt, echo: _echo, best_of, logprobs, suffix, ...rest } = call.body
  const unsupportedField = Object.entries({
    best_of: (best_of ?? 1) > 1,
    logprobs: logprobs != null,
    suffix: suffix != null,
    max_tokens: rest.max_tokens === 0,
  }).find(([, set]) => set)
  if (unsupportedField) {
    throw new GatewayError(
      'unsupported_capability',
      `This model is a chat model: it cannot take \`${unsupportedField[0]}\`.`,
      {
        param: unsupportedField[0],
      },
    )
  }
  const sent = Object.fromEntries(Object.entries(rest).filter(([name]) => sentFields.has(name)))
  const max_tokens = rest.max_tokens ?? usualMaxTokens
  return promptsOf(call.body).map(content => {
    const body = { ...sent, max_tokens, messages: [{ role: 'user' as const, content }] } as unknown as ChatRequest
    return { ...call, body, raw: null }
  })
}
