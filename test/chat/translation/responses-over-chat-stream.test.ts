import fc from 'fast-check'
import type { Usage } from '../../../shared/base/usage.ts'
import type { ChatChunk, ChatDelta, FinishReason } from '../../../shared/kinds/chat.ts'
import type { ResponsesEvent, ResponsesObject } from '../../../shared/kinds/responses-answer.ts'
import { OverChatDecoder } from '../../../shared/providers/toolkit/over-chat/decoder.ts'
import { ResponseEventEncoder } from '../../../shared/providers/toolkit/responses-over-chat/stream.ts'
import { toolArguments } from '../../support/chat/arbitraries.ts'
import { toolDelta } from '../../support/chat/messages.ts'
import { openResponse } from '../../support/chat/open-responses.ts'
import {
  assertOrdered,
  chunk,
  encode,
  finalResponse,
  requestOf,
  respond,
  translate,
} from '../../support/chat/responses.ts'
import { test } from '../../support/test.ts'

const patch = { type: 'custom', name: 'apply_patch' }
const agents = { type: 'namespace', name: 'agents', tools: [{ type: 'function', name: 'spawn' }] }
const typesOf = (events: readonly ResponsesEvent[]) => events.map(({ type }) => type.replace('response.', ''))
const usage: Usage = {
  prompt_tokens: 100,
  completion_tokens: 20,
  total_tokens: 120,
  prompt_tokens_details: { cached_tokens: 60, cache_write_tokens: 30 },
  completion_tokens_details: { reasoning_tokens: 5 },
}

test('litellm#22102, #28899, ogx#5309: every event of a text in its order, and each whole', async t => {
  const logprobs = { content: [{ token: 'Hi', logprob: -0.1, bytes: null, top_logprobs: [] }] }
  const events = encode([
    chunk({ role: 'assistant', content: '' }),
    { ...chunk({}), choices: [{ index: 0, delta: { content: 'Hi' }, logprobs, finish_reason: null }] },
    chunk({ content: ' you' }, 'stop'),
    { ...chunk({}), choices: [], usage },
  ])
  assertOrdered(t, events)
  t.deepEqual(typesOf(events), [
    'created',
    'in_progress',
    'output_item.added',
    'content_part.added',
    'output_text.delta',
    'output_text.delta',
    'output_text.done',
    'content_part.done',
    'output_item.done',
    'completed',
  ])
  const at = { item_id: 'msg_1_0', output_index: 0, content_index: 0 }
  t.deepEqual(events[5], { type: 'response.output_text.delta', sequence_number: 5, ...at, delta: ' you', logprobs: [] })
  t.like(events[6], { text: 'Hi you', logprobs: logprobs.content })
  const response = await finalResponse(events)
  t.like(response, { id: 'resp_1', status: 'completed', created_at: 1, completed_at: 2, model: 'm' })
  t.deepEqual(response.usage, {
    input_tokens: 100,
    input_tokens_details: { cached_tokens: 60, cache_write_tokens: 30 },
    output_tokens: 20,
    output_tokens_details: { reasoning_tokens: 5 },
    total_tokens: 120,
  })
})

test('llama.cpp#21174: a response has every field, with the settings of its request', t => {
  const parsed = openResponse.parse(respond({ content: 'Hi' }))
  t.deepEqual(new Set(Object.keys(respond({ content: 'Hi' }))), new Set(Object.keys(parsed)))
  const body = {
    instructions: 'Be brief.',
    temperature: 0.5,
    max_output_tokens: 50,
    tools: [{ type: 'function', name: 'f' }, { type: 'web_search' }],
    tool_choice: 'required',
    metadata: { a: 'b' },
    reasoning: { effort: 'low' },
    safety_identifier: 's',
    prompt_cache_key: 'k',
  }
  const response = respond({ content: 'Hi' }, 'stop', { body })
  t.like(openResponse.parse(response), {
    instructions: 'Be brief.',
    temperature: 0.5,
    max_output_tokens: 50,
    tool_choice: 'required',
    metadata: { a: 'b' },
    reasoning: { effort: 'low', summary: null },
    safety_identifier: 's',
    prompt_cache_key: 'k',
    top_p: 1,
    truncation: 'disabled',
  })
  t.is(response.tools.length, 2)
})

test('calls whose deltas alternate are items of their own; one ends when its arguments are whole', async t => {
  const events = encode([
    chunk({ content: 'I look.' }),
    chunk(toolDelta(0, { id: 'a', name: 'get', arguments: '{"a"' })),
    chunk(toolDelta(1, { id: 'b', name: 'get', arguments: '' })),
    chunk(toolDelta(0, { arguments: ':1}' })),
    chunk(toolDelta(1, { arguments: '{"b":2}' })),
    chunk(toolDelta(0, { id: 'c', name: 'stop' })),
    chunk({}, 'tool_calls'),
  ])
  assertOrdered(t, events)
  const { output } = await finalResponse(events)
  t.deepEqual(output.slice(1) as object[], [
    ...[
      ['a', 'get', '{"a":1}'],
      ['b', 'get', '{"b":2}'],
      ['c', 'stop', '{}'],
    ].map(([call_id, name, args], index) => ({
      type: 'function_call',
      id: `fc_1_${index + 1}`,
      call_id,
      name,
      status: 'completed',
      arguments: args,
    })),
  ])
  const order = events.flatMap(event => (event.type === 'response.output_item.done' ? event.output_index : []))
  t.deepEqual(order, [0, 1, 2, 3])
  const lastBegun = events.findLastIndex(({ type }) => type === 'response.output_item.added')
  t.is(events.slice(0, lastBegun).filter(({ type }) => type === 'response.output_item.done').length, 3)
})

test('custom tools and tools of namespaces come back as the client names them, and go out again', async t => {
  const body = { tools: [patch, agents] }
  const deltas = [
    toolDelta(0, { id: 'a', name: 'apply_patch', arguments: '{"input":"*** ' }),
    toolDelta(0, { arguments: 'Begin"}' }),
    toolDelta(1, { id: 'b', name: 'agents__spawn', arguments: '{}' }),
    toolDelta(2, { id: 'c', name: 'apply_patch', arguments: 'no JSON' }),
  ]
  const events = encode([...deltas.map(delta => chunk(delta)), chunk({}, 'tool_calls')], body)
  assertOrdered(t, events)
  const { output } = await finalResponse(events, body)
  const status = 'completed'
  t.deepEqual(output as object[], [
    { type: 'custom_tool_call', id: 'ctc_1_0', call_id: 'a', name: 'apply_patch', input: '*** Begin', status },
    { type: 'function_call', id: 'fc_1_1', call_id: 'b', name: 'spawn', namespace: 'agents', arguments: '{}', status },
    { type: 'custom_tool_call', id: 'ctc_1_2', call_id: 'c', name: 'apply_patch', input: 'no JSON', status },
  ])
  const results = ['a', 'c'].map(call_id => ({ type: 'custom_tool_call_output', call_id, output: 'ok' }))
  const input = [{ role: 'user', content: 'Go' }, ...output, ...results]
  const [, turn] = translate({
    tools: body.tools,
    input: [...input, { type: 'function_call_output', call_id: 'b', output: 'ok' }],
  }).messages as { tool_calls: { function: object }[] }[]
  t.deepEqual(
    turn!.tool_calls.map(call => call.function),
    [
      { name: 'apply_patch', arguments: '{"input":"*** Begin"}' },
      { name: 'agents__spawn', arguments: '{}' },
      { name: 'apply_patch', arguments: '{"input":"no JSON"}' },
    ],
  )
})

test('reasoning is content, or a summary if one is asked for; sealed state ends its item and comes back', async t => {
  const signed = { type: 'reasoning.text', text: 'First. Then', signature: 'hg1.a', index: 0 }
  const encrypted = { type: 'reasoning.encrypted', data: 'hg1.b', index: 1 }
  const foreign = { type: 'reasoning.encrypted', data: 'of the provider', index: 2 }
  const delta = (reasoning_content: string, ...reasoning_details: NonNullable<ChatDelta['reasoning_details']>) => ({
    reasoning_content,
    reasoning_details,
  })
  const chunks = [
    chunk(delta('First. ', { ...signed, text: 'First. ', signature: undefined })),
    chunk(delta('Then', { ...signed, text: 'Then', signature: undefined })),
    chunk(delta('', { ...signed, text: '' })),
    chunk(delta('', encrypted)),
    chunk(delta('Last')),
    chunk({ content: 'Hi', ...delta('', foreign) }, 'stop'),
  ]
  const message = {
    content: 'Hi',
    reasoning_content: 'First. ThenLast',
    reasoning_details: [signed, encrypted, { type: 'reasoning.text', text: 'Last', index: 4 }, foreign],
  }
  for (const summary of [null, 'auto']) {
    const body = { reasoning: { summary } }
    const events = encode(chunks, body)
    assertOrdered(t, events)
    const { output } = await finalResponse(events, body)
    const shown = (text: string) =>
      summary
        ? { summary: text ? [{ type: 'summary_text', text }] : [] }
        : { summary: [], content: text ? [{ type: 'reasoning_text', text }] : [] }
    const item = (index: number, text: string, encrypted_content: string | null) => ({
      type: 'reasoning',
      id: `rs_1_${index}`,
      ...shown(text),
      encrypted_content,
      status: 'completed',
    })
    t.deepEqual(output.slice(0, 3) as object[], [
      item(0, 'First. Then', 'hg1.a'),
      item(1, '', 'hg1.b'),
      item(2, 'Last', null),
    ])
    t.deepEqual(respond(message, 'stop', { body }).output, output)
    const input = [{ role: 'user', content: 'Go' }, ...output, { role: 'user', content: 'On' }]
    const [, returned] = translate({ input }).messages
    t.deepEqual(returned as object, {
      role: 'assistant',
      content: 'Hi',
      reasoning_content: 'First. ThenLast',
      reasoning_details: [
        { type: 'reasoning.text', text: 'First. Then', signature: 'hg1.a', index: 0 },
        { type: 'reasoning.text', text: '', signature: 'hg1.b', index: 1 },
      ],
    })
  }
})

test('incomplete by length and filter, completed by a refusal: status and items of the last event', async t => {
  const ends = async (deltas: ChatDelta[], finish: FinishReason) => {
    const events = encode([...deltas.map(one => chunk(one)), chunk({}, finish)])
    assertOrdered(t, events)
    const { status, incomplete_details, completed_at, output } = await finalResponse(events)
    t.is(completed_at, status === 'completed' ? 2 : null)
    return [status, incomplete_details?.reason, ...output.map(item => item.status)]
  }
  const text = [{ content: 'Hi' }]
  const thought = { reasoning_content: 'Hm' }
  const whole = toolDelta(0, { id: 'a', name: 'f', arguments: '{}' })
  const cut = toolDelta(1, { id: 'b', name: 'f', arguments: '{"a' })
  t.deepEqual(await ends(text, 'stop'), ['completed', undefined, 'completed'])
  t.deepEqual(await ends([thought, ...text], 'length'), ['incomplete', 'max_output_tokens', 'completed', 'incomplete'])
  t.deepEqual(await ends([thought], 'length'), ['incomplete', 'max_output_tokens', 'incomplete'])
  t.deepEqual(await ends([whole, cut], 'length'), ['incomplete', 'max_output_tokens', 'completed', 'incomplete'])
  t.deepEqual(await ends([], 'length'), ['incomplete', 'max_output_tokens'])
  t.deepEqual(await ends(text, 'content_filter'), ['incomplete', 'content_filter', 'incomplete'])
  t.deepEqual(await ends(text, 'tool_calls'), ['completed', undefined, 'completed'])
  const refused = encode([chunk({ content: 'Hm' }), chunk({ refusal: 'N' }), chunk({ refusal: 'o.' }, 'stop')])
  assertOrdered(t, refused)
  const [item] = (await finalResponse(refused)).output
  t.like(item, {
    content: [
      { type: 'output_text', text: 'Hm' },
      { type: 'refusal', refusal: 'No.' },
    ],
  })
  t.deepEqual(respond({ content: 'Hm', refusal: 'No.' }).output, [item!])
  const failed = respond({ content: 'Hi' }, 'error')
  t.like(openResponse.parse(failed), { status: 'failed', completed_at: null, error: { code: 'server_error' } })
})

test('a stream without usage ends with an estimate; a truncated or failed one does not end', t => {
  const last = encode([chunk({ content: 'Hello, world' }, 'stop')]).at(-1)
  t.like(last, { response: { usage: { input_tokens: 7, output_tokens: 3, total_tokens: 10 } } })
  const decoderOf = (done: boolean, finish: FinishReason | null = null) => {
    const chat = { done, push: () => [chunk({ content: 'Hi' }, finish)] }
    const options = { request: requestOf(), now: () => 2, estimatedInputTokens: 1 }
    return new OverChatDecoder(chat, new ResponseEventEncoder(options))
  }
  const whole = decoderOf(true)
  t.deepEqual(whole.end(), [], 'nothing came')
  whole.push({ event: '', data: '' })
  t.is(whole.usage, undefined)
  t.is(whole.end().at(-1)!.type, 'response.completed')
  t.deepEqual(whole.end(), [])
  t.deepEqual(whole.push({ event: '', data: '' }), [])
  t.like(whole.usage, { prompt_tokens: 1, completion_tokens: 1, estimated: true })
  for (const broken of [decoderOf(false), decoderOf(true, 'error')]) {
    broken.push({ event: '', data: '' })
    t.deepEqual(broken.end(), [])
  }
})

const pieces = fc.array(fc.string({ minLength: 1, maxLength: 6 }), { maxLength: 4 })
const count = fc.nat({ max: 100_000 })
const answers = fc.record({
  thoughts: pieces,
  texts: pieces,
  refusals: pieces,
  calls: fc.array(
    fc.record({
      name: fc.constantFrom('get', 'apply_patch', 'agents__spawn'),
      input: toolArguments,
      cut: fc.nat(40),
    }),
    { maxLength: 3 },
  ),
  usage: fc.record({ prompt_tokens: count, completion_tokens: count, total_tokens: count }),
  finish: fc.constantFrom<FinishReason>('stop', 'length', 'tool_calls', 'content_filter'),
  summary: fc.constantFrom(null, 'auto'),
  /** Which lane comes next; null = one lane after the other, as most providers send them. */
  schedule: fc.option(fc.array(fc.nat(5), { maxLength: 30 })),
})
type Answer = typeof answers extends fc.Arbitrary<infer T> ? T : never

function completeAnswer({ thoughts, texts, refusals, calls, usage, finish, summary }: Answer): ResponsesObject {
  const tool_calls = calls.map(({ name, input }, index) => ({
    id: `call_${index}`,
    type: 'function' as const,
    function: { name, arguments: JSON.stringify(input) },
  }))
  const message = {
    content: texts.join('') || null,
    refusal: refusals.join('') || null,
    reasoning_content: thoughts.join(''),
    ...(tool_calls.length > 0 && { tool_calls }),
  }
  return respond(message, finish, { usage, body: bodyOf(summary) })
}

/** The same answer as a stream: each lane keeps its order, and the schedule mixes them. */
function streamedAnswer({ thoughts, texts, refusals, calls, usage, finish, schedule }: Answer): ChatChunk[] {
  const lanes: ChatDelta[][] = [
    thoughts.map(reasoning_content => ({ reasoning_content })),
    texts.map(content => ({ content })),
    refusals.map(refusal => ({ refusal })),
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

const bodyOf = (summary: string | null) => ({ tools: [patch, agents], reasoning: { summary } })

/** The texts of an answer by kind, and its calls by their ids: what does not depend on the order of the deltas. */
function contentsOf({ output }: ResponsesObject) {
  const contents: Record<string, string> = { reasoning: '', output_text: '', refusal: '' }
  for (const item of output) {
    if (item.type === 'reasoning')
      for (const { text } of [...item.summary, ...(item.content ?? [])]) contents.reasoning += text
    if (item.type === 'message')
      for (const part of item.content) contents[part.type] += part.type === 'refusal' ? part.refusal : part.text
  }
  const calls = output.flatMap(item => ('call_id' in item ? { ...item, id: '' } : []))
  return { contents, calls: calls.sort((a, b) => ((a.call_id ?? '') < (b.call_id ?? '') ? -1 : 1)) }
}

test('the SDK reads any stream as the same response as the complete answer', async t => {
  await fc.assert(
    fc.asyncProperty(answers, async answer => {
      const body = bodyOf(answer.summary)
      const events = encode(streamedAnswer(answer), body)
      assertOrdered(t, events)
      const streamed = await finalResponse(events, body)
      const complete = completeAnswer(answer)
      openResponse.parse(complete)
      if (answer.schedule === null) t.deepEqual(streamed, complete)
      else {
        t.deepEqual({ ...streamed, output: [] }, { ...complete, output: [] })
        t.deepEqual(contentsOf(streamed), contentsOf(complete))
      }
    }),
    { numRuns: 100 },
  )
})

test('an answer that the client sends back is the same chat message: ids, names, arguments, text and reasoning', t => {
  fc.assert(
    fc.property(answers, answer => {
      const { output } = completeAnswer({ ...answer, refusals: [] })
      const results = output.flatMap(item =>
        'call_id' in item ? { type: `${item.type}_output`, call_id: item.call_id, output: 'ok' } : [],
      )
      const input = [{ role: 'user', content: 'Go' }, ...output, ...results, { role: 'user', content: 'On' }]
      const [, returned, ...rest] = translate({ ...bodyOf(null), input }).messages
      const text = answer.texts.join('')
      const isShown = text.trim() !== '' || answer.calls.length > 0
      // Reasoning alone is no turn, so the user's messages around it are one.
      if (!isShown) return t.deepEqual([returned, ...rest], [undefined])
      t.is(rest.length, results.length + 1)
      const thoughts = answer.thoughts.join('')
      const tool_calls = answer.calls.map(({ name, input: args }, index) => {
        const json = JSON.stringify(args)
        // What is no `input` of a custom tool is its input as it is.
        const isInput = name !== 'apply_patch' || typeof args.input === 'string'
        const sent = isInput && name === 'apply_patch' ? JSON.stringify({ input: args.input }) : json
        const custom = isInput ? sent : JSON.stringify({ input: json })
        return { id: `call_${index}`, type: 'function', function: { name, arguments: custom } }
      })
      t.deepEqual(returned as object, {
        role: 'assistant',
        content: text.trim() === '' ? null : text,
        ...(thoughts !== '' && { reasoning_content: thoughts }),
        ...(tool_calls.length > 0 && { tool_calls }),
      })
    }),
  )
})
