import Anthropic from '@anthropic-ai/sdk'
import type OpenAI from 'openai'
import { failed, messageReply, overloaded } from '../../emulators/anthropic.ts'
import { json, type Reply } from '../../emulators/emulator.ts'
import { startWorld } from '../../support/chat/gateway.ts'
import { geminiParts, routerDetails, routerReply } from '../../support/chat/reasoning.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'
import { testClock } from '../../support/wallet/money.ts'

/** Reasoning state in conversations by `/v1/messages`, and state that its provider no longer accepts. */

// At a time when none of the models is retired.
const clock = testClock('2026-11-20T12:00:00Z')
const world = use(test, () =>
  startWorld({ ANTHROPIC_API_KEY: 'first,second', OPENROUTER_API_KEY: 'third,fourth' }, clock),
)
test.beforeEach(() => {
  for (const emulator of [world.openai, world.anthropic, world.gemini, world.openrouter]) emulator.reset()
})

const dropped = 'x-gateway-reasoning-dropped'
const question: Anthropic.MessageParam = { role: 'user', content: 'How is the weather in Zürich?' }
const next: Anthropic.MessageParam = { role: 'user', content: 'And tomorrow?' }
const router = { model: 'gpt-5-mini', provider: { only: ['openrouter'] } }
const gemini = { model: 'gemini-3.5-flash', provider: { only: ['gemini'] } }
const sonnet = { model: 'claude-sonnet-4-5', provider: { only: ['anthropic'] } }

type Way = 'whole' | 'streamed'
const ways: Way[] = ['whole', 'streamed']

/** A turn by Anthropic's SDK; what it hands back next time, and the answer's headers. */
async function turn(key: string, body: object, way: Way = 'whole') {
  const sdk = new Anthropic({ apiKey: key, baseURL: world.gateway.url, maxRetries: 0 })
  const request = { max_tokens: 2_000, ...body } as Anthropic.MessageCreateParamsNonStreaming
  if (way === 'whole') {
    const { data, response } = await sdk.messages.create(request).withResponse()
    return { content: data.content, headers: response.headers }
  }
  const stream = sdk.messages.stream(request)
  const { response } = await stream.withResponse()
  return { content: (await stream.finalMessage()).content, headers: response.headers }
}

const after = (content: Anthropic.ContentBlock[]): Anthropic.MessageParam[] => [
  question,
  { role: 'assistant', content },
  next,
]

for (const way of ways) {
  test.serial(
    `200 Gemini, ${way}: the signature of a text is that of the thinking before it, or is left out`,
    async t => {
      const { live } = await world.gateway.account()
      const thoughtSignature = 'CiQB+/8A'
      world.gemini.next(geminiParts({ text: 'Hm', thought: true }, { text: 'Cold.', thoughtSignature }))
      const { content } = await turn(live, { ...gemini, messages: [question] }, way)
      t.false(JSON.stringify(content).includes(thoughtSignature))
      t.deepEqual(
        content.map(({ type }) => type),
        ['thinking', 'text'],
      )
      const { headers } = await turn(live, { ...gemini, messages: after(content) }, way)
      t.is(headers.get(dropped), null)
      // A stream has ended its thinking when the signature comes; Google does not need that of a text.
      const signature = way === 'whole' ? { thoughtSignature } : {}
      t.deepEqual(world.gemini.requests.at(-1)!.body.contents[1].parts, [{ text: 'Cold.', ...signature }])
    },
  )

  test.serial(`200 Gemini, ${way}: a signed text is the only block, and the state of a call stays with it`, async t => {
    const { live } = await world.gateway.account()
    const thoughtSignature = 'CiQB+/8A'
    const calling = { functionCall: { id: 'c1', name: 'look', args: {} }, thoughtSignature }
    world.gemini.next(
      geminiParts({ text: 'Cold.' }, { text: '', thoughtSignature }),
      geminiParts({ text: 'I look.', thoughtSignature }, calling),
    )
    const thinking = { type: 'enabled', budget_tokens: 1_024 }
    const plain = await turn(live, { ...gemini, thinking, messages: [question] }, way)
    t.deepEqual(
      plain.content.map(block => block.type === 'text' && block.text),
      ['Cold.'],
    )
    const tools = [{ name: 'look', input_schema: { type: 'object' } }]
    const { content } = await turn(live, { ...gemini, tools, thinking, messages: [question] }, way)
    t.deepEqual(
      content.map(({ type }) => type),
      ['text', 'tool_use'],
    )
    const result = { type: 'tool_result' as const, tool_use_id: (content[1] as { id: string }).id, content: 'Snow' }
    const messages = [question, { role: 'assistant', content }, { role: 'user', content: [result] }]
    world.gemini.next(geminiParts({ text: 'Snow.' }))
    await turn(live, { ...gemini, tools, messages }, way)
    t.like(world.gemini.requests.at(-1)!.body.contents[1].parts, [{ text: 'I look.' }, { thoughtSignature }])
  })

  test.serial(`200 OpenRouter, ${way}: its state comes back byte-equal, to the account that made it`, async t => {
    const { live } = await world.gateway.account()
    const keyOf = () => String(world.openrouter.requests.at(-1)!.headers.authorization)
    const keys = new Set<string>()
    for (let begun = 0; begun < 2; begun++) {
      world.openrouter.next(routerReply(routerDetails.slice(1)))
      const { content } = await turn(live, { ...router, messages: [question] }, way)
      const key = keyOf()
      keys.add(key)
      for (const body of [router, router, router, { model: 'auto', mode: 'cost' }]) {
        const { headers } = await turn(live, { ...body, messages: after(content) }, way)
        t.is(headers.get(dropped), null)
        t.is(headers.get('x-gateway-model'), 'gpt-5-mini')
        t.is(keyOf(), key)
        const sent = world.openrouter.requests.at(-1)!.body.messages[1].reasoning_details
        t.deepEqual(
          sent.map(({ data, signature, text }: Record<string, string>) => data ?? [signature, text]),
          ['gAAAAABo+/=', ['c2ln', 'So.']],
        )
      }
    }
    t.is(keys.size, 2, 'without state the keys take turns')
  })
}

test.serial('200 without state that is forged, damaged or another organisation’s; the header says so', async t => {
  const [{ live }, other] = await Promise.all([world.gateway.account(), world.gateway.account()])
  world.openrouter.next(routerReply(routerDetails.slice(2)))
  const { content } = await turn(live, { ...router, messages: [question] })
  const [block] = content
  if (block?.type !== 'thinking') return t.fail(JSON.stringify(content))
  for (const [title, key, changed] of [
    ['forged', live, { ...block, signature: 'hg1.AAAA' }],
    ['damaged', live, { ...block, signature: `${block.signature}A` }],
    ['of another text', live, { ...block, thinking: 'No.' }],
    ['forged and redacted', live, { type: 'redacted_thinking' as const, data: 'hg1.AAAA' }],
    ['foreign', other.live, block],
  ] as const) {
    const { headers } = await turn(key, { ...router, messages: after([changed, ...content.slice(1)]) })
    t.is(headers.get(dropped), '1', title)
    t.is(world.openrouter.requests.at(-1)!.body.messages[1].reasoning_details, undefined, title)
  }
})

test.serial('200 native: thinking of other models is cut out of the bytes, and the turn stays valid', async t => {
  const { live: key } = await world.gateway.account({ usd: '100' })
  world.openrouter.next(routerReply(routerDetails.slice(1)))
  const { content } = await turn(key, { ...router, messages: [question] })
  const sealed = JSON.stringify(content.filter(({ type }) => type !== 'text')).slice(1, -1)
  t.is(sealed.match(/"hg1\./g)?.length, 2)
  const constant = '{"type":"thinking","thinking":"x","signature":"hg1.e30"}'
  const own = '{"type":"thinking","thinking":"\\u00e9","signature":"c2ln"}'
  const text = '{ "type":"text", "text":"Caf\\u00e9 \\/ 🙂","n":1.0 }'
  const call = '{"type":"tool_use","id":"toolu_1","name":"w","input":{"10":1,"2":1e2}}'
  const result = '{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"5 °C"}]}'
  const user = '{"role":"user","content":"Hi"}'
  const assistant = (...blocks: string[]) => `{"content" : [${blocks.join(' , ')}], "role":"assistant"}`
  const body = (...messages: string[]) =>
    `{"model":"claude-sonnet-4-5", "max_tokens":4000,"messages":[ ${messages.join(' ,')} ]}`
  const cases: [title: string, sent: string, received: string, header: string | null][] = [
    ['first', body(user, assistant(sealed, text), user), body(user, assistant(text), user), '1'],
    [
      'last',
      body(user, assistant(text, sealed), user),
      body(user, `{"content" : [${text}], "role":"assistant"}`, user),
      '1',
    ],
    ['a whole message', body(user, assistant(sealed), user), body(user, user), '1'],
    ['a call', body(user, assistant(sealed, call), result), body(user, assistant(call), result), '1'],
    ['without state', body(user, assistant(constant, text), user), body(user, assistant(text), user), null],
    ['beside its own', body(user, assistant(sealed, own, text), user), body(user, assistant(own, text), user), '1'],
    ['none', body(user, assistant(own, text), user), body(user, assistant(own, text), user), null],
  ]
  for (const [title, sent, received, header] of cases)
    for (const path of ['/v1/messages', '/v1/messages/count_tokens']) {
      world.anthropic.next(path === '/v1/messages' ? messageReply({}) : json(200, { input_tokens: 5 }))
      const headers = { 'x-api-key': key, 'content-type': 'application/json' }
      const response = await fetch(world.gateway.url + path, { method: 'POST', headers, body: sent })
      t.is(response.status, 200, await response.text())
      t.is(world.anthropic.requests.at(-1)!.raw.toString(), received, title)
      if (path === '/v1/messages') t.is(response.headers.get(dropped), header, title)
    }
  // While thinking has a budget, the API wants the turn's own thinking before its calls.
  const thinking = { type: 'enabled', budget_tokens: 2_000 }
  const context_management = { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] }
  const messages = JSON.parse(body(user, assistant(sealed, call), result)).messages
  world.anthropic.next(messageReply({}))
  const { headers } = await turn(key, { ...sonnet, max_tokens: 4_000, thinking, context_management, messages })
  t.is(headers.get(dropped), '1')
  const { thinking: sent, context_management: management } = world.anthropic.requests.at(-1)!.body
  t.deepEqual([sent, management], [{ type: 'disabled' }, undefined])
  const done = JSON.parse(body(user, assistant(sealed, text), user)).messages
  await turn(key, { ...sonnet, max_tokens: 4_000, thinking, messages: done })
  t.deepEqual(world.anthropic.requests.at(-1)!.body.thinking, thinking)
})

const refusals = [
  'messages.1.content.0: Invalid `signature` in `thinking` block',
  'messages.1.content.0: Invalid `data` in `redacted_thinking` block',
  'messages.1.content.0: `thinking` blocks are bound to a different conversation',
]

test.serial('native: a provider that no longer accepts a signature is heard byte for byte, and asked once', async t => {
  const { live: key } = await world.gateway.account({ usd: '100' })
  const signed = { type: 'thinking', thinking: 'Hm', signature: 'c2ln' }
  const messages = [question, { role: 'assistant', content: [signed, { type: 'text', text: 'Cold.' }] }, next]
  for (const message of refusals)
    for (const stream of [false, true]) {
      world.anthropic.reset()
      const refused = { type: 'error', error: { type: 'invalid_request_error', message }, request_id: 'req_1' }
      world.anthropic.next(json(400, refused))
      const body = { ...sonnet, max_tokens: 50, stream, messages }
      const response = await world.gateway.fetch('/v1/messages', { key, body })
      t.is(response.status, 400)
      t.is(await response.text(), JSON.stringify(refused))
      t.is(world.anthropic.requests.length, 1)
    }
})

test.serial('chat: the same request is made once more without the state, and the header says so', async t => {
  const { live } = await world.gateway.account({ usd: '100' })
  const { completions } = world.sdk(live).chat
  const thinking = { type: 'thinking', thinking: 'Hm', signature: 'c2ln' }
  const said = { type: 'text', text: 'Cold.' }
  world.anthropic.next(messageReply({ content: [thinking, said] }))
  const ask = { role: 'user' as const, content: 'Hello' }
  const first = await completions.create({
    ...sonnet,
    messages: [ask],
  } as OpenAI.ChatCompletionCreateParamsNonStreaming)
  const messages = [ask, first.choices[0]!.message, ask]
  for (const message of refusals)
    for (const stream of [false, true]) {
      world.anthropic.reset()
      world.anthropic.next(failed(400, 'invalid_request_error', message))
      const response = await world.gateway.fetch('/v1/chat/completions', {
        key: live,
        body: { ...sonnet, stream, messages },
      })
      const text = await response.text()
      t.is(response.status, 200, text)
      t.regex(text, /Echo|: Hello/)
      t.is(response.headers.get(dropped), '1')
      t.is(response.headers.get('x-gateway-attempts'), '2')
      const sent = world.anthropic.requests.map(({ body }) => body.messages[1].content)
      t.deepEqual(sent, [[thinking, said], [said]])
    }
  for (const [reply, calls] of [
    [failed(400, 'invalid_request_error', 'messages: another fault'), 1],
    [failed(400, 'invalid_request_error', refusals[0]!), 2],
  ] satisfies [Reply, number][]) {
    world.anthropic.reset()
    world.anthropic.next(reply, reply, overloaded)
    const response = await world.gateway.fetch('/v1/chat/completions', { key: live, body: { ...sonnet, messages } })
    t.is(response.status, 400)
    t.is(world.anthropic.requests.length, calls)
  }
})

test.serial('translated: OpenRouter and Gemini that refuse their state are asked once more without it', async t => {
  const { live } = await world.gateway.account()
  world.openrouter.next(routerReply(routerDetails.slice(1)))
  const routed = await turn(live, { ...router, messages: [question] })
  const message = 'The encrypted content gAAA could not be verified.'
  world.openrouter.next(
    json(400, { error: { message, type: 'invalid_request_error', code: 'invalid_encrypted_content' } }),
  )
  const again = await turn(live, { ...router, messages: after(routed.content) })
  t.is(again.headers.get(dropped), '1')
  t.is(world.openrouter.requests.at(-1)!.body.messages[1].reasoning_details, undefined)
  world.gemini.next(geminiParts({ text: 'Hm', thought: true }, { text: 'Cold.', thoughtSignature: 'CiQB+/8A' }))
  const { content } = await turn(live, { ...gemini, messages: [question] })
  world.gemini.next(
    json(400, { error: { code: 400, status: 'INVALID_ARGUMENT', message: 'Thought signature is not valid.' } }),
  )
  const { headers } = await turn(live, { ...gemini, messages: after(content) })
  t.is(headers.get(dropped), '1')
  t.deepEqual(world.gemini.requests.at(-1)!.body.contents[1].parts, [{ text: 'Cold.' }])
})
