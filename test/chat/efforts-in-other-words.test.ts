import { startWorld } from '../support/chat/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

/** `reasoning` of OpenRouter's clients and `thinking` of Anthropic's, in requests that name no `reasoning_effort`. */

const world = use(test, () => startWorld())

const emulators = () => [world.openai, world.anthropic, world.gemini, world.openrouter]

/** What the provider received, and the fields that were left out. */
async function sent(key: string, fields: object) {
  for (const emulator of emulators()) emulator.reset()
  const body = { messages: [{ role: 'user', content: 'Hello' }], max_tokens: 20_000, ...fields }
  const response = await world.gateway.fetch('/v1/chat/completions', { key, body })
  const [request] = emulators().flatMap(({ requests }) => requests)
  return { status: response.status, dropped: response.headers.get('x-gateway-dropped'), body: request?.body }
}

const words = [
  [{ reasoning: { max_tokens: 2000 } }, 'low'],
  [{ reasoning: { max_tokens: 6000, enabled: true } }, 'medium'],
  [{ reasoning: { enabled: true } }, 'medium'],
  [{ reasoning: { max_tokens: 0 } }, 'none'],
  [{ thinking: { type: 'enabled', budget_tokens: 16_000 } }, 'high'],
  [{ thinking: { type: 'adaptive' } }, 'high'],
  [{ thinking: { type: 'disabled' } }, 'none'],
] as const

for (const model of ['gpt-5.6-luna', 'claude-haiku-4-5', 'claude-sonnet-5-5', 'gemini-2.5-flash', 'gemini-3.5-flash'])
  test.serial(`200: a budget, and thinking that is on or off, are sent as an effort to ${model}`, async t => {
    const { live: key } = await world.gateway.account()
    for (const [fields, effort] of words) {
      const named = await sent(key, { model, reasoning_effort: effort })
      t.is(named.status, 200)
      t.deepEqual(await sent(key, { model, ...fields }), named, JSON.stringify(fields))
    }
  })

test.serial('200: an effort that is named counts, and what an effort does not say is named as left out', async t => {
  const { live: key } = await world.gateway.account()
  const model = 'claude-haiku-4-5'
  const { body } = await sent(key, { model, reasoning_effort: 'low' })
  const thinking = { type: 'enabled', budget_tokens: 16_000 }
  t.deepEqual(await sent(key, { model, reasoning_effort: 'low', thinking }), { status: 200, dropped: 'thinking', body })
  const hidden = await sent(key, { model, reasoning: { max_tokens: 2000, exclude: true } })
  t.like(hidden, { status: 200, dropped: 'reasoning' })
  for (const unknown of [{ type: 'enabled' }, { type: 'deep' }, {}])
    t.is((await sent(key, { model, thinking: unknown })).status, 200)
})

test.serial('200: a server with OpenAI’s API gets the fields as they are', async t => {
  const { live: key } = await world.gateway.account()
  const fields = { reasoning: { max_tokens: 2000 }, thinking: { type: 'enabled', budget_tokens: 2000 } }
  const model = 'claude-sonnet-4-5'
  const { body, dropped } = await sent(key, { model, provider: { only: ['openrouter'] }, ...fields })
  t.like(body, fields)
  t.false('reasoning_effort' in body)
  t.is(dropped, null)
})
