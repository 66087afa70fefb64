import { GatewayError } from '../../base/errors.ts'
import type { ChatChunk, ChatCompletion, ChatMessage, ChatRequest, FinishReason } from '../../kinds/chat.ts'
import type { Call, DirectAdapter } from '../contract.ts'
import { ChatHoldingDecoder, type SseEvent } from '../stream-decoder.ts'

/**
 * Old tools still send chat requests with `functions`, which few providers accept today. They are rewritten to the
 * current format around the provider’s own chat adapter, so that all protocols and the sandbox have it, and the
 * answer is rewritten back.
 *
 * `functions` become `tools`, `function_call` becomes `tool_choice`, and messages of calls and results get ids. A
 * call is returned as `function_call`, with the finish reason of that name; at most one call is requested
 * (`parallel_tool_calls: false`) where the model knows the field, and of several the first is returned. `tools`
 * beside `functions` are a 400. Batches with such lines are run by the gateway, not by the provider's batch API.
 */

/**
 * Serves `functions` by `tools`, which every provider supports: rewrites the request, and returns tool calls as
 * function calls.
 */
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

/** Converts tool calls in a stream to function calls. */
class FunctionDecoder extends ChatHoldingDecoder {
  push(event: SseEvent, part?: number): ChatChunk[] {
    return this.receive(event, part).map(chunkWithFunction)
  }
}

function withTools(call: Call<'chat'>): Call<'chat'> {
  const { functions, function_call: choice, ...body } = call.body
  const isOffered = functions !== undefined && functions.length > 0
  if (isOffered && body.tools)
    throw new GatewayError('invalid_request', 'Send `tools` or `functions`, not both.', { param: 'functions' })
  // A function call is never parallel; not every model takes the field.
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

/** A function message answers the preceding call; function calls have no ids. */
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
    // `functions` has one call per message: only the first is kept.
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
