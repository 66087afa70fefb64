import { GatewayError } from '../../../shared/base/errors.ts'
import type { Call, DirectAdapter, UpstreamRequest } from '../../../shared/providers/contract.ts'
import { responsesOverChat } from '../../../shared/providers/toolkit/responses-over-chat/adapter.ts'
import { sol, targetOf } from '../../support/chat/messages.ts'
import { requestOf, translate, translateFitted } from '../../support/chat/responses.ts'
import { type ExecutionContext, test } from '../../support/test.ts'

/** Neither reasons nor takes system messages after the first. */
const plain = targetOf('deepseek-v3.2')

const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
const weather = { type: 'function', name: 'get_weather', description: 'The weather.', parameters, strict: false }
const patch = {
  type: 'custom',
  name: 'apply_patch',
  description: 'Patches files.',
  format: { type: 'grammar', syntax: 'lark', definition: 'start: "x"' },
}
const agents = { type: 'namespace', name: 'multi_agent_v1', tools: [{ type: 'function', name: 'spawn_agent' }] }
const search = { type: 'web_search', external_web_access: true }
const user = (content: unknown) => ({ type: 'message', role: 'user', content })
const called = (call_id: string, more: object = {}) => ({
  type: 'function_call',
  id: `fc_${call_id}`,
  call_id,
  name: 'get_weather',
  arguments: '{}',
  status: 'completed',
  ...more,
})
const output = (call_id: string, result: unknown = 'ok') => ({
  type: 'function_call_output',
  id: `fco_${call_id}`,
  call_id,
  output: result,
})
const toolCall = (id: string, name = 'get_weather', args = '{}') => ({
  id,
  type: 'function',
  function: { name, arguments: args },
})

function chatMessages(input: unknown, target = sol, more: object = {}): object[] {
  return translate({ input, ...more }, target).messages
}

function refuses(t: ExecutionContext, body: object, param: string, message: string | RegExp, target = sol): void {
  const error = t.throws<GatewayError>(() => translate(body, target), { name: 'GatewayError', message })!
  t.is(error.status, 400)
  t.is(error.param, param)
}

test('each field of a request has its place in the chat request', t => {
  const schema = { type: 'object', properties: {}, additionalProperties: false }
  const format = { type: 'json_schema', name: 'city', schema, strict: true }
  const request = translate({
    model: 'gpt-6.1-sol',
    instructions: 'Be brief.',
    input: 'Hi',
    stream: true,
    max_output_tokens: 10_000_000,
    temperature: 0.5,
    top_p: 0.9,
    presence_penalty: 0.1,
    frequency_penalty: 0.2,
    top_logprobs: 2,
    tools: [weather],
    tool_choice: { type: 'function', name: 'get_weather' },
    parallel_tool_calls: false,
    reasoning: { effort: 'medium', summary: 'auto' },
    text: { format, verbosity: 'low' },
    include: ['reasoning.encrypted_content'],
    prompt_cache_key: 'session',
    safety_identifier: 'hash',
    user: 'u',
    client_metadata: { a: 'b' },
    store: false,
    truncation: 'auto',
  })
  const { type: _type, ...fn } = weather
  t.deepEqual(request as object, {
    model: 'gpt-6.1-sol',
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Hi' },
    ],
    max_completion_tokens: 10_000_000,
    stream: true,
    temperature: 0.5,
    top_p: 0.9,
    presence_penalty: 0.1,
    frequency_penalty: 0.2,
    logprobs: true,
    top_logprobs: 2,
    tools: [{ type: 'function', function: fn }],
    tool_choice: { type: 'function', function: { name: 'get_weather' } },
    parallel_tool_calls: false,
    reasoning_effort: 'medium',
    response_format: { type: 'json_schema', json_schema: { name: 'city', schema, strict: true } },
    verbosity: 'low',
    prompt_cache_key: 'session',
    safety_identifier: 'hash',
    user: 'u',
  })
  const bare = translate({ max_output_tokens: null, tools: null, text: { format: { type: 'text' } } })
  t.deepEqual(Object.keys(bare), ['model', 'messages'])
  t.true(translate({ include: ['message.output_text.logprobs'] }).logprobs)
  t.deepEqual(translate({ text: { format: { type: 'json_object' } } }).response_format, { type: 'json_object' })
})

test('400 naming the field for an unknown effort or text.format; an effort that the model lacks is left out', t => {
  t.is(translateFitted({ reasoning: { effort: 'xhigh' } }).reasoning_effort, 'xhigh')
  t.is(translateFitted({ reasoning: { effort: 'medium' } }, targetOf('gpt-4.1')).reasoning_effort, undefined)
  refuses(t, { reasoning: { effort: 'huge' } }, 'reasoning.effort', /must be one of none, minimal, low/)
  refuses(t, { text: { format: { type: 'xml' } } }, 'text.format.type', /must be text, json_object or json_schema/)
  refuses(t, { text: { format: { type: 'json_schema', schema: {} } } }, 'text.format.name', /needs a name/)
  refuses(t, { text: { format: { type: 'json_schema', name: 'a' } } }, 'text.format.schema', /missing/)
})

test('the tools of Codex: functions, a freeform tool, a namespace, and a search that is left out', t => {
  const { tools } = translate({ tools: [weather, patch, search, agents] })
  const { type: _type, ...fn } = weather
  const input = { type: 'object', properties: { input: { type: 'string' } }, required: ['input'] }
  t.deepEqual(tools as object[], [
    { type: 'function', function: fn },
    {
      type: 'function',
      function: {
        name: 'apply_patch',
        description: 'Patches files.\n\n`input` must match this lark grammar:\nstart: "x"',
        parameters: { ...input, additionalProperties: false },
      },
    },
    {
      type: 'function',
      function: { name: 'multi_agent_v1__spawn_agent', parameters: { type: 'object', properties: {} } },
    },
  ])
  t.deepEqual(Object.keys(translate({ tools: [search] })), ['model', 'messages'])
  const long = { type: 'namespace', name: 'n'.repeat(60), tools: [weather, { ...weather, name: 'get_time' }] }
  const names = translate({ tools: [long] }).tools!.map(
    tool => 'function' in tool && (tool.function as typeof weather).name,
  )
  t.true(names.every(name => name && /^[\w-]{64}$/.test(name)))
  t.is(new Set(names).size, 2)
  refuses(t, { tools: [weather, { ...patch, name: 'get_weather' }] }, 'tools.1.name', /two tools with the name/)
  refuses(t, { tools: [{ type: 'function' }] }, 'tools.0.name', /needs a name/)
  refuses(t, { tools: [{ type: 'namespace', tools: [] }] }, 'tools.0.name', /needs a name/)
})

test('tool choices; a hosted tool may be listed but not required; allowed tools are a hard limit', t => {
  const tools = [weather, patch, search, agents]
  const choice = (tool_choice: unknown) => translate({ tools, tool_choice }).tool_choice
  for (const name of ['auto', 'none', 'required']) t.is(choice(name), name as 'auto')
  t.deepEqual(choice({ type: 'custom', name: 'apply_patch' }), { type: 'function', function: { name: 'apply_patch' } })
  t.deepEqual(choice({ type: 'function', name: 'spawn_agent', namespace: 'multi_agent_v1' }), {
    type: 'function',
    function: { name: 'multi_agent_v1__spawn_agent' },
  })
  const allowed = { type: 'allowed_tools', mode: 'required', tools: [{ type: 'custom', name: 'apply_patch' }, search] }
  const limited = translate({ tools, tool_choice: allowed })
  t.is(limited.tool_choice, 'required')
  t.is(limited.tools!.length, 1)
  refuses(t, { tools, tool_choice: { type: 'web_search' } }, 'tool_choice', /no tool of the type web_search/)
  refuses(t, { tools, tool_choice: { type: 'function', name: 'x' } }, 'tool_choice.name', /'x' not found in 'tools'/)
  refuses(t, { tools, tool_choice: { type: 'custom', name: 'get_weather' } }, 'tool_choice.name', /not found/)
  const unknown = { ...allowed, tools: [{ type: 'function', name: 'x' }] }
  refuses(t, { tools, tool_choice: unknown }, 'tool_choice.tools.0.name', /not found/)
  refuses(t, { tools, tool_choice: { ...allowed, mode: 'any' } }, 'tool_choice.mode', /auto or required/)
  refuses(t, { tools: [search], tool_choice: 'required' }, 'tool_choice', /no function or custom tool/)
})

test('system and developer messages at the start are the system prompt; later ones keep their place', t => {
  const input = [
    { role: 'developer', content: [{ type: 'input_text', text: 'Be quick.' }] },
    user('Go'),
    { role: 'system', content: 'Tools changed.' },
    { role: 'assistant', content: [{ type: 'output_text', text: 'Yes', annotations: [] }], phase: 'commentary' },
    user([{ type: 'input_text', text: 'Next' }]),
    user(' '),
  ]
  const system = {
    role: 'system',
    content: [
      { type: 'text', text: 'Be brief.' },
      { type: 'text', text: 'Be quick.' },
    ],
  }
  const rest = [
    { role: 'assistant', content: 'Yes' },
    { role: 'user', content: 'Next' },
  ]
  const more = { instructions: 'Be brief.' }
  t.deepEqual(chatMessages(input, sol, more), [
    system,
    { role: 'user', content: 'Go' },
    { role: 'system', content: 'Tools changed.' },
    ...rest,
  ])
  const reminder = { type: 'text', text: '<system-reminder>\nTools changed.\n</system-reminder>' }
  t.deepEqual(chatMessages(input, plain, more), [
    system,
    { role: 'user', content: [{ type: 'text', text: 'Go' }, reminder] },
    ...rest,
  ])
  const image = { type: 'input_image', image_url: 'https://x.test/a.png' }
  refuses(t, { input: [{ role: 'system', content: [image] }] }, 'input.0.content.0.type', /Only user messages/)
})

test('translated: images, files and sounds of the user; 400 for others', t => {
  const parts = [
    { type: 'input_text', text: 'See' },
    { type: 'input_image', image_url: 'data:image/png;base64,aGk=', detail: 'low' },
    { type: 'input_file', filename: 'a.pdf', file_data: 'data:application/pdf;base64,JVBERg==' },
    { type: 'input_file', file_data: 'JVBERg==' },
    { type: 'input_file', file_url: 'https://x.test/b.pdf' },
    { type: 'input_audio', input_audio: { data: 'aGk=', format: 'wav' } },
  ]
  const [message] = chatMessages([user(parts)])
  t.deepEqual(message, {
    role: 'user',
    content: [
      { type: 'text', text: 'See' },
      { type: 'image_url', image_url: { url: 'data:image/png;base64,aGk=', detail: 'low' } },
      { type: 'file', file: { file_data: 'data:application/pdf;base64,JVBERg==', filename: 'a.pdf' } },
      { type: 'file', file: { file_data: 'data:application/pdf;base64,JVBERg==', filename: 'document.pdf' } },
      { type: 'file', file: { file_data: 'https://x.test/b.pdf', filename: 'document.pdf' } },
      { type: 'input_audio', input_audio: { data: 'aGk=', format: 'wav' } },
    ],
  })
  const part = (one: object, param: string, message: RegExp, target = sol) =>
    refuses(t, { input: [user([one])] }, `input.0.content.0${param}`, message, target)
  part(parts[1]!, '', /takes no images/, plain)
  part(parts[2]!, '', /takes no files/, plain)
  part({ type: 'input_image', file_id: 'file_1' }, '.file_id', /send the file itself in `image_url`/)
  part({ type: 'input_image' }, '.image_url', /missing/)
  part({ type: 'input_file', file_id: 'file_1' }, '.file_id', /send the file itself in `file_data`/)
  part({ type: 'computer_screenshot' }, '.type', /no content part of the type computer_screenshot/)
})

test('the second turn of Codex: calls, custom and of a namespace, with their outputs', t => {
  const custom = { type: 'custom_tool_call', call_id: 'b', name: 'apply_patch', input: '*** Begin "x"' }
  const input = [
    user('Go'),
    { type: 'reasoning', id: 'rs_1', summary: [], content: null, encrypted_content: null },
    { role: 'assistant', content: 'I look.' },
    called('a', { arguments: '{"city":"Oslo"}' }),
    custom,
    called('c', { name: 'spawn_agent', namespace: 'multi_agent_v1' }),
    { type: 'custom_tool_call_output', call_id: 'b', output: 'done' },
    output('c', ''),
    output('a', [
      { type: 'input_text', text: 'rain' },
      { type: 'input_image', image_url: 'https://x.test/a.png' },
    ]),
    called('d'),
    output('d', [{ type: 'input_image', image_url: 'https://x.test/b.png' }]),
    { type: 'web_search_call', id: 'ws_1', status: 'completed' },
  ]
  const image = (name: string) => ({ type: 'image_url', image_url: { url: `https://x.test/${name}.png` } })
  const text = (id: string) => ({ type: 'text', text: `From the result of get_weather (${id}):` })
  t.deepEqual(chatMessages(input), [
    { role: 'user', content: 'Go' },
    {
      role: 'assistant',
      content: 'I look.',
      tool_calls: [
        toolCall('a', 'get_weather', '{"city":"Oslo"}'),
        toolCall('b', 'apply_patch', '{"input":"*** Begin \\"x\\""}'),
        toolCall('c', 'multi_agent_v1__spawn_agent'),
      ],
    },
    { role: 'tool', tool_call_id: 'a', content: 'rain' },
    { role: 'tool', tool_call_id: 'b', content: 'done' },
    { role: 'tool', tool_call_id: 'c', content: '' },
    { role: 'user', content: [text('a'), image('a')] },
    { role: 'assistant', content: null, tool_calls: [toolCall('d')] },
    { role: 'tool', tool_call_id: 'd', content: 'The result follows in the next user message.' },
    { role: 'user', content: [text('d'), image('b')] },
  ])
})

test('outputs follow their calls directly, wherever they are; an id may be used again', t => {
  const assistant = (...ids: string[]) => ({
    role: 'assistant',
    content: null,
    tool_calls: ids.map(id => toolCall(id)),
  })
  const tool = (tool_call_id: string, content: string) => ({ role: 'tool', tool_call_id, content })
  const go = { role: 'user', content: 'Go' }
  t.deepEqual(chatMessages([user('Go'), called('a'), called('b'), user('Hm'), output('b', 'B'), output('a', 'A')]), [
    go,
    assistant('a', 'b'),
    tool('a', 'A'),
    tool('b', 'B'),
    { role: 'user', content: 'Hm' },
  ])
  t.deepEqual(chatMessages([user('Go'), called('a'), output('a', '1'), called('a'), output('a', '2')]), [
    go,
    assistant('a'),
    tool('a', '1'),
    assistant('a'),
    tool('a', '2'),
  ])
  refuses(t, { input: [called('a')] }, 'input', 'No tool output found for function call a.')
  refuses(
    t,
    { input: [user('Go'), output('z')] },
    'input',
    'No tool call found for function call output with call_id z.',
  )
  refuses(
    t,
    { input: [output('a'), called('a')] },
    'input',
    'No tool call found for function call output with call_id a.',
  )
  const twice = [user('Go'), called('a'), output('a'), output('a')]
  refuses(t, { input: twice }, 'input', /No tool call found/)
})

test('items that refer to something stored, or that only their provider can read, are a 400', t => {
  refuses(t, { input: [{ type: 'item_reference', id: 'msg_1' }] }, 'input.0.type', /Items are not stored/)
  const compaction = { type: 'compaction', encrypted_content: 'x' }
  refuses(t, { input: [user('Hi'), compaction] }, 'input.1.type', /no item of the type compaction/)
})

test('reasoning goes back as text for models that reason, and as the state that the gateway has sealed', t => {
  const reasoning = (more: object) => ({ type: 'reasoning', id: 'rs', summary: [], ...more })
  const summary = [{ type: 'summary_text', text: 'First. ' }]
  const content = [{ type: 'reasoning_text', text: 'Then' }]
  const input = [
    user('Go'),
    reasoning({ summary, encrypted_content: 'hg1.a' }),
    reasoning({ summary, content, encrypted_content: 'of another provider' }),
    reasoning({ encrypted_content: 'hg1.b' }),
    { role: 'assistant', content: 'Hi' },
    user('On'),
    reasoning({ summary }),
  ]
  const states = [
    { type: 'reasoning.text', text: 'First. ', signature: 'hg1.a', index: 0 },
    { type: 'reasoning.text', text: '', signature: 'hg1.b', index: 2 },
  ]
  const on = { role: 'user', content: 'On' }
  const shown = { reasoning_content: 'First. Then', reasoning_details: states }
  t.deepEqual(chatMessages(input, targetOf('o3', 'openai')).slice(1), [
    { role: 'assistant', content: 'Hi', ...shown },
    on,
  ])
  t.deepEqual(chatMessages(input, targetOf('gpt-4.1')).slice(1), [
    { role: 'assistant', content: 'Hi', reasoning_details: states },
    on,
  ])
})

test('fields that the provider does not get, and fields of its refusals, have their names in Responses', t => {
  const request: UpstreamRequest = { method: 'POST', path: '', headers: {}, body: '' }
  const adapterOf = (create: () => UpstreamRequest) =>
    responsesOverChat({ native: true, request: create, answer: () => t.fail() as never } as DirectAdapter<'chat'>)
  const call = (body: object): Call<'responses'> => ({
    target: sol,
    body: requestOf(body),
    raw: null,
    maxTokens: null,
    media: new Map(),
  })
  const dropped = ['messages.content.image_url.detail', 'max_completion_tokens', 'verbosity', 'top_p']
  t.deepEqual(adapterOf(() => ({ ...request, dropped })).request(call({ tools: [weather, search] })).dropped, [
    'input',
    'max_output_tokens',
    'text.verbosity',
    'top_p',
    'tools.web_search',
  ])
  t.is(adapterOf(() => request).request(call({ tools: [weather, agents] })).dropped, undefined)
  const refusing = (param: string) =>
    t.throws<GatewayError>(() =>
      adapterOf(() => {
        throw new GatewayError('unsupported_capability', 'Not here.', { param })
      }).request(call({})),
    )!
  t.like(refusing('messages.1.tool_calls.0'), { param: 'input', message: 'Not here.', status: 400 })
  t.is(refusing('response_format.json_schema').param, 'text.format')
  t.is(refusing('tools.0').param, 'tools.0')
  const files = [
    { type: 'input_file', file_url: 'https://x.test/a.pdf' },
    { type: 'input_image', image_url: 'https://x.test/a.png' },
  ]
  const { remoteMedia } = adapterOf(() => request)
  const body = requestOf({ input: [called('a'), output('a', files)] })
  t.deepEqual(remoteMedia!(body, sol), ['https://x.test/a.pdf'])
})
