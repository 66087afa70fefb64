const topUpEvents = ['payment', 'failed', 'refund', 'refund_undone', 'dispute', 'dispute_undone'] as const
/** What happened to a payment: it came, its debit failed, some of it went back, or came again. */
export type TopUpEvent = (typeof topUpEvents)[number]

/** The cause of a ledger entry of a top-up. `objectId` tells several refunds or disputes apart. */
export function topUpCause(topUpId: string, event: TopUpEvent, objectId?: string): string {
  return ['stripe', topUpId, event, ...(objectId === undefined ? [] : [objectId])].join(':')
}

/** What a cause refers to (a generation, a job, a top-up, a deposit), and what happened to a top-up. */
export function referenceOf(cause: string): { reference: string; event: TopUpEvent | null } {
  const [source, reference = cause, what] = cause.split(':')
  return { reference, event: (source === 'stripe' && topUpEvents.find(event => event === what)) || null }
}
