import { z } from 'zod'
import { GatewayError } from '../../../shared/base/errors.ts'
import type { Services } from '../../../shared/open-services.ts'
import type { AutoTopUps } from '../../../shared/payments/auto-top-ups.ts'
import { assertRateLimit } from '../../auth/limits.ts'
import { endpoint } from '../../endpoint.ts'
import { presentAutoTopUp } from '../present/auto-top-up.ts'
import type { AutoTopUp, StartedCard } from '../wire/billing.ts'
import { maximumUsd, minimumUsd } from './billing.ts'

const base = '/dashboard/api/organisations/{organisation}/billing'
const shared = { tag: 'Dashboard', access: { permission: 'pay' } } as const
const maximumMonthUsd = 100_000
/** Per organisation. */
const cardPages = { windowS: 3_600, max: 30 }

const usd = (minimum: number, maximum: number) => z.number().min(minimum).max(maximum).multipleOf(0.01)
const settings = z
  .strictObject({
    enabled: z.boolean(),
    threshold_usd: usd(1, maximumUsd).describe('A balance below it is topped up.'),
    amount_usd: usd(minimumUsd, maximumUsd).describe('Of each top-up.'),
    monthly_limit_usd: usd(minimumUsd, maximumMonthUsd).describe('Of all automatic top-ups in a UTC month.'),
  })
  .refine(({ amount_usd, monthly_limit_usd }) => monthly_limit_usd >= amount_usd, {
    path: ['monthly_limit_usd'],
    message: 'must be at least `amount_usd`',
  })

const read = endpoint({
  ...shared,
  access: { permission: 'view_money' },
  method: 'get',
  path: `${base}/auto-top-up`,
  summary: 'Retrieve the settings of automatic top-ups, the saved card and the latest attempt',
  answers: { 200: { description: 'The settings.' } },
  handle({ services, organisationId }): Promise<AutoTopUp> {
    return present(services, organisationId)
  },
})

const change = endpoint({
  ...shared,
  method: 'put',
  path: `${base}/auto-top-up`,
  summary: 'Set automatic top-ups',
  body: settings,
  answers: { 200: { description: 'The settings.' } },
  errors: ['email_not_verified', 'not_found'],
  async handle({ services, organisationId, person, actor, body }): Promise<AutoTopUp> {
    const automatic = automaticOf(services, person)
    const wanted = {
      enabled: body.enabled,
      thresholdCents: centsOf(body.threshold_usd),
      amountCents: centsOf(body.amount_usd),
      monthlyLimitCents: centsOf(body.monthly_limit_usd),
    }
    await automatic.set(organisationId, wanted, actor)
    return present(services, organisationId)
  },
})

const createCard = endpoint({
  ...shared,
  method: 'post',
  path: `${base}/card`,
  summary: 'Create a page at which a card is saved for automatic top-ups',
  answers: { 201: { description: 'The page of the payment provider.' } },
  errors: ['email_not_verified', 'not_found', 'rate_limit_exceeded', 'upstream_error', 'upstream_invalid_response'],
  async handle({ services, organisationId, person, actor }): Promise<StartedCard> {
    const automatic = automaticOf(services, person)
    await assertRateLimit(services.redis, `card-page:${organisationId}`, cardPages, 'Too many pages to save a card at.')
    return automatic.createCardPage(organisationId, actor)
  },
})

const removeCard = endpoint({
  ...shared,
  method: 'delete',
  path: `${base}/card`,
  summary: 'Remove the saved card, which turns automatic top-ups off',
  answers: { 200: { description: 'The settings.' } },
  errors: ['email_not_verified', 'not_found'],
  async handle({ services, organisationId, person, actor }): Promise<AutoTopUp> {
    await automaticOf(services, person).removeCard(organisationId, actor)
    return present(services, organisationId)
  },
})

/** Throws 403 before the person's address is confirmed, 404 where payments are not set up. */
function automaticOf({ topUps }: Services, person: { emailVerified: boolean }): AutoTopUps {
  if (!person.emailVerified) throw new GatewayError('email_not_verified', 'Confirm your email address first.')
  topUps.assertEnabled()
  return topUps.automatic!
}

function centsOf(amountUsd: number): number {
  return Math.round(amountUsd * 100)
}

async function present(services: Services, organisationId: string): Promise<AutoTopUp> {
  const limits = services.topUps.automatic && {
    minimum_usd: minimumUsd,
    maximum_usd: maximumUsd,
    maximum_month_usd: maximumMonthUsd,
  }
  return { limits, ...(await presentAutoTopUp(services, organisationId)) }
}

export const autoTopUpRoutes = [read, change, createCard, removeCard]
