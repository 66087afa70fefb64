// Reasoning that its provider signs: guardrails check it as any other text, since a caller can write anything between its signs.

import { emptyEnvelope } from '../../shared/kinds/reasoning.ts'
import { messageReply } from '../emulators/anthropic.ts'
import { saying, startWorld } from '../support/chat/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'
import { questionsOf, startGuard, verdict } from '../support/webhooks/guard.ts'

// biome-ignore lint/suspicious/noExplicitAny: bodies of every shape
type Any = any

const world = use(test, () =>
  startWorld({ ENCRYPTION_KEY: 'a-secret-of-enough-characters-0123456789', ALLOW_PRIVATE_URLS: 'true' }),
)
const guard = use(test, startGuard)
test.beforeEach(() => {
  for (const emulator of [world.openai, world.anthropic, world.gemini]) emulator.reset()
  guard.received.length = 0
  guard.always = verdict({ action: 'allow' })
})

const claude = 'claude-sonnet-4-5'
const address = 'jane.doe@example.com'
const detecting = (action: 'mask' | 'block', on: 'input' | 'both' = 'input') => ({
  detectors: [{ type: 'email' as const, action, on }],
  webhook: null,
  other_kinds: 'refuse' as const,
})
const asking = () => ({
  detectors: [],
  webhook: { url: guard.url, on: 'input' as const, timeout_ms: 2_000, on_failure: 'fail_closed' as const },
  other_kinds: 'refuse' as const,
})

const sent = () => [world.openai, world.anthropic, world.gemini].flatMap(({ requests }) => requests)
const isSent = (text: string) => sent().some(({ raw }) => raw.toString().includes(text))
const thought = (thinking: string) => ({ type: 'thinking', thinking, signature: 'EqQBCkgIARAB' })
const use1 = { type: 'tool_use', id: 'toolu_1', name: 'find', input: {} }
const result = { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'Done' }] }
const tools = [{ name: 'find', input_schema: { type: 'object' } }]
const budget = { type: 'enabled', budget_tokens: 1_024 }
const hi = { role: 'user', content: 'Hi' }
const said = { type: 'text', text: 'Hello' }

/** Asks `/v1/messages` with earlier messages. */
async function ask(key: string, messages: object[], more: object = {}) {
  const body = { model: claude, max_tokens: 2_000, messages, ...more }
  const response = await world.gateway.fetch('/v1/messages', { key, body })
  const text = await response.text()
  return { status: response.status, text, json: () => JSON.parse(text) as Any }
}
const accountOf = async (guardrails: Any) => (await world.gateway.account({ guardrails })).live

for (const model of [claude, 'gpt-4o-mini', 'gemini-2.5-flash'])
  test.serial(`400 without a call for a value in signed thinking, whoever's turn it is: ${model}`, async t => {
    const live = await accountOf(detecting('block'))
    const block = thought(`The address is ${address}`)
    for (const messages of [
      [hi, { role: 'assistant', content: [block, said] }, hi],
      [{ role: 'user', content: [block, said] }],
    ]) {
      const refused = await ask(live, messages, { model })
      t.is(refused.status, 400, refused.text)
      t.regex(refused.text, /guardrail_blocked|an email address/)
      t.false(refused.text.includes(address))
    }
    t.is(sent().length, 0)
  })

test.serial('200 without signed thinking that a value was found in; other thinking stays as it is', async t => {
  const live = await accountOf(detecting('mask'))
  const clean = thought('Nothing to see')
  const earlier = [hi, { role: 'assistant', content: [thought(`It is ${address}`), said] }]
  const answer = await ask(live, [...earlier, hi, { role: 'assistant', content: [clean, use1] }, result], {
    tools,
    thinking: budget,
  })
  t.is(answer.status, 200, answer.text)
  const { messages, thinking } = world.anthropic.requests[0]!.body
  t.deepEqual(messages[1].content, [said])
  t.deepEqual(messages[3].content, [clean, use1])
  t.deepEqual(thinking, budget)
  t.false(isSent(address))
})

test.serial(
  '200 without thinking where a call continues whose thinking is left out, all that its answer had',
  async t => {
    const live = await accountOf(detecting('mask'))
    const found = thought(`It is ${address}`)
    for (const content of [
      [found, use1],
      [thought('First'), found, use1],
      [found, { type: 'redacted_thinking', data: 'EmwKAhgBEgy3' }, use1],
    ]) {
      const answer = await ask(live, [hi, { role: 'assistant', content }, result], { tools, thinking: budget })
      t.is(answer.status, 200, answer.text)
      const { messages, thinking } = world.anthropic.requests.at(-1)!.body
      t.deepEqual(messages[1].content, [use1])
      t.deepEqual(thinking, { type: 'disabled' })
    }
  },
)

test.serial('200 with the arguments of a call that only look like thinking masked, and not signed anew', async t => {
  const live = await accountOf(detecting('mask'))
  const input = { type: 'thinking', thinking: address, signature: 'mine' }
  const call = { role: 'assistant', content: [{ ...use1, input }] }
  t.is((await ask(live, [hi, call, result], { tools })).status, 200)
  t.deepEqual(world.anthropic.requests[0]!.body.messages[1].content[0].input, { ...input, thinking: '[EMAIL_1]' })
})

test.serial('200 with thinking masked for a model of another provider', async t => {
  const live = await accountOf(detecting('mask'))
  // Signatures of Anthropic's are refused by the models of others, whatever the guardrails.
  const block = { ...thought(address), signature: emptyEnvelope }
  for (const model of ['gpt-4o-mini', 'gemini-2.5-flash']) {
    const answer = await ask(live, [hi, { role: 'assistant', content: [block, said] }, hi], { model })
    t.is(answer.status, 200, answer.text)
  }
  t.is(sent().length, 2)
  t.false(isSent(address))
})

test.serial('a guard is asked about signed thinking, and what it replaces is not sent', async t => {
  const live = await accountOf(asking())
  const turn = [hi, { role: 'assistant', content: [thought('The plan is secret'), said] }, hi]
  t.is((await ask(live, turn)).status, 200)
  const { id, role, text } = questionsOf(guard)[0]!.texts[1]!
  t.deepEqual([id, role, text], ['messages.1.content.0.thinking', 'assistant', 'The plan is secret'])
  t.deepEqual(world.anthropic.requests[0]!.body.messages[1].content, turn[1]!.content)

  guard.always = verdict({ action: 'replace', texts: [{ id, text: 'Gone' }] })
  t.is((await ask(live, turn)).status, 200)
  t.deepEqual(world.anthropic.requests[1]!.body.messages[1].content, [said])
})

for (const stream of [false, true])
  test.serial(
    `200 for each turn of an agent whose thinking was ${stream ? 'masked in a stream' : 'masked in an answer'}`,
    async t => {
      const live = await accountOf(detecting('mask', 'both'))
      const content = [thought('Ask bob@example.org about it'), use1]
      world.anthropic.next(messageReply({ content, stop_reason: 'tool_use' }))
      const more = { tools, thinking: budget }
      const answer = await ask(live, [hi], { ...more, stream })
      t.is(answer.status, 200, answer.text)
      const blocks = stream ? blocksOf(answer.text) : answer.json().content
      t.is(blocks[0].thinking, 'Ask [EMAIL_1] about it')
      t.not(blocks[0].signature, thought('').signature, 'the signature of another text')

      const next = await ask(live, [hi, { role: 'assistant', content: blocks }, result], more)
      t.is(next.status, 200, next.text)
      t.deepEqual(world.anthropic.requests[1]!.body.messages[1].content, [use1])
    },
  )

for (const stream of [false, true])
  test.serial(`200 with thinking and its signature unchanged where nothing was found, streamed: ${stream}`, async t => {
    const live = await accountOf(detecting('mask', 'both'))
    const content = [thought('About [EMAIL_1], then'), use1]
    world.anthropic.next(messageReply({ content, stop_reason: 'tool_use' }))
    const more = { tools, thinking: budget }
    const asked = { role: 'user', content: `Write to ${address}` }
    const answer = await ask(live, [asked], { ...more, stream })
    const blocks = stream ? blocksOf(answer.text) : answer.json().content
    t.deepEqual(blocks[0], content[0])
    const next = await ask(live, [asked, { role: 'assistant', content: blocks }, result], more)
    t.is(next.status, 200, next.text)
    t.deepEqual(world.anthropic.requests[1]!.body.messages[1].content[0], content[0])
  })

/** The blocks of a stream of thinking and a call. */
function blocksOf(text: string): Any[] {
  const blocks: Any[] = []
  for (const line of text.split('\n').filter(one => one.startsWith('data:'))) {
    const { type, index, content_block: block, delta } = JSON.parse(line.slice(5))
    if (type === 'content_block_start') blocks[index] = block
    if (type !== 'content_block_delta') continue
    for (const member of ['thinking', 'signature'])
      if (typeof delta[member] === 'string') blocks[index][member] += delta[member]
  }
  return blocks
}

test.serial('400 for a value in reasoning in the forms of chat completions', async t => {
  const live = await accountOf(detecting('block'))
  const detail = { type: 'reasoning.text', text: `It is ${address}`, signature: 'EqQB', index: 0 }
  for (const reasoning of [
    { reasoning_details: [detail] },
    { reasoning_content: address },
    { content: [{ ...thought(address), closed: true }] },
    { content: [{ type: 'thinking', thinking: [{ type: 'text', text: address }], signature: 'x' }] },
  ]) {
    const messages = [hi, { role: 'assistant', content: 'Hello', ...reasoning }, hi]
    const response = await world.gateway.fetch('/v1/chat/completions', {
      key: live,
      body: { ...saying('gpt-4o-mini'), messages },
    })
    t.is(response.status, 400, await response.text())
  }
  t.is(sent().length, 0)
})
