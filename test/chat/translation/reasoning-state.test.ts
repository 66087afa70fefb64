import type OpenAI from 'openai'
import { messageReply, rateLimited } from '../../emulators/anthropic.ts'
import type { Reply } from '../../emulators/emulator.ts'
import { answersError } from '../../support/api/edge.ts'
import { saying, startWorld } from '../../support/chat/gateway.ts'
import { geminiParts, routerDetails, routerReply } from '../../support/chat/reasoning.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'
import { testClock } from '../../support/wallet/money.ts'

// At a time when none of the models is retired.
const clock = testClock('2026-11-20T12:00:00Z')
const world = use(test, () =>
  startWorld({ ANTHROPIC_API_KEY: 'first,second', OPENROUTER_API_KEY: 'third,fourth' }, clock),
)
test.beforeEach(() => {
  for (const emulator of [world.openai, world.anthropic, world.gemini, world.openrouter]) emulator.reset()
})

// biome-ignore lint/suspicious/noExplicitAny: messages with fields that the SDK does not know
type Any = any
type Detail = Record<string, Any>

const dropped = 'x-gateway-reasoning-dropped'
const weather = {
  type: 'function' as const,
  function: { name: 'weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } },
}
const question = { role: 'user' as const, content: 'How is the weather in Zürich?' }
const sonnet = { model: 'claude-sonnet-4-5', provider: { only: ['anthropic'] } }

const thinking = { type: 'thinking', thinking: 'Let me… 🚀\n"look".', signature: 'EqQBCkgIARAB+/w==' }
const redacted = { type: 'redacted_thinking', data: 'EmwKAhgBEgy3va3pzix/LafPsn4=' }
const call = { type: 'tool_use', id: 'toolu_1', name: 'weather', input: { city: 'Zürich' } }
const said = { type: 'text', text: 'I will look.' }
const thoughtful = (...content: object[]): Reply =>
  messageReply({ content, stop_reason: content.includes(call) ? 'tool_use' : 'end_turn' })

/** Adds up the deltas of a stream; details of one text are joined as AI SDK and agents do, or kept as they came. */
async function assemble(stream: AsyncIterable<OpenAI.ChatCompletionChunk>, joins: boolean): Promise<Any> {
  const message: Any = { role: 'assistant', content: '' }
  for await (const { choices } of stream) {
    const delta: Any = choices[0]?.delta ?? {}
    message.content += delta.content ?? ''
    if (delta.reasoning_content) message.reasoning_content = (message.reasoning_content ?? '') + delta.reasoning_content
    for (const { index, function: fn, ...rest } of delta.tool_calls ?? []) {
      message.tool_calls ??= []
      message.tool_calls[index] ??= { ...rest, function: { name: fn.name, arguments: '' } }
      message.tool_calls[index].function.arguments += fn.arguments ?? ''
    }
    for (const detail of delta.reasoning_details ?? []) {
      message.reasoning_details ??= []
      const last: Detail | undefined = message.reasoning_details.at(-1)
      if (joins && last?.type === 'reasoning.text' && detail.type === last.type && last.index === detail.index)
        Object.assign(last, detail, { text: last.text + detail.text })
      else message.reasoning_details.push({ ...detail })
    }
  }
  return message
}

type Way = 'whole' | 'streamed, joined' | 'streamed, in pieces'
const ways: Way[] = ['whole', 'streamed, joined', 'streamed, in pieces']

/** The assistant message that an SDK client hands back after one turn. */
async function turn(key: string, body: object, way: Way = 'whole'): Promise<{ message: Any; headers: Headers }> {
  const { completions } = world.sdk(key).chat
  if (way === 'whole') {
    const { data, response } = await completions
      .create(body as OpenAI.ChatCompletionCreateParamsNonStreaming)
      .withResponse()
    return { message: data.choices[0]!.message, headers: response.headers }
  }
  const streaming = { ...body, stream: true } as OpenAI.ChatCompletionCreateParamsStreaming
  const { data, response } = await completions.create(streaming).withResponse()
  return { message: await assemble(data, way === 'streamed, joined'), headers: response.headers }
}

const answered = ({ tool_calls: calls = [] }: Any) =>
  calls.map(({ id }: Any) => ({ role: 'tool', tool_call_id: id, content: '5 °C' }))

/** No state leaves in clear. */
function isSealed(message: Any, ...states: string[]): boolean {
  const text = JSON.stringify(message)
  return text.includes('"hg1.') && !states.some(state => text.includes(state))
}

for (const way of ways)
  test.serial(
    `200 Anthropic, ${way}: thinking and its signature come back byte-equal before the tool call`,
    async t => {
      const { live } = await world.gateway.account()
      const body = { ...sonnet, tools: [weather], reasoning_effort: 'medium', max_tokens: 8_000 }
      world.anthropic.next(thoughtful(thinking, redacted, said, call))
      const { message } = await turn(live, { ...body, messages: [question] }, way)
      t.is(message.reasoning_content, thinking.thinking)
      t.true(isSealed(message, thinking.signature, redacted.data))
      t.deepEqual(
        [...new Set(message.reasoning_details.map(({ type, format, index }: Detail) => `${type} ${format} ${index}`))],
        ['reasoning.text anthropic-claude-v1 0', 'reasoning.encrypted anthropic-claude-v1 1'],
      )
      const second = await turn(live, { ...body, messages: [question, message, ...answered(message)] }, way)
      t.is(second.headers.get(dropped), null)
      const { messages, thinking: asked } = world.anthropic.requests.at(-1)!.body
      t.deepEqual(messages[1].content, [thinking, redacted, said, call])
      t.is(asked.type, 'enabled', 'a budget is accepted again')
      // The next turn hands both back.
      const history = [
        question,
        message,
        ...answered(message),
        second.message,
        { role: 'user', content: 'And tomorrow?' },
      ]
      const third = await turn(live, { ...body, messages: history }, way)
      t.is(third.headers.get(dropped), null)
      const turns = world.anthropic.requests.at(-1)!.body.messages
      t.deepEqual(turns[1].content, [thinking, redacted, said, call])
      t.is(turns[3].content[0].type, 'thinking')
    },
  )

test.serial('200 Anthropic: a message of nothing but thinking, or of hidden thinking', async t => {
  const { live } = await world.gateway.account()
  const hidden = { ...thinking, thinking: '' }
  for (const way of ways) {
    world.anthropic.next(thoughtful(thinking))
    const { message } = await turn(live, { ...sonnet, messages: [question] }, way)
    const again = { role: 'user', content: 'Go on' }
    const next = await turn(live, { ...sonnet, messages: [question, message, again] }, way)
    t.is(next.headers.get(dropped), null)
    t.is(world.anthropic.requests.at(-1)!.body.messages.length, 1, 'the API refuses thinking as the last block')
    world.anthropic.next(thoughtful(hidden, said))
    const second = await turn(live, { ...sonnet, messages: [question] }, way)
    await turn(live, { ...sonnet, messages: [question, second.message, again] }, way)
    t.deepEqual(world.anthropic.requests.at(-1)!.body.messages[1].content, [hidden, said])
  }
})

for (const way of ways)
  test.serial(
    `200 Gemini, ${way}: the signature of a text comes back at its part, that of a call in the id`,
    async t => {
      const { live } = await world.gateway.account()
      const body = { model: 'gemini-3.5-flash', provider: { only: ['gemini'] } }
      const thoughtSignature = 'CiQB+/8A'
      world.gemini.next(
        geminiParts({ text: 'Hm', thought: true }, { text: 'It is ' }, { text: 'cold.', thoughtSignature }),
      )
      const { message } = await turn(live, { ...body, messages: [question] }, way)
      t.like(message, { content: 'It is cold.', reasoning_content: 'Hm' })
      t.true(isSealed(message, thoughtSignature))
      const history = [question, message, { role: 'user', content: 'And the weather in Oslo?' }]
      const second = await turn(live, { ...body, messages: history, tools: [weather] }, way)
      t.is(second.headers.get(dropped), null)
      const signed = { role: 'model', parts: [{ text: 'It is cold.', thoughtSignature }] }
      t.deepEqual(world.gemini.requests.at(-1)!.body.contents[1], signed)
      t.regex(second.message.tool_calls[0].id, /__sig__/)
      const results = answered(second.message)
      const third = await turn(
        live,
        { ...body, messages: [...history, second.message, ...results], tools: [weather] },
        way,
      )
      t.is(third.headers.get(dropped), null)
      t.deepEqual(world.gemini.requests.at(-1)!.body.contents[1], signed)
      // In a stream the signature may come last, with an empty text.
      world.gemini.next(geminiParts({ text: 'Bye.' }, { text: '', thoughtSignature }))
      const last = await turn(live, { ...body, messages: [question] }, way)
      await turn(live, { ...body, messages: [question, last.message, question] }, way)
      t.deepEqual(world.gemini.requests.at(-1)!.body.contents[1].parts, [{ text: 'Bye.', thoughtSignature }])
    },
  )

const router = { model: 'gpt-5-mini', provider: { only: ['openrouter'] } }
for (const way of ways)
  test.serial(`200 OpenRouter, ${way}: its details come back as it sent them`, async t => {
    const { live } = await world.gateway.account()
    world.openrouter.next(routerReply(routerDetails))
    const { message } = await turn(live, { ...router, messages: [question] }, way)
    t.is(message.content, 'Cold.')
    t.true(isSealed(message, 'gAAAAABo+/=', '"c2ln"'))
    t.like(message.reasoning_details[0], { summary: 'Looked it up.', index: 0 })
    const next = await turn(live, { ...router, messages: [question, message, question] }, way)
    t.is(next.headers.get(dropped), null)
    t.deepEqual(world.openrouter.requests.at(-1)!.body.messages[1].reasoning_details, routerDetails)
  })

test.serial('200 OpenRouter: malformed details are left out of the answer', async t => {
  const { live } = await world.gateway.account()
  for (const detail of ['text', null, { type: 'reasoning.text', text: 5 }, { no: 'type' }] as object[])
    for (const way of ways) {
      world.openrouter.next(routerReply([detail]))
      const { message } = await turn(live, { ...router, messages: [question] }, way)
      t.is(message.content, 'Cold.')
      t.is(message.reasoning_details, undefined)
    }
})

/** The API key that got the last request. */
const lastKey = () => String(world.anthropic.requests.at(-1)!.headers['x-api-key'])

/** A conversation with thinking, and the key whose account made it. */
async function conversation(live: string, body: object = sonnet) {
  world.anthropic.next(thoughtful(thinking, said))
  const { message } = await turn(live, { ...body, messages: [question] })
  return { key: lastKey(), message, messages: [question, message, { role: 'user' as const, content: 'Go on' }] }
}

test.serial('200 at the account that made the state, without a session', async t => {
  const { live } = await world.gateway.account()
  const keys = new Set<string>()
  for (let begun = 0; begun < 2; begun++) {
    const { key, messages } = await conversation(live)
    keys.add(key)
    for (const body of [sonnet, sonnet, sonnet, { ...sonnet, model: 'claude-sonnet-4-5:nitro' }]) {
      const { headers } = await turn(live, { ...body, messages })
      t.is(headers.get(dropped), null)
      t.is(lastKey(), key)
      t.deepEqual(world.anthropic.requests.at(-1)!.body.messages[1].content, [thinking, said])
    }
    const auto = await turn(live, { model: 'auto', mode: 'cost', messages })
    t.is(auto.headers.get('x-gateway-model'), 'claude-sonnet-4-5')
    t.is(lastKey(), key)
    const route = await world.gateway.fetch('/v1/route', { key: live, body: { model: 'auto', messages } })
    const decision = (await route.json()) as { model: string; reason: string }
    t.like(decision, { model: 'claude-sonnet-4-5' })
    t.regex(decision.reason, /continues at claude-sonnet-4-5 at anthropic, which made it/)
  }
  t.is(keys.size, 2, 'without state the keys take turns')
})

test.serial('200 where the request says, and without the state when that is elsewhere', async t => {
  const { live } = await world.gateway.account()
  const { messages } = await conversation(live)
  for (const [body, provider] of [
    [{ model: 'claude-sonnet-4-5', provider: { only: ['openrouter'] } }, 'openrouter'],
    [{ model: 'claude-sonnet-4-5', provider: { order: ['openrouter', 'anthropic'] } }, 'openrouter'],
    [{ model: 'gpt-5', provider: { only: ['openai'] } }, 'openai'],
    [{ model: 'gemini-3.5-flash', provider: { only: ['gemini'] } }, 'gemini'],
    [{ model: 'claude-haiku-4-5', provider: { only: ['anthropic'] } }, 'anthropic'],
  ] as const) {
    for (const way of ways) {
      const { headers } = await turn(live, { ...body, messages }, way)
      t.is(headers.get('x-gateway-provider'), provider)
      t.is(headers.get(dropped), '1')
      const { raw } = world[provider].requests.at(-1)!
      t.false(raw.includes('hg1.') || raw.includes('reasoning_details') || raw.includes('"thinking"'))
    }
  }
})

test.serial('200 without the state from another account while its own rests', async t => {
  const { live } = await world.gateway.account()
  const { key, messages } = await conversation(live, { ...sonnet, model: 'claude-opus-4-5' })
  for (const way of ways) {
    if (way === 'whole') world.anthropic.next(rateLimited(30))
    const { headers } = await turn(live, { ...sonnet, model: 'claude-opus-4-5', messages }, way)
    t.is(headers.get(dropped), '1')
    t.not(lastKey(), key)
    t.deepEqual(world.anthropic.requests.at(-1)!.body.messages[1].content, [said])
  }
})

test.serial('200 without state that is forged, changed, raw, or another organisation’s', async t => {
  const [{ live }, other] = await Promise.all([world.gateway.account(), world.gateway.account()])
  const { messages, message } = await conversation(live)
  const [detail] = message.reasoning_details as [Detail]
  const flip = (text: string) => text.slice(0, -1) + (text.endsWith('A') ? 'B' : 'A')
  const cases: [string, string, Detail][] = [
    ['forged', live, { ...detail, signature: 'hg1.AAAA' }],
    ['damaged', live, { ...detail, signature: flip(detail.signature) }],
    ['of another text', live, { ...detail, text: 'Something else.' }],
    ['raw', live, { ...detail, signature: thinking.signature }],
    ['redacted, raw', live, { type: 'reasoning.encrypted', data: redacted.data }],
    ['foreign', other.live, detail],
  ]
  for (const [title, key, changed] of cases) {
    const history = [question, { ...message, reasoning_details: [changed] }, messages[2]]
    for (const body of [sonnet, { model: 'claude-sonnet-4-5', provider: { only: ['openrouter'] } }]) {
      const { headers } = await turn(key, { ...body, messages: history })
      t.is(headers.get(dropped), '1', title)
    }
    t.deepEqual(world.anthropic.requests.at(-1)!.body.messages[1].content, [said], title)
    t.is(world.openrouter.requests.at(-1)!.body.messages[1].reasoning_details, undefined, title)
  }
  const sandbox = await turn(other.test, { ...sonnet, messages })
  t.is(sandbox.headers.get(dropped), '1')
})

test.serial('200 without the header: reasoning without state, and much of it is no long prompt', async t => {
  const { live } = await world.gateway.account()
  const reasoning_details = [{ type: 'reasoning.text', text: 'word '.repeat(300_000), index: 0 }]
  const earlier = { role: 'assistant', content: 'Cold.', reasoning_content: 'Hm', reasoning_details }
  for (const body of [sonnet, { model: 'gpt-4o', provider: { only: ['openai'] } }]) {
    const { headers } = await turn(live, { ...body, messages: [question, earlier, question] })
    t.is(headers.get(dropped), null)
  }
  t.is(world.openai.requests.at(-1)!.body.messages[1].reasoning_details, undefined)
  // OpenAI reads no reasoning of earlier answers.
  t.is(world.openai.requests.at(-1)!.body.messages[1].reasoning_content, undefined)
})

test.serial('400 naming the detail that is malformed', async t => {
  const { live } = await world.gateway.account()
  const path = 'messages.1.reasoning_details'
  for (const [reasoning_details, param, code = 'invalid_request'] of [
    ['text', path],
    [[{ text: 'x' }], `${path}.0.type`, 'missing_field'],
    [[{ type: 'reasoning.text', text: 5 }], `${path}.0.text`],
    [[{ type: 'reasoning.encrypted', data: {} }], `${path}.0.data`],
    [[{ type: 'reasoning.text' }, { type: 'reasoning.text', signature: 1 }], `${path}.1.signature`],
  ] as const) {
    const messages = [question, { role: 'assistant', content: 'Cold.', reasoning_details }, question]
    const body = { ...saying('claude-sonnet-4-5'), messages }
    const response = await world.gateway.fetch('/v1/chat/completions', { key: live, body })
    await answersError(t, response, code, param)
  }
})
