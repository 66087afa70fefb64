import type { GatewayError } from '../../../shared/base/errors.ts'
import { result, sol, targetOf, tool, translate, translateFitted, use } from '../../support/chat/messages.ts'
import { type ExecutionContext, test } from '../../support/test.ts'

/** Neither reasons nor takes system messages after the first. */
const plain = targetOf('deepseek-v3.2')

const png = { type: 'base64', media_type: 'image/png', data: 'aGk=' }
const image = { type: 'image', source: png }
const imagePart = { type: 'image_url', image_url: { url: 'data:image/png;base64,aGk=' } }
const call = (id: string, args = '{}') => ({ id, type: 'function', function: { name: 'Read', arguments: args } })

function chatMessages(messages: object[], target = sol): object[] {
  return translate({ messages }, target).messages
}

function refuses(t: ExecutionContext, body: object, param: string, text: string | RegExp, target = sol): void {
  const error = t.throws<GatewayError>(() => translate(body, target), { name: 'GatewayError' })!
  t.is(error.status, 400)
  t.is(error.param, param)
  if (typeof text === 'string') t.true(error.message.includes(text), error.message)
  else t.regex(error.message, text)
}

test('each field of a request has its place in the chat request', t => {
  const mark = { type: 'ephemeral' }
  const request = translate({
    model: 'gpt-6.1-sol',
    max_tokens: 4096,
    stream: true,
    temperature: 0.5,
    top_p: 0.9,
    top_k: 40,
    stop_sequences: ['a', '', 'b', 'c', 'd', 'e'],
    system: [
      { type: 'text', text: 'Be brief.' },
      { type: 'text', text: 'Be kind.', cache_control: mark },
    ],
    tools: [{ ...tool, defer_loading: true, cache_control: mark }],
    tool_choice: { type: 'tool', name: 'Read', disable_parallel_tool_use: true },
    metadata: { user_id: 'someone' },
    thinking: { type: 'adaptive' },
    output_config: { effort: 'medium', format: { type: 'json_schema', schema: { type: 'string' } } },
    context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
  })
  t.deepEqual(request as object, {
    model: 'gpt-6.1-sol',
    messages: [
      {
        role: 'system',
        content: [
          { type: 'text', text: 'Be brief.' },
          { type: 'text', text: 'Be kind.', cache_control: mark },
        ],
      },
      { role: 'user', content: 'Hi' },
    ],
    max_completion_tokens: 4096,
    stream: true,
    temperature: 0.5,
    top_p: 0.9,
    top_k: 40,
    stop: ['a', 'b', 'c', 'd'],
    tools: [
      {
        type: 'function',
        function: { name: 'Read', description: 'Reads a file.', parameters: tool.input_schema },
        cache_control: mark,
      },
    ],
    tool_choice: { type: 'function', function: { name: 'Read' } },
    parallel_tool_calls: false,
    reasoning_effort: 'medium',
    response_format: { type: 'json_schema', json_schema: { name: 'answer', schema: { type: 'string' }, strict: true } },
    safety_identifier: '2a59d59e3809f827ce709d3815e3950eef4a6a93af5557a93a7fdfba71460843',
  })
})

test('mapped: tool_choice and strict; max_tokens lowered to the model’s limit', t => {
  const choice = (tool_choice: object) => translate({ tools: [tool], tool_choice }).tool_choice
  t.is(choice({ type: 'auto' }), 'auto')
  t.is(choice({ type: 'any' }), 'required')
  t.is(choice({ type: 'none' }), 'none')
  t.is(translate({ tool_choice: { type: 'auto' } }).tool_choice, undefined)
  refuses(t, { tools: [tool], tool_choice: { type: 'tool', name: 'X' } }, 'tool_choice.name', "'X' not found")
  refuses(t, { tool_choice: { type: 'any' } }, 'tool_choice', 'while providing tools')
  const optional = { type: 'object', properties: { a: { type: 'string' } }, additionalProperties: false }
  const strictOf = (input_schema: object) =>
    translate({ tools: [{ ...tool, input_schema, strict: true }] }).tools!.map(one => 'function' in one && one.function)
  t.like(strictOf({ ...optional, required: ['a'] }), [{ strict: true }])
  t.deepEqual(Object.keys(strictOf(optional)[0] as object), ['name', 'description', 'parameters'])
  t.is(translateFitted({ max_tokens: 10_000_000 }).max_completion_tokens, sol.model.max_output_tokens!)
})

test('free-claude-code#326: text after a tool call in an assistant turn stays before the one list of calls', t => {
  const messages = chatMessages([
    { role: 'user', content: 'Go' },
    {
      role: 'assistant',
      content: [
        use('a', { path: 'x' }),
        { type: 'redacted_thinking', data: 'hg1.e30' },
        { type: 'text', text: 'Hm' },
        use('b'),
      ],
    },
    { role: 'user', content: [result('a', 'A'), result('b', 'B')] },
  ])
  t.deepEqual(messages, [
    { role: 'user', content: 'Go' },
    { role: 'assistant', content: 'Hm', tool_calls: [call('a', '{"path":"x"}'), call('b')] },
    { role: 'tool', tool_call_id: 'a', content: 'A' },
    { role: 'tool', tool_call_id: 'b', content: 'B' },
  ])
})

test('free-claude-code#326, Zoo-Code#1705: results come first and in the order of the calls, then one user message', t => {
  const messages = chatMessages([
    { role: 'user', content: 'Go' },
    { role: 'assistant', content: [use('a'), use('b')] },
    { role: 'user', content: [{ type: 'text', text: 'And' }, result('b', 'B'), image, result('a', 'A')] },
    { role: 'user', content: 'Please' },
  ])
  t.deepEqual(messages.slice(2), [
    { role: 'tool', tool_call_id: 'a', content: 'A' },
    { role: 'tool', tool_call_id: 'b', content: 'B' },
    { role: 'user', content: [{ type: 'text', text: 'And' }, imagePart, { type: 'text', text: 'Please' }] },
  ])
})

test('sub2api#6923: a failed tool is seen as failed', t => {
  const answers = chatMessages([
    { role: 'user', content: 'Go' },
    { role: 'assistant', content: [use('a'), use('b'), use('c')] },
    {
      role: 'user',
      content: [
        result('a', 'no such file', { is_error: true }),
        result('b', [{ type: 'text', text: 'ok' }], { is_error: false }),
        result('c', undefined, { is_error: true }),
      ],
    },
  ]) as { content: string }[]
  t.deepEqual(
    answers.slice(2).map(({ content }) => content),
    ['Error: no such file', 'ok', 'Error: the tool failed'],
  )
})

test('openclaude#30: an image and a document of a tool result follow in a user message', t => {
  const pdf = {
    type: 'document',
    source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERg==' },
    title: 'a.pdf',
  }
  const messages = chatMessages([
    { role: 'user', content: 'Go' },
    { role: 'assistant', content: [use('a'), use('b')] },
    { role: 'user', content: [result('a', [image, { type: 'text', text: 'seen' }, pdf]), result('b', [image])] },
  ])
  t.deepEqual(messages.slice(2), [
    { role: 'tool', tool_call_id: 'a', content: 'seen' },
    { role: 'tool', tool_call_id: 'b', content: 'The result follows in the next user message.' },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'From the result of Read (a):' },
        imagePart,
        { type: 'file', file: { file_data: 'data:application/pdf;base64,JVBERg==', filename: 'a.pdf' } },
        { type: 'text', text: 'From the result of Read (b):' },
        imagePart,
      ],
    },
  ])
})

test('waybarrios/vllm-mlx#277, tale#3400: the attribution block is left out, so that prompts have equal beginnings', t => {
  const header = {
    type: 'text',
    text: 'x-anthropic-billing-header: cc_version=2.1.330.440; cc_entrypoint=sdk-cli; cch=1;',
  }
  t.deepEqual(translate({ system: [header, { type: 'text', text: 'Be brief.' }] }).messages as object[], [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Hi' },
  ])
  t.is(translate({ system: [header] }).messages.length, 1)
})

test('protocol page: system messages keep their place, or become reminders where a model takes none there', t => {
  const messages = [
    { role: 'user', content: 'Go' },
    { role: 'system', content: [{ type: 'text', text: 'Tools changed.' }] },
    { role: 'assistant', content: [use('a')] },
    { role: 'system', content: 'Hurry.' },
    { role: 'user', content: [result('a', 'A'), { type: 'text', text: 'Next' }] },
  ]
  const turn = [
    { role: 'assistant', content: null, tool_calls: [call('a')] },
    { role: 'tool', tool_call_id: 'a', content: 'A' },
  ]
  t.deepEqual(chatMessages(messages), [
    { role: 'user', content: 'Go' },
    { role: 'system', content: 'Tools changed.' },
    ...turn,
    { role: 'system', content: 'Hurry.' },
    { role: 'user', content: 'Next' },
  ])
  const reminder = (text: string) => ({ type: 'text', text: `<system-reminder>\n${text}\n</system-reminder>` })
  t.deepEqual(chatMessages(messages, plain), [
    { role: 'user', content: [{ type: 'text', text: 'Go' }, reminder('Tools changed.')] },
    ...turn,
    { role: 'user', content: [reminder('Hurry.'), { type: 'text', text: 'Next' }] },
  ])
})

test('400, claude-relay-service#980: calls without results and results without calls, as Anthropic words them', t => {
  const go = { role: 'user', content: 'Go' }
  const calls = { role: 'assistant', content: [use('a'), use('b')] }
  const missing =
    /^messages\.1: `tool_use` ids were found without `tool_result` blocks immediately after: b\. Each `tool_use` block must have/
  refuses(t, { messages: [go, calls, { role: 'user', content: [result('a', 'A')] }] }, 'messages.1', missing)
  refuses(t, { messages: [go, calls] }, 'messages.1', 'after: a, b.')
  refuses(t, { messages: [go, calls, go] }, 'messages.1', 'after: a, b.')
  const unexpected =
    /^messages\.0\.content\.0: unexpected `tool_use_id` found in `tool_result` blocks: z\. Each `tool_result` block must have/
  refuses(t, { messages: [{ role: 'user', content: [result('z', 'Z')] }] }, 'messages.0.content.0', unexpected)
  const results = [result('a', 'A'), result('b', 'B')]
  const late = [
    go,
    calls,
    { role: 'user', content: results },
    { role: 'assistant', content: 'Ok' },
    { role: 'user', content: results },
  ]
  refuses(t, { messages: late }, 'messages.4.content.0', 'unexpected `tool_use_id`')
  const twice = [...results, result('a', 'again')]
  refuses(
    t,
    { messages: [go, calls, { role: 'user', content: twice }] },
    'messages.2.content.2',
    'must have a single result',
  )
  refuses(
    t,
    { messages: [go, { role: 'assistant', content: [use('a'), use('a')] }] },
    'messages.1.content.1.id',
    'unique',
  )
})

test('new-api PR#2892: empty blocks are left out, and a tool may answer nothing', t => {
  const messages = chatMessages([
    {
      role: 'user',
      content: [
        { type: 'text', text: '' },
        { type: 'text', text: 'Go' },
      ],
    },
    { role: 'assistant', content: [{ type: 'text', text: '\n' }, use('a'), use('b'), use('c')] },
    { role: 'user', content: [result('a', []), result('b', ''), result('c'), { type: 'text', text: ' ' }] },
    { role: 'assistant', content: [] },
  ])
  const empty = (tool_call_id: string) => ({ role: 'tool', tool_call_id, content: '' })
  t.deepEqual(messages, [
    { role: 'user', content: 'Go' },
    { role: 'assistant', content: null, tool_calls: [call('a'), call('b'), call('c')] },
    ...['a', 'b', 'c'].map(empty),
  ])
  refuses(t, { messages: [{ role: 'user', content: [] }] }, 'messages', 'at least one message with content')
})

test('protocol page, bifrost#1479: thinking and effort become an effort that the model takes, or nothing', t => {
  const effort = (body: object, target = sol) =>
    translateFitted({ max_tokens: 32_000, ...body }, target).reasoning_effort
  const budget = (budget_tokens: number) => effort({ thinking: { type: 'enabled', budget_tokens } })
  t.deepEqual([500, 1024, 2048, 2049, 8192, 31_999].map(budget), ['low', 'low', 'low', 'medium', 'medium', 'high'])
  t.is(effort({ thinking: { type: 'disabled' } }), 'none')
  t.is(effort({ thinking: { type: 'adaptive', display: 'omitted' } }), undefined)
  t.is(effort({ thinking: { type: 'adaptive' }, output_config: { effort: 'low' } }), 'low')
  t.is(effort({ output_config: { effort: 'max' } }), 'xhigh')
  const claudeCode = { thinking: { type: 'adaptive' }, output_config: { effort: 'high' } }
  t.is(effort(claudeCode, targetOf('gpt-4.1')), undefined)
  t.is(effort({ thinking: { type: 'disabled' } }, targetOf('o3', 'openai')), 'low')
  t.is(effort({ ...claudeCode, tools: [tool] }, targetOf('gpt-6-sol', 'openai')), 'none')
  refuses(t, { output_config: { effort: 'huge' } }, 'output_config.effort', 'must be one of low, medium')
  refuses(t, { thinking: { type: 'deep' } }, 'thinking', "Input tag 'deep'")
})

test('400, 9router#4011, free-claude-code#576: server tools are refused in the words that clients look for', t => {
  const search = { type: 'web_search_20260318', name: 'web_search', max_uses: 8 }
  const words = "Input tag 'web_search_20260318' found using 'type' does not match any of the expected tags"
  refuses(t, { tools: [tool, search] }, 'tools.1', words)
  const history = [
    { role: 'user', content: 'Go' },
    { role: 'assistant', content: [{ type: 'server_tool_use', id: 's', name: 'web_search', input: {} }] },
  ]
  refuses(t, { messages: history }, 'messages.1.content.0', "Input tag 'server_tool_use'")
})

test('9router#1468: what changes nothing visible is ignored, what cannot be fulfilled is a 400', t => {
  const ignored = {
    context_management: { edits: [] },
    speed: 'fast',
    service_tier: 'auto',
    diagnostics: {},
    container: null,
    mcp_servers: [],
  }
  t.deepEqual(Object.keys(translate(ignored)), ['model', 'messages', 'max_completion_tokens'])
  refuses(t, { container: 'c' }, 'container', 'Extra inputs are not permitted')
  refuses(
    t,
    { mcp_servers: [{ type: 'url', url: 'https://x', name: 'x' }] },
    'mcp_servers',
    'Extra inputs are not permitted',
  )
  refuses(t, { inference_geo: 'us' }, 'inference_geo', 'Extra inputs are not permitted')
})

test('400 with the class of what the model does not take', t => {
  const user = (...content: object[]) => ({ messages: [{ role: 'user', content }] })
  const pdf = { type: 'document', source: { type: 'url', url: 'https://x.test/a.pdf' } }
  refuses(t, user(image), 'messages.0.content.0', /\(capability_rejected: image_block\)$/, plain)
  refuses(t, user(pdf), 'messages.0.content.0', /\(capability_rejected: document_block\)$/, plain)
  refuses(
    t,
    user({ type: 'image', source: { type: 'file', file_id: 'f' } }),
    'messages.0.content.0.source.type',
    'Files API',
  )
  refuses(t, user({ type: 'image', source: { type: 'base64' } }), 'messages.0.content.0.source', '`data` are required')
  refuses(t, user({ type: 'container_upload', file_id: 'f' }), 'messages.0.content.0', "Input tag 'container_upload'")
})

test('documents of text and of blocks, search results and references are text', t => {
  const content = [
    {
      type: 'document',
      title: 'Notes',
      context: 'Of May',
      source: { type: 'text', media_type: 'text/plain', data: 'Hello' },
    },
    { type: 'document', source: { type: 'content', content: [{ type: 'text', text: 'Part' }, image] } },
    { type: 'search_result', title: 'Found', source: 'https://x', content: [{ type: 'text', text: 'It' }] },
  ]
  t.deepEqual(chatMessages([{ role: 'user', content }]), [
    {
      role: 'user',
      content: [
        { type: 'text', text: 'Notes\nOf May\n\nHello' },
        { type: 'text', text: 'Part' },
        imagePart,
        { type: 'text', text: 'Found\nhttps://x\nIt' },
      ],
    },
  ])
})
