import fc from 'fast-check'
import { GatewayError } from '../../shared/base/errors.ts'
import { applyOverrides } from '../../shared/catalog/overrides.ts'
import { profileOf } from '../../shared/catalog/traits.ts'
import { type ChatRequest, chatRequest } from '../../shared/kinds/chat.ts'
import type { Target } from '../../shared/providers/contract.ts'
import { dryRunRequest } from '../../shared/routing/options.ts'
import { isPlainChat } from '../../shared/routing/request-formats.ts'
import type { Decision } from '../../shared/routing/router.ts'
import {
  audio,
  catalog,
  decideOrRefuse,
  file,
  idsOf,
  image,
  schema,
  tools,
  worldWith,
} from '../support/routing/routing.ts'
import { test } from '../support/test.ts'

const { upstreams } = worldWith()
/** Every chat model at every provider, but those that take functions in Responses only. */
const targets = [...catalog.models.values()]
  .filter(({ type, endpoint }) => type === 'chat' && endpoint === undefined)
  .flatMap(model => catalog.targets(model).map((served): Target => ({ model, ...served })))
  .filter(target => profileOf(target).chat_tools)

function refusals(body: ChatRequest): unknown[] {
  return targets
    .map(target => dryRunRequest(upstreams, 'chat', target, body))
    .filter(one => one instanceof GatewayError)
}

const text = fc.constantFrom('', 'Hi', 'Grüße, 漢字 and 🙂')
const content = fc.oneof(
  text,
  fc.array(
    text.map(text => ({ type: 'text', text })),
    { minLength: 1, maxLength: 3 },
  ),
)
const call = (id: string) => ({ id, type: 'function', function: { name: 'weather', arguments: '{"city":"Bonn"}' } })
const message = fc.oneof(
  fc.record(
    { role: fc.constantFrom('system', 'developer', 'user'), content, name: text },
    { requiredKeys: ['role', 'content'] },
  ),
  fc.record(
    { role: fc.constant('assistant'), content: fc.option(content), tool_calls: fc.constant([call('a'), call('b')]) },
    { requiredKeys: ['role', 'content'] },
  ),
  fc.record({ role: fc.constant('tool'), content, tool_call_id: fc.constantFrom('a', 'b', 'c') }),
)
/** Not every model continues an answer. */
const lastMessage = { role: 'user', content: 'Hi' }
const plain = fc
  .record(
    {
      messages: fc.array(message, { minLength: 1, maxLength: 5 }),
      stream: fc.boolean(),
      stream_options: fc.constant({ include_usage: true }),
      max_tokens: fc.integer({ min: 1, max: 100_000 }),
      max_completion_tokens: fc.integer({ min: 1, max: 100_000 }),
      temperature: fc.double({ min: 0, max: 2, noNaN: true }),
      top_p: fc.double({ min: 0.01, max: 1, noNaN: true }),
      stop: fc.constantFrom('x', ['a', 'b']),
      user: text,
      tools: fc.constant(tools),
      tool_choice: fc.constantFrom('auto', 'none'),
      parallel_tool_calls: fc.boolean(),
      mode: fc.constantFrom('cost', 'quality'),
      models: fc.constant(['gpt-4.1']),
      provider: fc.constant({ only: ['openai'] }),
      metadata: fc.constant({ team: 'a' }),
    },
    { requiredKeys: ['messages'] },
  )
  .map(body => chatRequest.safeParse({ model: 'auto', ...body, messages: [...body.messages, lastMessage] }))
  .filter(({ success }) => success)
  .map(({ data }) => data as ChatRequest)

test('plain: requests that each dialect can express, so that none is tried', t => {
  fc.assert(
    fc.property(plain, body => {
      t.true(isPlainChat(body))
      t.deepEqual(refusals(body), [])
    }),
    { numRuns: 150 },
  )
})

test('left out, also of plain requests: a model that takes functions in Responses only, which have no word for a field', t => {
  const enabled = applyOverrides(catalog, [
    { kind: 'model', name: 'gpt-6.1-sol', hasKey: false, value: { disabled: false } },
  ]).catalog
  const world = worldWith(['openai'], enabled)
  const messages = [lastMessage]
  const among = { model: 'gpt-5.6-luna', models: ['gpt-6.1-sol'], messages }
  const first = 'gpt-5.6-luna@openai'
  t.deepEqual(idsOf(decideOrRefuse(among, { world }) as Decision), [first, 'gpt-6.1-sol@openai'])
  t.deepEqual(idsOf(decideOrRefuse({ ...among, tools }, { world }) as Decision), [first, 'gpt-6.1-sol@openai'])
  t.deepEqual(idsOf(decideOrRefuse({ ...among, tools, stop: 'x' }, { world }) as Decision), [first])
})

const user = { role: 'user', content: 'Hi' }
const others: [title: string, body: object][] = [
  ['two choices', { n: 2 }],
  ['log probabilities', { logprobs: true }],
  ['a logit bias', { logit_bias: { 1: 1 } }],
  ['a large seed', { seed: 2 ** 40 }],
  ['audio output', { modalities: ['text', 'audio'], audio: { voice: 'alloy', format: 'wav' } }],
  ['reasoning effort', { reasoning_effort: 'high' }],
  ['a forced tool', { tools, tool_choice: 'required' }],
  ['a named tool', { tools, tool_choice: { type: 'function', function: { name: 'f' } } }],
  ['a custom tool', { tools: [{ type: 'custom', custom: { name: 'run' } }] }],
  ['a schema', { response_format: schema }],
  ['an image', { messages: [image] }],
  ['sound', { messages: [audio] }],
  ['a file', { messages: [file] }],
  ['the result of a function', { messages: [user, { role: 'function', name: 'f', content: '1' }] }],
  ['an earlier answer in sound', { messages: [user, { role: 'assistant', content: null, audio: { id: 'a' } }] }],
  [
    'a call of a custom tool',
    {
      messages: [
        user,
        {
          role: 'assistant',
          content: null,
          tool_calls: [{ id: 'a', type: 'custom', custom: { name: 'x', input: '' } }],
        },
      ],
    },
  ],
]
for (const [title, body] of others)
  test(`not plain: ${title}`, t => {
    t.false(isPlainChat(chatRequest.parse({ model: 'auto', messages: [user], ...body }) as ChatRequest))
  })
