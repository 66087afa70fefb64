import { z } from 'zod'
import { nanoFromUsd } from '../../../shared/base/money.ts'
import { type Endpoint, endpoint } from '../../endpoint.ts'
import { adjust, adjustmentId } from '../../operator/adjustments.ts'
import { findOrganisation, reason } from '../../operator/flags.ts'
import type { OrganisationDetail } from '../wire/operator.ts'
import { detailOf } from './operator-organisations.ts'

const maxUsd = 1_000_000

const createAdjustment = endpoint({
  method: 'post',
  path: '/dashboard/api/operator/organisations/{organisation}/adjustments',
  tag: 'Dashboard',
  summary: 'Adjust the balance of an organisation',
  access: 'operator',
  body: z.strictObject({
    id: adjustmentId.describe('The client’s own: a repetition with the same id books nothing.'),
    amount_usd: z
      .number()
      .min(-maxUsd)
      .max(maxUsd)
      .refine(usd => Number(usd.toFixed(9)) !== 0, 'must not be 0')
      .describe('Negative for a debit.'),
    reason: reason.describe('Shown in the organisation’s ledger and audit log.'),
    allow_negative: z.boolean().default(false).describe('Whether a debit may take the available balance below zero.'),
  }),
  answers: { 200: { description: 'The organisation with its new balance.' } },
  errors: ['not_found', 'insufficient_credits', 'idempotency_key_reused'],
  async handle({ services, params, body, actor }): Promise<OrganisationDetail> {
    const { id: organisationId } = await findOrganisation(services, params.organisation!)
    const { id, amount_usd, reason, allow_negative: allowNegative } = body
    const adjustment = { id, organisationId, amountNano: nanoFromUsd(amount_usd), reason, allowNegative }
    await adjust(services, adjustment, actor)
    return detailOf(services, organisationId)
  },
})

export const operatorAdjustmentRoutes: Endpoint[] = [createAdjustment]
