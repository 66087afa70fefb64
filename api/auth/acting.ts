import type { KeyFate } from '../../shared/keys/departures.ts'
import type { Budget } from './budgets.ts'

/** What a request is known by while the accounts' library handles it: its hooks see no more than parts of it. */
export type Acting = {
  headers: Headers
  /** The body or query, as its route takes it. */
  taken: Record<string, unknown>
  /** The name that an organisation had before this request. */
  formerName?: string
  /** What this attempt to prove who somebody is was counted in; given back unless it was `wrong`. */
  attempt?: readonly Budget[]
  wrong?: boolean
  /** Under what its code is noted as used; forgotten when it signed nobody in. */
  usedCode?: string
  /** Whose password this request has replaced. */
  resetUserId?: string
  /** What became of the keys of a member whom this request removes. */
  keys?: { fate: KeyFate; settled: number }
  /** True where this request confirms an authenticator app that was not in use before. */
  confirmsApp?: boolean
}
