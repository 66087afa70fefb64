import type { Role } from './person.ts'

/** Types shared by the Members page and its route. */

export type Member = {
  /** The id of the membership, and that of the person. */
  id: string
  user_id: string
  name: string
  email: string
  role: Role
  joined_at: string
  /** API keys that they created and that can be used. */
  keys: number
  /** What all API keys that they created spent this month. */
  spend_month_usd: number
  /** What only admins see; null for others. */
  account: MemberAccount | null
}

type MemberAccount = {
  /** When they last used the dashboard in this organisation; null before the first time. */
  last_active_at: string | null
  /** Whether they sign in with two factors, or without a password of this service. */
  two_factor: boolean
}

/** GET /dashboard/api/organisations/{organisation}/members: oldest first. */
export type MembersAnswer = { data: Member[] }

/** A bound on the spend per UTC month: of the whole organisation (scope `organisation`), or of the keys that a member created. */
export type Budget = {
  scope: string
  limit_usd: number
  /** Whether requests that do not fit are refused. */
  blocks: boolean
  alert_percents: number[]
  spent_month_usd: number
  created_at: string
  updated_at: string
}

/** GET …/budgets */
export type BudgetsAnswer = { data: Budget[] }
