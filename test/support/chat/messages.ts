import Anthropic from '@anthropic-ai/sdk'
import { loadCatalog } from '../../../shared/catalog/catalog.ts'
import type { ChatChunk, ChatDelta, ChatRequest } from '../../../shared/kinds/chat.ts'
import { type MessageEvent, messagesRequest } from '../../../shared/kinds/messages.ts'
import type { Target } from '../../../shared/providers/contract.ts'
import { fitChat } from '../../../shared/providers/profile/fit-chat.ts'
import { toChatRequest } from '../../../shared/providers/toolkit/messages-over-chat/request.ts'
import { MessageEventEncoder } from '../../../shared/providers/toolkit/messages-over-chat/stream.ts'
import type { ExecutionContext } from '../test.ts'

const catalog = loadCatalog()

export function targetOf(id: string, provider?: string): Target {
  const model = catalog.find(id)!
  return { model, ...catalog.targets(model).find(one => !provider || one.provider.name === provider)! }
}

/** Takes system messages anywhere, images, documents, tools, and an effort. */
export const sol = targetOf('gpt-5.6-sol', 'openai')
export const tool = { name: 'Read', description: 'Reads a file.', input_schema: { type: 'object', properties: {} } }
export const use = (id: string, input: object = {}) => ({ type: 'tool_use', id, name: 'Read', input })
export const result = (id: string, content?: unknown, more: object = {}) => ({
  type: 'tool_result',
  tool_use_id: id,
  content,
  ...more,
})
/** The chat request of a Messages request that the route's schema has accepted, as it is sent. */
export function translate(body: object, target = sol): ChatRequest {
  const request = messagesRequest.parse({
    model: 'm',
    max_tokens: 100,
    messages: [{ role: 'user', content: 'Hi' }],
    ...body,
  })
  return JSON.parse(JSON.stringify(toChatRequest(request, target)))
}

/** The same as the target takes it. */
export function translateFitted(body: object, target = sol): ChatRequest {
  return fitChat(translate(body, target), target).body
}

/** What the Anthropic SDK makes of these events, received as a stream. */
export async function finalMessage(events: MessageEvent[]): Promise<Anthropic.Message> {
  const body = events.map(event => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join('')
  const fetch = async () => new Response(body, { headers: { 'content-type': 'text/event-stream' } })
  const sdk = new Anthropic({ apiKey: 'k', fetch, maxRetries: 0 })
  return sdk.messages.stream({ model: 'm', max_tokens: 1, messages: [{ role: 'user', content: 'Hi' }] }).finalMessage()
}

/** The rules of Anthropic's streams, whose breach makes Claude Code stop reading. */
export function assertOrdered(t: ExecutionContext, events: MessageEvent[]): void {
  t.deepEqual(
    [events[0]!.type, ...events.slice(-2).map(({ type }) => type)],
    ['message_start', 'message_delta', 'message_stop'],
  )
  let open: string | null = null
  let count = 0
  let signatures = 0
  for (const event of events.slice(1, -2)) {
    if (event.type === 'content_block_start') {
      t.is(open, null)
      t.is(event.index, count)
      open = event.content_block.type
      signatures = 0
    } else if (event.type === 'content_block_delta') {
      t.is(event.index, count)
      t.is(signatures, 0, 'the signature is the last delta')
      if (event.delta.type === 'signature_delta') signatures++
    } else if (event.type === 'content_block_stop') {
      t.is(event.index, count++)
      t.is(signatures, open === 'thinking' ? 1 : 0)
      open = null
    } else t.fail(event.type)
  }
  t.is(open, null)
}

export function chunk(
  delta: ChatDelta,
  finish_reason: ChatChunk['choices'][number]['finish_reason'] = null,
): ChatChunk {
  return {
    id: 'chatcmpl-1',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'm',
    choices: [{ index: 0, delta, finish_reason }],
  }
}

export function encode(chunks: ChatChunk[], stopSequences: string[] = []): MessageEvent[] {
  const encoder = new MessageEventEncoder({ estimatedInputTokens: 7, stopSequences })
  const events = chunks.flatMap(one => encoder.push(one))
  const all = [...events, ...encoder.end()]
  return JSON.parse(JSON.stringify(encoder.end().length === 0 ? all : []))
}

export const toolDelta = (index: number, more: { id?: string; name?: string; arguments?: string }): ChatDelta => {
  const { id, ...fn } = more
  return { tool_calls: [{ index, ...(id && { id, type: 'function' as const }), function: fn }] }
}
