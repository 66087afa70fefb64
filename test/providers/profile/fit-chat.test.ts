import { GatewayError } from '../../../shared/base/errors.ts'
import { loadCatalog } from '../../../shared/catalog/catalog.ts'
import protocolProfiles from '../../../shared/catalog/protocol-profiles.json' with { type: 'json' }
import { chatRequest } from '../../../shared/kinds/chat.ts'
import type { Target } from '../../../shared/providers/contract.ts'
import { CallIds } from '../../../shared/providers/profile/call-ids.ts'
import { fitChat } from '../../../shared/providers/profile/fit-chat.ts'
import type { Fitting } from '../../../shared/providers/profile/fitting.ts'
import { protocols } from '../../../shared/providers/protocols.ts'
import { call as callTo } from '../../support/providers/openai-call.ts'
import { test } from '../../support/test.ts'

const catalog = loadCatalog()

/** A target of the shipped catalog: model@provider. */
function targetOf(name: string): Target {
  const [slug, provider] = name.split('@')
  const model = catalog.find(slug!)!
  return { model, ...catalog.targets(model).find(target => target.provider.name === provider)! }
}

const user = { role: 'user', content: 'Hi' }
const fitted = (target: string, body: object): Fitting =>
  fitChat(chatRequest.parse({ model: 'x', messages: [user], ...body }), targetOf(target))

const callOf = (id: string, name = 'w') => ({ id, type: 'function', function: { name, arguments: '{}' } })
const toolTurn = (id: string) => [
  user,
  { role: 'assistant', content: null, tool_calls: [callOf(id)] },
  { role: 'tool', tool_call_id: id, content: 'rain' },
]
const tool = (name: string, more: object = {}) => ({ type: 'function', function: { name, ...more } })
const format = (schema: object) => ({ type: 'json_schema', json_schema: { name: 'x', schema } })
const rated = { type: 'object', properties: { rating: { type: 'integer', minimum: 1, maximum: 5 } } }

/** Messages as sent: role, then content, id or members. */
const sentIds = ({ body }: Fitting) =>
  body.messages.flatMap(message => {
    if (message.role === 'tool') return [message.tool_call_id]
    return message.role === 'assistant' ? (message.tool_calls ?? []).map(({ id }) => id) : []
  })

test('400 for an answer to continue at the Gemini models that refuse one', t => {
  const messages = [user, { role: 'assistant', content: 'Once' }]
  for (const name of ['3.5-flash-lite', '3.6-flash', '3.7-flash', '3.8-flash'])
    t.is(t.throws<GatewayError>(() => fitted(`gemini-${name}@gemini`, { messages })).code, 'unsupported_capability')
  t.is(fitted('gemini-3.5-flash@gemini', { messages }).body.messages.length, 2)
})

test('sent: to Mistral a top_p of 1 beside a temperature of 0, named where another was asked for', t => {
  const at = (body: object) => {
    const { body: sent, adjusted } = fitted('mistral-medium-3.5@mistral', body)
    return [sent.top_p, adjusted]
  }
  t.deepEqual(at({ temperature: 0, top_p: 0.9 }), [1, ['top_p']])
  t.deepEqual(at({ temperature: 0, top_p: 1 }), [1, []])
  t.deepEqual(at({ temperature: 0 }), [1, []])
  t.deepEqual(at({ temperature: 0.2, top_p: 0.9 }), [0.9, []])
})

test('sent: the highest temperature of a provider in place of a higher one, named', t => {
  for (const target of ['mistral-large-3@mistral', 'gpt-oss-120b@cerebras']) {
    const { body, adjusted } = fitted(target, { temperature: 1.9 })
    t.deepEqual([body.temperature, adjusted], [1.5, ['temperature']], target)
    t.deepEqual(fitted(target, { temperature: 1.5 }).adjusted, [], target)
  }
})

test('sent: developer messages as the system’s, but to OpenAI', t => {
  const messages = [{ role: 'developer', content: 'S' }, user]
  const roles = (target: string) => fitted(target, { messages }).body.messages.map(({ role }) => role)
  for (const target of ['deepseek-v4-pro@deepseek', 'mistral-large-3@mistral', 'gpt-oss-120b@groq'])
    t.deepEqual(roles(target), ['system', 'user'], target)
  t.deepEqual(roles('gpt-5.1@openai'), ['developer', 'user'])
})

test('sent: ids of tool calls in each provider’s form, the same for a call and its result', t => {
  const signed = `ab12cd34__sig__${'c3Nz'.repeat(60)}`
  for (const id of ['call_PTLP8xhu3uwZk4l3nlnrrJha', 'toolu_01ABCDEF', 'functions.w:0', signed, 'x'.repeat(300)]) {
    const messages = toolTurn(id)
    const at = (target: string) => {
      const ids = sentIds(fitted(target, { messages }))
      t.is(ids.length, 2)
      t.is(ids[0], ids[1], target)
      return ids[0]!
    }
    t.regex(at('mistral-large-3@mistral'), /^[a-zA-Z0-9]{9}$/)
    t.regex(at('claude-sonnet-5@anthropic'), /^[a-zA-Z0-9_-]{1,64}$/)
    t.true(at('gpt-5.1@openai').length <= 64)
    t.is(at('gemini-3.5-flash@gemini'), id)
    for (const target of ['gpt-4o@openai', 'grok-4.3@xai', 'gpt-oss-120b@groq', 'deepseek-v4-pro@deepseek'])
      t.is(at(target).includes('__sig__'), false, target)
  }
  t.is(sentIds(fitted('mistral-large-3@mistral', { messages: toolTurn('aB3dE5gH7') }))[0], 'aB3dE5gH7')
})

test('sent: to Anthropic an id once in a conversation, each result with the id of its call', t => {
  const messages = [...toolTurn('call_0'), ...toolTurn('call_0'), user]
  t.deepEqual(sentIds(fitted('claude-sonnet-5@anthropic', { messages })), ['call_0', 'call_0', 'call_0_2', 'call_0_2'])
  t.deepEqual(sentIds(fitted('gpt-4o@openai', { messages })), ['call_0', 'call_0', 'call_0', 'call_0'])
})

test('sent: to Anthropic parallel calls with one id as two, each with its result, also where a result came first', t => {
  const twice = { role: 'assistant', content: null, tool_calls: [callOf('call_0'), callOf('call_0')] }
  const result = { role: 'tool', tool_call_id: 'call_0', content: 'rain' }
  const parallel = [user, twice, result, result]
  const ids = sentIds(fitted('claude-sonnet-5@anthropic', { messages: [...parallel, ...toolTurn('call_0'), user] }))
  t.deepEqual(ids, ['call_0', 'call_0_2', 'call_0', 'call_0_2', 'call_0_3', 'call_0_3'])
  const alike = { role: 'assistant', content: null, tool_calls: [callOf('w.0'), callOf('w_0')] }
  const crossed = [user, alike, { ...result, tool_call_id: 'w_0' }, { ...result, tool_call_id: 'w.0' }, user]
  t.deepEqual(sentIds(fitted('claude-sonnet-5@anthropic', { messages: crossed })), ['w_0', 'w_0_2', 'w_0_2', 'w_0'])
  const early = [user, result, ...toolTurn('call_0').slice(1), user]
  t.deepEqual(sentIds(fitted('claude-sonnet-5@anthropic', { messages: early })), ['call_0', 'call_0', 'call_0'])
})

test('sent: reasoning of earlier answers under the name that the provider reads, or not at all', t => {
  const messages = [user, { role: 'assistant', content: 'ok', reasoning_content: 'because' }, user]
  const answerAt = (target: string) => fitted(target, { messages }).body.messages[1]!
  t.like(answerAt('gpt-oss-120b@groq'), { reasoning: 'because', reasoning_content: undefined })
  t.like(answerAt('deepseek-v4-pro@deepseek'), { reasoning_content: 'because' })
  for (const target of ['mistral-medium-3.5@mistral', 'llama-3.3-70b-instruct@groq', 'gpt-5.1@openai'])
    t.like(answerAt(target), { reasoning_content: undefined, reasoning: undefined }, target)
})

test('sent: messages without nulls, empty lists and members that a strict provider forbids', t => {
  const nulls = { refusal: null, audio: null, function_call: null, tool_calls: [] }
  const messages = [{ ...user, name: 'ann' }, { role: 'assistant', content: 'Hello', ...nulls }, user]
  const sent = JSON.parse(JSON.stringify(fitted('mistral-large-3@mistral', { messages }).body.messages))
  t.deepEqual(sent, [user, { role: 'assistant', content: 'Hello' }, user])
  const atOpenAi = fitted('gpt-4o@openai', { messages }).body.messages
  t.like(atOpenAi[0], { name: 'ann' })
  t.like(atOpenAi[1], { refusal: null, tool_calls: undefined })
  const parts = [
    { type: 'text', text: 'a' },
    { type: 'text', text: 'b' },
  ]
  const list = [user, { role: 'assistant', content: parts }, user]
  t.is(fitted('deepseek-v4-pro@deepseek', { messages: list }).body.messages[1]!.content, 'a\nb')
})

test('sent: to Mistral an answer between results and the user, and the mark of an answer to continue', t => {
  const { messages } = fitted('mistral-large-3@mistral', { messages: [...toolTurn('aB3dE5gH7'), user] }).body
  t.deepEqual(
    messages.map(({ role }) => role),
    ['user', 'assistant', 'tool', 'assistant', 'user'],
  )
  const begun = [user, { role: 'assistant', content: '{' }]
  t.like(fitted('mistral-large-3@mistral', { messages: begun }).body.messages[1], { prefix: true })
  t.is(fitted('claude-sonnet-4-5@anthropic', { messages: begun }).body.messages.length, 2)
})

test('sent: to Mistral later system messages as the user’s', t => {
  const late = { role: 'system', content: [{ type: 'text', text: 'Be polite.' }] }
  const messages = [late, ...toolTurn('aB3dE5gH7'), late]
  const sent = fitted('mistral-large-3@mistral', { messages }).body.messages
  t.deepEqual(
    sent.map(({ role }) => role),
    ['system', 'user', 'assistant', 'tool', 'assistant', 'user'],
  )
  t.is(sent.at(-1)!.content, '<system-reminder>\nBe polite.\n</system-reminder>')
  t.deepEqual(fitted('gpt-4o@openai', { messages }).body.messages.at(-1), late as never)
})

test('sent: a conversation of system messages only, as the user’s where there must be one', t => {
  const messages = [{ role: 'system', content: 'Write a title.' }]
  t.is(fitted('claude-haiku-4-5@anthropic', { messages }).body.messages[0]!.role, 'user')
  t.is(fitted('gemini-2.5-flash@gemini', { messages }).body.messages[0]!.role, 'user')
  t.is(fitted('gpt-4o@openai', { messages }).body.messages[0]!.role, 'system')
})

test('sent: a message of the user before an answer that a conversation begins with, where there must be one', t => {
  const messages = [{ role: 'system', content: 'S' }, { role: 'assistant', content: 'Hello!' }, user]
  const roles = (target: string) => fitted(target, { messages }).body.messages.map(({ role }) => role)
  t.deepEqual(roles('claude-haiku-4-5@anthropic'), ['system', 'user', 'assistant', 'user'])
  t.deepEqual(roles('gemini-2.5-flash@gemini'), ['system', 'user', 'assistant', 'user'])
  t.deepEqual(roles('gpt-4o@openai'), ['system', 'assistant', 'user'])
})

test('the tool choice `validated` is a mode of Gemini; elsewhere it is `auto`, as it says', t => {
  const asked = { tools: [tool('w')], tool_choice: 'validated' }
  t.is(fitted('gemini-3.5-flash@gemini', asked).body.tool_choice, 'validated')
  for (const target of ['claude-sonnet-4-5@anthropic', 'gpt-5.1@openai', 'claude-sonnet-4-5@openrouter']) {
    const sent = fitted(target, asked)
    t.is(sent.body.tool_choice, 'auto')
    t.deepEqual(sent.adjusted, ['tool_choice'])
  }
  t.is(fitted('gemini-3.5-flash@gemini', { tools: [], tool_choice: 'validated' }).body.tool_choice, undefined)
})

test('sent: names of tools that a provider takes, wherever they occur', t => {
  const long = `mcp__${'a'.repeat(90)}`
  for (const name of [long, 'mcp.server:tool']) {
    const messages = [
      user,
      { role: 'assistant', content: null, tool_calls: [callOf('c1', name)] },
      ...toolTurn('c1').slice(2),
    ]
    const body = { messages, tools: [tool(name)], tool_choice: { type: 'function', function: { name } } }
    const { body: sent, tools } = fitted('gpt-4o@openai', body)
    const sentName = (sent.tools![0] as { function: { name: string } }).function.name
    t.regex(sentName, /^[a-zA-Z0-9_-]{1,64}$/)
    t.deepEqual(tools.get(sentName), { name, type: 'function' })
    t.like(sent.tool_choice, { function: { name: sentName } })
    t.like(sent.messages[1], { tool_calls: [{ function: { name: sentName } }] })
  }
  t.is(fitted('claude-haiku-4-5@anthropic', { tools: [tool(long)] }).tools.size, 0)
  t.is(fitted('gemini-2.5-flash@gemini', { tools: [tool('mcp.server:tool')] }).tools.size, 0)
})

test('sent: custom tools as functions with one text, and a choice among tools as their list', t => {
  const custom = { type: 'custom', custom: { name: 'patch', description: 'd' } }
  const tool_choice = {
    type: 'allowed_tools',
    allowed_tools: { mode: 'required', tools: [{ type: 'custom', custom: { name: 'patch' } }] },
  }
  const sent = fitted('claude-sonnet-4-5@anthropic', { tools: [custom, tool('w')], tool_choice })
  t.like(sent.body, { tool_choice: 'required', tools: [{ type: 'function', function: { name: 'patch' } }] })
  t.is(sent.body.tools!.length, 1)
  t.deepEqual(sent.adjusted, ['tool_choice'])
  const native = fitted('gpt-5.1@openai', { tools: [custom, tool('w')], tool_choice })
  t.like(native.body, { tool_choice, tools: [custom, tool('w')] })
})

test('sent: a choice among tools by the names under which they are sent', t => {
  const name = `mcp__${'a'.repeat(90)}`
  const reference = { type: 'function', function: { name } }
  const tool_choice = { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [reference] } }
  const { body } = fitted('gpt-5.1@openai', { tools: [tool(name), tool('w')], tool_choice })
  const sentName = (body.tools![0] as { function: { name: string } }).function.name
  t.not(sentName, name)
  t.like(body.tool_choice, {
    allowed_tools: { mode: 'auto', tools: [{ type: 'function', function: { name: sentName } }] },
  })
})

test('400 for a choice among tools in an unknown mode', t => {
  const tool_choice = {
    type: 'allowed_tools',
    allowed_tools: { mode: 'any', tools: [{ type: 'function', name: 'w' }] },
  }
  const error = t.throws(() => fitted('claude-sonnet-4-5@anthropic', { tools: [tool('w')], tool_choice }))
  t.like(error, { code: 'invalid_request', param: 'tool_choice.allowed_tools.mode' })
})

test('sent: the instruction to call a tool at the end of a developer’s prompt', t => {
  const messages = [{ role: 'developer', content: 'S' }, user]
  const { body } = fitted('claude-opus-5-5@anthropic', { messages, tools: [tool('w')], tool_choice: 'required' })
  t.is(body.messages.length, 2)
  t.regex(String(body.messages[0]!.content), /^S\n\nCall/)
})

test('sent: a call that a model cannot be forced to make is asked for in the system prompt', t => {
  const messages = [{ role: 'system', content: 'S' }, user]
  const { body, adjusted } = fitted('claude-opus-5-5@anthropic', {
    messages,
    tools: [tool('w')],
    tool_choice: 'required',
  })
  t.is(body.tool_choice, 'auto')
  t.regex(String(body.messages[0]!.content), /^S\n\nCall at least one of the tools now/)
  t.deepEqual(adjusted, ['tool_choice'])
  const forced = { tools: [tool('w')], tool_choice: 'required' as const }
  t.is(fitted('claude-opus-4-6@anthropic', forced).body.tool_choice, 'required')
})

test('sent: a forced tool without thinking, where a model takes no other, unless the caller asks for thinking or it cannot be turned off', t => {
  const forced = { tools: [tool('w')], tool_choice: 'required' as const }
  const off = { thinking: { type: 'disabled' } }
  const switches = {
    'deepseek-v4-pro@deepseek': off,
    'kimi-k2.5@moonshot': off,
    'glm-5.2@alibaba': { enable_thinking: false },
  }
  for (const [target, members] of Object.entries(switches)) {
    for (const more of [{}, { reasoning_effort: 'none' as const }, members]) {
      const { body, adjusted } = fitted(target, { ...forced, ...more })
      t.like(body, { tool_choice: 'required', ...members }, target)
      t.is(body.reasoning_effort, undefined)
      t.deepEqual(adjusted, [])
    }
    const asked = fitted(target, { ...forced, reasoning_effort: 'high' })
    t.is(asked.body.tool_choice, 'auto', target)
    t.regex(String(asked.body.messages[0]!.content), /^Call at least one of the tools now/)
    t.deepEqual(asked.adjusted, ['tool_choice'])
    t.is(fitted(target, { ...forced, ...members, tool_choice: 'auto' }).body.tool_choice, 'auto')
    t.like(fitted(target, { reasoning_effort: 'none' }).body, members)
  }
  const always = fitted('kimi-k3@moonshot', { ...forced, reasoning_effort: 'none' })
  t.is(always.body.tool_choice, 'auto')
  t.false('thinking' in always.body)
  t.deepEqual(always.adjusted, ['tool_choice'])
})

test('sent: a format that a target lacks, or not beside tools or in streams, in the system prompt', t => {
  const schema = format(rated)
  for (const [target, body, mode] of [
    ['gemini-2.5-flash@gemini', { tools: [tool('w')], response_format: schema }, undefined],
    ['gpt-oss-120b@groq', { tools: [tool('w')], response_format: { type: 'json_object' } }, undefined],
    ['gpt-oss-120b@groq', { stream: true, response_format: schema }, { type: 'json_object' }],
    ['deepseek-v4-pro@deepseek', { response_format: schema }, { type: 'json_object' }],
  ] as const) {
    const sent = fitted(target, body as never)
    t.is(sent.structuredBy, 'prompt')
    t.deepEqual(sent.body.response_format as unknown, mode)
    t.regex(String(sent.body.messages[0]!.content), /with one JSON object and nothing else/)
    if (body.response_format === schema) t.true(String(sent.body.messages[0]!.content).endsWith(JSON.stringify(rated)))
  }
})

test('sent: an empty list of tools, and settings without tools, as none', t => {
  const { body, dropped } = fitted('gpt-4o@openai', { tools: [], tool_choice: 'auto', parallel_tool_calls: true })
  t.like(body, { tools: undefined, tool_choice: undefined, parallel_tool_calls: undefined })
  t.deepEqual(dropped, [])
})

test('sent: schemas in the subset of each provider; what is left out is told in the description', t => {
  const claude = fitted('claude-sonnet-4-5@anthropic', { response_format: format(rated) })
  t.like(claude.body.response_format, {
    json_schema: {
      schema: {
        additionalProperties: false,
        properties: { rating: { type: 'integer', description: '{minimum: 1, maximum: 5}', minimum: undefined } },
      },
    },
  })
  t.deepEqual(claude.adjusted, ['response_format'])
  const plain = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] }
  t.deepEqual(fitted('claude-sonnet-4-5@anthropic', { response_format: format(plain) }).adjusted, [])
  const strict = fitted('claude-sonnet-4-5@anthropic', { tools: [tool('w', { strict: true, parameters: rated })] })
  t.like(strict.body.tools![0], { function: { parameters: { additionalProperties: false } } })
  const loose = [tool('w', { parameters: rated })]
  t.deepEqual(fitted('claude-sonnet-4-5@anthropic', { tools: loose }).body.tools, loose as never)
  const ruled = { type: 'object', properties: { a: { $ref: '#/$defs/P', minProperties: 1 } }, $defs: { P: plain } }
  t.deepEqual(fitted('claude-sonnet-4-5@anthropic', { response_format: format(ruled) }).adjusted, ['response_format'])
  const referring = {
    type: 'object',
    properties: { home: { $ref: '#/$defs/P', description: 'd' } },
    $defs: { P: plain },
  }
  t.like(fitted('gemini-3.5-flash@gemini', { tools: [tool('w', { parameters: referring })] }).body.tools![0], {
    function: { parameters: { properties: { home: { anyOf: [{ $ref: '#/$defs/P' }], description: 'd' } } } },
  })
  t.like(fitted('gpt-4o@openai', { tools: [tool('now', { parameters: { type: 'object' } })] }).body.tools![0], {
    function: { parameters: { type: 'object', properties: {} } },
  })
})

for (const [target, wanted, sent] of [
  ['mistral-medium-3.5@mistral', 'low', 'high'],
  ['mistral-medium-3.5@mistral', 'none', 'none'],
  ['qwen3-32b@groq', 'medium', 'default'],
  ['qwen3-32b@groq', 'default', 'default'],
  ['gpt-5.1@openai', 'default', undefined],
  ['gpt-oss-120b@groq', 'none', 'low'],
  ['gpt-5-mini@openai', 'none', 'minimal'],
  ['gpt-5.1@openai', 'minimal', 'low'],
  ['claude-opus-4-6@anthropic', 'xhigh', 'high'],
  ['gpt-5.4@openai', 'max', 'xhigh'],
  ['gpt-6-astra@openai', 'none', 'low'],
  ['gpt-4o@openai', 'low', undefined],
  ['grok-4.20-reasoning@xai', 'low', undefined],
] as const)
  test(`sent effort: ${wanted} at ${target} as ${sent}`, t => {
    const fitting = fitted(target, { reasoning_effort: wanted })
    t.is(fitting.body.reasoning_effort, sent)
    const isNamed = fitting.adjusted.includes('reasoning_effort') || fitting.dropped.includes('reasoning_effort')
    t.is(isNamed, wanted !== sent && wanted !== 'default')
  })

test('sent effort: none turns thinking off in the provider’s own way', t => {
  t.like(fitted('deepseek-v4-pro@deepseek', { reasoning_effort: 'none' }).body, {
    reasoning_effort: undefined,
    thinking: { type: 'disabled' },
  })
})

test('sent effort: the one at which a model takes tools', t => {
  const tools = [tool('w')]
  t.is(fitted('gpt-6-sol@openai', { tools }).body.reasoning_effort, 'none')
  const named = fitted('gpt-6-sol@openai', { tools, reasoning_effort: 'low' })
  t.is(named.body.reasoning_effort, 'none')
  t.deepEqual(named.adjusted, ['reasoning_effort'])
  t.is(fitted('gpt-6-sol@openai', {}).body.reasoning_effort, undefined)
  const custom = { type: 'custom', custom: { name: 'patch' } }
  t.is(fitted('gpt-6-sol@openai', { tools: [custom], reasoning_effort: 'low' }).body.reasoning_effort, 'low')
  t.is(fitted('gpt-6-astra@openai', { tools: [custom] }).body.tools?.length, 1)
})

test('refused: tools in chat, of a model that takes them in Responses only', t => {
  for (const target of ['gpt-6-astra@openai', 'gpt-6.1-sol@bedrock/openai']) {
    const error = t.throws(() => fitted(target, { tools: [tool('w')] }))
    t.like(error, { code: 'unsupported_capability', param: 'tools' })
    t.is(fitted(target, {}).body.tools, undefined)
  }
})

test('sent: sampling as far as the model takes it, the rest named', t => {
  const sampling = { temperature: 0.2, top_p: 0.9 }
  const sent = (target: string, body: object = sampling) => {
    const { body: sentBody, dropped } = fitted(target, body)
    return { temperature: sentBody.temperature, top_p: sentBody.top_p, dropped }
  }
  t.deepEqual(sent('claude-sonnet-4-5@anthropic'), { temperature: 0.2, top_p: undefined, dropped: ['top_p'] })
  t.deepEqual(sent('claude-sonnet-4-5@anthropic', { top_p: 0.9 }), { temperature: undefined, top_p: 0.9, dropped: [] })
  t.deepEqual(sent('claude-sonnet-4-5@anthropic', { temperature: 1, top_p: 1 }).dropped, [])
  t.deepEqual(sent('claude-opus-5@anthropic').dropped, ['temperature', 'top_p'])
  t.deepEqual(sent('gpt-5.1@openai').dropped, ['temperature', 'top_p'])
  t.deepEqual(sent('gpt-5.1@openai', { ...sampling, reasoning_effort: 'none' }).dropped, [])
  t.deepEqual(sent('gpt-4o@openai').dropped, [])
  const penalties = { presence_penalty: 0.5, frequency_penalty: 0, stop: 'x' }
  t.deepEqual(fitted('grok-4.3@xai', penalties).dropped, ['presence_penalty', 'stop'])
  t.deepEqual(fitted('gemini-2.5-flash@gemini', penalties).dropped, ['presence_penalty'])
})

test('sent: no blank stop sequences to Anthropic', t => {
  const at = (target: string, stop: unknown) => fitted(target, { stop })
  t.is(at('claude-haiku-4-5@anthropic', '\n').body.stop, undefined)
  t.deepEqual(at('claude-haiku-4-5@anthropic', '\n').dropped, ['stop'])
  t.deepEqual(at('claude-haiku-4-5@anthropic', ['END', '\n']).body.stop, ['END'])
  t.deepEqual(at('gpt-4o@openai', ['END', '\n']).body.stop, ['END', '\n'])
})

test('sent: no more tokens than the model writes, and the digest of a long id', t => {
  const { body, adjusted } = fitted('gpt-4o@openai', { max_tokens: 32_000, prompt_cache_key: 'k'.repeat(72) })
  t.is(body.max_tokens, 16_384)
  t.deepEqual(adjusted, ['max_tokens'])
  t.regex(String(body.prompt_cache_key), /^[0-9a-f]{64}$/)
})

for (const [name, target, body, param] of [
  [
    'an answer to continue',
    'claude-opus-4-6@anthropic',
    { messages: [user, { role: 'assistant', content: '{' }] },
    'messages',
  ],
  [
    'more tools than it takes',
    'gpt-4o@openai',
    { tools: Array.from({ length: 129 }, (_, i) => tool(`t${i}`)) },
    'tools',
  ],
] as const)
  test(`400 unsupported_capability for ${name} at ${target}`, t => {
    const error = t.throws(() => fitted(target, body), { instanceOf: GatewayError })
    t.deepEqual([error.status, error.code, error.param], [400, 'unsupported_capability', param])
  })

test('sent: the same object if the target accepts all of the request', t => {
  const body = chatRequest.parse({ model: 'x', messages: toolTurn('call_1'), tools: [tool('w')], temperature: 0.5 })
  t.is(fitChat(body, targetOf('gpt-4o@openai')).body, body)
})

test('every chat protocol that is not OpenAI’s states what it takes', t => {
  // Their servers take what OpenAI's do.
  const likeOpenAi = new Set(['openai', 'bedrock_mantle', 'vertex_openai', 'cohere', 'perplexity'])
  const chatProtocols = Object.entries(protocols).filter(([, { direct }]) => direct?.chat)
  for (const [name] of chatProtocols) t.is(name in protocolProfiles, !likeOpenAi.has(name), name)
})

test('sent: to Vertex AI what the makers of its models take', t => {
  const messages = [{ role: 'assistant', content: 'Hello' }, ...toolTurn('functions.w:0')]
  for (const name of ['claude-sonnet-5@vertex/anthropic', 'claude-sonnet-5@anthropic']) {
    const { body } = fitted(name, { messages, response_format: format(rated), stop: ['\n', 'x'] })
    t.is(body.messages[0]!.role, 'user', name)
    t.regex(sentIds(fitted(name, { messages })).at(-1)!, /^[a-zA-Z0-9_-]{1,64}$/, name)
    t.deepEqual(body.stop, ['x'], name)
    t.true(JSON.stringify(body.response_format).includes('"additionalProperties":false'), name)
  }
  const signed = `ab12cd34__sig__${'c3Nz'.repeat(60)}`
  t.deepEqual(sentIds(fitted('gemini-3.5-flash@vertex', { messages: toolTurn(signed) })), [signed, signed])
})

test('sent: reasoning in each earlier answer where it is required, unless the model does not reason', t => {
  const messages = [...toolTurn('call_1'), { role: 'assistant', content: 'Rain.' }, user]
  const reasoningAt = (target: string, more: object = {}) =>
    fitted(target, { messages, ...more }).body.messages.flatMap(message =>
      message.role === 'assistant' ? [message.reasoning_content] : [],
    )
  t.deepEqual(reasoningAt('deepseek-v4-pro@deepseek'), [' ', ' '])
  t.deepEqual(reasoningAt('kimi-k3@moonshot'), [' ', undefined])
  t.deepEqual(reasoningAt('deepseek-v4-pro@deepseek', { reasoning_effort: 'none' }), [undefined, undefined])
  t.deepEqual(reasoningAt('gpt-5.1@openai'), [undefined, undefined])
  const own = [user, { role: 'assistant', content: 'Rain.', reasoning_content: 'Clouds.' }, user]
  t.deepEqual(reasoningAt('deepseek-v4-pro@deepseek', { messages: own }), ['Clouds.'])
})

test('sent: no earlier answer without a word or a call, but to those who take it', t => {
  const rolesAt = (target: string, content: unknown) =>
    fitted(target, { messages: [user, { role: 'assistant', content }, user] }).body.messages.map(({ role }) => role)
  for (const content of ['', null, []])
    for (const target of ['kimi-k3@moonshot', 'mistral-large-3@mistral', 'grok-4.5@xai'])
      t.deepEqual(rolesAt(target, content), ['user', 'user'], target)
  t.deepEqual(rolesAt('gpt-5.1@openai', ''), ['user', 'assistant', 'user'])
  const messages = [...toolTurn('call_1'), { role: 'assistant', content: '' }, user]
  const afterTool = fitted('mistral-large-3@mistral', { messages }).body.messages.map(({ role }) => role)
  t.deepEqual(afterTool, ['user', 'assistant', 'tool', 'assistant', 'user'], 'no user after a tool')
})

test('sent: to Claude the digest of a user who is an address or a number', t => {
  const userAt = (target: string, id: string) => fitted(target, { user: id }).body.user
  for (const contact of ['alice@example.com', '+49 30 1234567', '0301234567']) {
    t.regex(userAt('claude-sonnet-5@anthropic', contact)!, /^[0-9a-f]{64}$/)
    t.regex(userAt('claude-sonnet-5@vertex/anthropic', contact)!, /^[0-9a-f]{64}$/)
    t.is(userAt('gpt-5.1@openai', contact), contact)
  }
  t.is(userAt('claude-sonnet-5@anthropic', 'user_4711'), 'user_4711')
})

test('sent: no mark of the whole request and no strict tools to Claude at Bedrock', t => {
  const target = targetOf('claude-sonnet-5@bedrock/anthropic')
  const mark = { type: 'ephemeral' }
  const body = { model: 'x', messages: [user], cache_control: mark, tools: [tool('w', { strict: true })] }
  const { request } = protocols.anthropic!.direct.chat!
  const sent = (target: Target) =>
    JSON.parse(String(request({ ...callTo<'chat'>(chatRequest.parse(body)), target }).body))
  const { cache_control, messages, tools } = sent(target)
  t.is(cache_control, undefined)
  t.deepEqual(messages[0].content.at(-1).cache_control, mark)
  t.is(tools[0].strict, undefined)
  const direct = sent(targetOf('claude-sonnet-5@anthropic'))
  t.deepEqual(direct.cache_control, mark)
  t.true(direct.tools[0].strict)
})

test('unique and soon: the ids of thousands of calls that all have one, for a provider that takes each once', t => {
  const ids = new CallIds({ tool_call_id: 'word_64', unique_call_ids: true })
  const startedMs = performance.now()
  const sent = new Set(Array.from({ length: 8_000 }, () => ids.ofCall('x'.repeat(100))))
  t.is(sent.size, 8_000)
  t.true([...sent].every(id => id.length <= 64))
  // It took half a minute, when each call tried the ids of all calls before it.
  t.true(performance.now() - startedMs < 3_000)
})
