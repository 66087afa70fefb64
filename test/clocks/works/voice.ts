import assert from 'node:assert/strict'
import { byMinute, type Talk, talk } from '../../support/realtime/sessions.ts'
import { acrossSteps } from './across-steps.ts'
import { assertDuration, chargesOf, rowOf } from './charges.ts'

const nanoPerMs = 80_000_000 / 60_000
/** What passes between the upgrade and the time that the gateway counts, on a busy machine. */
const toleranceMs = 1_500

/** Realtime sessions billed by the minute. */
export const voiceSessions = acrossSteps<{ talk: Talk; openedMs: number; lastedMs: number | null }>({
  name: 'voice session',
  async open({ stack, providers, account }) {
    const gateway = { url: stack.url }
    const opened = await talk({ gateway, provider: providers.voice }, account.live, byMinute)
    return { talk: opened, openedMs: performance.now(), lastedMs: null }
  },
  async close(_cell, opened) {
    assert.equal(opened.talk.closed, null, 'the session was ended by the gateway')
    await opened.talk.leave()
    opened.lastedMs = performance.now() - opened.openedMs
  },
  async check(cell, { talk, lastedMs }) {
    if (lastedMs === null) return
    const charges = await chargesOf(cell, talk.id)
    const chargedNano = charges.reduce((sum, nano) => sum + nano, 0)
    const row = await rowOf(cell, { id: talk.id })
    assert.ok(
      Math.abs(chargedNano / nanoPerMs - lastedMs) <= toleranceMs,
      `${Math.round(lastedMs)} ms cost ${Math.round(lastedMs * nanoPerMs)} nano-dollars, charged were ${charges}`,
    )
    assert.equal(Number(row.costNano), chargedNano, 'the cost in the request log')
    assertDuration(row.durationMs, lastedMs, 'the duration')
  },
})
