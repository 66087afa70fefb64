import type { DashboardKey } from '../../../wire/keys.ts'
import { ago } from '../../format.ts'

const dayMs = 86_400_000
const soonMs = 14 * dayMs
const unusedMs = 60 * dayMs

/** The state of a key, as a badge has it, and what to know about it. */
export type KeyState = {
  value: 'active' | 'disabled' | 'blocked' | 'revoked' | 'expired' | 'cap_reached' | 'cap_nearly_reached'
  note: string | null
}

/** Unlike the API, the dashboard distinguishes disabled and blocked from revoked keys, and keys at their cap from active ones. */
export function stateOf(key: DashboardKey, nowMs = Date.now()): KeyState {
  if (key.status_reason === 'blocked') return { value: 'blocked', note: 'exceeded its reservations' }
  if (key.disabled) return { value: 'disabled', note: null }
  if (key.status !== 'active') return { value: key.status as 'revoked' | 'expired', note: null }
  const { monthly_spend_cap_usd: cap, spend_month_usd: spent, expires_at: expiry, last_used_at: used } = key
  if (cap !== null && spent >= cap) return { value: 'cap_reached', note: `until ${nextMonth(nowMs)}` }
  if (key.cap_refused_at !== null)
    return { value: 'cap_nearly_reached', note: `refused a request ${ago(key.cap_refused_at, nowMs)}` }
  if (expiry !== null && Date.parse(expiry) < nowMs + soonMs)
    return { value: 'active', note: `expires ${ago(expiry, nowMs)}` }
  if (key.previous_secret_valid_until !== null)
    return { value: 'active', note: `old secret stops ${ago(key.previous_secret_valid_until, nowMs)}` }
  const idleSince = Date.parse(used ?? key.created_at)
  if (nowMs - idleSince > unusedMs)
    return {
      value: 'active',
      note: used === null ? 'never used' : `unused for ${Math.floor((nowMs - idleSince) / dayMs)} days`,
    }
  return { value: 'active', note: null }
}

/** The first day of the next UTC month: "1 Dec". */
function nextMonth(nowMs: number): string {
  const now = new Date(nowMs)
  const first = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1))
  return first.toLocaleDateString('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' })
}
