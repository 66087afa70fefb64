import { GatewayError } from '../../shared/base/errors.ts'
import { newId } from '../../shared/base/ids.ts'
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
