/** Types shared by the pages that show keys and their routes. */

import type { ContentLogging } from './contents.ts'

export type Environment = 'live' | 'test'
export type Mode = 'cost' | 'balanced' | 'quality'

/** The API's record of a key, with the dashboard's own fields. */
export type DashboardKey = {
  hash: string
  name: string
  environment: Environment
  mode: Mode
  rpm_limit: number | null
  tpm_limit: number | null
  monthly_spend_cap_usd: number | null
  /** Null = all models. */
  model_allowlist: string[] | null
  scopes: string
  /** Whether feedback moves what `auto` chooses. */
  learning: boolean
  expires_at: string | null
  prefix: string
  last4: string
  /** active, revoked or expired; a disabled key is reported as revoked, as in the API. */
  status: string
  /** Of status `revoked`: revoked for good, disabled by a person, or blocked by the service because of its costs. */
  status_reason: 'revoked' | 'disabled' | 'blocked' | null
  spend_month_usd: number
  created_at: string
  updated_at: string
  last_used_at: string | null
  /** The last characters of the secret that the last roll replaced, while it still works, and when it stops. */
  previous_secret_last4: string | null
  previous_secret_valid_until: string | null
  /** Unchanged by rolling the key. */
  id: string
  /** Disabled or blocked, which can be undone. */
  disabled: boolean
  /** The creator, if it was a person. */
  created_by: string | null
  mine: boolean
  /** When the cap last refused a request: within the last hour, since the last change, and with half of the cap spent. */
  cap_refused_at: string | null
  /** The share of this month's prompt tokens that providers read from their caches; null without prompt tokens. */
  cache_hit_share: number | null
  /** Which input and output is logged; null = as the organisation says. */
  content_logging: ContentLogging | null
  /** Whether the viewer may update, roll and revoke it. */
  may_manage: boolean
}

/** GET /dashboard/api/organisations/{organisation}/keys */
export type KeysAnswer = { data: DashboardKey[]; has_more: boolean; last_id: string | null }

/** GET, PATCH and DELETE …/keys/{hash} */
export type KeyAnswer = { data: DashboardKey }

/** POST …/keys and …/keys/{hash}/roll: `key` is the secret, which is shown only once. */
export type KeySecretAnswer = { data: DashboardKey; key: string }

/** The body of PATCH; also of POST, with `environment` and without `disabled`. Null = no limit. */
export type KeyFields = {
  name?: string
  mode?: Mode
  rpm_limit?: number | null
  tpm_limit?: number | null
  monthly_spend_cap_usd?: number | null
  model_allowlist?: string[] | null
  scopes?: string
  learning?: boolean
  expires_at?: string | null
  disabled?: boolean
  environment?: Environment
}
