import { chatLine, ended, resultsOf } from '../support/batches/gateway.ts'
import { chargedNano, startWorld } from '../support/chat/gateway.ts'
import { openResponses, textOf } from '../support/chat/responses-socket.ts'
import { delayed, path } from '../support/delayed/jobs.ts'
import { over, submit } from '../support/jobs/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'
import { startGuard, verdict } from '../support/webhooks/guard.ts'
import { startWorkers } from '../support/workers.ts'

const world = use(test, () =>
  startWorld({ ENCRYPTION_KEY: 'a-secret-of-enough-characters-0123456789', ALLOW_PRIVATE_URLS: 'true' }),
)
const guard = use(test, startGuard)
use(test, () => {
  const workers = startWorkers(world.gateway.services)
  return { close: () => workers.stop() }
})
test.beforeEach(() => {
  world.openai.reset()
  guard.received.length = 0
})

const gpt = 'gpt-4o-mini'
const address = 'jane.doe@example.com'
const email = (action: 'mask' | 'block', on: 'input' | 'output') => ({
  detectors: [{ type: 'email' as const, action, on }],
  webhook: null,
  other_kinds: 'refuse' as const,
})
const sentBodies = () => JSON.stringify(world.openai.requests.map(({ body }) => body))

test.serial('a delayed job is masked for the provider and restored in its result', async t => {
  const account = await world.gateway.account({ guardrails: email('mask', 'input') })
  const { id } = await submit(world.gateway, path, account.live, delayed(`I am ${address}`, { model: gpt }))
  const job = await over(world.gateway, account.live, path, id)
  t.is(job.status, 'completed', JSON.stringify(job))
  t.is(job.result.choices[0].message.content, `Echo: I am ${address}`)
  t.true(sentBodies().includes('[EMAIL_1]') && !sentBodies().includes(address))
})

test.serial('a delayed job fails at once with what blocks it: its request is free, its answer is charged', async t => {
  for (const side of ['input', 'output'] as const) {
    world.openai.reset()
    const account = await world.gateway.account({ guardrails: email('block', side) })
    const { id } = await submit(world.gateway, path, account.live, delayed(`I am ${address}`, { model: gpt }))
    const job = await over(world.gateway, account.live, path, id)
    // As all jobs that are charged without a result.
    t.is(job.status, side === 'input' ? 'failed' : 'cancelled')
    t.is(job.error.code, 'guardrail_blocked')
    t.is(world.openai.requests.length, side === 'input' ? 0 : 1)
    t.is((await chargedNano(world, account)) > 0, side === 'output')
  }
})

test.serial('lines of a batch are masked, restored and blocked', async t => {
  const detectors = [
    { type: 'email' as const, action: 'mask' as const, on: 'input' as const },
    { type: 'card' as const, action: 'block' as const, on: 'input' as const },
  ]
  const account = await world.gateway.account({ guardrails: { ...email('mask', 'input'), detectors } })
  const door = { url: world.gateway.url, key: account.live }
  const requests = [chatLine('a', gpt, `I am ${address}`), chatLine('b', gpt, 'My card is 4111111111111111')]
  const created = await world.gateway.fetch('/v1/batches', { key: account.live, body: { requests } })
  const { id } = (await created.json()) as { id: string }
  const batch = await ended(door, id)
  const { output, errors } = await resultsOf(door, batch)
  t.is(output[0]!.response!.body.choices[0].message.content, `Echo: I am ${address}`)
  t.is(errors[0]!.response!.body.error.code, 'guardrail_blocked')
  t.is(world.openai.requests.length, 1)
  t.false(sentBodies().includes(address))
})

test.serial('a turn on a WebSocket is masked and restored, or refused by the guard', async t => {
  const account = await world.gateway.account({ guardrails: email('mask', 'input') })
  const socket = await openResponses(world.gateway.url, { headers: { authorization: `Bearer ${account.live}` } })
  t.is(textOf(await socket.turn({ model: gpt, input: `I am ${address}`, store: false })), `Echo: I am ${address}`)
  t.false(sentBodies().includes(address))
  await socket.close()
  const webhook = { url: guard.url, on: 'output' as const, timeout_ms: 2_000, on_failure: 'fail_closed' as const }
  const guarded = await world.gateway.account({ guardrails: { ...email('mask', 'input'), webhook } })
  guard.always = verdict({ action: 'block', reason: 'off topic' })
  const other = await openResponses(world.gateway.url, { headers: { authorization: `Bearer ${guarded.live}` } })
  const refused = await other.refused({ model: gpt, input: 'Hello', store: false })
  t.is(refused.error.code, 'guardrail_blocked')
  await other.close()
})
