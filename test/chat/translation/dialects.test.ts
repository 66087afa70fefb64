import assert from 'node:assert/strict'
import fc from 'fast-check'
import type { Emulator } from '../../emulators/emulator.ts'
import { startOpenAiEmulator } from '../../emulators/openai.ts'
import {
  type Abilities,
  type Conversation,
  conversations,
  type Dialect,
  isSayableInGemini,
  pathOf,
  requestIn,
} from '../../support/chat/conversations.ts'
import { chargedNano, startWorld } from '../../support/chat/gateway.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

/** One conversation costs the same in every dialect, and its provider gets the same request. */

const together = use(test, startOpenAiEmulator)
const world = use(test, () => {
  const env = { TOGETHER_API_KEY: 'k', TOGETHER_BASE_URL: `${together.url}/v1`, OPENROUTER_API_KEY: '' }
  return startWorld(env)
})

/** A target of each protocol: one dialect is passed on at the first two, and all are translated at the third. */
const targets: Record<string, Abilities & { upstream: () => Emulator; speaksGemini?: true }> = {
  'llama-4-maverick': { upstream: () => together, takesFiles: false, hasEffort: false },
  // An effort is a budget here, unless the client speaks the provider’s own dialect: docs/decisions/equal-dialects.md
  'claude-haiku-4-5': { upstream: () => world.anthropic, takesFiles: true, hasEffort: false },
  'gemini-3.5-flash': { upstream: () => world.gemini, takesFiles: true, hasEffort: true, speaksGemini: true },
}
const numRuns = 25

for (const [model, { upstream, speaksGemini, ...abilities }] of Object.entries(targets))
  test.serial(`${model}: the same conversation in every dialect is the same request, at the same cost`, async t => {
    const account = await world.gateway.account({ usd: '1000' })
    let totalUsd = 0
    const send = async (dialect: Dialect, conversation: Conversation) => {
      const body = requestIn(dialect, model, conversation)
      // Messages have marks of their clients only.
      const headers = { 'x-gateway-cache-marks': 'off' }
      const response = await world.gateway.fetch(pathOf(dialect, model), { key: account.live, body, headers })
      const text = await response.text()
      assert.equal(response.status, 200, `${dialect}: ${text}`)
      const costUsd = Number(response.headers.get('x-gateway-cost-usd'))
      totalUsd += costUsd
      // Each dialect has its own name for the format of the answer.
      const dropped = response.headers
        .get('x-gateway-dropped')
        ?.replace(/\b(?:output_config|text)\.format\b/, 'response_format')
      return { costUsd, dropped, sent: upstream().requests.at(-1)!.body }
    }
    await fc.assert(
      fc.asyncProperty(conversations(abilities), async conversation => {
        const others: Dialect[] = conversation.stop ? ['messages'] : ['messages', 'responses']
        if (!speaksGemini && isSayableInGemini(conversation)) others.push('generate_content')
        const chat = await send('chat', conversation)
        for (const dialect of others)
          assert.deepEqual({ dialect, ...(await send(dialect, conversation)) }, { dialect, ...chat })
      }),
      { numRuns },
    )
    t.true(totalUsd > 0)
    t.is(await chargedNano(world, account), Math.round(totalUsd * 1e9))
  })
