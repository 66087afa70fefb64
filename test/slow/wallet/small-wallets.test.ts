// Many histories of what test/chat/small-wallets.test.ts checks a few of.

import { startWorld } from '../../support/chat/gateway.ts'
import { checkConcurrentCalls, dearModels } from '../../support/chat/small-wallets.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

const world = use(test, async () => startWorld(await dearModels()))

test('wallets and caps are never exceeded by concurrent calls of any length', async t => {
  t.timeout(240_000)
  const seen = await checkConcurrentCalls(world, { runs: 60, pauseMs: 50, breaks: true })
  t.log(seen)
  t.true(seen.answered > 50 && seen.refused > 50, JSON.stringify(seen))
  t.true(seen.ended > 0 && seen.broken > 0 && seen.left > 0, JSON.stringify(seen))
})
