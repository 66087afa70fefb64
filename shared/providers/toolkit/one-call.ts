import type { ChatChunk, ChatCompletion } from '../../kinds/chat.ts'
import type { Call, DirectAdapter } from '../contract.ts'
import { ChatHoldingDecoder, type SseEvent } from '../stream-decoder.ts'

/**
 * Serves `parallel_tool_calls: false` for a provider that has no such setting: of several calls the first is returned. Clients that
 * send it read no second one (shell_gpt joins the arguments of all calls). The model repeats the others when it has the result.
 */
export function withOneCall(chat: DirectAdapter<'chat'>): DirectAdapter<'chat'> {
  const { stream } = chat
  return {
    ...chat,
    answer(json, call) {
      const answer = chat.answer(json, call)
      return takesOneCall(call) ? { ...answer, choices: answer.choices.map(choiceWithOneCall) } : answer
    },
    ...(stream && { stream: call => (takesOneCall(call) ? new OneCallDecoder(stream(call)) : stream(call)) }),
  }
}

function takesOneCall({ body }: Call<'chat'>): boolean {
  return body.parallel_tool_calls === false
}

class OneCallDecoder extends ChatHoldingDecoder {
  push(event: SseEvent, part?: number): ChatChunk[] {
    return this.receive(event, part).map(chunk => ({ ...chunk, choices: chunk.choices.map(deltaWithOneCall) }))
  }
}

function choiceWithOneCall(choice: ChatCompletion['choices'][number]): ChatCompletion['choices'][number] {
  const { tool_calls: calls } = choice.message
  return calls && calls.length > 1
    ? { ...choice, message: { ...choice.message, tool_calls: calls.slice(0, 1) } }
    : choice
}

function deltaWithOneCall(choice: ChatChunk['choices'][number]): ChatChunk['choices'][number] {
  const { tool_calls: calls, ...delta } = choice.delta
  if (!calls?.some(({ index }) => index > 0)) return choice
  const first = calls.filter(({ index }) => index === 0)
  return { ...choice, delta: first.length > 0 ? { ...delta, tool_calls: first } : delta }
}
