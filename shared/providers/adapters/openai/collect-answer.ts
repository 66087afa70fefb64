import { isObject } from '../../../base/is-object.ts'
import { isEventStream, parseEvents } from '../../../io/sse.ts'
import type { ChatChunk, ChatDelta } from '../../../kinds/chat.ts'
import { ProviderError } from '../../provider-error.ts'
import type { StreamDecoder } from '../../stream-decoder.ts'
import { type Json, parseJsonOrNull } from '../../toolkit/json-fields.ts'
import { usageIn } from './answer.ts'

/**
 * The whole answer that a stream amounts to, as its server would have sent it; undefined if the body is no stream. Some servers
 * give long answers as streams only, others all, whatever is asked for (unslothai/unsloth#6570, kaito-project/kaito#1880,
 * sgl-project/mini-sglang#51). Throws a ProviderError where the stream reports one, or broke off.
 */
export function collectAnswer(text: string, decoder: StreamDecoder<ChatChunk>): Json | undefined {
  if (!isEventStream(text)) return undefined
  const head: Json = {}
  const choices = new Map<number, Json>()
  let usage: Json | undefined
  for (const event of parseEvents(text)) {
    for (const { choices: pieces, usage: _converted, ...others } of decoder.push(event)) {
      Object.assign(head, others)
      for (const piece of pieces) addPiece(choices, piece)
    }
    const json = parseJsonOrNull(event.data)
    // As the server states it: its costs and tier are read from the whole answer.
    usage = (isObject(json) && usageIn(json)) || usage
  }
  if (!decoder.done) throw new ProviderError('truncated', 'the stream closed before its final event')
  return { ...head, choices: [...choices.values()], ...(usage && { usage }) }
}

type Piece = ChatChunk['choices'][number]

function addPiece(choices: Map<number, Json>, { index, delta, logprobs, finish_reason: reason }: Piece): void {
  let choice = choices.get(index)
  if (!choice) {
    choice = { index, message: { content: null }, finish_reason: null }
    choices.set(index, choice)
  }
  addDelta(choice.message as Json, delta)
  if (isObject(logprobs)) choice.logprobs = joined(choice.logprobs, logprobs)
  choice.finish_reason = reason ?? choice.finish_reason
}

function addDelta(message: Json, { role, tool_calls: calls, ...delta }: ChatDelta): void {
  message.role = role ?? message.role
  Object.assign(message, joined(message, delta))
  for (const { index, ...call } of calls ?? []) {
    const own = (message.tool_calls ??= []) as Json[]
    const { id, type } = call
    const begun = own[index] ?? {}
    own[index] = { ...begun, ...(id && { id }), ...(type && { type }), function: joined(begun.function, call.function) }
  }
}

/** Texts and lists go on in the next piece, another value replaces the former. */
function joined(former: unknown, next: Json): Json {
  const whole: Json = isObject(former) ? { ...former } : {}
  for (const [name, value] of Object.entries(next)) {
    const begun = whole[name]
    if (value === null || value === undefined) continue
    if (typeof value === 'string' && typeof begun === 'string') whole[name] = begun + value
    else if (Array.isArray(value) && Array.isArray(begun)) whole[name] = [...begun, ...value]
    else whole[name] = isObject(value) && isObject(begun) ? joined(begun, value) : value
  }
  return whole
}
