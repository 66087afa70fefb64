import fc from 'fast-check'
import type { Usage } from '../../../shared/base/usage.ts'
import type { ChatChunk, ChatCompletion, ChatDelta } from '../../../shared/kinds/chat.ts'
import type { Message } from '../../../shared/kinds/messages.ts'
import { messagesUsage } from '../../../shared/kinds/messages-usage.ts'
import { emptyEnvelope } from '../../../shared/kinds/reasoning.ts'
import { toMessage } from '../../../shared/providers/toolkit/messages-over-chat/answer.ts'
import { MessageEventEncoder } from '../../../shared/providers/toolkit/messages-over-chat/stream.ts'
import { OverChatDecoder } from '../../../shared/providers/toolkit/over-chat/decoder.ts'
import { toolArguments } from '../../support/chat/arbitraries.ts'
import {
  assertOrdered,
  chunk,
  encode,
  finalMessage,
  result,
  toolDelta,
  translate,
} from '../../support/chat/messages.ts'
import { test } from '../../support/test.ts'

test('ccNexus#89: calls whose deltas alternate become one block after the other', async t => {
  const events = encode([
    chunk({ role: 'assistant', content: '' }),
    chunk({ reasoning_content: 'Hm' }),
    chunk(toolDelta(0, { id: 'a', name: 'Read', arguments: '{"a"' })),
    chunk(toolDelta(1, { id: 'b', name: 'Read', arguments: '' })),
    chunk(toolDelta(0, { arguments: ':1}' })),
    chunk(toolDelta(1, { arguments: '{"b":2}' })),
    chunk({ content: 'Late' }),
    chunk({}, 'stop'),
  ])
  assertOrdered(t, events)
  t.deepEqual(
    events.flatMap(event => (event.type === 'content_block_start' ? event.content_block.type : [])),
    ['thinking', 'tool_use', 'tool_use', 'text'],
  )
  const message = await finalMessage(events)
  t.like(message.content[1], { type: 'tool_use', id: 'a', input: { a: 1 } })
  t.like(message.content[2], { type: 'tool_use', id: 'b', input: { b: 2 } })
  t.is(message.stop_reason, 'tool_use', 'although the provider said `stop`')
})

test('a call is written as it arrives once the one before it has ended; equal indexes with other ids are other calls', t => {
  const encoder = new MessageEventEncoder({ estimatedInputTokens: 1 })
  const typesOf = (delta: ChatDelta) => encoder.push(chunk(delta)).map(({ type }) => type)
  t.deepEqual(typesOf(toolDelta(0, { id: 'a', name: 'Read', arguments: '{}' })), [
    'message_start',
    'content_block_start',
    'content_block_delta',
  ])
  t.deepEqual(typesOf(toolDelta(0, { id: 'b', name: 'Read' })), ['content_block_stop', 'content_block_start'])
  t.deepEqual(typesOf(toolDelta(0, { id: 'b', arguments: '{' })), ['content_block_delta'])
  t.deepEqual(typesOf(toolDelta(0, { arguments: '}' })), ['content_block_delta'])
})

test('mapped: finish_reason to stop_reason, each value', async t => {
  const stops = async (
    deltas: ChatDelta[],
    finish: ChatChunk['choices'][number]['finish_reason'],
    extra: object = {},
  ) => {
    const last = chunk({}, finish)
    Object.assign(last.choices[0]!, extra)
    const { stop_reason, stop_sequence } = await finalMessage(encode([...deltas.map(one => chunk(one)), last], ['END']))
    return [stop_reason, stop_sequence]
  }
  const text = [{ content: 'Hi' }]
  t.deepEqual(await stops(text, 'stop'), ['end_turn', null])
  t.deepEqual(await stops(text, 'length'), ['max_tokens', null])
  t.deepEqual(await stops(text, 'tool_calls'), ['end_turn', null], 'without a call there is nothing to run')
  t.deepEqual(await stops(text, 'content_filter'), ['refusal', null])
  t.deepEqual(await stops([{ refusal: 'No.' }], 'stop'), ['refusal', null])
  t.deepEqual(await stops([toolDelta(0, { id: 'a', name: 'Read' })], 'stop'), ['tool_use', null])
  t.deepEqual(await stops(text, 'stop', { stop_reason: 'END' }), ['stop_sequence', 'END'])
  t.deepEqual(await stops(text, 'stop', { stop_reason: 'other' }), ['end_turn', null])
})

test('a stream starts with an estimate and ends with the true usage; thinking ends with one signature', async t => {
  const usage: Usage = {
    prompt_tokens: 100,
    completion_tokens: 20,
    total_tokens: 120,
    prompt_tokens_details: { cached_tokens: 60, cache_write_tokens: 30, cache_write_1h_tokens: 10 },
    completion_tokens_details: { reasoning_tokens: 5 },
  }
  const events = encode([
    chunk({ reasoning_content: 'Hm' }),
    chunk({ content: 'Hi' }, 'stop'),
    { ...chunk({}), choices: [], usage },
  ])
  t.like(events[0], { message: { id: 'msg_1', usage: { input_tokens: 7, cache_read_input_tokens: 0 } } })
  t.deepEqual(events.slice(1, 5), [
    { type: 'content_block_start', index: 0, content_block: { type: 'thinking', thinking: '', signature: '' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'thinking_delta', thinking: 'Hm' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'signature_delta', signature: emptyEnvelope } },
    { type: 'content_block_stop', index: 0 },
  ])
  t.regex(emptyEnvelope, /^hg1\.[\w-]+$/)
  const { usage: shown } = await finalMessage(events)
  t.like(shown, { input_tokens: 10, cache_read_input_tokens: 60, cache_creation_input_tokens: 30, output_tokens: 20 })
  t.deepEqual(messagesUsage(usage).cache_creation, { ephemeral_5m_input_tokens: 20, ephemeral_1h_input_tokens: 10 })
})

test('sealed reasoning state travels in signatures and redacted blocks, streamed or not, and back', async t => {
  const signed = { type: 'reasoning.text', text: 'First. Then', signature: 'hg1.a', index: 0 }
  const encrypted = { type: 'reasoning.encrypted', data: 'hg1.b', index: 1 }
  const hidden = { type: 'reasoning.text', text: '', signature: 'hg1.c', index: 2 }
  const foreign = { type: 'reasoning.encrypted', data: 'of the provider', index: 3 }
  const delta = (reasoning_content: string, ...details: NonNullable<ChatDelta['reasoning_details']>): ChatDelta =>
    Object.assign({ reasoning_content }, { reasoning_details: details })
  const streamed = await finalMessage(
    encode([
      chunk(delta('First. ', { ...signed, text: 'First. ', signature: undefined })),
      chunk(delta('Then', { ...signed, text: 'Then', signature: undefined })),
      chunk(delta('', { ...signed, text: '' })),
      chunk(delta('', encrypted)),
      chunk(delta('', hidden)),
      chunk(delta('Last')),
      chunk({ content: 'Hi', ...delta('', foreign) }, 'stop'),
    ]),
  )
  const details = [signed, encrypted, hidden, { type: 'reasoning.text', text: 'Last', index: 4 }, foreign]
  const message = Object.assign(
    { role: 'assistant' as const, content: 'Hi', reasoning_content: 'First. ThenLast' },
    { reasoning_details: details },
  )
  const choices = [{ index: 0, message, finish_reason: 'stop' as const }]
  const complete = toMessage({ id: 'chatcmpl-1', object: 'chat.completion', created: 1, model: 'm', choices })
  t.deepEqual(streamed.content as object[], [
    { type: 'thinking', thinking: 'First. Then', signature: 'hg1.a' },
    { type: 'redacted_thinking', data: 'hg1.b' },
    { type: 'thinking', thinking: '', signature: 'hg1.c' },
    { type: 'thinking', thinking: 'Last', signature: emptyEnvelope },
    { type: 'text', text: 'Hi' },
  ])
  t.deepEqual(complete.content as object[], streamed.content)
  const earlier = { role: 'assistant', content: [...complete.content, { type: 'redacted_thinking', data: 'foreign' }] }
  const [, returned] = translate({ messages: [{ role: 'user', content: 'Go' }, earlier] }).messages
  t.deepEqual(returned as object, {
    role: 'assistant',
    content: 'Hi',
    reasoning_content: 'First. ThenLast',
    reasoning_details: [signed, encrypted, hidden],
  })
})

test('state without thinking comes right before a call, and never before or after a text alone', async t => {
  const state = { reasoning_details: [{ type: 'reasoning.encrypted', data: 'hg1.b', index: 0 }] }
  const text = { content: 'Hi' }
  const call = toolDelta(0, { id: 'a', name: 'Read' })
  const typesOf = (content: readonly { type: string }[]) => content.map(({ type }) => type)
  const orders: [deltas: ChatDelta[], types: string[]][] = [
    [[state, text], ['text']],
    [[text, state], ['text']],
    [
      [state, text, call],
      ['text', 'redacted_thinking', 'tool_use'],
    ],
    [
      [text, state, call],
      ['text', 'redacted_thinking', 'tool_use'],
    ],
  ]
  for (const [deltas, types] of orders) {
    const streamed = await finalMessage(
      encode(deltas.map((delta, i) => chunk(delta, i + 1 < deltas.length ? null : 'stop'))),
    )
    t.deepEqual(typesOf(streamed.content), types)
    const tool_calls = [{ id: 'a', type: 'function' as const, function: { name: 'Read', arguments: '{}' } }]
    const message = { role: 'assistant' as const, ...text, ...state, ...(deltas.includes(call) && { tool_calls }) }
    const choices = [{ index: 0, message, finish_reason: 'stop' as const }]
    const complete = toMessage({ id: 'chatcmpl-1', object: 'chat.completion', created: 1, model: 'm', choices })
    t.deepEqual(typesOf(complete.content), types)
  }
})

test('a stream without usage ends with an estimate, and a truncated one does not end', t => {
  const [final] = encode([chunk({ content: 'Hello, world' }, 'stop')]).slice(-2)
  t.like(final, { usage: { input_tokens: 7, output_tokens: 3 } })
  const decoderOf = (done: boolean) => {
    const chat = { done, push: () => [chunk({ content: 'Hi' })] }
    return new OverChatDecoder(chat, new MessageEventEncoder({ estimatedInputTokens: 1 }))
  }
  const whole = decoderOf(true)
  t.deepEqual(whole.end(), [], 'nothing came')
  whole.push({ event: '', data: '' })
  t.is(whole.usage, undefined)
  t.is(whole.end().at(-1)!.type, 'message_stop')
  t.like(whole.usage, { prompt_tokens: 1, completion_tokens: 1, estimated: true })
  const truncated = decoderOf(false)
  truncated.push({ event: '', data: '' })
  t.deepEqual(truncated.end(), [])
})

const count = fc.nat({ max: 100_000 })
const usages: fc.Arbitrary<Usage> = fc
  .record({ prompt: count, output: count, cached: count, written: count, written1h: count, thought: count })
  .map(({ prompt, output, cached, written, written1h, thought }) => ({
    prompt_tokens: prompt,
    completion_tokens: output,
    total_tokens: prompt + output,
    prompt_tokens_details: { cached_tokens: cached, cache_write_tokens: written, cache_write_1h_tokens: written1h },
    completion_tokens_details: { reasoning_tokens: thought },
  }))

test('the classes of a usage add up to its total, whatever the provider reports', t => {
  fc.assert(
    fc.property(usages, usage => {
      const shown = messagesUsage(usage)
      const { ephemeral_5m_input_tokens: for5m, ephemeral_1h_input_tokens: for1h } = shown.cache_creation!
      const counts = [shown.input_tokens, shown.cache_read_input_tokens!, for5m, for1h, shown.output_tokens]
      t.true(counts.every(one => one >= 0))
      t.is(for5m + for1h, shown.cache_creation_input_tokens!)
      t.is(
        counts.reduce((sum, one) => sum + one),
        usage.total_tokens,
      )
    }),
  )
})

const pieces = fc.array(fc.string({ minLength: 1, maxLength: 6 }), { maxLength: 4 })
const calls = fc.array(
  fc.record({
    name: fc.constantFrom('Read', 'Write'),
    input: toolArguments,
    cut: fc.nat(40),
  }),
  { maxLength: 3 },
)
const answers = fc.record({
  thoughts: pieces,
  texts: pieces,
  calls,
  usage: usages,
  finish: fc.constantFrom('stop' as const, 'length' as const, 'tool_calls' as const),
  /** Which lane comes next; null = one lane after the other, as most providers send them. */
  schedule: fc.option(fc.array(fc.nat(4), { maxLength: 30 })),
})
type Answer = typeof answers extends fc.Arbitrary<infer T> ? T : never

function completeAnswer({ thoughts, texts, calls, usage, finish }: Answer): ChatCompletion {
  const toolCalls = calls.map(({ name, input }, index) => ({
    id: `call_${index}`,
    type: 'function' as const,
    function: { name, arguments: JSON.stringify(input) },
  }))
  const message = {
    role: 'assistant' as const,
    content: texts.join('') || null,
    reasoning_content: thoughts.join(''),
    ...(toolCalls.length > 0 && { tool_calls: toolCalls }),
  }
  const choices = [{ index: 0, message, finish_reason: finish }]
  return { id: 'chatcmpl-1', object: 'chat.completion', created: 1, model: 'm', choices, usage }
}

/** The same answer as a stream: each lane keeps its order, and the schedule mixes them. */
function streamedAnswer({ thoughts, texts, calls, usage, finish, schedule }: Answer): ChatChunk[] {
  const lanes: ChatDelta[][] = [
    thoughts.map(reasoning_content => ({ reasoning_content })),
    texts.map(content => ({ content })),
    ...calls.map(({ name, input, cut }, index) => {
      const json = JSON.stringify(input)
      const first = toolDelta(index, { id: `call_${index}`, name, arguments: json.slice(0, cut) })
      return [first, toolDelta(index, { arguments: json.slice(cut) })]
    }),
  ]
  const mixed = (schedule ?? []).flatMap(lane => lanes[lane]?.splice(0, 1) ?? [])
  const last = { ...chunk({}), choices: [], usage }
  return [...[...mixed, ...lanes.flat()].map(delta => chunk(delta)), chunk({}, finish), last]
}

const solid = (text: string) => text.replace(/\s/g, '')
const textOf = ({ content }: Pick<Message, 'content'>, type: 'text' | 'thinking') =>
  solid(content.map(block => (block.type === type ? (block as unknown as Record<string, string>)[type] : '')).join(''))
const toolsIn = ({ content }: Pick<Message, 'content'>) =>
  content.filter(block => block.type === 'tool_use').sort((a, b) => (a.id < b.id ? -1 : 1))

test('the SDK reads any stream as the same message as the complete answer', async t => {
  await fc.assert(
    fc.asyncProperty(answers, async answer => {
      const events = encode(streamedAnswer(answer))
      assertOrdered(t, events)
      const streamed = JSON.parse(JSON.stringify(await finalMessage(events))) as Message
      const complete = JSON.parse(JSON.stringify(toMessage(completeAnswer(answer)))) as Message
      delete streamed.usage.cache_creation
      delete streamed.parsed_output
      delete complete.usage.cache_creation
      if (answer.schedule === null) t.deepEqual(streamed, complete)
      else {
        t.deepEqual({ ...streamed, content: [] }, { ...complete, content: [] })
        for (const type of ['text', 'thinking'] as const) t.is(textOf(streamed, type), textOf(complete, type))
        t.deepEqual(toolsIn(streamed), toolsIn(complete))
      }
    }),
    { numRuns: 100 },
  )
})

test('an answer that the client sends back is the same chat message: ids, arguments, text and reasoning', t => {
  fc.assert(
    fc.property(answers, answer => {
      const complete = completeAnswer(answer)
      const { content } = toMessage(complete)
      const { message } = complete.choices[0]!
      const results = answer.calls.map((_, index) => result(`call_${index}`, 'ok'))
      const messages = [
        { role: 'user', content: 'Go' },
        { role: 'assistant', content },
        { role: 'user', content: [...results, { type: 'text', text: 'Go on' }] },
      ]
      const [, returned, ...rest] = translate({ messages }).messages as (typeof message)[]
      // Nothing but thinking is no turn, so the user's turns around it are one.
      if (content.every(({ type }) => type === 'thinking')) return t.deepEqual([returned, ...rest], [undefined])
      t.is(rest.length, results.length + 1)
      t.deepEqual(returned!.tool_calls, message.tool_calls)
      t.is(returned!.content, message.content?.trim() ? message.content : null)
      t.is(returned!.reasoning_content ?? '', message.reasoning_content?.trim() ? message.reasoning_content : '')
    }),
  )
})

test('arguments that are no JSON object are handed on as text', t => {
  const answer = completeAnswer({
    thoughts: [],
    texts: [],
    calls: [],
    usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 },
    finish: 'length',
    schedule: null,
  })
  const inputOf = (args: string) => {
    const message = {
      ...answer.choices[0]!.message,
      tool_calls: [{ id: '', type: 'function' as const, function: { name: 'Read', arguments: args } }],
    }
    return toMessage({ ...answer, choices: [{ ...answer.choices[0]!, message }] }).content[0]
  }
  t.like(inputOf(''), { id: 'toolu_1_0', input: {} })
  t.like(inputOf('{"a":1'), { input: { invalid_json: '{"a":1' } })
  t.like(inputOf('[1]'), { input: { invalid_json: '[1]' } })
})
