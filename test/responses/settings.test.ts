import { join, signUp } from '../support/dashboard/dashboard.ts'
import { runOperator, storesEnv } from '../support/operator.ts'
import { startWorld } from '../support/responses/world.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

let offsetMs = 0
const world = use(test, () => startWorld({ RESPONSE_RETENTION_DAYS: '20' }, { now: () => Date.now() + offsetMs }))

test.serial('an admin sets the switch and the retention, which the audit log records', async t => {
  const { gateway } = world
  const owner = await signUp(gateway)
  const path = `/dashboard/api/organisations/${owner.organisationId}/responses`
  const off = { keep_responses: false, response_retention_days: null, max_retention_days: 20 }
  t.deepEqual(await owner.visitor.json(path), off)
  const change = (body: object) => owner.visitor.fetch(path, { method: 'PATCH', body })
  for (const days of [0, 21, 366, 1.5]) {
    const refused = await change({ response_retention_days: days })
    t.is(refused.status, 400)
    t.is(((await refused.json()) as { error: { param: string } }).error.param, 'response_retention_days')
  }
  const on = { keep_responses: true, response_retention_days: 7, max_retention_days: 20 }
  t.deepEqual(await (await change({ keep_responses: true, response_retention_days: 7 })).json(), on)
  t.deepEqual(await (await change({ keep_responses: true })).json(), on)
  const { db } = gateway.services
  const events = await db.auditEvent.findMany({
    where: { organisationId: owner.organisationId, action: 'response_settings.changed' },
  })
  t.deepEqual(
    events.map(({ changes }) => changes),
    [{ keep_responses: [false, true], response_retention_days: [null, 7] }],
  )
  const member = await signUp(gateway)
  await join(gateway, member.userId, owner.organisationId, 'member')
  t.is((await member.visitor.fetch(path, { method: 'PATCH', body: { keep_responses: false } })).status, 403)
})

test.serial('the operator turns it on; requests without `store` follow within 30 seconds, others at once', async t => {
  const { gateway } = world
  const { organisationId, test: key } = await gateway.account()
  const client = world.sdk(key)
  const hi = { model: 'auto', input: 'Hi' }
  t.like(await client.responses.create(hi), { store: false })
  const env = storesEnv({
    databaseUrl: gateway.services.config.databaseUrl,
    redisUrl: gateway.services.config.redisUrl,
  } as never)
  const command = (...more: string[]) =>
    runOperator(env, 'org', 'responses', '--org', organisationId, '--json', ...more)
  const { stdout } = await command('--keep', 'on', '--retention-days', '5')
  t.deepEqual(JSON.parse(stdout), { org: organisationId, keep_responses: true, response_retention_days: 5 })
  t.like(await client.responses.create(hi), { store: false })
  offsetMs = 30_000
  t.like(await client.responses.create(hi), { store: true })
  await command('--keep', 'off')
  t.like(await client.responses.create(hi), { store: false })
  await t.throwsAsync(client.responses.create({ ...hi, store: true }), { message: /Keep responses/ })
})
