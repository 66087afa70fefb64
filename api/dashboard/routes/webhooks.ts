import { z } from 'zod'
import { assertPublicUrl } from '../../../shared/io/safe-url.ts'
import { getWebhookSecrets, rotateWebhookSecret, type WebhookSecrets } from '../../../shared/webhooks/secrets.ts'
import { endpoint } from '../../endpoint.ts'
import { paging, readPage } from '../../routes/paging.ts'
import { presentAttempt, presentDelivery } from '../present/present-delivery.ts'
import type { DeliveriesAnswer, DeliveryAnswer, DeliverySentAnswer, WebhookSecretAnswer } from '../wire/webhooks.ts'

const base = '/dashboard/api/organisations/{organisation}/webhooks'
const forMembers = { tag: 'Dashboard', access: { permission: 'use' } } as const
const forAdmins = { tag: 'Dashboard', access: { permission: 'manage' } } as const

function presentSecrets({ secret, previousUntil }: WebhookSecrets): WebhookSecretAnswer {
  return { secret, previous_valid_until: previousUntil?.toISOString() ?? null }
}

const listDeliveries = endpoint({
  ...forMembers,
  method: 'get',
  path: `${base}/deliveries`,
  summary: 'List webhook deliveries of the last 30 days',
  query: z.strictObject({
    limit: paging.limit,
    after: paging.after,
    status: z.enum(['pending', 'delivered', 'failed']).optional(),
    type: z.string().max(50).optional(),
    url: z.string().max(200).optional(),
    endpoint: z.string().max(64).optional(),
  }),
  answers: { 200: { description: 'A page of deliveries, newest first.' } },
  errors: ['not_found'],
  handle({ services: { webhooks }, organisationId, query }): Promise<DeliveriesAnswer> {
    const { endpoint: endpointId, ...filter } = query
    return readPage(
      { ...query, order: 'desc' },
      page => webhooks.list(organisationId, { ...filter, endpointId, ...page }),
      async rows => rows.map(presentDelivery),
      ({ id }) => id,
    )
  },
})

const showDelivery = endpoint({
  ...forMembers,
  method: 'get',
  path: `${base}/deliveries/{delivery}`,
  summary: 'Retrieve a delivery with its attempts',
  answers: { 200: { description: 'The delivery.' } },
  errors: ['not_found'],
  async handle({ services: { webhooks }, organisationId, params }): Promise<DeliveryAnswer> {
    const { log, ...row } = await webhooks.show(organisationId, params.delivery!)
    return { data: { ...presentDelivery(row), log: log.map(presentAttempt) } }
  },
})

const redeliver = endpoint({
  ...forAdmins,
  method: 'post',
  path: `${base}/deliveries/{delivery}/redeliver`,
  summary: 'Redeliver an event',
  answers: { 202: { description: 'The delivery, scheduled immediately.' } },
  errors: ['not_found'],
  async handle({ services: { webhooks }, organisationId, params }): Promise<DeliverySentAnswer> {
    return { data: presentDelivery(await webhooks.redeliver(organisationId, params.delivery!)) }
  },
})

const sendTest = endpoint({
  ...forAdmins,
  method: 'post',
  path: `${base}/test`,
  summary: 'Send a test event',
  body: z.strictObject({ url: z.string().min(1).max(2_048) }),
  answers: { 202: { description: 'The delivery, scheduled immediately.' } },
  errors: ['url_not_allowed'],
  async handle({ services, organisationId, body: { url } }): Promise<DeliverySentAnswer> {
    const { db, webhooks, clock, urlPolicy } = services
    await assertPublicUrl(url, { ...urlPolicy, param: 'url' })
    const data = { object: 'webhook.test', organisation_id: organisationId }
    const id = await webhooks.insert(db, { organisationId, type: 'webhook.test', url, data, nowMs: clock.now() })
    await webhooks.enqueue([id])
    return { data: presentDelivery(await webhooks.show(organisationId, id)) }
  },
})

const showSecret = endpoint({
  ...forAdmins,
  method: 'get',
  path: `${base}/secret`,
  summary: 'Retrieve the webhook signing secret',
  answers: { 200: { description: 'The secret.' } },
  async handle({ services, organisationId }): Promise<WebhookSecretAnswer> {
    return presentSecrets(await getWebhookSecrets(services, organisationId, services.clock.now()))
  },
})

const rotateSecret = endpoint({
  ...forAdmins,
  method: 'post',
  path: `${base}/secret/rotate`,
  summary: 'Rotate the signing secret; the old one signs as well for 24 hours',
  answers: { 200: { description: 'The new secret.' } },
  async handle({ services, organisationId, actor }): Promise<WebhookSecretAnswer> {
    return presentSecrets(await rotateWebhookSecret(services, organisationId, actor, services.clock.now()))
  },
})

export const webhooksRoutes = [listDeliveries, showDelivery, redeliver, sendTest, showSecret, rotateSecret]
