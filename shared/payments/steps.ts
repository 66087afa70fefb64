import type { TopUp, TopUpStatus } from '../generated/prisma/client.ts'
import type { ChargeStep, PaymentStep } from './facts.ts'

/** A transition of a top-up: the new status, and the ledger entry to book. */
type Transition = { status: TopUpStatus; credit?: 'card' | 'ach'; reverse?: true }

const paidByCard: Transition = { status: 'paid', credit: 'card' }
const debitStarted: Transition = { status: 'processing', credit: 'ach' }
const paidByDebit: Transition = { status: 'paid', credit: 'ach' }

/**
 * The state machine of top-ups, by payment step and current status. A missing entry changes nothing: the event is a duplicate or
 * out of order. What Stripe says was charged is credited whatever was believed before.
 */
export const transitions: Readonly<Record<PaymentStep | ChargeStep, Partial<Record<TopUpStatus, Transition>>>> = {
  paid: { open: paidByCard, expired: paidByCard },
  debit_started: { open: debitStarted, expired: debitStarted },
  debit_succeeded: { open: paidByDebit, expired: paidByDebit, processing: { status: 'paid' } },
  debit_failed: {
    open: { status: 'failed' },
    expired: { status: 'failed' },
    processing: { status: 'failed', reverse: true },
  },
  expired: { open: { status: 'expired' } },
  charged: { open: paidByCard, failed: paidByCard, expired: paidByCard },
  charge_failed: { open: { status: 'failed' } },
}

/** The status of a top-up after refunds and disputes: a paid top-up is refunded while the whole amount is returned. */
export function statusOf({
  status,
  amountNano,
  returnedNano,
}: Pick<TopUp, 'status' | 'amountNano' | 'returnedNano'>): TopUpStatus {
  if (status !== 'paid' && status !== 'refunded') return status
  return returnedNano >= amountNano ? 'refunded' : 'paid'
}
