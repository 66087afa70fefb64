import Anthropic from '@anthropic-ai/sdk'
import { messageReply } from '../emulators/anthropic.ts'
import { answersError } from '../support/api/edge.ts'
import { chargedNano, startWorld } from '../support/chat/gateway.ts'
import { type ExecutionContext, test } from '../support/test.ts'
import { use } from '../support/use.ts'

const world = use(test, startWorld)
test.beforeEach(() => world.anthropic.reset())

const path = '/v1/messages'
const hi = { model: 'claude-haiku-4-5', max_tokens: 100, messages: [{ role: 'user' as const, content: 'Hello' }] }

/** A refusal in Anthropic's format, with the headers that its clients read. */
async function refuses(t: ExecutionContext, response: Response, ...expected: [code: never, param?: string | null]) {
  const error = await answersError(t, response, ...expected)
  t.is(response.headers.get('request-id'), response.headers.get('x-request-id'))
  t.false(response.status >= 300 && response.status < 400)
  return error
}

test.serial(
  'every refusal of our own is in Anthropic’s format: 400, 401, 402, 403, 404, 405, 413, 415, 429',
  async t => {
    const { gateway } = world
    const account = await gateway.account({ usd: '10' })
    const { live: key } = account
    const send = (body: unknown, options: object = {}) => gateway.fetch(path, { key, body, ...options })
    await refuses(t, await gateway.fetch(path, { body: hi }), 'missing_api_key' as never)
    await refuses(t, await send(hi, { key: `svc_sk_live_${'a'.repeat(40)}` }), 'invalid_api_key' as never)
    await refuses(t, await send({ ...hi, max_tokens: undefined }), 'missing_field' as never, 'max_tokens')
    await refuses(
      t,
      await send({ ...hi, messages: [{ role: 'user', content: [{ type: 'text' }] }] }),
      'missing_field' as never,
      'messages.0.content.0.text',
    )
    await refuses(t, await send({ ...hi, model: 'nope' }), 'model_not_found' as never, 'model')
    await refuses(t, await gateway.fetch(path, { key, method: 'GET' }), 'method_not_allowed' as never)
    await refuses(t, await gateway.fetch(`${path}/nowhere`, { key, body: {} }), 'not_found' as never)
    await refuses(t, await send(hi, { headers: { 'content-type': 'text/plain' } }), 'unsupported_media_type' as never)
    const unscoped = await gateway.key(account.organisationId, 'live', { scopes: 'embeddings' })
    await refuses(t, await send(hi, { key: unscoped }), 'insufficient_scope' as never)
    const slow = await gateway.key(account.organisationId, 'live', { rpm_limit: 1 })
    t.is((await send(hi, { key: slow })).status, 200)
    const limited = await send(hi, { key: slow })
    await refuses(t, limited, 'rate_limit_exceeded' as never)
    t.regex(limited.headers.get('retry-after')!, /^\d+$/)
    const poor = await gateway.account({ usd: '0' })
    const broke = await send(hi, { key: poor.live })
    await refuses(t, broke, 'insufficient_credits' as never)
    t.is(broke.headers.get('x-should-retry'), 'false')
  },
)

test.serial('bodies to 32 MB, and 413 beyond', async t => {
  const { live: key } = await world.gateway.account({ usd: '100' })
  const data = Buffer.alloc(20 * 1024 * 1024).toString('base64')
  const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data } }
  world.anthropic.next(messageReply({ content: [{ type: 'text', text: 'seen' }] }))
  const body = { ...hi, messages: [{ role: 'user', content: [image, { type: 'text', text: 'Où?' }] }] }
  const taken = await world.gateway.fetch(path, { key, body })
  t.is(taken.status, 200, await taken.text())
  t.is(world.anthropic.requests.at(-1)!.body.messages[0].content[0].source.data.length, data.length)
  const twice = { ...hi, messages: [{ role: 'user', content: [image, image] }] }
  await refuses(t, await world.gateway.fetch(path, { key, body: twice }), 'request_too_large' as never)
})

test.serial(
  'too long: in the two forms that clients parse, never as an unavailable provider (claude-code-router#1799)',
  async t => {
    const { live: key } = await world.gateway.account({ usd: '100' })
    const model = 'gpt-4o-mini'
    const long = { ...hi, model, messages: [{ role: 'user', content: 'word '.repeat(160_000) }] }
    const { message } = await refuses(
      t,
      await world.gateway.fetch(path, { key, body: long }),
      'context_length_exceeded' as never,
    )
    t.regex(message, /^prompt is too long: \d+ tokens > 128000 maximum \(capability_rejected: prompt_too_long\)$/)
    world.openai.next((_request, response) => {
      const error = {
        message: "This model's maximum context length is 128000 tokens.",
        type: 'invalid_request_error',
        code: 'context_length_exceeded',
      }
      response.writeHead(400, { 'content-type': 'application/json' }).end(JSON.stringify({ error }))
    })
    const body = { ...hi, model, max_tokens: 127_999 }
    const refused = await refuses(
      t,
      await world.gateway.fetch(path, { key, body: { ...body, provider: { only: ['openai'] } } }),
      'context_length_exceeded' as never,
      'max_tokens',
    )
    t.regex(
      refused.message,
      /^input length and `max_tokens` exceed context limit: \d+ \+ 127999 > 128000 \(capability_rejected: max_tokens_context_overflow\)$/,
    )
  },
)

test.serial('an Idempotency-Key repeats the answer, charged once', async t => {
  const account = await world.gateway.account({ usd: '10' })
  const headers = { 'idempotency-key': 'one' }
  const [first, second] = [
    await world.gateway.fetch(path, { key: account.live, body: hi, headers }),
    await world.gateway.fetch(path, { key: account.live, body: hi, headers }),
  ]
  const charged = await chargedNano(world, account)
  t.is(await first.text(), await second.text())
  t.is(second.headers.get('idempotent-replayed'), 'true')
  t.is(world.anthropic.requests.length, 1)
  t.is(charged, Math.round(Number(first.headers.get('x-gateway-cost-usd')) * 1e9))
})

test.serial(
  'test keys: the sandbox answers whole and streamed, `auto` and named models, and counts tokens',
  async t => {
    const { test: key } = await world.gateway.account({ usd: '0' })
    const client = new Anthropic({ apiKey: key, baseURL: world.gateway.url, maxRetries: 0 })
    for (const model of ['auto', 'auto:floor', 'claude-haiku-4-5', 'gpt-4o-mini']) {
      const whole = await client.messages.create({ ...hi, model })
      t.is(whole.content.map(block => (block.type === 'text' ? block.text : '')).join(''), 'Hello', model)
      t.regex(whole.id, /^msg_/)
      const streamed = await client.beta.messages.stream({ ...hi, model }).finalMessage()
      t.deepEqual(streamed.content.map(block => (block.type === 'text' ? block.text : '')).join(''), 'Hello', model)
      t.is(streamed.stop_reason, 'end_turn')
      t.is(streamed.usage.output_tokens, whole.usage.output_tokens)
    }
    t.true((await client.messages.countTokens({ model: 'gpt-4o-mini', messages: hi.messages })).input_tokens > 0)
    t.is(world.anthropic.requests.length + world.openai.requests.length, world.openai.requests.length)
  },
)

test.serial('probes of the address: 200 without a key', async t => {
  for (const address of ['/', '/api/hello']) {
    const response = await world.gateway.fetch(address, { method: 'HEAD' })
    t.is(response.status, 200)
    t.is(await response.text(), '')
  }
})
