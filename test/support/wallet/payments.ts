import { newId } from '../../../shared/base/ids.ts'
import { usdFromNano } from '../../../shared/base/money.ts'
import { operatorActor } from '../../../shared/io/audit.ts'
import {
  type Session,
  type StripeEmulator,
  type StripeEvent,
  secretKey,
  signature,
  webhookSecret,
} from '../../emulators/stripe.ts'
import type { Gateway } from '../gateway.ts'
import type { ExecutionContext } from '../test.ts'

/** What switches payments on, at an emulated provider. */
export function paymentEnvironment(stripe: { url: string }): Record<string, string> {
  return { STRIPE_SECRET_KEY: secretKey, STRIPE_WEBHOOK_SECRET: webhookSecret, STRIPE_BASE_URL: stripe.url }
}

/** Posts an event as Stripe does. */
export function deliver(gateway: Gateway, event: StripeEvent, headers: Record<string, string> = {}): Promise<Response> {
  const payload = JSON.stringify(event)
  const signed = { 'stripe-signature': signature(payload, gateway.services.clock.now()), ...headers }
  return gateway.fetch('/webhooks/stripe', { body: payload, headers: signed })
}

/** An organisation with a wallet and a payment that was begun. */
export type Payer = { organisationId: string; session: Session; topUpId: string }

/** `organisationId` is a new one with an empty wallet unless it is given. */
export async function payer(
  { services }: Gateway,
  stripe: StripeEmulator,
  { usd = 100, organisationId = newId('org') } = {},
): Promise<Payer> {
  const { db, topUps } = services
  const organisation = { id: organisationId, name: 'A payer', wallet: { create: {} } }
  await db.organisation.upsert({ where: { id: organisationId }, create: organisation, update: {} })
  const amountCents = Math.round(usd * 100)
  const { id } = await topUps.createCheckout({
    organisationId,
    actor: operatorActor,
    email: 'a@example.com',
    amountCents,
  })
  return { organisationId, session: stripe.sessionOf(id), topUpId: id }
}

/** A wallet in USD as `balance/available/held`, and the payment's status. */
export async function standing({ services }: Gateway, { organisationId, topUpId }: Payer): Promise<string> {
  const wallet = await services.wallets.view(organisationId)
  const figures = [wallet.balanceNano, wallet.availableNano, wallet.heldNano].map(usdFromNano)
  const { status, returnedNano } = await services.db.topUp.findUniqueOrThrow({ where: { id: topUpId } })
  return `${figures.join('/')} ${status} ${usdFromNano(returnedNano)}`
}

/** Delivers events one after the other, each of which must be taken. */
export async function take(t: ExecutionContext, gateway: Gateway, events: StripeEvent[]): Promise<void> {
  for (const event of events) {
    const response = await deliver(gateway, event)
    t.is(response.status, 200, `${event.type}: ${await response.text()}`)
  }
}

/** Calls of the webhook's route, as the test of the OpenAPI document makes them; what it refuses is tested beside the payments. */
export const paymentCalls = {
  'POST /webhooks/stripe': {
    success: () => {
      const body = JSON.stringify({ id: 'evt_1', object: 'event', type: 'ping', data: { object: {} } })
      return [{ body, headers: { 'stripe-signature': signature(body, Date.now()) } }]
    },
    errors: () => [],
  },
}
