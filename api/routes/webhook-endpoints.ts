import { z } from 'zod'
import type { CreatedEndpoint } from '../../shared/webhooks/endpoints.ts'
import type { WebhookServices } from '../../shared/webhooks/webhook-services.ts'
import { endpoint } from '../endpoint.ts'
import { endpointPatch, newEndpoint, webhookEndpoint } from '../schemas/webhooks.ts'
import { presentEndpoint } from './present-webhook-endpoint.ts'

const base = '/api/v1/webhook-endpoints'
const shared = { tag: 'Webhook endpoints', access: 'provisioning' } as const
const one = z.strictObject({ data: webhookEndpoint }).meta({ id: 'WebhookEndpointResponse' })
const withSecret = z
  .strictObject({
    data: webhookEndpoint,
    secret: z
      .string()
      .nullable()
      .describe('Its signing secret, which is returned only once; null if the organisation’s signs.'),
  })
  .meta({ id: 'WebhookEndpointWithSecret' })

const show = (services: WebhookServices, { row, secret }: CreatedEndpoint) => ({
  data: presentEndpoint(services, row),
  secret,
})

const listEndpoints = endpoint({
  ...shared,
  method: 'get',
  path: base,
  operationId: 'listWebhookEndpoints',
  summary: 'List webhook endpoints',
  answers: {
    200: {
      description: 'All endpoints of the organisation, oldest first; there are at most 20.',
      schema: z
        .strictObject({ object: z.literal('list'), data: z.array(webhookEndpoint) })
        .meta({ id: 'WebhookEndpointList' }),
    },
  },
  async handle({ services, organisationId }) {
    const rows = await services.webhookEndpoints.list(organisationId)
    return { object: 'list', data: rows.map(row => presentEndpoint(services, row)) }
  },
})

const createEndpoint = endpoint({
  ...shared,
  method: 'post',
  path: base,
  operationId: 'createWebhookEndpoint',
  summary: 'Create a webhook endpoint',
  description: 'Every event of the organisation with one of its types is posted to it from now on.',
  body: newEndpoint,
  example: { url: 'https://example.com/webhooks', events: ['job.*', 'batch.completed'] },
  answers: { 201: { description: 'The endpoint with its secret, which is returned only once.', schema: withSecret } },
  errors: ['url_not_allowed', 'quota_exceeded'],
  async handle({ services, organisationId, actor, body, keep }) {
    const { webhookEndpoints } = services
    return show(
      services,
      await webhookEndpoints.create(organisationId, body, actor, (tx, made) => keep(tx, show(services, made))),
    )
  },
})

const readEndpoint = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/{id}`,
  operationId: 'getWebhookEndpoint',
  summary: 'Retrieve a webhook endpoint',
  answers: { 200: { description: 'The endpoint.', schema: one } },
  errors: ['not_found'],
  async handle({ services, organisationId, params }) {
    return { data: presentEndpoint(services, await services.webhookEndpoints.get(organisationId, params.id!)) }
  },
})

const updateEndpoint = endpoint({
  ...shared,
  method: 'patch',
  path: `${base}/{id}`,
  operationId: 'updateWebhookEndpoint',
  summary: 'Update a webhook endpoint',
  body: endpointPatch,
  example: { events: ['*'], enabled: true },
  answers: { 200: { description: 'The updated endpoint.', schema: one } },
  errors: ['not_found', 'url_not_allowed'],
  async handle({ services, organisationId, params, body, actor }) {
    const row = await services.webhookEndpoints.update(organisationId, params.id!, body, actor)
    return { data: presentEndpoint(services, row) }
  },
})

const deleteEndpoint = endpoint({
  ...shared,
  method: 'delete',
  path: `${base}/{id}`,
  operationId: 'deleteWebhookEndpoint',
  summary: 'Delete a webhook endpoint',
  answers: {
    200: {
      description: 'Its pending deliveries end; the log of its deliveries is kept.',
      schema: z
        .strictObject({ data: z.strictObject({ id: z.string(), deleted: z.literal(true) }) })
        .meta({ id: 'DeletedWebhookEndpoint' }),
    },
  },
  errors: ['not_found'],
  async handle({ services, organisationId, params, actor }) {
    await services.webhookEndpoints.delete(organisationId, params.id!, actor)
    return { data: { id: params.id!, deleted: true } }
  },
})

const rollSecret = endpoint({
  ...shared,
  method: 'post',
  path: `${base}/{id}/roll-secret`,
  operationId: 'rollWebhookEndpointSecret',
  summary: 'Roll the secret of a webhook endpoint',
  description: 'For 24 hours, its events are signed with both the old and the new secret.',
  answers: { 200: { description: 'The endpoint with its new secret.', schema: withSecret } },
  errors: ['not_found'],
  async handle({ services, organisationId, params, actor, keep }) {
    const { webhookEndpoints } = services
    return show(
      services,
      await webhookEndpoints.rollSecret(organisationId, params.id!, actor, (tx, made) =>
        keep(tx, show(services, made)),
      ),
    )
  },
})

export const webhookEndpointRoutes = [
  listEndpoints,
  createEndpoint,
  readEndpoint,
  updateEndpoint,
  deleteEndpoint,
  rollSecret,
]
