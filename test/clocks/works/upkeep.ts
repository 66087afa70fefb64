import assert from 'node:assert/strict'
import type { AlertRuleAnswer } from '../../../api/dashboard/wire/alert-rules.ts'
import { newId } from '../../../shared/base/ids.ts'
import { dayMs } from '../../../shared/base/time.ts'
import type { MaintenanceTask } from '../../../shared/queues/queues.ts'
import { signUp } from '../../support/dashboard/dashboard.ts'
import { call, eventually } from '../../support/gateway.ts'
import { Receiver, status } from '../../support/webhooks/receiver.ts'
import type { Cell, Work } from '../cell.ts'
import { ask, keyOf } from './requests.ts'

/** Queues tasks as their schedules do; gives a function that waits until all have run. */
async function queue({ housekeeping }: Cell, tasks: readonly MaintenanceTask[]): Promise<() => Promise<unknown>> {
  const runs = await Promise.all(tasks.map(task => housekeeping.queue(task)))
  return () => Promise.all(runs.map(run => run()))
}

const pruning = ['expire', 'partitions'] as const

/** What removes rows by their age, in all tables. What the other works keep must be there afterwards. */
export const retention: Work = {
  name: 'retention',
  async begin(cell) {
    const { db } = cell.stack.services
    const link = async (endsInMs: number) => {
      const id = newId('evt')
      const expiresAt = new Date(Date.now() + endsInMs)
      await db.verification.create({ data: { id, identifier: id, value: '', expiresAt } })
      return id
    }
    const [old, valid] = [await link(-dayMs), await link(dayMs)]
    return {
      // The worker may do this, refuse it, or put it off.
      during: async () => void (await queue(cell, pruning)),
      after: async () => void (await (await queue(cell, pruning))()),
      async atRest() {
        const left = await db.verification.findMany({ where: { id: { in: [old, valid] } } })
        assert.deepEqual(
          left.map(({ id }) => id),
          [valid],
          'links that are left',
        )
      },
    }
  },
}

const maxEvaluationAgeMs = 60_000

/** A rule that may be evaluated by a wrong clock raises its alert, once. */
export const alertRules: Work = {
  name: 'alert rule',
  async begin(cell) {
    const { services, url } = cell.stack
    const { visitor, base, organisationId } = await signUp({ url, services })
    const body = { name: 'Spend', kind: 'spend', threshold: 0.000_001, window: 'month', webhook: false }
    const { data: rule } = await visitor.json<AlertRuleAnswer>(`${base}/alerts/rules`, { body })
    await services.wallets.deposit({ organisationId, amountNano: 1_000_000_000n, method: 'grant' })
    const key = await keyOf(cell, {}, organisationId)
    return {
      during: async () => void (await queue(cell, ['rules'])),
      async after() {
        assert.equal((await ask(cell, key)).status, 200)
      },
      async atRest() {
        await (await queue(cell, ['rules']))()
        const { evaluatedAt } = await services.db.alertRule.findUniqueOrThrow({ where: { id: rule.id } })
        const ageMs = Date.now() - (evaluatedAt?.getTime() ?? 0)
        assert.ok(Math.abs(ageMs) <= maxEvaluationAgeMs, `it was evaluated ${ageMs} ms ago`)
        const raised = { organisationId, type: 'alert.raised' }
        assert.equal(await services.db.alert.count({ where: raised }), 1, 'alerts')
      },
    }
  },
}

/** The pause after a first attempt, and the interval of what looks for overdue ones. */
const retryWithinMs = 50_000

/** A webhook whose first attempt fails while the clock is wrong is tried again soon after it is right. */
export const webhookRetries: Work = {
  name: 'webhook retry',
  async begin({ stack, account }) {
    const receiver = await Receiver.start()
    const [tried, failing] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    receiver.once(async (request, response) => {
      tried.resolve()
      await failing.promise
      status(500)(request, response)
    })
    const body = { model: 'coin', max_tokens: 100, messages: [{ role: 'user', content: 'Tell me the time.' }] }
    const job = { body, completion_window: '1h', webhook_url: receiver.url }
    assert.equal((await call(stack.url, '/v1/jobs', { key: account.live, body: job })).status, 202)
    await tried.promise
    return {
      async during() {
        failing.resolve()
      },
      async after() {
        await eventually(() => receiver.received.length > 1, 'the webhook is sent again', retryWithinMs)
      },
      async atRest() {
        await receiver.close()
        const ids = receiver.received.map(({ headers }) => headers['webhook-id'])
        assert.deepEqual([ids.length, new Set(ids).size], [2, 1], 'attempts and events')
      },
    }
  },
}
