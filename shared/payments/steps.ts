import type { TopUp, TopUpStatus } from '../generated/prisma/client.ts'
import type { PaymentStep } from './facts.ts'

/** What becomes of a top-up: its status, and what is booked. */
type Step = { status: TopUpStatus; credit?: 'card' | 'ach'; reverse?: true }

const paidByCard: Step = { status: 'paid', credit: 'card' }
const debited: Step = { status: 'processing', credit: 'ach' }
const paidByDebit: Step = { status: 'paid', credit: 'ach' }

/** By what happened and the status before. What is not here changes nothing: it came again, or after what followed it. */
export const steps: Readonly<Record<PaymentStep, Partial<Record<TopUpStatus, Step>>>> = {
  paid: { open: paidByCard, expired: paidByCard },
  debit_started: { open: debited, expired: debited },
  debit_succeeded: { open: paidByDebit, expired: paidByDebit, processing: { status: 'paid' } },
  debit_failed: {
    open: { status: 'failed' },
    expired: { status: 'failed' },
    processing: { status: 'failed', reverse: true },
  },
  expired: { open: { status: 'expired' } },
}

/** A paid top-up is refunded while as much went back as was paid. */
export function statusOf({
  status,
  amountNano,
  returnedNano,
}: Pick<TopUp, 'status' | 'amountNano' | 'returnedNano'>): TopUpStatus {
  if (status !== 'paid' && status !== 'refunded') return status
  return returnedNano >= amountNano ? 'refunded' : 'paid'
}
