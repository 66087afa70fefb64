import { cutMidStream, errorMidStream } from '../emulators/anthropic.ts'
import { events, framed, type Reply } from '../emulators/emulator.ts'
import { cutStream, geminiError } from '../emulators/gemini.ts'
import { chatChunk, chatReply, failure, insufficientQuota } from '../emulators/openai.ts'
import { saying, startWorld } from '../support/chat/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

const world = use(test, startWorld)
test.beforeEach(() => {
  for (const emulator of [world.openai, world.anthropic, world.gemini, world.openrouter]) emulator.reset()
})

type Route = 'chat' | 'messages' | 'responses' | 'completions'

const paths: Record<Route, string> = {
  chat: '/v1/chat/completions',
  messages: '/v1/messages',
  responses: '/v1/responses',
  completions: '/v1/completions',
}

const bodies: Record<Route, (model: string) => object> = {
  chat: model => saying(model, 'Hello'),
  messages: model => ({ ...saying(model, 'Hello'), max_tokens: 100 }),
  responses: model => ({ model, input: 'Hello' }),
  completions: model => ({ model, prompt: 'Hello' }),
}

async function ask(route: Route, model: string, more: object = {}, secret?: string) {
  const key = secret ?? (await world.gateway.account()).live
  const response = await world.gateway.fetch(paths[route], { key, body: { ...bodies[route](model), ...more } })
  return { status: response.status, headers: response.headers, text: await response.text() }
}

/** Upon which words of a message agents repeat a request. Where they were found: docs/decisions/errors-for-agents.md. */
const repeatsUpon: Record<string, RegExp> = {
  opencode: /server error|server_error|try your request again|retry your request/i,
  Cline: /provider returned error/i,
  pi: /server.?error|please retry your request|overloaded/i,
}
/** All words upon which pi repeats, other than statuses. */
const anyRepeat =
  /overloaded|rate.?limit|server.?error|internal.?error|timed? out|timeout|terminated|retry your request|provider.?returned/i

/** The error at the end of a stream, and the words that a client shows of it. */
function errorOf(route: Route, text: string) {
  const data = text.split('\n').flatMap(line => (line.startsWith('data: {') ? [JSON.parse(line.slice(6))] : []))
  const last = data.at(-1)
  return route === 'responses' ? last.response.error : last.error
}

const begun = [{ role: 'assistant', content: '' }, { content: 'Once upon' }].map(delta => framed([chatChunk(delta)]))
const midway = (error: object): Reply => events([...begun, framed([{ error }])])
const overloaded = { message: 'Overloaded', type: 'server_error', code: 'overloaded' }

const cuts: [title: string, route: Route, model: string, reply: Reply, type: string][] = [
  ['chat, cut', 'chat', 'gpt-4.1', chatReply({ cutAfter: 4 }), 'server_error'],
  ['chat, error event', 'chat', 'gpt-4.1', chatReply({ errorAfter: 4 }), 'server_error'],
  ['chat, overloaded', 'chat', 'gpt-4.1', midway(overloaded), 'server_error'],
  ['chat on Claude, cut', 'chat', 'claude-sonnet-5', cutMidStream, 'server_error'],
  ['chat on Gemini, cut', 'chat', 'gemini-3.5-flash', cutStream(['Once upon', ' a time']), 'server_error'],
  ['Messages, cut', 'messages', 'claude-sonnet-5', cutMidStream, 'api_error'],
  ['Messages, overloaded', 'messages', 'claude-sonnet-5', errorMidStream(), 'overloaded_error'],
  ['Messages on GPT, cut', 'messages', 'gpt-4.1', chatReply({ cutAfter: 4 }), 'api_error'],
  ['Messages on GPT, overloaded', 'messages', 'gpt-4.1', midway(overloaded), 'overloaded_error'],
  ['Responses on Claude, cut', 'responses', 'claude-sonnet-5', cutMidStream, 'server_error'],
  ['Responses on Gemini, cut', 'responses', 'gemini-3.5-flash', cutStream(['Once upon', ' a time']), 'server_error'],
  ['completions on Claude, cut', 'completions', 'claude-sonnet-5', cutMidStream, 'server_error'],
]
for (const [title, route, model, reply, type] of cuts) {
  test.serial(`200, then an error in the type and words upon which agents repeat: ${title}`, async t => {
    for (const emulator of [world.openai, world.anthropic, world.gemini]) emulator.next(reply)
    const { status, text } = await ask(route, model, { stream: true })
    t.is(status, 200, text)
    const error = errorOf(route, text)
    t.is(route === 'responses' ? error.code : error.type, type)
    for (const [agent, words] of Object.entries(repeatsUpon)) t.regex(error.message, words, agent)
    t.false(text.includes('[DONE]') && route !== 'responses')
  })
}

test.serial('200, then an error without such words where a repetition would be refused in the same way', async t => {
  const policy = { message: 'This output is not allowed.', type: 'invalid_request_error', code: 'content_filter' }
  for (const route of ['chat', 'messages'] as const) {
    world.openai.next(midway(policy))
    const { text } = await ask(route, 'gpt-4.1', { stream: true })
    const error = errorOf(route, text)
    t.is(error.type, 'invalid_request_error', text)
    t.notRegex(error.message, anyRepeat)
  }
  world.anthropic.next(errorMidStream('invalid_request_error', 'Output blocked by content filtering policy'))
  const error = errorOf('responses', (await ask('responses', 'claude-sonnet-5', { stream: true })).text)
  t.is(error.code, 'invalid_prompt')
  t.notRegex(error.message, anyRepeat)
})

/** An account of the operator that cannot pay, as each provider says it. */
const unpaid: [title: string, provider: string, model: string, reply: Reply][] = [
  ['OpenAI', 'openai', 'gpt-4.1', insufficientQuota],
  ['OpenAI, 402', 'openai', 'gpt-4.1-mini', failure(402, 'Insufficient Balance', 'unknown_error', null)],
  [
    'Anthropic',
    'anthropic',
    'claude-sonnet-5',
    failure(400, 'Your credit balance is too low to access the Anthropic API.', 'invalid_request_error', null),
  ],
  [
    'Gemini, prepaid',
    'gemini',
    'gemini-3.5-flash',
    geminiError(429, 'RESOURCE_EXHAUSTED', 'Your prepayment credits are depleted. Please go to AI Studio.'),
  ],
  [
    'Gemini',
    'gemini',
    'gemini-3.1-flash-lite',
    geminiError(
      429,
      'RESOURCE_EXHAUSTED',
      'You exceeded your current quota, please check your plan and billing details.',
    ),
  ],
]
for (const [title, provider, model, reply] of unpaid) {
  test.serial(`502 and x-should-retry: false where the operator’s account cannot pay: ${title}`, async t => {
    for (const route of ['chat', 'messages', 'responses'] as const) {
      for (const emulator of [world.openai, world.anthropic, world.gemini]) {
        emulator.reset()
        emulator.next(reply)
      }
      const { status, headers, text } = await ask(route, model, { provider: { only: [provider] } })
      t.is(status, 502, text)
      t.is(headers.get('x-should-retry'), 'false')
      t.regex(JSON.parse(text).error.message, /refused the gateway’s .*account\. Tell the operator of this service\.$/)
      t.notRegex(JSON.parse(text).error.message, /quota|credit|balance|billing|429|5\d\d/i)
    }
  })
}

test.serial('200 from another provider where the first one’s account cannot pay', async t => {
  world.anthropic.next(failure(400, 'Your credit balance is too low.', 'invalid_request_error', null))
  const { status, headers } = await ask('chat', 'claude-opus-4-7')
  t.is(status, 200)
  t.is(headers.get('x-gateway-provider'), 'openrouter')
})

test.serial('401, 403, 404 and 405 say x-should-retry: false in every dialect, 400 does not', async t => {
  const { live } = await world.gateway.account()
  for (const route of ['chat', 'messages', 'responses', 'completions'] as const) {
    const wrongKey = await ask(route, 'gpt-4o', {}, 'svc_sk_live_nope')
    t.deepEqual([wrongKey.status, wrongKey.headers.get('x-should-retry')], [401, 'false'])
    const unknown = await ask(route, 'no-such-model', {}, live)
    t.deepEqual([unknown.status, unknown.headers.get('x-should-retry')], [404, 'false'])
    const wrongMethod = await world.gateway.fetch(paths[route], { key: live, method: 'DELETE' })
    t.deepEqual([wrongMethod.status, wrongMethod.headers.get('x-should-retry')], [405, 'false'])
    const invalid = await ask(route, 'gpt-4o', { temperature: 'hot' }, live)
    t.deepEqual([invalid.status, invalid.headers.get('x-should-retry')], [400, null])
  }
  const management = await world.gateway.fetch('/api/v1/keys', { key: live })
  t.deepEqual([management.status, management.headers.get('x-should-retry')], [403, 'false'])
})
