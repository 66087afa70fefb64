import OpenAI from 'openai'
import type { ChatChunk, ChatCompletion, ChatDelta, ChatRequest, FinishReason } from '../../../shared/kinds/chat.ts'
import { type ResponsesRequest, responsesRequest } from '../../../shared/kinds/responses.ts'
import type { ResponsesEvent, ResponsesObject } from '../../../shared/kinds/responses-answer.ts'
import { fitChat } from '../../../shared/providers/profile/fit-chat.ts'
import { toResponse } from '../../../shared/providers/toolkit/responses-over-chat/answer.ts'
import { toChatRequest } from '../../../shared/providers/toolkit/responses-over-chat/request.ts'
import { ResponseEventEncoder } from '../../../shared/providers/toolkit/responses-over-chat/stream.ts'
import type { ExecutionContext } from '../test.ts'
import { sol } from './messages.ts'
import { openResponseEvent } from './open-responses.ts'

/** A request that the route's schema has accepted. */
export function requestOf(body: object = {}): ResponsesRequest {
  return responsesRequest.parse({ model: 'm', input: 'Hi', ...body })
}

/** The chat request of a Responses request, as it is sent. */
export function translate(body: object, target = sol): ChatRequest {
  return JSON.parse(JSON.stringify(toChatRequest(requestOf(body), target)))
}

/** The same as the target takes it. */
export function translateFitted(body: object, target = sol): ChatRequest {
  return fitChat(translate(body, target), target).body
}

function optionsOf(body: object) {
  return { request: requestOf(body), now: () => 2, estimatedInputTokens: 7 }
}

/** The events of a whole chat stream, as they are sent. */
export function encode(chunks: readonly ChatChunk[], body: object = {}): ResponsesEvent[] {
  const encoder = new ResponseEventEncoder(optionsOf(body))
  const sent: string[] = []
  for (const one of chunks) sent.push(...encoder.push(one).map(event => JSON.stringify(event)))
  sent.push(...encoder.end().map(event => JSON.stringify(event)))
  return sent.map(text => JSON.parse(text))
}

/** The response of a complete chat answer, as it is sent. */
export function respond(
  message: Partial<ChatCompletion['choices'][number]['message']>,
  finish_reason: FinishReason = 'stop',
  { body = {}, ...more }: Partial<ChatCompletion> & { body?: object } = {},
): ResponsesObject {
  const choices = [{ index: 0, message: { role: 'assistant' as const, content: null, ...message }, finish_reason }]
  const answer = { id: 'chatcmpl-1', object: 'chat.completion' as const, created: 1, model: 'm', choices, ...more }
  return JSON.parse(JSON.stringify(toResponse(answer, optionsOf(body))))
}

/** What the OpenAI SDK makes of these events, received as a stream: its own fields are left out. */
export async function finalResponse(events: readonly ResponsesEvent[], body: object = {}): Promise<ResponsesObject> {
  const text = events.map(event => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join('')
  const fetch = async () =>
    new Response(`${text}data: [DONE]\n\n`, { headers: { 'content-type': 'text/event-stream' } })
  const sdk = new OpenAI({ apiKey: 'k', fetch, maxRetries: 0 })
  const params = requestOf(body) as unknown as Parameters<typeof sdk.responses.stream>[0]
  const final = await sdk.responses.stream(params).finalResponse()
  return withoutSdkFields(JSON.parse(JSON.stringify(final)))
}

/** A response of a stream of the SDK, without the fields that it adds. */
export function withoutSdkFields({
  output_text: _text,
  output_parsed: _parsed,
  ...response
}: ResponsesObject): ResponsesObject {
  const output = response.output.map(item => {
    const { parsed_arguments: _arguments, ...rest } = item as typeof item & { parsed_arguments?: unknown }
    if (rest.type !== 'message') return rest
    const content = rest.content.map(part => {
      const { parsed: _parsed, ...others } = part as typeof part & { parsed?: unknown }
      return others
    })
    return { ...rest, content }
  })
  return { ...response, output } as ResponsesObject
}

/** The rules of Responses streams, each of whose breaches stopped a client. */
export function assertOrdered(t: ExecutionContext, events: readonly ResponsesEvent[]): void {
  for (const event of events) openResponseEvent.parse(event)
  t.deepEqual(
    events.map(({ sequence_number: number }) => number),
    events.map((_, index) => index),
  )
  t.deepEqual(
    events.slice(0, 2).map(({ type }) => type),
    ['response.created', 'response.in_progress'],
  )
  const last = events.at(-1)!
  t.true(/^response\.(completed|incomplete|failed)$/.test(last.type))
  const output = 'response' in last ? last.response.output : []
  const itemEvents = events.slice(2, -1)
  for (const [index, item] of output.entries()) {
    const own = itemEvents.filter(event => 'output_index' in event && event.output_index === index)
    t.is(own[0]!.type, 'response.output_item.added')
    t.like(own.at(-1)!, { type: 'response.output_item.done', item: item as object })
    t.true(own.slice(1, -1).every(event => 'item_id' in event && event.item_id === item.id))
    assertParts(
      t,
      own.slice(1, -1).map(({ type }) => type),
    )
  }
  t.is(itemEvents.filter(({ type }) => type === 'response.output_item.added').length, output.length)
  t.is(itemEvents.filter(({ type }) => type === 'response.output_item.done').length, output.length)
}

/** Each part: added, deltas, the whole text, done. A call has no parts. */
function assertParts(t: ExecutionContext, types: readonly string[]): void {
  const letters = types.map(type => {
    if (type.endsWith('part.added')) return 'a'
    if (type.endsWith('part.done')) return 'e'
    return type.endsWith('.delta') ? 'd' : 'w'
  })
  t.regex(letters.join(''), /^(?:(?:ad+we)*|d*w)$/)
}

export function chunk(delta: ChatDelta, finish_reason: FinishReason | null = null): ChatChunk {
  return {
    id: 'chatcmpl-1',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'm',
    choices: [{ index: 0, delta, finish_reason }],
  }
}
