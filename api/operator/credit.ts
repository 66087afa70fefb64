import { z } from 'zod'
import { GatewayError } from '../../shared/base/errors.ts'
import { newId } from '../../shared/base/ids.ts'
import { formatCents, type Nano, nanoFromUsd, usdFromNano } from '../../shared/base/money.ts'
import { dayMs } from '../../shared/base/time.ts'
import { type Actor, audit, type Changes, operatorActor } from '../../shared/io/audit.ts'
import type { Platform } from '../../shared/platform.ts'
import { adjustmentId } from './adjustments.ts'
import { findOrganisation, number, org } from './flags.ts'
import { type Command, command } from './parse.ts'

const achHoldDays = 5
const maxHoldDays = 365

export type Credit = {
  organisationId: string
  amountNano: Nano
  method: 'card' | 'ach' | 'grant'
  /** Hold period: the credit counts towards the balance but is not available; 5 days for ACH if absent. */
  holdDays?: number | undefined
  /** The caller's: a repetition of the same credit books nothing. */
  id?: string | undefined
}

/**
 * Credits an organisation on behalf of an operator, and records it in the organisation's audit log. Throws 409 if another credit has
 * the id.
 */
export async function addCredit({ db, wallets, clock }: Platform, credit: Credit, actor: Actor): Promise<void> {
  const { organisationId, amountNano, method, id = newId('dep') } = credit
  // An ACH payment can be reversed for some days: it counts at once and becomes available later.
  const holdDays = credit.holdDays ?? (method === 'ach' ? achHoldDays : 0)
  const availableAt = holdDays > 0 ? new Date(clock.now() + holdDays * dayMs) : null
  const changes: Changes = {
    amount_usd: [null, usdFromNano(amountNano)],
    method: [null, method],
    ...(availableAt && { available_at: [null, availableAt.toISOString()] }),
  }
  const cause = `deposit:${id}`
  const deposit = { organisationId, amountNano, method, cause, ...(availableAt && { availableAt }) }
  const isBooked = await wallets.deposit(deposit, tx =>
    audit(tx, { organisationId, actor, action: 'credit.added', changes }),
  )
  if (isBooked) return
  const before = await db.ledgerEntry.findUniqueOrThrow({ where: { cause } })
  if (before.organisationId === organisationId && before.amountNano === amountNano && before.method === method) return
  throw new GatewayError('idempotency_key_reused', 'Another credit was added with this id.', { param: 'id' })
}

export const credits: Command[] = [
  command({
    name: 'credit add',
    summary: 'Adds credits to an organisation.',
    help: '--org ID --usd 25 [--method grant|card|ach] [--hold-days 5] [--id ID]',
    flags: z.strictObject({
      org,
      usd: z
        .string()
        .regex(/^\d{1,6}(\.\d{1,9})?$/, 'must be an amount in USD')
        .refine(text => Number(text) > 0, 'must be more than 0'),
      // Payments name their method; what an operator adds without one was not paid through a provider.
      method: z.enum(['card', 'ach', 'grant']).default('grant'),
      hold_days: number.pipe(z.number().max(maxHoldDays)).optional(),
      id: adjustmentId.optional(),
    }),
    async run(services, { org, usd, method, hold_days, id }) {
      await findOrganisation(services, org)
      const credit = { id, organisationId: org, amountNano: nanoFromUsd(usd), method, holdDays: hold_days }
      await addCredit(services, credit, operatorActor)
      const view = await services.wallets.view(org)
      const data = {
        org,
        balance_usd: usdFromNano(view.balanceNano),
        available_usd: usdFromNano(view.availableNano),
        held_usd: usdFromNano(view.heldNano),
        held_release_at: view.heldReleaseAt?.toISOString() ?? null,
      }
      return { data, text: `balance ${formatCents(view.balanceNano)}, available ${formatCents(view.availableNano)}` }
    },
  }),
]
