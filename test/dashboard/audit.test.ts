// Every change that can be made in the dashboard is in an audit log, with who made it. New routes are covered by being in the table.

import { dashboardEndpoints } from '../../api/dashboard/routes/index.ts'
import { signUp } from '../support/dashboard/dashboard.ts'
import { fill } from '../support/dashboard/fixtures.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

const gateway = useGateway(test, { ALLOW_PRIVATE_URLS: 'true' })
const person = use(test, () => signUp(gateway))
const other = use(test, () => signUp(gateway))
const filled = use(test, () => fill(gateway, person.organisationId))
test.before(async () => {
  await gateway.services.db.user.update({ where: { id: person.userId }, data: { operator: true } })
})

const root = '/dashboard/api/organisations/{organisation}'
const operator = '/dashboard/api/operator'
const inHours = (hours: number) => new Date(Date.now() + hours * 3_600_000).toISOString()

/** A change by every route, in an order in which all of them change something. */
const changes: [route: string, body?: object][] = [
  [`POST ${root}/keys`, { name: 'new' }],
  [`PATCH ${root}/keys/{key}`, { rpm_limit: 5 }],
  [
    `PATCH ${root}/keys/{key}/content-logging`,
    { content_logging: { mode: 'sample', sample_percent: 5, until: inHours(1) } },
  ],
  [`DELETE ${root}/requests/{id}/content`],
  [`POST ${root}/provider-keys`],
  [`PATCH ${root}/provider-keys/{id}`, { name: 'Theirs' }],
  [`DELETE ${root}/provider-keys/{id}`],
  [`POST ${root}/webhooks/secret/rotate`],
  [`POST ${root}/webhooks/endpoints`],
  [`PATCH ${root}/webhooks/endpoints/{endpoint}`, { description: 'changed' }],
  [`POST ${root}/webhooks/endpoints/{endpoint}/roll-secret`],
  [`DELETE ${root}/webhooks/endpoints/{endpoint}`],
  [`POST ${root}/log-exports`],
  [`PATCH ${root}/log-exports/{export}`, { interval_s: 60 }],
  [`POST ${root}/log-exports/{export}/roll-secret`],
  [`POST ${root}/log-exports/{export}/replays`],
  [`POST ${root}/log-exports/{export}/replays/{replay}/cancel`],
  [`DELETE ${root}/log-exports/{export}`],
  [`PATCH ${root}/alerts`, { low_balance_usd: 7 }],
  [`POST ${root}/alerts/rules`],
  [`PATCH ${root}/alerts/rules/{rule}`, { threshold: 9 }],
  [`DELETE ${root}/alerts/rules/{rule}`],
  [`PUT ${root}/budgets/{scope}`],
  [`DELETE ${root}/budgets/{scope}`],
  [`DELETE ${root}/response-cache`],
  [`PATCH ${root}/responses`, { keep_responses: true }],
  [`PATCH ${root}/content-settings`, { retention_days: 3 }],
  [`POST ${root}/presets`, { name: 'saved', config: { model: 'auto', temperature: 0.5 } }],
  [`DELETE ${root}/presets/{name}`],
  [`DELETE ${root}/keys/{key}`],
  [`POST ${operator}/organisations`],
  [`POST ${operator}/organisations/{organisation}/credits`],
  [`POST ${operator}/organisations/{organisation}/adjustments`],
  [`POST ${operator}/organisations/{organisation}/provisioning-keys`],
  [`DELETE ${operator}/organisations/{organisation}/provisioning-keys/{id}`],
  [`POST ${operator}/organisations/{organisation}/suspension`],
  [`DELETE ${operator}/organisations/{organisation}/suspension`],
  [`PATCH ${operator}/people/{id}`, { operator: true }],
  [`POST ${operator}/people/{id}/suspension`],
  [`DELETE ${operator}/people/{id}/suspension`],
  [`PATCH ${operator}/models/{id}`, { disabled: true }],
  [`POST ${operator}/aliases`],
  [`DELETE ${operator}/aliases/{id}`],
  [`POST ${operator}/servers/{id}`, { base_url: 'http://127.0.0.1:9/v1', models: [] }],
  [`DELETE ${operator}/servers/{id}`],
  [`POST ${operator}/providers/{provider}/pause`, {}],
  [`POST ${operator}/providers/{provider}/resume`],
  [`PATCH ${operator}/queues/{queue}`, { paused: true }],
  [`POST ${operator}/log-exports`],
  [`PATCH ${operator}/log-exports/{export}`, { interval_s: 60 }],
  [`POST ${operator}/log-exports/{export}/roll-secret`],
  [`POST ${operator}/log-exports/{export}/replays`],
  [`POST ${operator}/log-exports/{export}/replays/{replay}/cancel`],
  [`DELETE ${operator}/log-exports/{export}`],
  [`PATCH ${operator}/notifications`, { time_zone: 'Europe/Berlin' }],
  [`POST ${operator}/queues/{queue}/retry`, {}],
  [`POST ${operator}/queues/{queue}/remove`, {}],
]

/** Routes that change no setting of the organisation: messages, jobs, secrets for some minutes, and a member's own views. */
const elsewhere = new Set([
  `POST ${root}/keys/{key}/playground-secret`,
  `POST ${root}/webhooks/deliveries/{delivery}/redeliver`,
  `POST ${root}/webhooks/test`,
  `POST ${root}/provider-keys/{id}/test`,
  `POST ${root}/webhooks/endpoints/{endpoint}/test`,
  `POST ${root}/webhooks/endpoints/{endpoint}/verify`,
  `POST ${root}/webhooks/resend`,
  `POST ${root}/log-exports/{export}/test`,
  `POST ${root}/alerts/rules/{rule}/test`,
  `POST ${root}/jobs/{id}/cancel`,
  `POST ${root}/batches/{id}/cancel`,
  `POST ${operator}/server-tests`,
  `POST ${operator}/notifications/test`,
  `POST ${operator}/log-exports/{export}/test`,
  `POST ${root}/request-views`,
  `DELETE ${root}/request-views/{view}`,
])

/** Routes that need a second factor, a provider or an organisation without keys, or end what others need: they have tests of their own. */
const tested = new Set([
  `PATCH ${root}/security`,
  `POST ${root}/first-key`,
  `POST ${root}/top-ups`,
  `PUT ${root}/billing/auto-top-up`,
  `POST ${root}/billing/card`,
  `DELETE ${root}/billing/card`,
  `POST ${root}/keys/{key}/roll`,
  `POST ${root}/presets/{name}/current`,
  `POST ${operator}/providers/{provider}/test`,
  `POST ${operator}/providers/{provider}/keys`,
  `DELETE ${operator}/providers/{provider}/keys/{id}`,
  `POST ${operator}/notifications/secret`,
])

test.serial('every route that changes something is in the table', t => {
  const known = [...changes.map(([route]) => route), ...elsewhere, ...tested]
  const routes = dashboardEndpoints.filter(({ method }) => method !== 'get')
  t.deepEqual(routes.map(({ method, path }) => `${method.toUpperCase()} ${path}`).sort(), known.sort())
})

test.serial('each change is noted with the person who made it', async t => {
  const { db } = gateway.services
  const namedIds: Record<string, () => Promise<string> | string> = {
    '/people/': () => other.userId,
    '/provisioning-keys/': async () => (await db.provisioningKey.findFirstOrThrow()).id,
    '/models/': () => 'gpt-4o',
    '/aliases/': () => 'theirs',
    '/servers/': () => 'ours',
  }
  for (const [route, body] of changes) {
    const [method, path] = route.split(' ') as [string, string]
    const part = Object.keys(namedIds).find(part => path.includes(part))
    const values: Record<string, string> = {
      ...filled.ids.find(([part]) => path.includes(part))?.[1],
      ...(part && { id: await namedIds[part]!() }),
      organisation: person.organisationId,
      provider: 'openai',
      queue: 'webhooks',
      name: 'saved',
    }
    const mine = { actorId: person.userId, actorKind: path.startsWith(operator) ? 'operator' : 'user' }
    const before = await db.auditEvent.count({ where: mine })
    const answer = await person.visitor.fetch(
      path.replace(/\{(\w+)\}/g, (_, name: string) => values[name]!),
      { method, body: method === 'DELETE' ? undefined : (body ?? filled.bodies[route] ?? {}) },
    )
    t.true(answer.status < 300, `${route}: ${answer.status} ${await answer.text()}`)
    t.is(await db.auditEvent.count({ where: mine }), before + 1, route)
  }
})
