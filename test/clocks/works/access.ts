import assert from 'node:assert/strict'
import { dayMs } from '../../../shared/base/time.ts'
import { signUp } from '../../support/dashboard/dashboard.ts'
import type { Work } from '../cell.ts'
import { coinNano } from './charges.ts'
import { ask, keyOf } from './requests.ts'

/** Beyond this a process answers no one who would sign in, rather than end sessions before their time. */
const maxSkewMs = 30_000

export const dashboardSessions: Work = {
  name: 'dashboard session',
  async begin(cell) {
    const { visitor, base } = await signUp({ url: cell.stack.url, services: cell.stack.services })
    const visit = () => visitor.fetch(`${base}/billing`)
    const isAnswered = async () => assert.equal((await visit()).status, 200)
    await isAnswered()
    return {
      async during() {
        const { status, headers } = await visit()
        const isPutOff = status === 503 && headers.has('retry-after')
        if (Math.abs(cell.steps.web ?? 0) <= maxSkewMs || !isPutOff) assert.equal(status, 200)
      },
      after: isAnswered,
    }
  },
}

/** A key that expires in a day. */
export const expiringKeys: Work = {
  name: 'expiring key',
  async begin(cell) {
    const key = await keyOf(cell, { expires_at: new Date(Date.now() + dayMs).toISOString() })
    const isAnswered = async () => assert.equal((await ask(cell, key)).status, 200)
    await isAnswered()
    return { during: isAnswered, after: isAnswered }
  },
}

/** A key whose cap of the month is used up: it stays so. */
export const cappedKeys: Work = {
  name: 'capped key',
  async begin(cell) {
    const capUsd = 0.0005
    const key = await keyOf(cell, { monthly_spend_cap_usd: capUsd })
    let spentNano = 0
    const use = async () => {
      const response = await ask(cell, key)
      const answer = (await response.json()) as { usage: Parameters<typeof coinNano>[0] }
      if (response.status === 200) spentNano += coinNano(answer.usage)
      return response.status
    }
    // A request is refused also while others have reserved what is left.
    for (let refusals = 0; refusals < 3; refusals = (await use()) === 402 ? refusals + 1 : 0)
      assert.ok(spentNano <= capUsd * 1e9, 'the cap was passed')
    const isRefused = async () => assert.equal(await use(), 402, 'the status of a key above its cap')
    return {
      during: isRefused,
      after: isRefused,
      async atRest() {
        assert.ok(spentNano <= capUsd * 1e9, `spent ${spentNano} nano-dollars of ${capUsd} USD`)
      },
    }
  },
}

const rpm = 3
const windowMs = 60_000

/** A key that has used its requests of the minute. */
export const rateLimits: Work = {
  name: 'rate limit',
  async begin(cell) {
    const key = await keyOf(cell, { rpm_limit: rpm })
    for (let calls = 0; calls < rpm; calls++) assert.equal((await ask(cell, key)).status, 200)
    assert.equal((await ask(cell, key)).status, 429)
    /** A minute may have passed; a refusal never lasts longer than one. */
    const isBounded = async () => {
      const { status, headers } = await ask(cell, key)
      if (status === 200) return
      assert.equal(status, 429)
      const retryMs = Number(headers.get('retry-after')) * 1_000
      assert.ok(retryMs > 0 && retryMs <= windowMs, `retry-after: ${headers.get('retry-after')}`)
    }
    return { during: isBounded, after: isBounded }
  },
}
