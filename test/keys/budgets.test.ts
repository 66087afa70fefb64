// Monthly budgets of organisations and of members, beside the caps of keys.
import { raiseCapAlerts } from '../../shared/alerts/caps.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import { budgetSettings, listBudgets, removeBudget, setBudget } from '../../shared/keys/budgets.ts'
import { newKey } from '../../shared/keys/key-requests.ts'
import { saying, startWorld } from '../support/chat/gateway.ts'
import { join, signUp } from '../support/dashboard/dashboard.ts'
import { over, submit } from '../support/jobs/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'
import { startWorkers } from '../support/workers.ts'

const world = use(test, () => startWorld())
use(test, () => startWorkers(world.gateway.services))

const set = (organisationId: string, scope: string, limitUsd: number, more: object = {}) =>
  setBudget(
    world.gateway.services,
    organisationId,
    scope,
    budgetSettings.parse({ limit_usd: limitUsd, ...more }),
    operatorActor,
  )

async function ask(key: string, maxTokens = 100) {
  const response = await world.gateway.fetch('/v1/chat/completions', {
    key,
    body: saying('gpt-4o', 'Hello', { max_tokens: maxTokens }),
  })
  // biome-ignore lint/suspicious/noExplicitAny: an answer or an error
  return { status: response.status, body: (await response.json()) as any }
}

const spentNano = async (organisationId: string) => {
  const { _sum } = await world.gateway.services.db.ledgerEntry.aggregate({
    where: { organisationId, kind: { in: ['charge', 'excess', 'refund'] } },
    _sum: { amountNano: true },
  })
  return Number(-(_sum.amountNano ?? 0n))
}

/** A key that a member created. */
async function keyOf(organisationId: string, userId: string): Promise<string> {
  const actor = { kind: 'user' as const, id: userId, name: 'Member' }
  const { keys } = world.gateway.services
  return (await keys.create(organisationId, newKey.parse({ environment: 'live' }), actor)).secret
}

test('402 naming the budget on every live key of the organisation, until it is raised or removed', async t => {
  const { gateway } = world
  const account = await gateway.account()
  const second = await gateway.key(account.organisationId, 'live')
  t.is((await ask(account.live)).status, 200)
  await gateway.settled()
  await set(account.organisationId, 'organisation', 0.000_001)
  for (const key of [account.live, second]) {
    const { status, body } = await ask(key)
    t.is(status, 402)
    t.like(body.error, { code: 'monthly_spend_cap_reached', type: 'billing_error' })
    t.regex(body.error.message, /^The monthly budget of this organisation of \$0\.000001 leaves no room/)
    t.like(body.error.metadata, { cap_usd: 0.000_001, budget: 'organisation' })
    t.is(Math.round(body.error.metadata.spent_usd * 1e9), await spentNano(account.organisationId))
  }
  t.is((await ask(account.test)).status, 200)
  await set(account.organisationId, 'organisation', 5)
  t.is((await ask(second)).status, 200)
  await set(account.organisationId, 'organisation', 0)
  t.is((await ask(second)).status, 402)
  t.true(await removeBudget(gateway.services, account.organisationId, 'organisation', operatorActor))
  t.false(await removeBudget(gateway.services, account.organisationId, 'organisation', operatorActor))
  t.is((await ask(second)).status, 200)
  t.deepEqual(await gateway.settled(), [])
})

test('a cap lower than the budget is named as the cap', async t => {
  const account = await world.gateway.account({ monthly_spend_cap_usd: 0.000_001 })
  await set(account.organisationId, 'organisation', 1)
  const { status, body } = await ask(account.live)
  t.is(status, 402)
  t.regex(body.error.message, /^This key’s monthly cap of/)
  t.is(body.error.metadata.budget, undefined)
})

test('the budget of a member sums the keys that this member created, new ones too', async t => {
  const { gateway } = world
  const owner = await signUp(gateway)
  const member = await signUp(gateway)
  const { organisationId } = owner
  await gateway.services.wallets.deposit({ organisationId, amountNano: 5_000_000_000n, method: 'grant' })
  await join(gateway, member.userId, organisationId, 'member')
  const [first, others] = [await keyOf(organisationId, member.userId), await keyOf(organisationId, owner.userId)]
  await set(organisationId, member.userId, 0.000_001)
  const second = await keyOf(organisationId, member.userId)
  for (const key of [first, second]) {
    const { status, body } = await ask(key)
    t.is(status, 402)
    t.regex(body.error.message, /^The monthly budget of the member who created this key/)
    t.is(body.error.metadata.budget, 'member')
  }
  t.is((await ask(others)).status, 200)
  await t.throwsAsync(set(organisationId, 'user_unknown', 1), { message: /no member user_unknown/ })
})

test('200 for a key that is handed over when its creator is removed: it is in no member’s budget', async t => {
  const { gateway } = world
  const owner = await signUp(gateway)
  const member = await signUp(gateway)
  const { organisationId, visitor } = owner
  await gateway.services.wallets.deposit({ organisationId, amountNano: 5_000_000_000n, method: 'grant' })
  await join(gateway, member.userId, organisationId, 'member')
  const key = await keyOf(organisationId, member.userId)
  await set(organisationId, member.userId, 0.000_001)
  t.is((await ask(key)).status, 402)
  const body = { organizationId: organisationId, memberIdOrEmail: member.visitor.email, keys: 'hand_over' }
  await visitor.json('/dashboard/api/auth/organization/remove-member', { body })
  t.is((await ask(key)).status, 200)
  t.deepEqual(await gateway.settled(), [])
})

test('requests of all keys at once never spend more than the budget', async t => {
  const { gateway } = world
  const account = await gateway.account()
  const keys = [account.live, ...(await Promise.all([1, 2, 3].map(() => gateway.key(account.organisationId, 'live'))))]
  const limitUsd = 0.01
  await set(account.organisationId, 'organisation', limitUsd)
  // Each reserves 0.001 USD for its output, whatever it then uses.
  const answers = await Promise.all(Array.from({ length: 60 }, (_, i) => ask(keys[i % keys.length]!, 100)))
  const statuses = new Set(answers.map(({ status }) => status))
  t.deepEqual([...statuses].sort(), [200, 402])
  t.deepEqual(await gateway.settled(), [])
  t.true((await spentNano(account.organisationId)) <= limitUsd * 1e9)
})

test('a budget that only alerts refuses nothing, and alerts once per level', async t => {
  const { gateway } = world
  const { services } = gateway
  const account = await gateway.account()
  const { organisationId } = account
  const budget = await set(organisationId, 'organisation', 0.000_001, { blocks: false, alert_percents: [80, 50, 80] })
  t.like(budget, { scope: 'organisation', blocks: false, alert_percents: [50, 80], spent_month_usd: 0 })
  t.is((await ask(account.live)).status, 200)
  t.is((await ask(account.live)).status, 200)
  await gateway.settled()
  await raiseCapAlerts(services)
  await raiseCapAlerts(services)
  const alerts = await services.db.alert.findMany({ where: { organisationId, type: 'budget.spend_alert' } })
  t.is(alerts.length, 1)
  t.like(alerts[0]!.data, {
    object: 'budget.spend_alert',
    member: null,
    percent: 80,
    limit_usd: 0.000_001,
    blocks: false,
  })
})

test('a budget that refuses a request alerts as reached, although not all of it is spent', async t => {
  const { gateway } = world
  const account = await gateway.account()
  const { organisationId, live } = account
  t.is((await ask(live)).status, 200)
  await gateway.settled()
  const spent = await spentNano(organisationId)
  await set(organisationId, 'organisation', (spent + 1) / 1e9)
  t.is((await ask(live)).status, 402)
  await raiseCapAlerts(gateway.services)
  const alerts = await gateway.services.db.alert.findMany({ where: { organisationId, type: 'budget.spend_alert' } })
  // Another test may have raised the alert of 80 percent before the refusal.
  t.is(alerts.filter(({ data }) => (data as { percent: number }).percent === 100).length, 1)
})

test('what was spent while a budget was off, or only alerted, counts when it blocks again', async t => {
  const { gateway } = world
  const account = await gateway.account()
  const { organisationId, live } = account
  await set(organisationId, 'organisation', 1)
  t.is((await ask(live)).status, 200)
  await set(organisationId, 'organisation', 1, { blocks: false })
  t.is((await ask(live)).status, 200)
  await gateway.settled()
  const [before] = await listBudgets(gateway.services, organisationId)
  t.is(Math.round(before!.spent_month_usd * 1e9), await spentNano(organisationId))
  await set(organisationId, 'organisation', before!.spent_month_usd)
  const { status, body } = await ask(live)
  t.is(status, 402)
  t.is(body.error.metadata.spent_usd, before!.spent_month_usd)
  t.deepEqual(await gateway.settled(), [])
})

test('a job holds money of the budget until it ends, also if the budget is removed meanwhile', async t => {
  const { gateway } = world
  const account = await gateway.account()
  const { organisationId, live } = account
  await set(organisationId, 'organisation', 5)
  const job = await submit(gateway, '/v1/jobs', live, { body: saying('gpt-4o'), completion_window: '1h' })
  const { budgets } = await gateway.services.db.job.findUniqueOrThrow({ where: { id: job.id } })
  t.regex(budgets!, /^bdg_\w+$/)
  await removeBudget(gateway.services, organisationId, 'organisation', operatorActor)
  await over(gateway, live, '/v1/jobs', job.id)
  t.deepEqual(await gateway.settled(), [])
})

test('a provisioning key lists, sets and deletes budgets; bad input is a 400 that names the field', async t => {
  const { gateway } = world
  const { organisationId } = await gateway.account()
  const { secret: key } = await gateway.services.keys.createProvisioning(organisationId, operatorActor)
  const call = async (method: string, path = '', body?: unknown) => {
    const response = await gateway.fetch(`/api/v1/budgets${path}`, { method, key, body })
    // biome-ignore lint/suspicious/noExplicitAny: an answer or an error
    return { status: response.status, body: (await response.json()) as any }
  }
  t.deepEqual(await call('GET'), { status: 200, body: { data: [] } })
  const made = await call('PUT', '/organisation', { limit_usd: 12.5 })
  t.like(made.body.data, { scope: 'organisation', limit_usd: 12.5, blocks: true, alert_percents: [50, 80, 100] })
  t.deepEqual((await call('GET')).body.data, [made.body.data])
  for (const [field, value] of [
    ['limit_usd', -1],
    ['limit_usd', '1'],
    ['blocks', 'yes'],
    ['alert_percents', [0]],
    ['colour', 1],
  ]) {
    const { status, body } = await call('PUT', '/organisation', { limit_usd: 1, [field as string]: value })
    t.is(status, 400)
    t.true(body.error.message.includes(String(field)), body.error.message)
  }
  t.is((await call('PUT', '/user_nobody', { limit_usd: 1 })).status, 404)
  t.deepEqual((await call('DELETE', '/organisation')).body, { data: { scope: 'organisation', deleted: true } })
  const events = await gateway.services.db.auditEvent.findMany({
    where: { organisationId, action: { startsWith: 'budget' } },
  })
  t.deepEqual(events.map(({ action }) => action).sort(), ['budget.removed', 'budget.set'])
})
