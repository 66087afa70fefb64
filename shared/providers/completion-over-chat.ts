import { GatewayError } from '../base/errors.ts'
import type { ChatChunk, ChatCompletion, ChatRequest } from '../kinds/chat.ts'
import type { Completion, CompletionChoice, CompletionRequest } from '../kinds/completion.ts'
import type { Call, DirectAdapter } from './contract.ts'

/** Serves legacy completions by a chat model: the prompt becomes one user message, the answer's text comes back. */
export function completionOverChat(chat: DirectAdapter<'chat'>): DirectAdapter<'completion'> {
  return {
    native: false,
    request: call => chat.request(asChat(call)),
    answer(json, call) {
      const { choices, ...rest } = chat.answer(json, asChat(call))
      return completion(
        rest,
        choices.map(choice => ({
          index: choice.index,
          text: echoed(call.body) + (choice.message.content ?? ''),
          logprobs: null,
          finish_reason: finishReason(choice.finish_reason),
        })),
      )
    },
    stream:
      chat.stream &&
      (call => {
        const decoder = chat.stream!(asChat(call))
        const started = new Set<number>()
        return {
          push: event => decoder.push(event).map(chunk => piece(chunk, call.body, started)),
          get done() {
            return decoder.done
          },
          get over() {
            return decoder.over === true
          },
        }
      }),
  }
}

function piece({ choices, ...rest }: ChatChunk, body: CompletionRequest, started: Set<number>): Completion {
  return completion(
    rest,
    choices.map(({ index, delta, finish_reason }) => {
      const first = !started.has(index)
      started.add(index)
      return {
        index,
        text: (first ? echoed(body) : '') + (delta.content ?? ''),
        logprobs: null,
        finish_reason: finish_reason && finishReason(finish_reason),
      }
    }),
  )
}

function completion(
  answer: Omit<ChatCompletion | ChatChunk, 'choices' | 'object'>,
  choices: CompletionChoice[],
): Completion {
  const { id, created, model, usage } = answer
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

function echoed(body: CompletionRequest): string {
  return body.echo ? promptText(body) : ''
}

function promptText(body: CompletionRequest): string {
  const prompts: unknown[] = Array.isArray(body.prompt) ? body.prompt : [body.prompt]
  if (prompts.length === 1 && typeof prompts[0] === 'string') return prompts[0]
  throw new GatewayError(
    'unsupported_capability',
    'This model is a chat model: it takes one prompt of text per request.',
    { param: 'prompt' },
  )
}

function asChat(call: Call<'completion'>): Call<'chat'> {
  const { prompt: _prompt, echo: _echo, best_of, logprobs, suffix, ...rest } = call.body
  const refused = Object.entries({
    best_of: (best_of ?? 1) > 1,
    logprobs: logprobs != null,
    suffix: suffix != null,
  }).find(([, set]) => set)
  if (refused) {
    throw new GatewayError('unsupported_capability', `This model is a chat model: it cannot take \`${refused[0]}\`.`, {
      param: refused[0],
    })
  }
  const body: ChatRequest = {
    ...rest,
    max_tokens: rest.max_tokens ?? 16,
    messages: [{ role: 'user', content: promptText(call.body) }],
  }
  return { ...call, body, raw: null }
}
