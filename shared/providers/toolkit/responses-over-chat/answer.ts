import type { ChatChunk, ChatCompletion, ChatDelta } from '../../../kinds/chat.ts'
import type { ResponsesObject } from '../../../kinds/responses-answer.ts'
import { ProviderError } from '../../provider-error.ts'
import { type EncoderOptions, type ResponseEncoder, ResponseEventEncoder } from './stream.ts'

type Message = ChatCompletion['choices'][number]['message']

/** Translates a complete chat answer: its first choice as reasoning, text and tool calls, in this order. */
export function toResponse(
  answer: ChatCompletion,
  options: EncoderOptions,
  encoder: ResponseEncoder = new ResponseEventEncoder(options),
): ResponsesObject {
  const { id, created, model, usage } = answer
  const { message, logprobs, finish_reason } = answer.choices[0] ?? { finish_reason: 'stop' }
  const chunkOf = (choices: ChatChunk['choices']): ChatChunk => ({
    id,
    created,
    model,
    object: 'chat.completion.chunk',
    choices,
    ...(choices.length === 0 && usage && { usage }),
  })
  for (const delta of message ? deltasOf(message) : [])
    encoder.push(chunkOf([{ index: 0, delta, logprobs, finish_reason }]))
  encoder.push(chunkOf([]))
  const last = encoder.end().at(-1)
  if (!last || !('response' in last)) throw new ProviderError('invalid_response', 'the model wrote no summary')
  return last.response
}

/** The reasoning first, each state with the text that it belongs to; then the rest. */
function deltasOf({
  reasoning_content,
  reasoning_details,
  content,
  refusal,
  tool_calls,
  annotations,
}: Message): ChatDelta[] {
  const details = reasoning_details ?? []
  const isTextInDetails = details.some(({ text }) => text)
  return [
    ...(isTextInDetails ? [] : [{ reasoning_content }]),
    ...details.map(detail => ({ reasoning_content: detail.text ?? '', reasoning_details: [detail] })),
    {
      content,
      ...(annotations && { annotations }),
      refusal,
      tool_calls: tool_calls?.map((call, index) => ({ index, ...call })),
    },
  ]
}
