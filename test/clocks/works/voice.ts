import assert from 'node:assert/strict'
import { byMinute, type Talk, talk } from '../../support/realtime/sessions.ts'
import { acrossSteps } from './across-steps.ts'
import { assertDuration, chargesOf, rowOf, Stopwatch } from './charges.ts'

const nanoPerMs = 80_000_000 / 60_000

/** Realtime sessions billed by the minute. */
export const voiceSessions = acrossSteps<{ talk: Talk; watch: Stopwatch }>({
  name: 'voice session',
  async open({ stack, providers, account }) {
    const watch = new Stopwatch()
    const gateway = { url: stack.url }
    const opened = await talk({ gateway, provider: providers.voice }, account.live, byMinute)
    watch.started()
    return { talk: opened, watch }
  },
  async close(_cell, { talk, watch }) {
    assert.equal(talk.closed, null, 'the session was ended by the gateway')
    watch.stopping()
    await talk.leave()
    watch.stopped()
  },
  async check(cell, { talk, watch }) {
    if (!watch.isStopped) return
    const charges = await chargesOf(cell, talk.id)
    const chargedNano = charges.reduce((sum, nano) => sum + nano, 0)
    const row = await rowOf(cell, { id: talk.id })
    assertDuration(chargedNano / nanoPerMs, watch.seen, `the time of the charges (${charges} nano-dollars)`)
    assert.equal(Number(row.costNano), chargedNano, 'the cost in the request log')
    assertDuration(row.durationMs, watch.seen, 'the duration')
  },
})
