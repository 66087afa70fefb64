/** Types of payments and the ledger, shared by the Billing page and its routes. Amounts are USD. */

/** GET …/billing */
export type Billing = {
  wallet: {
    balance_usd: number
    available_usd: number
    reserved_usd: number
    held_usd: number
    /** When the next part of the held amount becomes available. */
    held_release_at: string | null
  }
  /** Null if only the operator can add credits. */
  payments: { minimum_usd: number; maximum_usd: number; ach_hold_days: number } | null
}

/** GET …/billing/auto-top-up: when the saved card is charged, and how much. */
export type AutoTopUp = {
  /** Null if payments are not set up here: then the operator adds credits, and none of this can be changed. */
  limits: { minimum_usd: number; maximum_usd: number; maximum_month_usd: number } | null
  enabled: boolean
  threshold_usd: number
  amount_usd: number
  monthly_limit_usd: number
  /** The automatic top-ups of this UTC month, those in flight included. */
  spent_month_usd: number
  /** `expires`: "2031-03". */
  card: { brand: string; last4: string; expires: string } | null
  /** Whether a page at which a card is saved has been opened and has not ended. */
  saving_card: boolean
  /** Stripe's code of the failure that turned it off. */
  disabled_reason: string | null
  /** The earliest time of the next attempt, after one that failed. */
  retry_at: string | null
  last: { id: string; status: TopUpStatus; amount_usd: number; failure: string | null; created_at: string } | null
}

/** POST …/billing/card: the page at which a card is saved. */
export type StartedCard = { url: string }

/** POST …/top-ups: the checkout page. */
export type StartedTopUp = { id: string; url: string }

/** `processing`: an ACH debit that the bank has not confirmed. */
type TopUpStatus = 'open' | 'processing' | 'paid' | 'failed' | 'expired' | 'refunded'

/** GET …/top-ups/{id} */
export type TopUp = {
  id: string
  status: TopUpStatus
  amount_usd: number
  /** Amount returned by refunds and disputes. */
  returned_usd: number
  method: 'card' | 'ach' | null
  /** When an ACH payment becomes available. */
  available_at: string | null
  created_at: string
  /** The email of the person who started it; null if it was automatic. */
  created_by: string | null
  automatic: boolean
  /** Stripe's code, if an automatic one failed. */
  failure: string | null
}

/** GET …/top-ups */
export type TopUpsPage = { data: TopUp[]; has_more: boolean; last_id: string | null }

/** `excess`: what a provider charged for a request beyond its reservation. */
type LedgerKind = 'deposit' | 'charge' | 'excess' | 'refund' | 'adjustment'

export type LedgerLine = {
  /** Cursor of the next page. */
  id: string
  at: string
  kind: LedgerKind
  /** The event of a payment, if the entry is about one. */
  event: 'payment' | 'failed' | 'refund' | 'refund_undone' | 'dispute' | 'dispute_undone' | null
  amount_usd: number
  /** Number of charges in the entry. */
  entries: number
  key: { id: string; name: string } | null
  method: 'card' | 'ach' | 'grant' | null
  available_at: string | null
  /** The id of the generation, job, top-up or deposit of the entry. */
  reference: string | null
  note: string | null
  /** The closed month, such as "2026-10", that it was booked too late for. */
  late_from: string | null
  /** The balance after it; null in a list of one kind. */
  balance_usd: number | null
}

/** GET …/billing/ledger */
export type LedgerPage = { data: LedgerLine[]; has_more: boolean; last_id: string | null }

/** `id` is null for the rest, and for what belongs to no key or member. */
export type SubtotalLine = {
  id: string | null
  name: string | null
  is_rest: boolean
  amount_usd: number
  entries: number
}

/** GET …/billing/totals: opening balance + the sums by kind = closing balance. */
export type StatementTotals = {
  /** UTC days, both included. */
  from: string
  to: string
  currency: 'usd'
  opening_usd: number
  deposits_usd: number
  charges_usd: number
  excess_usd: number
  refunds_usd: number
  adjustments_usd: number
  closing_usd: number
  /** The part of these that was booked too late for the month it belongs to. */
  late_usd: number
  /** Two days after the end of the last month of the period. From then on, what belongs to it is dated in an open month. */
  closes_at: string
  closed: boolean
  /** All entries of each day. */
  days: SubtotalLine[]
  /** What work cost, with refunds, by key and by who created the key; the largest first. */
  keys: SubtotalLine[]
  members: SubtotalLine[]
}
