import { checkRequest } from '../../emulators/anthropic-rules.ts'
import {
  called,
  type callOf,
  hi,
  hiTurn,
  mark,
  type Traits,
  tool,
  upstreamBody,
} from '../../support/providers/anthropic.ts'
import { test } from '../../support/test.ts'

const schema = { type: 'object', properties: { a: { type: 'string' } }, additionalProperties: false }
const jsonSchema = { type: 'json_schema', json_schema: { name: 'out', schema } }
const inputSchema = tool.function.parameters
const budget = { thinking: 'budget' }
const adaptive = { thinking: 'adaptive', effort: true }

/** Fields of the client's request → fields of the upstream request (`undefined`: not sent). */
const mappings: [title: string, body: object, expected: object, traits?: Traits][] = [
  [
    'plain text',
    {},
    { messages: [hiTurn], system: undefined, stream: undefined, tools: undefined, thinking: undefined },
  ],
  ['stream', { stream: true, stream_options: { include_usage: true } }, { stream: true, stream_options: undefined }],
  ['one stop', { stop: 'X' }, { stop_sequences: ['X'] }],
  ['empty stops', { stop: [''] }, { stop_sequences: undefined }],
  ['sampling, temperature ending at 1', { temperature: 1.7, top_p: 0.3 }, { temperature: 1, top_p: 0.3 }],
  ['zero temperature', { temperature: 0 }, { temperature: 0 }],
  [
    'fields without a counterpart',
    {
      seed: 1,
      frequency_penalty: 1,
      presence_penalty: 1,
      logit_bias: { 1: 1 },
      n: 1,
      logprobs: false,
      metadata: { a: 'b' },
    },
    {
      seed: undefined,
      frequency_penalty: undefined,
      presence_penalty: undefined,
      logit_bias: undefined,
      n: undefined,
      metadata: undefined,
    },
  ],
  ['safety_identifier', { safety_identifier: 's' }, { metadata: { user_id: 's' } }],
  ['service_tier auto', { service_tier: 'auto' }, { service_tier: 'auto' }],
  ['service_tier default', { service_tier: 'default' }, { service_tier: 'standard_only' }],
  ['service_tier flex', { service_tier: 'flex' }, { service_tier: undefined }],
  [
    'tools',
    { tools: [{ ...tool, ...mark }] },
    { tools: [{ name: 'w', input_schema: inputSchema, ...mark }], tool_choice: undefined },
  ],
  [
    'a tool without parameters, strict',
    { tools: [{ type: 'function', function: { name: 'now', strict: true } }] },
    {
      tools: [
        { name: 'now', input_schema: { type: 'object', properties: {}, additionalProperties: false }, strict: true },
      ],
    },
  ],
  [
    'no tools',
    { tools: [], tool_choice: 'auto', parallel_tool_calls: false },
    { tools: undefined, tool_choice: undefined },
  ],
  ['tool_choice auto', { tools: [tool], tool_choice: 'auto' }, { tool_choice: { type: 'auto' } }],
  [
    'tool_choice none',
    { tools: [tool], tool_choice: 'none', parallel_tool_calls: false },
    { tool_choice: { type: 'none' } },
  ],
  ['tool_choice required', { tools: [tool], tool_choice: 'required' }, { tool_choice: { type: 'any' } }],
  [
    'tool_choice of one function',
    { tools: [tool], tool_choice: { type: 'function', function: { name: 'w' } }, parallel_tool_calls: false },
    { tool_choice: { type: 'tool', name: 'w', disable_parallel_tool_use: true } },
  ],
  [
    'parallel_tool_calls alone',
    { tools: [tool], parallel_tool_calls: false },
    { tool_choice: { type: 'auto', disable_parallel_tool_use: true } },
  ],
  ['response_format text', { response_format: { type: 'text' } }, { output_config: undefined, system: undefined }],
  [
    'response_format json_schema',
    { response_format: jsonSchema },
    { output_config: { format: { type: 'json_schema', schema } } },
  ],
  [
    'response_format json_object',
    { messages: [{ role: 'system', content: 'A' }, hi], response_format: { type: 'json_object' } },
    {
      system: 'A\n\nAnswer with one valid JSON object and nothing else: no text around it and no code fence.',
      output_config: undefined,
    },
  ],
  ['no effort', {}, { thinking: undefined, output_config: undefined }, adaptive],
  [
    'effort for a model without thinking',
    { reasoning_effort: 'high' },
    { thinking: undefined, output_config: undefined },
  ],
  [
    'adaptive thinking',
    { reasoning_effort: 'xhigh', temperature: 1 },
    { thinking: { type: 'adaptive' }, output_config: { effort: 'xhigh' }, temperature: undefined },
    adaptive,
  ],
  [
    'minimal effort beside a schema',
    { reasoning_effort: 'minimal', response_format: jsonSchema },
    { output_config: { effort: 'low', format: { type: 'json_schema', schema } } },
    { effort: true },
  ],
  [
    'thinking off',
    { reasoning_effort: 'none', temperature: 1 },
    { thinking: { type: 'disabled' }, output_config: undefined, temperature: 1 },
    adaptive,
  ],
  [
    'a thinking budget',
    { reasoning_effort: 'medium', max_tokens: 20_000 },
    { max_tokens: 20_000, thinking: { type: 'enabled', budget_tokens: 4096 }, output_config: undefined },
    budget,
  ],
  [
    'a budget that fits the ceiling',
    { reasoning_effort: 'high', max_tokens: 5000 },
    { max_tokens: 5000, thinking: { type: 'enabled', budget_tokens: 4000 } },
    budget,
  ],
  [
    'no budget under the smallest one',
    { reasoning_effort: 'high', max_tokens: 1200, temperature: 1 },
    { max_tokens: 1200, thinking: undefined, temperature: 1 },
    budget,
  ],
  [
    'no thinking beside a forced tool',
    { reasoning_effort: 'high', tools: [tool], tool_choice: 'required' },
    { thinking: undefined, output_config: { effort: 'high' } },
    adaptive,
  ],
  [
    'no budget inside a tool turn',
    { reasoning_effort: 'high', messages: [hi, called('{}'), { role: 'tool', tool_call_id: 'call_1', content: '1' }] },
    { thinking: undefined },
    budget,
  ],
  [
    'no budget when the user speaks beside the results of a tool turn',
    {
      reasoning_effort: 'high',
      messages: [hi, called('{}'), { role: 'tool', tool_call_id: 'call_1', content: '1' }, hi],
    },
    { thinking: undefined },
    budget,
  ],
  [
    'a budget after a tool turn that was answered',
    {
      reasoning_effort: 'medium',
      max_tokens: 20_000,
      messages: [
        hi,
        called('{}'),
        { role: 'tool', tool_call_id: 'call_1', content: '1' },
        { role: 'assistant', content: 'One.' },
        hi,
      ],
    },
    { thinking: { type: 'enabled', budget_tokens: 4096 } },
    budget,
  ],
]

for (const [title, body, expected, traits] of mappings) {
  test(`mapped: ${title}`, t => {
    const sent = upstreamBody({ model: 'x', messages: [hi], ...body }, traits)
    for (const [field, value] of Object.entries(expected)) t.deepEqual(sent[field], value, field)
    t.is(checkRequest(sent, '2023-06-01'), null)
  })
}

test('sent: an answer to continue without white space at its end', t => {
  const begun = (content: string) => upstreamBody({ model: 'x', messages: [hi, { role: 'assistant', content }] })
  t.deepEqual(begun('{ \n').messages[1], { role: 'assistant', content: [{ type: 'text', text: '{' }] })
  t.is(begun(' \n').messages.length, 1)
  const parts = [
    { type: 'text', text: 'a ' },
    { type: 'text', text: ' ' },
  ]
  const sent = upstreamBody({ model: 'x', messages: [hi, { role: 'assistant', content: parts }] })
  t.deepEqual(sent.messages[1].content, [{ type: 'text', text: 'a' }])
})

test('max_tokens: the gateway’s ceiling wins, then the body’s, then the model’s', t => {
  const body = { model: 'x', messages: [hi] }
  const max = (...args: Parameters<typeof callOf>) => upstreamBody(...args).max_tokens
  t.is(max({ ...body, max_completion_tokens: 5, max_tokens: 6 }, {}, { maxTokens: 4 }), 4)
  t.is(max({ ...body, max_completion_tokens: 5, max_tokens: 6 }), 5)
  t.is(max({ ...body, max_tokens: 6 }), 6)
  t.is(max(body), 16_384)
  t.is(max(body, {}, { maxOutputTokens: 8192 }), 8192)
  t.is(max({ ...body, stream: true }), 64_000)
  t.is(max({ ...body, stream: true }, {}, { maxOutputTokens: null }), 16_384)
})
