import { messageReply } from '../emulators/anthropic.ts'
import { Emulator, json, type Reply } from '../emulators/emulator.ts'
import { plainChatReply } from '../support/api/edge.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

const counted = json(200, { input_tokens: 3 })
const responded = json(200, { id: 'resp_1', object: 'response', status: 'completed', model: 'plain', output: [] })
const reply: Reply = (request, response) => {
  if (request.path.endsWith('/count_tokens')) return counted(request, response)
  if (request.path.endsWith('/messages')) return messageReply({})(request, response)
  if (request.path.endsWith('/responses')) return responded(request, response)
  return plainChatReply(request, response)
}
const upstream = use(test, () => Emulator.start(reply))
const gateway = useGateway(test, () => ({
  OPENAI_API_KEY: 'sk-upstream',
  OPENAI_BASE_URL: `${upstream.url}/v1`,
  ANTHROPIC_API_KEY: 'sk-upstream',
  ANTHROPIC_BASE_URL: upstream.url,
  MOONSHOT_API_KEY: 'sk-upstream',
  MOONSHOT_BASE_URL: `${upstream.url}/v1`,
}))
const account = use(test, () => gateway.account())

/** JSON whose `toString` is no function: neither `String` nor a template takes it. */
const odd = { toString: 1, valueOf: 1 }
const say = (model: string, more: object) => ({ model, messages: [{ role: 'user', content: 'Hi' }], ...more })
const tool = (parameters: object = { type: 'object' }) => ({ type: 'function', function: { name: 'f', parameters } })
const allowed = (allowed_tools: object) => ({ tools: [tool()], tool_choice: { type: 'allowed_tools', allowed_tools } })
const grammar = { type: 'custom', custom: { name: 'g', format: { grammar: { syntax: odd, definition: 'x' } } } }
const block = (value: object) => ({ messages: [{ role: 'user', content: [value] }], max_tokens: 5 })
const chat = '/v1/chat/completions'
const edits = [5, [null], [{ type: odd }]].map(value => ({ context_management: { edits: value } }))

const requests: [path: string, body: object][] = [
  [chat, say('gpt-4.1', { service_tier: odd })],
  [chat, say('gpt-4.1', { preset: odd })],
  [chat, say('gpt-4.1', allowed({ mode: 'auto', tools: [{ type: odd }] }))],
  [chat, say('gpt-5.6-luna', allowed({ mode: odd, tools: [{ type: 'function', function: { name: odd } }] }))],
  [chat, say('claude-haiku-4-5', { tools: [grammar] })],
  [chat, say('kimi-k2.5', { tools: [tool({ type: 'object', properties: {}, required: [odd] })] })],
  ['/v1/messages', { ...say('claude-haiku-4-5', { max_tokens: 5 }), mcp_servers: [{ type: 'url', url: odd }] }],
  ['/v1/messages', { model: 'gpt-4.1', ...block({ type: 'tool_result', tool_use_id: 't', content: [odd] }) }],
  ...['file', 'url'].map((name): [string, object] => ['/v1/audio/transcriptions', { model: 'whisper-1', [name]: odd }]),
  ['/v1/responses', { model: 'gpt-4.1', input: [{ type: odd, id: 'x' }] }],
  ['/v1/responses', { model: 'gpt-4.1', input: [{ type: 'function_call', call_id: 'c', name: 'f', arguments: odd }] }],
  ...edits.map((edit): [string, object] => ['/v1/messages/count_tokens', say('claude-haiku-4-5', edit)]),
  ...[5, 'x', [null], odd].map((value): [string, object] => [
    '/v1/responses/compact',
    { model: 'gpt-4.1', input: 'Hi', context_management: value },
  ]),
  ...[5, odd].map((value): [string, object] => [
    '/v1/responses/compact',
    { model: 'gpt-4.1', input: 'Hi', conversation: { id: value } },
  ]),
  ...[{ tools: 5 }, { tools: [null] }, { generationConfig: { responseModalities: 5 } }].map(
    (more): [string, object] => [
      '/v1beta/models/gpt-4.1:countTokens',
      { contents: [{ parts: [{ text: 'Hi' }] }], ...more },
    ],
  ),
]

for (const [path, body] of requests)
  test.serial(`no 500 from ${path} for ${JSON.stringify(body)}`, async t => {
    const answer = await gateway.fetch(path, { key: account.live, body })
    const text = await answer.text()
    t.true(answer.status === 200 || answer.status === 400, `${answer.status} ${text}`)
  })

test.serial('no 500 for an odd value in place of an address or an id, also without a session', async t => {
  for (const [path, body] of [
    ['sign-in/email', { email: odd, password: 'x' }],
    ['request-password-reset', { email: odd }],
    ['organization/leave', { organizationId: odd }],
    ['organization/accept-invitation', { invitationId: odd }],
  ] as const) {
    const headers = { origin: gateway.url }
    const answer = await gateway.fetch(`/dashboard/api/auth/${path}`, { body, headers })
    t.true(answer.status >= 400 && answer.status < 500, `${path}: ${answer.status} ${await answer.text()}`)
  }
})
