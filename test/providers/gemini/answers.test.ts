import fc from 'fast-check'
import type { ChatChunk, ChatCompletion, ToolCall } from '../../../shared/kinds/chat.ts'
import { gemini } from '../../../shared/providers/adapters/gemini/protocol.ts'
import type { ProviderError } from '../../../shared/providers/provider-error.ts'
import { toolArguments } from '../../support/chat/arbitraries.ts'
import { chatCall } from '../../support/providers/gemini-calls.ts'
import { test } from '../../support/test.ts'

const chat = gemini.direct.chat!

type Part = { text?: string; thought?: boolean; functionCall?: object; thoughtSignature?: string; inlineData?: object }
const candidate = (parts: Part[], finishReason: string | undefined = 'STOP', index = 0) => ({
  content: { role: 'model', parts },
  finishReason,
  index,
})
const answer = (parts: Part[], finishReason?: string) =>
  chat.answer({ candidates: [candidate(parts, finishReason)] }, chatCall({}))
const event = (json: unknown) => ({ event: '', data: JSON.stringify(json) })

/** All chunks of these events, and whether the answer was complete then. */
function decode(events: unknown[], fields: object = {}) {
  const decoder = chat.stream!(chatCall({ stream: true, ...fields }))
  const chunks = events.flatMap(json => decoder.push(event(json)))
  return { chunks, done: decoder.done }
}

/** What a client has after all chunks: the choices and usage of a whole answer. */
function folded(chunks: ChatChunk[]): Pick<ChatCompletion, 'choices' | 'usage'> {
  const choices = new Map<number, ChatCompletion['choices'][number]>()
  let usage: ChatCompletion['usage']
  for (const chunk of chunks) {
    usage = chunk.usage ?? usage
    for (const { index, delta, finish_reason } of chunk.choices) {
      const choice = choices.get(index) ?? {
        index,
        message: { role: 'assistant', content: '' },
        finish_reason: 'error',
      }
      choices.set(index, choice)
      const { message } = choice
      message.content += delta.content ?? ''
      if (delta.reasoning_content)
        message.reasoning_content = (message.reasoning_content ?? '') + delta.reasoning_content
      if (delta.images) message.images = [...(message.images ?? []), ...delta.images]
      for (const { index: place, ...toolCall } of delta.tool_calls ?? [])
        (message.tool_calls ??= [])[place] = toolCall as ToolCall
      if (finish_reason) choice.finish_reason = finish_reason
    }
  }
  // OpenAI: no text beside calls or images is null.
  for (const { message } of choices.values()) if (message.tool_calls || message.images) message.content ||= null
  return { choices: [...choices.values()].sort((a, b) => a.index - b.index), ...(usage && { usage }) }
}

test('usage whose candidates are not counted: the rest of the total; none where nothing is counted', t => {
  const usageOf = (usageMetadata: object) =>
    chat.answer({ candidates: [candidate([{ text: 'a' }])], usageMetadata }, chatCall({})).usage
  t.like(usageOf({ promptTokenCount: 10, totalTokenCount: 15 }), { prompt_tokens: 10, completion_tokens: 5 })
  t.like(usageOf({ promptTokenCount: 10, thoughtsTokenCount: 7, totalTokenCount: 17 }), { completion_tokens: 7 })
  t.like(usageOf({ promptTokenCount: 10, candidatesTokenCount: 2, totalTokenCount: 99 }), { completion_tokens: 2 })
  t.is(usageOf({ trafficType: 'ON_DEMAND' }), undefined)
})

test('golden: usage', t => {
  const usageMetadata = {
    promptTokenCount: 100,
    cachedContentTokenCount: 40,
    toolUsePromptTokenCount: 5,
    candidatesTokenCount: 10,
    thoughtsTokenCount: 30,
    totalTokenCount: 145,
  }
  const usage = {
    prompt_tokens: 105,
    completion_tokens: 40,
    total_tokens: 145,
    prompt_tokens_details: { cached_tokens: 40 },
    completion_tokens_details: { reasoning_tokens: 30 },
  }
  const json = { candidates: [candidate([{ text: 'a' }])], usageMetadata }
  t.deepEqual(chat.answer(json, chatCall({})).usage, usage)
  const last = decode([json]).chunks.at(-1)
  t.deepEqual([last?.choices, last?.usage], [[], usage])
  t.is(answer([{ text: 'a' }]).usage, undefined)
})

test('whole: text, reasoning, calls and images', t => {
  const { choices, ...head } = answer([
    { text: 'think', thought: true },
    { text: 'Hel' },
    { text: 'lo' },
    { functionCall: { id: 'f-1', name: 'w', args: { city: 'Oslo' } } },
    { functionCall: { name: 'now' } },
    { inlineData: { mimeType: 'image/png', data: 'AAAA' } },
    { inlineData: { mimeType: 'audio/wav', data: 'AAAA' } },
  ])
  t.like(head, { object: 'chat.completion', model: 'X' })
  const [first, second] = choices[0]!.message.tool_calls!
  t.deepEqual(first, { id: 'f-1', type: 'function', function: { name: 'w', arguments: '{"city":"Oslo"}' } })
  t.regex(second!.id, /^call_[0-9a-f]{24}$/)
  t.is(second!.function.arguments, '{}')
  t.like(choices[0], {
    finish_reason: 'tool_calls',
    message: { role: 'assistant', content: 'Hello', reasoning_content: 'think' },
  })
  t.deepEqual(choices[0]!.message.images, [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }])
})

const troubles = ['OTHER', 'LANGUAGE', 'SOMETHING_NEW']
const filters = [
  'SAFETY',
  'RECITATION',
  'BLOCKLIST',
  'PROHIBITED_CONTENT',
  'SPII',
  'IMAGE_SAFETY',
  'IMAGE_PROHIBITED_CONTENT',
  'IMAGE_RECITATION',
  // Recorded by pydantic-ai: the operator's Model Armor template stops an answer.
  'MODEL_ARMOR',
]
const finishes: [string, string, string | null][] = [
  ['STOP', 'stop', 'stop'],
  ['MAX_TOKENS', 'length', 'length'],
  ...filters.map((reason): [string, string, string] => [reason, 'content_filter', 'content_filter']),
  // No picture where one was expected.
  ['NO_IMAGE', 'stop', 'content_filter'],
  ['IMAGE_OTHER', 'stop', 'content_filter'],
  ...troubles.map((reason): [string, string, null] => [reason, 'stop', null]),
]
for (const [reason, withText, empty] of finishes) {
  test(`finish: ${reason} is ${withText} after text and ${empty ?? 'an error'} after nothing`, t => {
    t.is(answer([{ text: 'a' }], reason).choices[0]?.finish_reason, withText as never)
    t.is(
      decode([{ candidates: [candidate([{ text: 'a' }], reason)] }]).chunks.at(-1)?.choices[0]?.finish_reason,
      withText as never,
    )
    const nothing = { candidates: [candidate([], reason)] }
    if (empty) {
      t.deepEqual(folded(decode([nothing]).chunks).choices, answer([], reason).choices)
      t.is(answer([], reason).choices[0]?.finish_reason, empty as never)
    } else {
      t.is(t.throws<ProviderError>(() => answer([], reason)).reason, 'invalid_response')
      t.is(t.throws<ProviderError>(() => decode([nothing])).reason, 'invalid_response')
    }
  })
}

for (const [reason, code] of [
  ['MALFORMED_FUNCTION_CALL', 'tool_use_failed'],
  ['UNEXPECTED_TOOL_CALL', 'tool_use_failed'],
  ['TOO_MANY_TOOL_CALLS', 'tool_use_failed'],
  ['MALFORMED_RESPONSE', 'output_parse_failed'],
] as const)
  test(`finish: ${reason} is the model’s fault after text and after nothing, and tool_calls after a call`, t => {
    for (const parts of [[], [{ text: 'Let me edit the file:' }]]) {
      const whole = t.throws<ProviderError>(() => answer(parts, reason))
      const streamed = t.throws<ProviderError>(() => decode([{ candidates: [candidate(parts, reason)] }]))
      for (const { reason: fault, modelFault } of [whole, streamed])
        t.deepEqual([fault, modelFault?.code], ['model_fault', code])
    }
    const called = [{ text: 'a' }, { functionCall: { name: 'w', args: {} } }]
    t.is(answer(called, reason).choices[0]?.finish_reason, 'tool_calls')
    const { chunks } = decode([{ candidates: [candidate(called, reason)] }])
    t.is(chunks.at(-1)?.choices[0]?.finish_reason, 'tool_calls')
  })

test('content_filter when the prompt was blocked, whole and streamed', t => {
  const blocked = { promptFeedback: { blockReason: 'SAFETY' }, usageMetadata: { promptTokenCount: 8 } }
  const whole = chat.answer(blocked, chatCall({}))
  t.like(whole, {
    choices: [{ finish_reason: 'content_filter', message: { content: '' } }],
    usage: { prompt_tokens: 8 },
  })
  const { chunks, done } = decode([blocked])
  t.true(done)
  t.deepEqual(folded(chunks), { choices: whole.choices, usage: whole.usage })
})

test('stream: role once, whole calls, the end, then usage without choices', t => {
  const common = { modelVersion: 'g', responseId: 'r1' }
  const parts = [{ text: 'lo' }, { functionCall: { id: 'c1', name: 'get_weather', args: { city: 'Oslo' } } }]
  const { chunks, done } = decode([
    {
      candidates: [{ content: { role: 'model', parts: [{ text: 'Hel' }] }, index: 0 }],
      usageMetadata: { promptTokenCount: 8 },
      ...common,
    },
    {
      candidates: [candidate(parts)],
      usageMetadata: { promptTokenCount: 8, candidatesTokenCount: 5, thoughtsTokenCount: 3 },
      ...common,
    },
  ])
  t.true(done)
  t.true(chunks.every(chunk => chunk.id === 'r1' && chunk.model === 'X' && chunk.object === 'chat.completion.chunk'))
  const toolCall = {
    index: 0,
    id: 'c1',
    type: 'function',
    function: { name: 'get_weather', arguments: '{"city":"Oslo"}' },
  }
  t.deepEqual(chunks.map(chunk => chunk.choices) as unknown, [
    [{ index: 0, delta: { role: 'assistant', content: 'Hel' }, finish_reason: null }],
    [{ index: 0, delta: { content: 'lo', tool_calls: [toolCall] }, finish_reason: null }],
    [{ index: 0, delta: {}, finish_reason: 'tool_calls' }],
    [],
  ])
  t.deepEqual(
    chunks.map(chunk => chunk.usage?.completion_tokens),
    [undefined, undefined, undefined, 8],
  )
})

test('stream: not done until every choice has ended; later counts replace earlier ones', t => {
  const decoder = chat.stream!(chatCall({ n: 2 }))
  decoder.push(event({ candidates: [candidate([{ text: 'a' }], 'STOP', 1)] }))
  t.false(decoder.done)
  const end = decoder.push(event({ candidates: [candidate([{ text: 'b' }])], usageMetadata: { promptTokenCount: 1 } }))
  t.true(decoder.done)
  t.is(end.at(-1)?.usage?.prompt_tokens, 1)
  t.like(decoder.push(event({ usageMetadata: { promptTokenCount: 2 } })), [
    { choices: [], usage: { prompt_tokens: 2 } },
  ])
  t.deepEqual(decoder.push({ event: '', data: '' }), [])
})

test('logprobs in the shape of OpenAI, whole and streamed', t => {
  const chosen = { token: 'é', tokenId: 1, logProbability: -0.1 }
  const logprobsResult = { chosenCandidates: [chosen], topCandidates: [{ candidates: [chosen] }] }
  const json = { candidates: [{ ...candidate([{ text: 'é' }]), logprobsResult }] }
  const entry = { token: 'é', logprob: -0.1, bytes: [0xc3, 0xa9] }
  const logprobs = { content: [{ ...entry, top_logprobs: [entry] }], refusal: null }
  t.deepEqual(chat.answer(json, chatCall({})).choices[0]?.logprobs, logprobs)
  t.deepEqual(decode([json]).chunks[0]?.choices[0]?.logprobs, logprobs)
})

test('invalid_response for answers that make no sense', t => {
  const nonsense = [
    null,
    'x',
    [],
    {},
    { candidates: [] },
    { candidates: 'x' },
    { candidates: [{ content: { parts: [{ text: 1 }] }, finishReason: 'STOP' }] },
    { candidates: [{ index: 0 }] },
  ]
  for (const json of nonsense) {
    t.is(
      t.throws<ProviderError>(() => chat.answer(json, chatCall({})), undefined, JSON.stringify(json)).reason,
      'invalid_response',
    )
  }
  t.is(
    t.throws<ProviderError>(() => chat.stream!(chatCall({})).push({ event: '', data: '{"cand' })).reason,
    'invalid_response',
  )
  const overloaded = { error: { code: 503, message: 'busy', status: 'UNAVAILABLE' } }
  t.is(t.throws<ProviderError>(() => decode([overloaded])).reason, 'overloaded')
  t.is(t.throws<ProviderError>(() => chat.answer(overloaded, chatCall({}))).reason, 'overloaded')
})

const textPart = fc.record({ text: fc.string({ unit: 'grapheme' }) })
const callPart = fc.record({
  functionCall: fc.record({
    id: fc.stringMatching(/^[a-z0-9]{1,9}$/),
    name: fc.stringMatching(/^[a-z]{1,9}$/),
    args: toolArguments,
  }),
  thoughtSignature: fc.uint8Array({ minLength: 1, maxLength: 40 }).map(bytes => Buffer.from(bytes).toString('base64')),
})
const parts = fc.array(
  fc.oneof(
    textPart,
    callPart,
    fc.record({ text: fc.string(), thought: fc.constant(true) }),
    fc.constant({ inlineData: { mimeType: 'image/png', data: 'AAAA' } }),
  ),
  { maxLength: 8 },
)

test('property: streamed pieces add up to the whole answer, however they are cut', t => {
  const reason = fc.constantFrom('STOP', 'MAX_TOKENS', 'SAFETY')
  const choices = fc.array(fc.record({ parts, reason, alone: fc.boolean() }), { minLength: 1, maxLength: 3 })
  fc.assert(
    fc.property(choices, fc.nat({ max: 9 }), (given, promptTokenCount) => {
      const usageMetadata = { promptTokenCount, candidatesTokenCount: 3 }
      const whole = chat.answer(
        { candidates: given.map(({ parts, reason }, index) => candidate(parts, reason, index)), usageMetadata },
        chatCall({ n: given.length }),
      )
      const pieces = given.flatMap(({ parts, reason, alone }, index) => {
        const steps = alone ? [...parts.map(part => [part]), []] : [parts.slice(0, 2), parts.slice(2)]
        return steps.map((step, place) => ({
          ...candidate(step, reason, index),
          ...(place < steps.length - 1 && { finishReason: undefined }),
        }))
      })
      const events = pieces.map(piece => ({ candidates: [piece], usageMetadata: { promptTokenCount } }))
      const { chunks, done } = decode([...events.slice(0, -1), { ...events.at(-1), usageMetadata }], {
        n: given.length,
      })
      t.true(done)
      t.deepEqual(folded(chunks), { choices: whole.choices, usage: whole.usage })
    }),
  )
})
