import type { RemovedMemberKeyAction } from '../../shared/keys/removed-member-keys.ts'
import type { Budget } from './budgets.ts'

/** Context of a request while the accounts library handles it, since its hooks see only parts of the request. */
export type AuthRequest = {
  headers: Headers
  /** The body or query, as the route's schema parsed it. */
  input: Record<string, unknown>
  /** The organisation's name before this request. */
  formerName?: string
  /** The budgets that counted this sign-in attempt; refunded unless the attempt was `wrong`. */
  attempt?: readonly Budget[]
  wrong?: boolean
  /** The key that marks its code as used; deleted when the sign-in fails. */
  usedCode?: string
  /** The person whose password this request replaced. */
  resetUserId?: string
  /** How the keys of the member whom this request removes were settled. */
  keys?: { action: RemovedMemberKeyAction; settled: number }
  /** True if this request confirms an authenticator app that was not yet in use. */
  confirmsApp?: boolean
}
