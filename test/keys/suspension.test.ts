import { commands } from '../../api/operator/commands.ts'
import { parseCommand } from '../../api/operator/parse.ts'
import { errorCode, join, password, signUp, Visitor } from '../support/dashboard/dashboard.ts'
import { eventually, type Gateway } from '../support/gateway.ts'
import { test } from '../support/test.ts'
import { use, useGateway, useStores } from '../support/use.ts'
import { startWorkers } from '../support/workers.ts'

const env = { ALLOW_PRIVATE_URLS: 'true' }

const stores = useStores(test)
const first = useGateway(test, env, { stores })
const second = useGateway(test, env, { stores })
const operator = use(test, () => signUp(first, { name: 'Op' }))
test.before(async () => {
  await run('user', 'promote', '--email', operator.visitor.email)
})

/** A command of the operator's command line, in this process. */
async function run(...argv: string[]): Promise<{ data: unknown; text: string }> {
  const { command, flags } = parseCommand(argv, commands)
  return command.run(first.services, flags)
}

const base = '/dashboard/api/operator'
const chat = { model: 'auto', messages: [{ role: 'user', content: 'Hello' }] }
const suspend = (organisationId: string, reason = 'fraud') =>
  operator.visitor.fetch(`${base}/organisations/${organisationId}/suspension`, { body: { reason } })
const resume = (organisationId: string) =>
  operator.visitor.fetch(`${base}/organisations/${organisationId}/suspension`, { method: 'DELETE' })

/** What requests of every sort are answered in both processes: `ok`, or the code of an error. */
async function outcomes(key: string, provisioning: string): Promise<string[]> {
  const found: string[] = []
  for (const gateway of [first, second])
    for (const call of [
      gateway.fetch('/v1/chat/completions', { key, body: chat }),
      gateway.fetch('/v1/models', { key }),
      gateway.fetch('/v1/videos', { key, body: { prompt: 'a ship' } }),
      gateway.fetch('/v1/jobs', { key, body: { completion_window: '1h', body: chat } }),
      gateway.fetch('/api/v1/keys', { key: provisioning }),
    ]) {
      const answer = await call
      found.push(answer.ok ? 'ok' : `${answer.status} ${await errorCode(answer)}`)
    }
  return [...new Set(found)]
}

test.serial('403 organisation_suspended with every key, in every process at once, until it is resumed', async t => {
  const { organisationId, test: key } = await first.account()
  const { secret: provisioning } = await first.services.keys.createProvisioning(organisationId, {
    kind: 'operator',
    id: null,
    name: 'operator',
  })
  t.deepEqual(await outcomes(key, provisioning), ['ok'])
  t.is((await suspend(organisationId)).status, 200)
  t.deepEqual(await outcomes(key, provisioning), ['403 organisation_suspended'])
  const late = await first.key(organisationId, 'test')
  t.is(await errorCode(await second.fetch('/v1/models', { key: late })), 'organisation_suspended')
  // Another organisation is not affected.
  const other = await first.account()
  t.is((await second.fetch('/v1/chat/completions', { key: other.test, body: chat })).status, 200)
  t.is((await resume(organisationId)).status, 200)
  t.deepEqual(await outcomes(key, provisioning), ['ok'])
  const { db } = first.services
  const events = await db.auditEvent.findMany({
    where: { organisationId, action: { startsWith: 'organisation.' } },
    orderBy: { createdAt: 'asc' },
  })
  t.deepEqual(
    events.map(({ action, actorKind, changes }) => [action, actorKind, changes]),
    [
      ['organisation.suspended', 'operator', { reason: [null, 'fraud'] }],
      ['organisation.resumed', 'operator', { reason: ['fraud', null] }],
    ],
  )
})

test.serial('requests under way while it is suspended are served or refused, none fails otherwise', async t => {
  const { organisationId, test: key } = await first.account()
  const refused = async (gateway: Gateway) => {
    for (let served = 0; ; served++) {
      const answer = await gateway.fetch('/v1/chat/completions', { key, body: chat })
      if (!answer.ok) return { code: await errorCode(answer), served }
      await answer.arrayBuffer()
    }
  }
  const loops = [first, second].map(refused)
  await eventually(async () => (await first.services.redis.exists('usage')) > 0, 'requests were served')
  await suspend(organisationId)
  for (const { code } of await Promise.all(loops)) t.is(code, 'organisation_suspended')
})

test.serial('queued jobs and batch lines fail without a charge; webhooks are still sent', async t => {
  const { organisationId, live, test: key } = await first.account()
  const { db } = first.services
  const created = async (path: string, as: string, body: unknown) => {
    const answer = await first.fetch(path, { key: as, body })
    t.true(answer.ok, `${path}: ${await answer.clone().text()}`)
    return ((await answer.json()) as { id: string }).id
  }
  const video = await created('/v1/videos', key, { prompt: 'a ship', webhook_url: 'http://127.0.0.1:9/' })
  const delayed = await created('/v1/jobs', key, { completion_window: '1h', body: chat })
  const line = { custom_id: 'one', method: 'POST', url: '/v1/chat/completions', body: chat }
  const batch = await created('/v1/batches', key, {
    endpoint: '/v1/chat/completions',
    completion_window: '24h',
    requests: [line],
  })
  await suspend(organisationId)
  const workers = startWorkers(first.services)
  t.teardown(() => workers.stop())
  await eventually(async () => {
    const jobs = await db.job.findMany({ where: { id: { in: [video, delayed] } } })
    const { status } = await db.batch.findUniqueOrThrow({ where: { id: batch } })
    return jobs.every(({ status }) => status === 'failed') && status === 'completed'
  }, 'the jobs and the batch are over')
  const jobs = await db.job.findMany({ where: { id: { in: [video, delayed] } } })
  for (const { error } of jobs) t.like(error, { code: 'organisation_suspended' })
  t.like(await db.batch.findUniqueOrThrow({ where: { id: batch } }), { failed: 1, costNano: 0n })
  t.is(await db.webhookDelivery.count({ where: { organisationId, type: 'job.failed' } }), 1)
  t.is(await errorCode(await first.fetch('/v1/balance', { key: live })), 'organisation_suspended')
  t.deepEqual(await first.settled(), [])
})

test.serial('the dashboard of a suspended organisation can be read, not changed; its banner knows', async t => {
  const owner = await signUp(first)
  await suspend(owner.organisationId)
  const me = (await owner.visitor.person())!
  t.deepEqual(me.organisations, [{ ...me.organisations[0]!, suspended: true }])
  t.is((await owner.visitor.fetch(`${owner.base}/keys`)).status, 200)
  const create = () => owner.visitor.fetch(`${owner.base}/keys`, { body: { name: 'mine', environment: 'test' } })
  t.is(await errorCode(await create()), 'organisation_suspended')
  const auth = '/dashboard/api/auth/organization'
  const of = { organizationId: owner.organisationId }
  const rename = () => owner.visitor.fetch(`${auth}/update`, { body: { ...of, data: { name: 'Another' } } })
  t.is((await rename()).status, 403)
  const invitation = { ...of, email: 'guest@example.com', role: 'member' }
  t.is((await owner.visitor.fetch(`${auth}/invite-member`, { body: invitation })).status, 200)
  await run('org', 'resume', '--org', owner.organisationId)
  t.is((await create()).status, 201)
  t.is((await rename()).status, 200)
})

test.serial('a suspended person is signed out and cannot sign in until they are resumed', async t => {
  const { visitor, userId, organisationId } = await signUp(first)
  await join(first, userId, operator.organisationId, 'member')
  const change = (method: 'POST' | 'DELETE') =>
    operator.visitor.fetch(`${base}/people/${userId}/suspension`, {
      method,
      ...(method === 'POST' && { body: { reason: 'left the company' } }),
    })
  t.is((await change('POST')).status, 200)
  t.is(await first.services.db.session.count({ where: { userId } }), 0)
  t.is(await visitor.person(), null)
  const signIn = () => {
    const again = new Visitor(first, visitor.email)
    const body = { email: visitor.email, password }
    return again.fetch('/dashboard/api/auth/sign-in/email', { body })
  }
  const refused = await signIn()
  t.is(refused.status, 403)
  t.like(await refused.json(), { code: 'ACCOUNT_SUSPENDED' })
  t.is(await first.services.db.session.count({ where: { userId } }), 0)
  const key = await first.key(organisationId, 'test')
  t.is((await first.fetch('/v1/models', { key })).status, 200, 'the organisation’s keys work')
  t.is((await change('DELETE')).status, 200)
  t.is((await signIn()).status, 200)
  await run('user', 'suspend', '--email', visitor.email.toUpperCase(), '--reason', 'again')
  t.is((await signIn()).status, 403)
  await run('user', 'resume', '--email', visitor.email)
  t.is((await signIn()).status, 200)
  const events = await first.services.db.auditEvent.findMany({ where: { targetId: userId, organisationId: null } })
  t.is(events.length, 4)
})

test.serial('404 for what is unknown, 400 without a reason and for oneself', async t => {
  t.is((await suspend('org_unknown')).status, 404)
  t.is((await resume('org_unknown')).status, 404)
  t.is((await suspend(operator.organisationId, ' ')).status, 400)
  const post = (id: string) =>
    operator.visitor.fetch(`${base}/people/${id}/suspension`, { body: { reason: 'why not' } })
  t.is((await post('user_unknown')).status, 404)
  t.is((await post(operator.userId)).status, 400)
  await t.throwsAsync(run('org', 'suspend', '--org', 'org_unknown', '--reason', 'x'), { message: /no organisation/ })
})
