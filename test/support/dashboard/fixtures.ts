import { createRule } from '../../../shared/alerts/rules.ts'
import { newId } from '../../../shared/base/ids.ts'
import { operatorActor } from '../../../shared/io/audit.ts'
import { hashSecret } from '../../../shared/keys/secret.ts'
import { chatLine } from '../batches/gateway.ts'
import { eventually, type Gateway } from '../gateway.ts'
import { startWorkers } from '../workers.ts'

export type Filled = {
  /** The ids of one thing of every sort: those of a path are found by the part of it that names the sort. */
  ids: [part: string, values: Record<string, string>][]
  /** A right body for every route that wants one. */
  bodies: Record<string, unknown>
  /** Texts that no member of another organisation may ever read. */
  marks: string[]
}

/** An address without a listener. */
const url = 'http://127.0.0.1:9/'
const root = '/dashboard/api/organisations/{organisation}'

const newExport = { name: 'theirs', kind: 'https', url, streams: ['audit'] }
const january = { from: '2026-01-01T00:00:00Z', to: '2026-01-02T00:00:00Z' }

/** An export of an organisation, or with null of the operator, with a replay. */
async function makeExport({ logExports, clock }: Gateway['services'], owner: string | null, name: string) {
  const settings = { name, kind: 'https' as const, url: `${url}${name}`, streams: ['requests' as const] }
  const { row } = await logExports.create(owner, settings, operatorActor)
  const window = { from: new Date(clock.now() - 1_000).toISOString(), to: new Date(clock.now()).toISOString() }
  const [replay] = await logExports.replay(owner, row.id, window, operatorActor)
  return [row, replay] as const
}

/** Gives an organisation one thing of every sort, made through the API by a test key and run by real workers. */
export async function fill(gateway: Gateway, organisationId: string): Promise<Filled> {
  const { services } = gateway
  const { db, clock, keys, contentLog } = services
  const mark = `mark-${newId('req')}`
  const secret = await gateway.key(organisationId, 'test', { name: mark })
  const contentUntil = new Date(clock.now() + 3_600_000)
  const logged = { contentMode: 'all', contentPercent: null, contentUntil }
  await keys.setContentLogging(organisationId, hashSecret(secret), logged, operatorActor)
  const workers = startWorkers(gateway.services)
  const post = async (path: string, body: unknown) => {
    const answer = await gateway.fetch(path, { key: secret, body })
    return (await answer.json()) as { id: string }
  }
  const chat = { model: 'auto', messages: [{ role: 'user', content: mark }] }
  await post('/v1/chat/completions', chat)
  const video = await post('/v1/videos', { prompt: mark, webhook_url: url })
  const requests = [chatLine('good', 'auto', mark), chatLine('bad', 'auto', 'sandbox:fail')]
  const batch = await post('/v1/batches', { endpoint: '/v1/chat/completions', completion_window: '24h', requests })
  await eventually(async () => {
    const { status } = await db.batch.findUniqueOrThrow({ where: { id: batch.id } })
    return status === 'completed' && (await db.webhookDelivery.count({ where: { organisationId } })) > 0
  }, 'the video and the batch are over')
  await gateway.settled()
  await contentLog.flush()
  await workers.stop()
  const generation = await db.generation.findFirstOrThrow({ where: { organisationId, kind: 'chat' } })
  const delivery = await db.webhookDelivery.findFirstOrThrow({ where: { organisationId } })
  const endpoint = await services.webhookEndpoints.create(
    organisationId,
    { url: `${url}${mark}`, events: ['*'], signing_secret: 'own' },
    operatorActor,
  )
  const rule = await createRule(
    services,
    organisationId,
    {
      name: mark,
      kind: 'spend',
      threshold: 5,
      window: 'day',
      min_requests: 1,
      key: null,
      model: null,
      environment: 'live',
      email: 'all',
      member_ids: [],
      webhook: false,
      slack_url: `${url}${mark}`,
      enabled: true,
    },
    operatorActor,
  )
  const [logExport, replay] = await makeExport(services, organisationId, mark)
  const [operatorExport, operatorReplay] = await makeExport(services, null, mark)
  const presetName = mark.slice(0, 60)
  await services.presets.save(organisationId, presetName, { model: 'auto' }, operatorActor)
  const topUp = newId('top')
  const paid = { amountNano: 10_000_000_000n, method: 'card', status: 'paid', checkoutSessionId: mark } as const
  await db.topUp.create({ data: { id: topUp, organisationId, createdAt: new Date(clock.now()), ...paid } })
  const member = await db.membership.findFirst({ where: { organisationId } })
  const providerKey = newId('pkey')
  const stored = { provider: 'fal', secret: mark, last4: '1234' }
  await db.providerKey.create({ data: { id: providerKey, organisationId, name: mark, ...stored } })
  return {
    ids: [
      ['/provider-keys/', { id: providerKey }],
      ['/keys/', { key: hashSecret(secret) }],
      ['/jobs/', { id: video.id }],
      ['/batches/', { id: batch.id, file: 'errors' }],
      ['/rules/', { rule: rule.id }],
      ['/operator/log-exports/', { export: operatorExport.id, replay: operatorReplay!.id }],
      ['/log-exports/', { export: logExport.id, replay: replay!.id }],
      ['/endpoints/', { endpoint: endpoint.row.id }],
      ['/deliveries/', { delivery: delivery.id }],
      ['/requests/', { id: generation.id }],
      ['/top-ups/', { id: topUp }],
      ['/budgets/', { scope: member?.userId ?? 'none' }],
      ['/presets/', { name: presetName }],
    ],
    bodies: {
      [`POST ${root}/keys`]: { name: 'theirs' },
      [`PATCH ${root}/keys/{key}/content-logging`]: { content_logging: null },
      // No free request of this provider needs a key, so nothing is asked.
      [`POST ${root}/provider-keys`]: { provider: 'fal', name: 'theirs', secret: 'own-secret-1234' },
      [`POST ${root}/top-ups`]: { amount_usd: 10 },
      [`PUT ${root}/budgets/{scope}`]: { limit_usd: 5 },
      [`PUT ${root}/billing/auto-top-up`]: {
        enabled: false,
        threshold_usd: 5,
        amount_usd: 10,
        monthly_limit_usd: 20,
      },
      [`POST ${root}/alerts/rules`]: { name: 'theirs', kind: 'spend', threshold: 5, window: 'day' },
      [`POST ${root}/presets/{name}/current`]: { version: 1 },
      [`POST ${root}/alerts/rules/{rule}/test`]: { channel: 'slack' },
      [`POST ${root}/webhooks/test`]: { url },
      [`POST ${root}/webhooks/endpoints`]: { url, events: ['*'] },
      [`POST ${root}/webhooks/endpoints/{endpoint}/verify`]: { id: 'evt_1', timestamp: 1, body: '{}' },
      [`POST ${root}/log-exports`]: newExport,
      [`POST ${root}/log-exports/{export}/replays`]: january,
      'POST /dashboard/api/operator/log-exports': newExport,
      'POST /dashboard/api/operator/log-exports/{export}/replays': january,
      [`POST ${root}/webhooks/resend`]: { url, since: '2026-01-01T00:00:00Z' },
      'POST /dashboard/api/operator/organisations': { name: 'theirs' },
      'POST /dashboard/api/operator/organisations/{organisation}/credits': { amount_usd: 5, method: 'grant' },
      'POST /dashboard/api/operator/organisations/{organisation}/suspension': { reason: 'theirs' },
      'POST /dashboard/api/operator/people/{id}/suspension': { reason: 'theirs' },
      'POST /dashboard/api/operator/aliases': { alias: 'theirs', model: 'gpt-4o' },
      'POST /dashboard/api/operator/servers/{id}': { base_url: url, models: [] },
      'POST /dashboard/api/operator/server-tests': { base_url: url },
      'POST /dashboard/api/operator/organisations/{organisation}/adjustments': {
        id: 'adjustment-1',
        amount_usd: 5,
        reason: 'theirs',
      },
    },
    marks: [mark, video.id, batch.id, generation.id, delivery.id, endpoint.row.id, logExport.id, rule.id, topUp],
  }
}
