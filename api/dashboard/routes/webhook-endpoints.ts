import { z } from 'zod'
import { GatewayError } from '../../../shared/base/errors.ts'
import { dayMs } from '../../../shared/base/time.ts'
import type { WebhookEndpoint } from '../../../shared/generated/prisma/client.ts'
import { eventPatterns, eventTypes } from '../../../shared/webhooks/events.ts'
import { getWebhookSecrets, webhookSignature } from '../../../shared/webhooks/secrets.ts'
import type { WebhookServices } from '../../../shared/webhooks/webhook-services.ts'
import { maxRedelivered } from '../../../shared/webhooks/webhooks.ts'
import { endpoint } from '../../endpoint.ts'
import { presentEndpoint } from '../../routes/present-webhook-endpoint.ts'
import { endpointPatch, newEndpoint } from '../../schemas/webhooks.ts'
import { webhookEvents } from '../../webhook-events.ts'
import { presentDelivery } from '../present/present-delivery.ts'
import { noFigures, readFigures } from '../queries/webhook-figures.ts'
import type {
  DashboardEndpoint,
  EndpointAnswer,
  EndpointSecretAnswer,
  EndpointsAnswer,
  ResendAnswer,
  VerifyAnswer,
} from '../wire/webhook-endpoints.ts'
import type { DeliverySentAnswer } from '../wire/webhooks.ts'

const webhooks = '/dashboard/api/organisations/{organisation}/webhooks'
const base = `${webhooks}/endpoints`
const forMembers = { tag: 'Dashboard', access: { permission: 'use' } } as const
const forAdmins = { tag: 'Dashboard', access: { permission: 'manage' } } as const
const secretOnce = 'The endpoint with its secret, which is shown only once.'
/** Deliveries are kept as long. */
const resendMs = 30 * dayMs
/** What verifiers of Standard Webhooks accept. */
const toleranceS = 300
/** The types of which a sample can be sent. */
const sampleTypes = ['webhook.test', ...eventTypes] as const
const choices = { types: [...sampleTypes], patterns: [...eventPatterns] }

async function present(services: WebhookServices, row: WebhookEndpoint): Promise<DashboardEndpoint> {
  const figures = await readFigures(services, row.organisationId, row.url)
  return { ...presentEndpoint(services, row), figures: figures.get(row.url) ?? noFigures }
}

const listEndpoints = endpoint({
  ...forMembers,
  method: 'get',
  path: base,
  summary: 'List webhook endpoints, and the other URLs that events were sent to',
  answers: { 200: { description: 'The endpoints, with their figures of 24 hours.' } },
  async handle({ services, organisationId }): Promise<EndpointsAnswer> {
    const [rows, figures] = await Promise.all([
      services.webhookEndpoints.list(organisationId),
      readFigures(services, organisationId),
    ])
    const own = new Set(rows.map(({ url }) => url))
    return {
      data: rows.map(row => ({ ...presentEndpoint(services, row), figures: figures.get(row.url) ?? noFigures })),
      requested: [...figures].filter(([url]) => !own.has(url)).map(([url, figures]) => ({ url, figures })),
      ...choices,
    }
  },
})

const createEndpoint = endpoint({
  ...forAdmins,
  method: 'post',
  path: base,
  summary: 'Create a webhook endpoint',
  body: newEndpoint,
  answers: { 201: { description: secretOnce } },
  errors: ['url_not_allowed', 'quota_exceeded'],
  async handle({ services, organisationId, body, actor }): Promise<EndpointSecretAnswer> {
    const { row, secret } = await services.webhookEndpoints.create(organisationId, body, actor)
    return { data: await present(services, row), secret }
  },
})

const showEndpoint = endpoint({
  ...forMembers,
  method: 'get',
  path: `${base}/{endpoint}`,
  summary: 'Retrieve a webhook endpoint',
  answers: { 200: { description: 'The endpoint.' } },
  errors: ['not_found'],
  async handle({ services, organisationId, params }): Promise<EndpointAnswer> {
    const row = await services.webhookEndpoints.get(organisationId, params.endpoint!)
    return { data: await present(services, row), ...choices }
  },
})

const patchEndpoint = endpoint({
  ...forAdmins,
  method: 'patch',
  path: `${base}/{endpoint}`,
  summary: 'Update a webhook endpoint',
  body: endpointPatch,
  answers: { 200: { description: 'The updated endpoint.' } },
  errors: ['not_found', 'url_not_allowed'],
  async handle({ services, organisationId, params, body, actor }): Promise<EndpointAnswer> {
    const row = await services.webhookEndpoints.update(organisationId, params.endpoint!, body, actor)
    return { data: await present(services, row), ...choices }
  },
})

const deleteEndpoint = endpoint({
  ...forAdmins,
  method: 'delete',
  path: `${base}/{endpoint}`,
  summary: 'Delete a webhook endpoint',
  answers: { 200: { description: 'Deleted.' } },
  errors: ['not_found'],
  async handle({ services, organisationId, params, actor }): Promise<{ deleted: true }> {
    await services.webhookEndpoints.delete(organisationId, params.endpoint!, actor)
    return { deleted: true }
  },
})

const rollSecret = endpoint({
  ...forAdmins,
  method: 'post',
  path: `${base}/{endpoint}/roll-secret`,
  summary: 'Roll the secret of a webhook endpoint; the old one signs as well for 24 hours',
  answers: { 200: { description: secretOnce } },
  errors: ['not_found'],
  async handle({ services, organisationId, params, actor }): Promise<EndpointSecretAnswer> {
    const { row, secret } = await services.webhookEndpoints.rollSecret(organisationId, params.endpoint!, actor)
    return { data: await present(services, row), secret }
  },
})

const sendSample = endpoint({
  ...forAdmins,
  method: 'post',
  path: `${base}/{endpoint}/test`,
  summary: 'Send a sample event to a webhook endpoint',
  body: z.strictObject({ type: z.enum(sampleTypes).default('webhook.test') }),
  answers: { 202: { description: 'The delivery, scheduled immediately.' } },
  errors: ['not_found'],
  async handle({ services, organisationId, params, body: { type } }): Promise<DeliverySentAnswer> {
    const { db, webhooks, webhookEndpoints, clock } = services
    const { id: endpointId, url } = await webhookEndpoints.get(organisationId, params.endpoint!)
    const data = webhookEvents[type].sample(clock.now(), organisationId)
    const id = await webhooks.insert(db, { organisationId, type, url, endpointId, data, nowMs: clock.now() })
    await webhooks.enqueue([id])
    return { data: presentDelivery(await webhooks.show(organisationId, id)) }
  },
})

const verify = endpoint({
  ...forAdmins,
  method: 'post',
  path: `${base}/{endpoint}/verify`,
  summary: 'Recompute the signature of a message',
  body: z.strictObject({
    id: z.string().min(1).max(100),
    timestamp: z.int().min(0).max(10_000_000_000),
    body: z.string().max(1_000_000),
    signature: z.string().max(2_000).optional(),
  }),
  answers: { 200: { description: 'The signatures, and whether the given one is among them.' } },
  errors: ['not_found'],
  async handle({ services, organisationId, params, body: message }): Promise<VerifyAnswer> {
    const { webhookEndpoints, clock } = services
    const row = await webhookEndpoints.get(organisationId, params.endpoint!)
    const { secret, previous } =
      webhookEndpoints.secretsOf(row) ?? (await getWebhookSecrets(services, organisationId, clock.now()))
    const signatures = [secret, ...(previous === null ? [] : [previous])].map(key =>
      webhookSignature([key], message.id, message.timestamp, message.body),
    )
    const given = new Set(message.signature?.trim().split(/\s+/) ?? [])
    const found = signatures.findIndex(signature => given.has(signature))
    return {
      signatures,
      match: found === 0 ? 'current' : found === 1 ? 'previous' : null,
      is_old: Math.abs(clock.now() / 1_000 - message.timestamp) > toleranceS,
    }
  },
})

const resend = endpoint({
  ...forAdmins,
  method: 'post',
  path: `${webhooks}/resend`,
  summary: 'Redeliver the failed events to a URL since a time',
  body: z.strictObject({ url: z.string().min(1).max(8_192), since: z.iso.datetime({ offset: true }) }),
  answers: { 202: { description: 'How many events were scheduled.' } },
  async handle({ services, organisationId, body: { url, since } }): Promise<ResendAnswer> {
    const from = Math.max(Date.parse(since), services.clock.now() - resendMs)
    const rows = await services.webhookEndpoints.list(organisationId)
    if (rows.some(row => row.url === url && !row.enabled))
      throw new GatewayError('invalid_request', 'This endpoint is disabled. Enable it first.', { param: 'url' })
    const resent = await services.webhooks.redeliverFailed(organisationId, url, new Date(from))
    return { resent, max: maxRedelivered }
  },
})

export const webhookEndpointRoutes = [
  ...[listEndpoints, createEndpoint, showEndpoint, patchEndpoint, deleteEndpoint],
  ...[rollSecret, sendSample, verify, resend],
]
