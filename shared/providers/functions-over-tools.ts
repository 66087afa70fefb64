import { GatewayError } from '../base/errors.ts'
import type { ChatChunk, ChatCompletion, ChatMessage, ChatRequest, FinishReason } from '../kinds/chat.ts'
import type { Call, DirectAdapter } from './contract.ts'
import type { SseEvent, StreamDecoder } from './stream-decoder.ts'

/** Whether a request is written with the fields that came before `tools`: `functions`, or what was said of them in its messages. */
export function hasFunctions({ functions, function_call, messages }: ChatRequest): boolean {
  return functions !== undefined || function_call !== undefined || messages.some(isOfFunction)
}

function isOfFunction(message: ChatMessage): boolean {
  return message.role === 'function' || (message.role === 'assistant' && message.function_call != null)
}

/** Serves `functions` by `tools`, which every provider knows: the request is rewritten, and calls come back as function calls. */
export function functionsOverTools(chat: DirectAdapter<'chat'>): DirectAdapter<'chat'> {
  const { remoteMedia, stream } = chat
  return {
    native: false,
    ...(remoteMedia && { remoteMedia }),
    request: call => chat.request(withTools(call)),
    answer(json, call) {
      const answer = chat.answer(json, withTools(call))
      return { ...answer, choices: answer.choices.map(choiceWithFunction) }
    },
    ...(stream && { stream: call => new FunctionDecoder(stream(withTools(call))) }),
  }
}

/** A stream whose calls of tools come back as function calls. */
class FunctionDecoder implements StreamDecoder<ChatChunk> {
  readonly #decoder: StreamDecoder<ChatChunk>

  constructor(decoder: StreamDecoder<ChatChunk>) {
    this.#decoder = decoder
  }

  get done(): boolean {
    return this.#decoder.done
  }

  get over(): boolean {
    return this.#decoder.over === true
  }

  push(event: SseEvent): ChatChunk[] {
    return this.#decoder.push(event).map(chunkWithFunction)
  }
}

function withTools(call: Call<'chat'>): Call<'chat'> {
  const { functions, function_call: choice, ...body } = call.body
  const isOffered = functions !== undefined && functions.length > 0
  if (isOffered && body.tools)
    throw new GatewayError('invalid_request', 'Send `tools` or `functions`, not both.', { param: 'functions' })
  // A function call is one; not every model takes the field.
  const single = isOffered && call.target.model.supported_parameters.includes('parallel_tool_calls')
  const rewritten: ChatRequest = {
    ...body,
    messages: messagesWithTools(body.messages),
    ...(isOffered && { tools: functions.map(one => ({ type: 'function' as const, function: one })) }),
    ...(isOffered &&
      choice && { tool_choice: typeof choice === 'string' ? choice : { type: 'function', function: choice } }),
    ...(single && { parallel_tool_calls: false }),
  }
  return { ...call, body: rewritten, raw: null }
}

/** Function messages answer the call before them; calls had no ids. */
function messagesWithTools(messages: readonly ChatMessage[]): ChatMessage[] {
  let calls = 0
  return messages.map(message => {
    if (message.role === 'function')
      return { role: 'tool', tool_call_id: `call_${calls}`, content: message.content ?? '' }
    if (message.role !== 'assistant' || message.function_call == null) return message
    const { function_call: called, ...rest } = message
    return { ...rest, tool_calls: [{ id: `call_${++calls}`, type: 'function', function: called }] }
  })
}

type Choice = ChatCompletion['choices'][number]

function choiceWithFunction(choice: Choice): Choice {
  const { tool_calls: calls, ...message } = choice.message
  const [call] = calls ?? []
  return {
    ...choice,
    message: call ? { ...message, function_call: call.function } : message,
    finish_reason: finishOf(choice.finish_reason),
  }
}

function chunkWithFunction(chunk: ChatChunk): ChatChunk {
  const choices = chunk.choices.map(choice => {
    const { tool_calls: calls, ...delta } = choice.delta
    // Of several calls the first is the one.
    const call = calls?.find(({ index }) => index === 0)
    return {
      ...choice,
      delta: call ? { ...delta, function_call: call.function } : delta,
      finish_reason: choice.finish_reason && finishOf(choice.finish_reason),
    }
  })
  return { ...chunk, choices }
}

function finishOf(reason: FinishReason): FinishReason {
  return reason === 'tool_calls' ? 'function_call' : reason
}
