import { type Nano, usdFromNano } from '../../shared/base/money.ts'
import { dayMs } from '../../shared/base/time.ts'
import { type Actor, audit, type Changes } from '../../shared/io/audit.ts'
import type { Platform } from '../../shared/platform.ts'

const achHoldDays = 5

export type Credit = {
  organisationId: string
  amountNano: Nano
  method: 'card' | 'ach' | 'grant'
  /** Hold period: the credit counts towards the balance but is not available; 5 days for ACH if absent. */
  holdDays?: number | undefined
}

/** Credits an organisation on behalf of an operator, and records it in the organisation's audit log. */
export async function addCredit({ wallets, clock }: Platform, credit: Credit, actor: Actor): Promise<void> {
  const { organisationId, amountNano, method } = credit
  // An ACH payment can be reversed for some days: it counts at once and becomes available later.
  const holdDays = credit.holdDays ?? (method === 'ach' ? achHoldDays : 0)
  const availableAt = holdDays > 0 ? new Date(clock.now() + holdDays * dayMs) : null
  const changes: Changes = {
    amount_usd: [null, usdFromNano(amountNano)],
    method: [null, method],
    ...(availableAt && { available_at: [null, availableAt.toISOString()] }),
  }
  await wallets.deposit({ organisationId, amountNano, method, ...(availableAt && { availableAt }) }, tx =>
    audit(tx, { organisationId, actor, action: 'credit.added', changes }),
  )
}
