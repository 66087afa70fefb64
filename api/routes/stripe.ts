import { z } from 'zod'
import { GatewayError } from '../../shared/base/errors.ts'
import { readJsonBody } from '../body/read-body.ts'
import { endpoint } from '../endpoint.ts'

const bodyErrors = ['request_too_large', 'request_timeout', 'rate_limit_exceeded', 'unsupported_media_type'] as const
/** An event contains one Stripe object. */
const maxEventBytes = 1024 * 1024

export const stripeWebhook = endpoint({
  method: 'post',
  path: '/webhooks/stripe',
  operationId: 'receiveStripeWebhook',
  tag: 'Service',
  summary: 'Receive a Stripe event',
  description: 'Verified by the `Stripe-Signature` header. Events that concern no top-up are acknowledged and ignored.',
  access: 'public',
  headers: [{ name: 'Stripe-Signature', maxLength: 1_000, description: 'Stripe’s signature of the body.' }],
  answers: { 200: { description: 'Acknowledged.', schema: z.strictObject({ status: z.literal('ok') }) } },
  errors: [...bodyErrors, 'invalid_request', 'not_found', 'upstream_error'],
  async handle({ services, ctx }) {
    const signature = ctx.get('stripe-signature')
    services.topUps.assertEnabled()
    if (signature === '')
      throw new GatewayError('invalid_request', 'The `Stripe-Signature` header is missing.', {
        param: 'stripe-signature',
      })
    await services.topUps.handleEvent(await readJsonBody(ctx.state, maxEventBytes), signature)
    return { status: 'ok' }
  },
})
