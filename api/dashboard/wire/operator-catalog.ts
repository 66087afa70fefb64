import type { OverrideFault, ServerOverride } from '../../../shared/catalog/overrides.ts'
import type { Price } from '../../../shared/catalog/schema.ts'

/** Types shared by the operators' pages of the catalog and their routes. */

export type { Price } from '../../../shared/catalog/schema.ts'

export type CatalogOffer = {
  provider: string
  configured: boolean
  upstream_model: string
  /** In USD, without the margin. */
  price: Price
  /** The price of the files, where it was changed; null = not changed. */
  file_price: Price | null
}

export type OperatorModel = {
  id: string
  name: string
  type: string
  disabled: boolean
  /** Whether `disabled` was changed at run time. */
  state_changed: boolean
  /** The names that were added at run time. */
  aliases: string[]
  /** The aliases whose requests it shares with other models. */
  shared_aliases: { name: string; arms: { model: string; percent: number }[] }[]
  /** The server that was added at run time, if it is one of its models. */
  server: string | null
  offers: CatalogOffer[]
}

/** GET /dashboard/api/operator/models */
export type OperatorModels = { data: OperatorModel[]; faults: OverrideFault[] }

export type OperatorServer = ServerOverride & {
  name: string
  /** The last characters of its API key; null = it needs none. */
  api_key_last4: string | null
  updated_by: string
  updated_at: string
  /** Why it has no effect; null = it has. */
  fault: string | null
}

/** GET /dashboard/api/operator/servers */
export type OperatorServers = { data: OperatorServer[] }

/** POST /dashboard/api/operator/server-tests */
export type ServerTest = { models: string[]; has_more: boolean }
