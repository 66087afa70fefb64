import Anthropic from '@anthropic-ai/sdk'
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema'
import type { GatewayError } from '../../shared/base/errors.ts'
import { parseRequest } from '../../shared/batches/request.ts'
import { chargedNano, startWorld } from '../support/chat/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

// A model must have one provider, so that its requests are found there.
const world = use(test, () => startWorld({ OPENROUTER_API_KEY: '' }))

const threads = 'message-threads-2026-08-12'
const claude = 'claude-sonnet-4-6'
const hi = { model: claude, max_tokens: 100, messages: [{ role: 'user' as const, content: 'Hello' }] }

const sdk = (apiKey: string) => new Anthropic({ apiKey, baseURL: world.gateway.url, maxRetries: 0 })
const emulators = () => [world.openai, world.anthropic, world.gemini]
const sent = () => emulators().flatMap(({ requests }) => requests)

test.beforeEach(() => {
  for (const emulator of emulators()) emulator.reset()
})

/** The weather by Anthropic's own loop, as the SDK runs it by default: over a thread. */
async function runTools(apiKey: string, model: string, stream: boolean): Promise<Anthropic.Beta.BetaMessage> {
  const weather = betaTool({
    name: 'w',
    description: 'The weather.',
    inputSchema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
    run: ({ city }) => `${city}: rain`,
  })
  const messages = [{ role: 'user' as const, content: 'weather in Oslo and Rome' }]
  const runner = sdk(apiKey).beta.messages.toolRunner({ model, max_tokens: 500, tools: [weather], messages, stream })
  return (await runner.runUntilDone()) as Anthropic.Beta.BetaMessage
}

for (const [model, provider] of [
  [claude, 'anthropic'],
  ['gpt-4o', 'openai'],
  ['gemini-3.5-flash', 'gemini'],
] as const)
  for (const stream of [false, true])
    test.serial(
      `200: the SDK’s tool runner goes on without a thread: ${model}${stream ? ', streamed' : ''}`,
      async t => {
        const account = await world.gateway.account({ usd: '10' })
        t.is((await runTools(account.live, model, stream)).stop_reason, 'end_turn')
        const { requests } = world[provider]
        t.is(requests.length, 2, 'the first turn, and the one with the results')
        t.false(requests.some(({ raw }) => raw.includes('"thread"')))
        for (const text of ['Oslo and Rome', 'Oslo: rain'])
          t.true(requests[1]!.raw.includes(text), 'the whole conversation')
        t.true((await chargedNano(world, account)) > 0)
      },
    )

test.serial('200: the same with a test key', async t => {
  const { test: key } = await world.gateway.account()
  for (const model of [claude, 'gpt-4o', 'gemini-3.5-flash'])
    for (const stream of [false, true]) t.is((await runTools(key, model, stream)).role, 'assistant')
  t.is(sent().length, 0)
})

const refusals = [
  [{ type: 'create' }, 400, 'unsupported_capability', 'thread_unsupported_request'],
  [{ type: 'continue', previous_message_id: 'msg_other' }, 404, 'not_found', 'thread_not_found'],
  [{ type: 'fork' }, 400, 'unsupported_capability', 'thread_unsupported_request'],
  [true, 400, 'unsupported_capability', 'thread_unsupported_request'],
] as const

for (const [thread, status, code, error_code] of refusals)
  test.serial(`${status} with the code of the SDK for a thread: ${JSON.stringify(thread)}`, async t => {
    const account = await world.gateway.account({ usd: '10' })
    const headers = { 'anthropic-beta': threads }
    for (const key of [account.live, account.test])
      for (const model of [claude, 'gpt-4o', 'gemini-3.5-flash', 'auto'])
        for (const more of [{}, { stream: true }, { messages: [] }]) {
          const body = { ...hi, model, ...more, thread }
          const response = await world.gateway.fetch('/v1/messages?beta=true', { key, body, headers })
          const { type, error } = (await response.json()) as Anthropic.ErrorResponse
          t.is(response.status, status)
          t.is(type, 'error')
          t.like(error, { code, param: 'thread', details: { error_code } } as object)
        }
    const counted = await world.gateway.fetch('/v1/messages/count_tokens', {
      key: account.live,
      body: { model: claude, messages: hi.messages, thread },
      headers,
    })
    t.is(counted.status, status)
    t.is(sent().length, 0)
    t.is(await chargedNano(world, account), 0)
  })

test.serial('400 where a delayed job has a thread; a batch names the line', async t => {
  const { live: key } = await world.gateway.account({ usd: '10' })
  const body = { ...hi, thread: { type: 'create' } }
  const job = { endpoint: '/v1/messages', completion_window: '1h', body }
  const response = await world.gateway.fetch('/v1/jobs', { key, body: job })
  const { error } = (await response.json()) as { error: object }
  t.is(response.status, 400)
  const metadata = { error_code: 'thread_unsupported_request', unsupported: ['thread'] }
  t.like(error, { code: 'unsupported_capability', param: 'body.thread', metadata })
  const line = { custom_id: 'a', method: 'POST', url: '/v1/messages', body }
  const refused = t.throws(() => parseRequest(Buffer.from(JSON.stringify(line)), '/v1/messages')) as GatewayError
  t.deepEqual([refused.code, refused.param], ['unsupported_capability', 'body.thread'])
  t.is(sent().length, 0)
})

test.serial('200 where `thread` is null', async t => {
  const { live: key } = await world.gateway.account({ usd: '10' })
  const response = await world.gateway.fetch('/v1/messages', { key, body: { ...hi, thread: null } })
  t.is(response.status, 200, await response.text())
  t.is(world.anthropic.requests[0]!.body.thread, undefined)
  t.is(response.headers.get('x-gateway-dropped'), null)
})

test.serial('404 upon which the SDK replays: the thread of a message that another organisation has', async t => {
  const first = await world.gateway.account({ usd: '10' })
  const message = await sdk(first.live).beta.messages.create({ ...hi, betas: [threads] })
  const second = await world.gateway.account({ usd: '10' })
  const thread = { type: 'continue' as const, previous_message_id: message.id }
  const error = await t.throwsAsync<InstanceType<typeof Anthropic.NotFoundError>>(() =>
    sdk(second.live).beta.messages.create({ ...hi, betas: [threads], thread }),
  )
  t.is(error?.status, 404)
  t.is(sent().length, 1)
})
