/** What the pages that show keys and their routes tell each other. */

export type Environment = 'live' | 'test'
export type Mode = 'cost' | 'balanced' | 'quality'

/** A key as the API's record has it, and what the dashboard adds. */
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
  expires_at: string | null
  prefix: string
  last4: string
  /** active, revoked or expired; a disabled key is called revoked, as the API has it. */
  status: string
  spend_month_usd: number
  created_at: string
  updated_at: string
  last_used_at: string | null
  /** The same through every roll. */
  id: string
  /** Switched off, and not for good. */
  disabled: boolean
  /** Who made it, as far as it was a person. */
  created_by: string | null
  mine: boolean
  /** Whether the person who asks may change, roll and revoke it. */
  may_manage: boolean
}

/** GET /dashboard/api/organisations/{organisation}/keys */
export type KeysAnswer = { data: DashboardKey[]; has_more: boolean; last_id: string | null }

/** GET, PATCH and DELETE …/keys/{hash} */
export type KeyAnswer = { data: DashboardKey }

/** POST …/keys and …/keys/{hash}/roll: `key` is the secret, which appears only here. */
export type KeySecretAnswer = { data: DashboardKey; key: string }

/** The body of PATCH; of POST too, with `environment` and without `disabled`. Null = no limit. */
export type KeyFields = {
  name?: string
  mode?: Mode
  rpm_limit?: number | null
  tpm_limit?: number | null
  monthly_spend_cap_usd?: number | null
  model_allowlist?: string[] | null
  scopes?: string
  expires_at?: string | null
  disabled?: boolean
  environment?: Environment
}
