import { type Deployment, modelRow, providerRow } from '../../../shared/catalog/schema.ts'
import { type ChatChunk, type ChatCompletion, chatRequest, type ToolCall } from '../../../shared/kinds/chat.ts'
import { anthropic } from '../../../shared/providers/adapters/anthropic/protocol.ts'
import type { Call } from '../../../shared/providers/contract.ts'
import type { SseEvent } from '../../../shared/providers/stream-decoder.ts'
import type { Message } from '../../emulators/anthropic.ts'

export const adapter = anthropic.direct.chat!

export type Traits = NonNullable<Deployment['traits']>

/** A validated chat call; `body` is what a client would send. */
export function callOf(
  body: object,
  traits: Traits = {},
  options: { maxTokens?: number; maxOutputTokens?: number | null; profile?: Deployment['profile'] } = {},
): Call<'chat'> {
  const { maxTokens = null, maxOutputTokens = 64_000, profile } = options
  const price = { unit: 'token', input: '1', output: '5' }
  const model = modelRow.parse({
    id: 'x',
    name: 'X',
    type: 'chat',
    owned_by: 'anthropic',
    created: 0,
    description: '',
    context_length: 200_000,
    max_output_tokens: maxOutputTokens,
    input_modalities: ['text'],
    output_modalities: ['text'],
    supported_parameters: ['response_format', 'structured_outputs'],
    quality: null,
    expires_on: null,
    price_source: null,
    price_as_of: null,
    providers: [{ provider: 'anthropic', upstream_model: 'X', price, traits, profile }],
  })
  const row = { name: 'anthropic', protocol: 'anthropic', base_url: 'https://upstream.example', auth: 'x-api-key' }
  const target = { model, deployment: model.providers[0]!, provider: providerRow.parse(row) }
  return { target, body: chatRequest.parse(body), raw: null, maxTokens, media: new Map() }
}

// biome-ignore lint/suspicious/noExplicitAny: the tests look into bodies of every shape
export function upstreamBody(...args: Parameters<typeof callOf>): any {
  return JSON.parse(String(adapter.request(callOf(...args)).body))
}

export const hi = { role: 'user', content: 'hi' }
export const hiTurn = { role: 'user', content: [{ type: 'text', text: 'hi' }] }
export const tool = {
  type: 'function',
  function: { name: 'w', parameters: { type: 'object', properties: { city: { type: 'string' } } } },
}
export const called = (args: string, id = 'call_1') => ({
  role: 'assistant',
  tool_calls: [{ id, type: 'function', function: { name: 'w', arguments: args } }],
})
export const parts = (...content: object[]) => ({ messages: [{ role: 'user', content }] })
export const mark = { cache_control: { type: 'ephemeral' } }
export const image = (url: string) => parts({ type: 'image_url', image_url: { url } })

/** Server-sent events of text that arrives in pieces. */
export function eventsOf(pieces: string[]): SseEvent[] {
  const list: SseEvent[] = []
  let rest = ''
  for (const piece of pieces) {
    const blocks = (rest + piece).split('\n\n')
    rest = blocks.pop()!
    for (const block of blocks) {
      const lines = block.split('\n')
      const field = (name: string) =>
        lines.filter(line => line.startsWith(`${name}: `)).map(line => line.slice(name.length + 2))
      list.push({ event: field('event').join(''), data: field('data').join('\n') })
    }
  }
  return list
}

export function decoded(events: SseEvent[]): { chunks: ChatChunk[]; done: boolean } {
  const decoder = adapter.stream!(callOf({ model: 'x', messages: [hi], stream: true }))
  const chunks = events.flatMap(event => decoder.push(event))
  return { chunks, done: decoder.done }
}

/** What a client has after adding the chunks up. */
export function summed(chunks: ChatChunk[]) {
  const toolCalls: ToolCall[] = []
  const sum = {
    content: '',
    reasoning: '',
    toolCalls,
    finish: [] as unknown[],
    refusal: null as unknown,
    usage: [] as unknown[],
  }
  for (const { choices, usage } of chunks) {
    if (usage) sum.usage.push(usage)
    for (const { delta, finish_reason } of choices) {
      sum.content += delta.content ?? ''
      sum.reasoning += delta.reasoning_content ?? ''
      sum.refusal ??= delta.refusal ?? null
      if (finish_reason) sum.finish.push(finish_reason)
      for (const { index, id, function: part } of delta.tool_calls ?? []) {
        if (id) toolCalls[index] = { id, type: 'function', function: { name: part.name!, arguments: '' } }
        toolCalls[index]!.function.arguments += part.arguments ?? ''
      }
    }
  }
  return sum
}

export function summedAnswer({ choices, usage }: ChatCompletion): ReturnType<typeof summed> {
  const { message, finish_reason } = choices[0]!
  const { content, reasoning_content: reasoning = '', tool_calls: toolCalls = [], refusal = null } = message
  return { content: content ?? '', reasoning, toolCalls, finish: [finish_reason], refusal, usage: usage ? [usage] : [] }
}

export const message: Message = {
  id: 'msg_01',
  type: 'message',
  role: 'assistant',
  model: 'claude-x',
  stop_reason: 'end_turn',
  stop_sequence: null,
  stop_details: null,
  content: [{ type: 'text', text: 'Hello' }],
  usage: {
    input_tokens: 60,
    cache_read_input_tokens: 1000,
    cache_creation_input_tokens: 200,
    output_tokens: 21,
    output_tokens_details: { thinking_tokens: 8 },
  },
}
export const callForAnswer = callOf({ model: 'x', messages: [hi] })
export const answerTo = (change: object) => adapter.answer({ ...message, ...change }, callForAnswer)
