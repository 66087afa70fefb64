import { z } from 'zod'
import { newId } from '../../shared/base/ids.ts'
import { formatCents, nanoFromUsd, usdFromNano } from '../../shared/base/money.ts'
import { type Actor, audit, type Changes, operatorActor } from '../../shared/io/audit.ts'
import type { Platform } from '../../shared/platform.ts'
import { type Adjustment, adjustBalance } from '../../shared/wallet/adjustments.ts'
import { presentWallet } from '../routes/account.ts'
import { findOrganisation, org, reason } from './flags.ts'
import { type Command, command } from './parse.ts'

/** Ids are part of a ledger entry's cause, whose parts are separated by colons. */
export const adjustmentId = z.string().regex(/^[\w-]{8,64}$/, 'must be 8 to 64 letters, digits, hyphens or underscores')

/** Corrects an organisation's balance on behalf of an operator, and records it in the organisation's audit log. See `adjustBalance`. */
export function adjust(services: Platform, adjustment: Adjustment, actor: Actor): Promise<boolean> {
  const { id, organisationId, amountNano, reason } = adjustment
  const changes: Changes = { amount_usd: [null, usdFromNano(amountNano)], reason: [null, reason] }
  return adjustBalance(services, adjustment, tx =>
    audit(tx, { organisationId, actor, action: 'balance.adjusted', target: { id, name: id }, changes }),
  )
}

export const adjustments: Command[] = [
  command({
    name: 'adjustment add',
    summary: 'Corrects the balance of an organisation, up or down, with a reason that its ledger shows.',
    help: '--org ID --usd -5 --reason R [--id ID] [--allow-negative]',
    flags: z.strictObject({
      org,
      usd: z
        .string()
        .regex(/^-?\d{1,6}(\.\d{1,9})?$/, 'must be an amount in USD, negative for a debit')
        .refine(text => Number(text) !== 0, 'must not be 0'),
      reason,
      id: adjustmentId.optional(),
      allow_negative: z.boolean().default(false),
    }),
    async run(services, { org, usd, reason, id = newId('adj'), allow_negative }) {
      await findOrganisation(services, org)
      const adjustment = {
        id,
        organisationId: org,
        amountNano: nanoFromUsd(usd),
        reason,
        allowNegative: allow_negative,
      }
      const isNew = await adjust(services, adjustment, operatorActor)
      const view = await services.wallets.view(org)
      const { object: _, ...wallet } = presentWallet(view)
      const text = `${isNew ? 'booked' : 'was booked before'}: balance ${formatCents(view.balanceNano)}, available ${formatCents(view.availableNano)}`
      return { data: { id, org, ...wallet }, text }
    },
  }),
]
