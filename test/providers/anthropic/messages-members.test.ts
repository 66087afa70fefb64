import type { UnknownNamesAnswer } from '../../../api/dashboard/wire/operator-home.ts'
import { messageReply } from '../../emulators/anthropic.ts'
import { json } from '../../emulators/emulator.ts'
import { chargedNano, startWorld } from '../../support/chat/gateway.ts'
import { signUp } from '../../support/dashboard/dashboard.ts'
import type { Gateway } from '../../support/gateway.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

/** Its operator passes unknown fields on. */

const env = { OPENROUTER_API_KEY: '' }
const world = use(test, () => startWorld(env))
const open = use(test, () => startWorld({ ...env, PASS_UNKNOWN_FIELDS: 'true' }))
test.beforeEach(() => {
  for (const { anthropic } of [world, open]) anthropic.reset()
})

const model = 'claude-sonnet-4-6'
const hi = { model, max_tokens: 100, messages: [{ role: 'user', content: 'Hello' }] }

async function post(gateway: Gateway, key: string, body: object, headers = {}, path = '/v1/messages') {
  const response = await gateway.fetch(path, { key, body, headers })
  return { status: response.status, headers: response.headers, json: JSON.parse(await response.text()) }
}

test.serial('400 naming the member: what uses the operator’s account or has no price', async t => {
  const account = await world.gateway.account({ usd: '100' })
  const tunnel = (url: string) => [{ type: 'url', name: 'n', url }]
  const refused: [param: string, body: object][] = [
    ['container', { container: 'container_other' }],
    ['container', { container: { id: 'container_other' } }],
    ['container', { container: { skills: [{ type: 'anthropic', skill_id: 'pptx' }] } }],
    ['billing_policy', { billing_policy: { type: 'billing_policy', bill_to: 'user_profile' } }],
    ['speed', { speed: 'fast' }],
    ['inference_geo', { inference_geo: 'us' }],
    ['service_tier', { service_tier: 'priority' }],
    ['fallbacks', { fallbacks: [{ model: 'claude-opus-5' }] }],
    ['fallbacks', { fallbacks: 'default' }],
    ['mcp_servers.0.url', { mcp_servers: tunnel('https://docs.abcd1234.tunnel.anthropic.com/mcp') }],
    ['mcp_servers.0.url', { mcp_servers: tunnel('https://abcd1234.TUNNEL.anthropic.com.:443') }],
  ]
  const headers = { 'anthropic-beta': 'skills-2025-10-02,code-execution-2025-05-22,fast-mode-2026-02-01' }
  for (const stream of [false, true])
    for (const [param, more] of refused) {
      const { status, json } = await post(world.gateway, account.live, { ...hi, ...more, stream }, headers)
      t.is(status, 400, param)
      const error = { type: 'invalid_request_error', code: 'unsupported_capability', param }
      t.like(json, { type: 'error', error })
    }
  t.is(world.anthropic.requests.length, 0)
  t.is(await chargedNano(world, account), 0)
})

test.serial('400 for a count of tokens that would read a container or a file of the account', async t => {
  const { live: key } = await world.gateway.account({ usd: '100' })
  const file = { type: 'document', source: { type: 'file', file_id: 'file_other' } }
  for (const [param, more] of [
    ['container', { container: 'container_other' }],
    ['messages.0.content.0', { messages: [{ role: 'user', content: [file] }] }],
  ] as const) {
    const body = { model, messages: hi.messages, ...more }
    const { status, json } = await post(world.gateway, key, body, {}, '/v1/messages/count_tokens')
    t.is(status, 400)
    t.is(json.error.param, param)
  }
  t.is(world.anthropic.requests.length, 0)
})

test.serial('200: values that ask for nothing go out as they are, or not at all', async t => {
  const { live: key } = await world.gateway.account({ usd: '100' })
  const usual = { speed: 'standard', service_tier: 'auto', inference_geo: 'global' }
  const policy = { type: 'billing_policy', bill_to: 'self' }
  const nothing = { container: null, fallbacks: [], diagnostics: { previous_message_id: null }, billing_policy: policy }
  const servers = [{ type: 'url', name: 'n', url: 'https://mcp.example.com' }]
  world.anthropic.next(messageReply({}))
  const body = { ...hi, ...usual, ...nothing, mcp_servers: servers }
  const { status, headers } = await post(world.gateway, key, body)
  t.is(status, 200)
  t.is(headers.get('x-gateway-dropped'), null)
  const { container: _, fallbacks: __, ...sent } = body
  t.deepEqual(world.anthropic.requests[0]!.body, sent)
})

const future = { thread_v2: { type: 'create' }, x_new: 1, empty: [] }
const accountMembers = {
  diagnostics: { previous_message_id: 'msg_other' },
  user_profile_id: 'uprof_other',
  workspace_id: 'wrkspc_other',
}

test.serial('200: unknown members are dropped and named, and the rest is byte for byte', async t => {
  const { live: key } = await world.gateway.account({ usd: '100' })
  const written = (more: string) =>
    `{ "model":"${model}" ,"messages":[{"role":"user","content":"\\u00e9 é"}],${more} "max_tokens":1e2}`
  const members = JSON.stringify({ ...future, ...accountMembers }).slice(1, -1)
  const response = await world.gateway.fetch('/v1/messages', { key, body: written(`${members},`) })
  t.is(response.status, 200, await response.text())
  t.is(world.anthropic.requests[0]!.raw.toString(), written(''))
  const dropped = 'thread_v2,x_new,diagnostics,user_profile_id,workspace_id'
  t.is(response.headers.get('x-gateway-dropped'), dropped)
})

test.serial('200: the same names where the request is translated, and with a test key', async t => {
  const { live, test: key } = await world.gateway.account({ usd: '100' })
  for (const [secret, name] of [
    [live, 'gpt-4o'],
    [key, 'gpt-4o'],
    [key, model],
  ] as const) {
    const { status, headers } = await post(world.gateway, secret, { ...hi, model: name, ...future, ...accountMembers })
    t.is(status, 200)
    t.is(headers.get('x-gateway-dropped'), 'thread_v2,x_new,diagnostics,user_profile_id,workspace_id')
  }
})

test.serial('200: PASS_UNKNOWN_FIELDS sends unknown members and headers, but none of the account’s', async t => {
  const { live: key } = await open.gateway.account({ usd: '100' })
  const headers = { 'anthropic-new': 'a', 'anthropic-workspace-id': 'wrkspc_other', 'anthropic-user-profile-id': 'u' }
  open.anthropic.next(messageReply({}))
  const answer = await post(open.gateway, key, { ...hi, ...future, ...accountMembers }, headers)
  t.is(answer.status, 200)
  const request = open.anthropic.requests[0]!
  t.deepEqual(request.body, { ...hi, ...future })
  t.is(request.headers['anthropic-new'], 'a')
  t.is(request.headers['anthropic-workspace-id'], undefined)
  t.is(request.headers['anthropic-user-profile-id'], undefined)
  const dropped = [...Object.keys(accountMembers), 'anthropic-workspace-id', 'anthropic-user-profile-id']
  t.deepEqual(answer.headers.get('x-gateway-dropped')!.split(',').sort(), dropped.sort())
  t.is((await post(open.gateway, key, { ...hi, thread: { type: 'create' } })).status, 400)
  t.is((await post(open.gateway, key, { ...hi, container: 'c' })).status, 400)
})

test.serial('200: headers that choose something in the account are not sent, unknown betas are', async t => {
  const { live: key } = await world.gateway.account({ usd: '100' })
  const betas = 'claude-code-20250219, brand-new-2027-01-01'
  const headers = { 'anthropic-beta': betas, 'anthropic-workspace-id': 'wrkspc_other', 'anthropic-new': 'a' }
  const answer = await post(world.gateway, key, hi, { ...headers, 'anthropic-version': '2023-06-01' })
  t.is(answer.status, 200)
  const request = world.anthropic.requests[0]!
  t.is(request.headers['anthropic-beta'], betas)
  t.is(request.headers['anthropic-version'], '2023-06-01')
  for (const name of ['anthropic-workspace-id', 'anthropic-new']) t.is(request.headers[name], undefined)
  const dropped = answer.headers.get('x-gateway-dropped')!.split(',').sort()
  t.deepEqual(dropped, ['anthropic-new', 'anthropic-workspace-id'])
})

test.serial('operators see each unknown name once, with its count; strangers add none', async t => {
  const { live: key } = await world.gateway.account({ usd: '100' })
  const nested = [{ role: 'user', content: [{ type: 'text', text: 'Hello', seen_member: 1 }] }]
  const body = { ...hi, messages: nested, seen_twice: true, 'odd name\u0000<b>': 1 }
  const headers = { 'anthropic-beta': 'seen-beta-2027-02-02,fast-mode-2026-02-01', 'anthropic-seen': 'x' }
  for (const _ of [1, 2]) t.is((await post(world.gateway, key, body, headers)).status, 200)
  const stranger = { ...hi, of_a_stranger: true }
  t.is((await post(world.gateway, `svc_sk_live_${'a'.repeat(40)}`, stranger)).status, 401)
  const many = Object.fromEntries(Array.from({ length: 5_000 }, (_, i) => [`many_${i}`, 1]))
  t.is((await post(world.gateway, key, { ...many, ...hi })).status, 200)
  await world.gateway.services.unknownNames.flush()
  const operator = await signUp(world.gateway, { name: 'Op' })
  await world.gateway.services.db.user.update({ where: { id: operator.userId }, data: { operator: true } })
  const { data } = await operator.visitor.json<UnknownNamesAnswer>('/dashboard/api/operator/unknown-names')
  const seen = (kind: string, name: string) => data.find(row => row.kind === kind && row.name === name)?.count
  t.is(seen('field', 'messages.seen_twice'), 2)
  t.is(seen('field', 'messages.odd?name??b?'), 2)
  t.is(seen('beta', 'seen-beta-2027-02-02'), 2)
  t.is(seen('header', 'anthropic-seen'), 2)
  t.is(seen('nested', 'messages.text.seen_member'), 2)
  t.is(seen('beta', 'fast-mode-2026-02-01'), undefined)
  t.is(seen('field', 'messages.of_a_stranger'), undefined)
  t.true(data.length <= 300)
  t.true(data.filter(({ name }) => name.startsWith('messages.many_')).length <= 50)
})

test.serial('a count of tokens sends known members only', async t => {
  const { live: key } = await world.gateway.account({ usd: '100' })
  world.anthropic.next(json(200, { input_tokens: 7 }))
  const body = { model, messages: hi.messages, system: 'Be brief.', ...future }
  const counted = await post(world.gateway, key, body, {}, '/v1/messages/count_tokens')
  t.is(counted.status, 200)
  t.is(counted.json.input_tokens, 7)
  t.deepEqual(world.anthropic.requests[0]!.body, { model, messages: hi.messages, system: 'Be brief.' })
})
