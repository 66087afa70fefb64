/** Types shared by the pages that show keys and their routes. */

import type { z } from 'zod'
import type { keyPatch } from '../../../shared/keys/key-requests.ts'
import type { KeyRecord } from '../../../shared/keys/keys.ts'
import type { ContentLogging } from './contents.ts'

export type Environment = 'live' | 'test'
export type Mode = KeyRecord['mode']

/** The API's record of a key, with the dashboard's own fields. */
export type DashboardKey = KeyRecord & {
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

/** GET, PATCH and DELETE …/keys/{key}: the key's id, or the hash of its secret or of a replaced one. */
export type KeyAnswer = { data: DashboardKey }

/** POST …/keys and …/keys/{key}/roll: `key` is the secret, which is shown only once. */
export type KeySecretAnswer = { data: DashboardKey; key: string }

/** The body of PATCH; also of POST, with `environment` and without `disabled`. Null = no limit. */
export type KeyFields = z.input<typeof keyPatch> & { environment?: Environment }
