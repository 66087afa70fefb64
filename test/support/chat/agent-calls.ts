import fc from 'fast-check'
import { messageEvents, messageReply, sse } from '../../emulators/anthropic.ts'
import { events, json, type Reply } from '../../emulators/emulator.ts'
import { chatChunk } from '../../emulators/openai.ts'
import { call as send } from '../gateway.ts'
import { saying } from './gateway.ts'

/** Text of this many tokens of two characters. */
export const tokens = (count: number) => 'a '.repeat(count)

export function usageOf(prompt_tokens: number, completion_tokens: number) {
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens }
}

/** One agent's request: how it asks, how its provider answers, and how it ends. */
export type AgentCall = {
  /** Messages go to a target of that protocol (`messages`), or to one of OpenAI's. */
  format: 'chat' | 'messages' | 'messages over chat'
  maxTokens: number | null
  streamed: boolean
  /** Output tokens of each event: thinking, then text, then a tool's arguments. The provider stops at its limit. */
  pieces: number[]
  /** Whether the provider's connection breaks before the end of a stream, or the client leaves a stream that has begun. */
  end: 'whole' | 'breaks' | 'leaves'
}

/** `breaks`: whether providers may break a stream, upon which the gateway may stop to call them for a second. */
export const agentCall = (breaks: boolean): fc.Arbitrary<AgentCall> =>
  fc.record({
    format: fc.constantFrom('chat', 'messages', 'messages over chat'),
    maxTokens: fc.constantFrom(null, 128_000, 128_000, 32_000, 6_000, 1_000),
    streamed: fc.integer({ min: 1, max: 4 }).map(n => n > 1),
    pieces: fc.array(fc.integer({ min: 1, max: 6_000 }), { minLength: 1, maxLength: 8 }),
    end: fc.oneof(
      { weight: 6, arbitrary: fc.constant('whole' as const) },
      fc.constantFrom(breaks ? ('breaks' as const) : ('whole' as const), 'leaves' as const),
    ),
  })

/** What a client saw of its request: an answer, a 402, a stream that the money ended, one that broke; or it left. */
export type Seen = 'answered' | 'refused' | 'ended' | 'broken' | 'left'

const models = { chat: 'dear', messages: 'dear-native', 'messages over chat': 'dear' } as const
const tool = { name: 'Read', description: 'Reads a file.', input_schema: { type: 'object', properties: {} } }

/** Sends a request that says `text`. Throws an Error for an answer that is none of `Seen`. */
export async function ask(url: string, key: string, agentCall: AgentCall, text: string): Promise<Seen> {
  const { format, maxTokens, streamed, end } = agentCall
  const isChat = format === 'chat'
  const limit = maxTokens === null && isChat ? null : { max_tokens: maxTokens ?? 128_000 }
  const agents = isChat ? {} : { tools: [tool], thinking: { type: 'adaptive' } }
  const body = saying(models[format], text, { stream: streamed, ...limit, ...agents })
  const leaving = new AbortController()
  const path = isChat ? '/v1/chat/completions' : '/v1/messages'
  const answer = await send(url, path, { key, body, signal: leaving.signal })
  if (answer.status === 402) return 'refused'
  if (answer.status === 200 && streamed && end === 'leaves') {
    await answer.body!.getReader().read()
    leaving.abort()
    return 'left'
  }
  const received = await answer.text()
  if (end === 'breaks' && received.includes('"code":"upstream_error"')) return 'broken'
  if (answer.status !== 200) throw new Error(`${answer.status}: ${received}`)
  if (!streamed || /(?:data: \[DONE\]|"type":"message_stop"\})\n\n$/.test(received)) return 'answered'
  if (/"code":"(insufficient_credits|monthly_spend_cap_reached)"/.test(received)) return 'ended'
  throw new Error(received.slice(-500))
}

/** A provider that answers as the call says, within its limit, or until it is aborted; it pauses between events. */
export function answering({ streamed, pieces, end }: AgentCall, pauseMs: number): Reply {
  return (request, response) => {
    const { body, path } = request
    let left = body.max_completion_tokens ?? body.max_tokens ?? 128_000
    const within = pieces.map(count => {
      const granted = Math.min(count, left)
      left -= granted
      return granted
    })
    const completionTokens = within.reduce((sum, count) => sum + count, 0)
    const isNative = path === '/v1/messages'
    if (!streamed) {
      const whole = isNative ? wholeMessage(completionTokens) : wholeChat(completionTokens)
      return whole(request, response)
    }
    const stream = isNative ? messageStream(within, completionTokens) : chatStream(within, completionTokens)
    const isCut = end === 'breaks'
    const sent = isCut ? stream.slice(0, -1) : stream
    return events(sent, { intervalMs: pauseMs, end: isCut ? 'cut' : 'close' })(request, response)
  }
}

function wholeChat(completionTokens: number): Reply {
  const message = { role: 'assistant', content: 'Hi' }
  const choices = [{ index: 0, message, finish_reason: 'stop' }]
  return json(200, { ...chatChunk({}), choices, usage: usageOf(1, completionTokens) })
}

function wholeMessage(output_tokens: number): Reply {
  return messageReply({ content: [{ type: 'text', text: 'Hi' }], usage: { input_tokens: 1, output_tokens } })
}

/** The packets of a chat stream; the last one has the last piece and the end. */
function chatStream(pieces: number[], completionTokens: number): string[] {
  const deltas = pieces.map((count, at) => {
    const text = tokens(count)
    if (at === 0) return { reasoning_content: text }
    const isLast = at === pieces.length - 1
    return isLast
      ? { tool_calls: [{ index: 0, id: 'call_1', type: 'function', function: { name: 'Read', arguments: text } }] }
      : { content: text }
  })
  const usage = usageOf(1, completionTokens)
  const payloads = [
    ...deltas.map(delta => chatChunk(delta)),
    chatChunk({}, 'stop'),
    { ...chatChunk({}), choices: [], usage },
  ]
  const packets = payloads.map(payload => `data: ${JSON.stringify(payload)}\n\n`)
  return [...packets.slice(0, pieces.length - 1), `${packets.slice(pieces.length - 1).join('')}data: [DONE]\n\n`]
}

/** The same of a Messages stream. */
function messageStream(pieces: number[], output_tokens: number): string[] {
  const blocks = [
    { type: 'thinking', thinking: '', signature: 'c2lnbmVk' },
    { type: 'text', text: '' },
    { type: 'tool_use', id: 'toolu_1', name: 'Read', input: {} },
  ]
  const head = { id: 'msg_1', type: 'message', role: 'assistant', model: 'up' } as const
  const rest = { content: [], stop_reason: 'end_turn', stop_sequence: null, stop_details: null }
  const [start, ...end] = messageEvents({ ...head, ...rest, usage: { input_tokens: 1, output_tokens } }).map(sse)
  const packets = pieces.map((count, at) => {
    const index = at === 0 ? 0 : at === pieces.length - 1 ? 2 : 1
    const text = tokens(count)
    const delta = [
      { type: 'thinking_delta', thinking: text },
      { type: 'text_delta', text },
      { type: 'input_json_delta', partial_json: text },
    ][index]
    const isNew = at < 2 || index === 2
    const stop = isNew && at > 0 ? sse({ type: 'content_block_stop', ...{ index: at === 1 ? 0 : 1 } }) : ''
    const begin = isNew ? sse({ type: 'content_block_start', ...{ index, content_block: blocks[index] } }) : ''
    return `${stop}${begin}${sse({ type: 'content_block_delta', ...{ index, delta } })}`
  })
  const last = pieces.length === 1 ? 0 : 2
  packets[0] = start + packets[0]!
  packets[packets.length - 1] += sse({ type: 'content_block_stop', ...{ index: last } }) + end.join('')
  return packets
}
