const topUpEvents = ['payment', 'failed', 'refund', 'refund_undone', 'dispute', 'dispute_undone'] as const
/** The events of a payment: received, debit failed, refunded or disputed, and the reversal of a refund or dispute. */
export type TopUpEvent = (typeof topUpEvents)[number]

/** The cause of a ledger entry of a top-up. `objectId` distinguishes several refunds or disputes. */
export function topUpCause(topUpId: string, event: TopUpEvent, objectId?: string): string {
  return ['stripe', topUpId, event, ...(objectId === undefined ? [] : [objectId])].join(':')
}

/** The object that a cause refers to (a generation, a job, a top-up, a deposit), and the event of a top-up. */
export function referenceOf(cause: string): { reference: string; event: TopUpEvent | null } {
  const [source, reference = cause, what] = cause.split(':')
  return { reference, event: (source === 'stripe' && topUpEvents.find(event => event === what)) || null }
}
