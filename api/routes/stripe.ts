import { z } from 'zod'
import { GatewayError } from '../../shared/base/errors.ts'
import { endpoint } from '../endpoint.ts'
import { readJsonBody } from '../middleware/body.ts'

const bodyErrors = ['request_too_large', 'request_timeout', 'rate_limit_exceeded', 'unsupported_media_type'] as const
/** An event holds one object of Stripe's. */
const maxEventBytes = 1024 * 1024

export const stripeWebhook = endpoint({
  method: 'post',
  path: '/webhooks/stripe',
  operationId: 'receiveStripeWebhook',
  tag: 'Service',
  summary: 'Receive a report of Stripe',
  description: 'Verified by the signature in `stripe-signature`. Events that concern no top-up are taken and ignored.',
  access: 'public',
  headers: [{ name: 'Stripe-Signature', maxLength: 1_000, description: 'Stripe’s signature of the body.' }],
  answers: { 200: { description: 'Taken note of.', schema: z.strictObject({ status: z.literal('ok') }) } },
  errors: [...bodyErrors, 'invalid_request', 'not_found', 'upstream_error'],
  async handle({ services, ctx }) {
    const signature = ctx.get('stripe-signature')
    services.topUps.assertOn()
    if (signature === '')
      throw new GatewayError('invalid_request', 'This has no `Stripe-Signature`.', { param: 'stripe-signature' })
    await services.topUps.take(await readJsonBody(ctx.state, maxEventBytes), signature)
    return { status: 'ok' }
  },
})
