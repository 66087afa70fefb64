import type { ProviderRow } from '../catalog/schema.ts'
import type { Dispatcher } from '../io/http.ts'
import type { Identity } from './identities/identity.ts'

/**
 * An API key at a provider, or the gateway's identity there. `id` identifies it without revealing it, `label` tells people which
 * one it is: its position among those configured and its last characters; `origin` says where the operator configured it.
 * `secret` is what errors must not show.
 */
export type Credential = {
  id: string
  label: string
  origin: string
  readonly secret: string
  identity: Identity | null
  /** The project of Google Cloud that it belongs to, where that is part of the base URL. */
  project?: string
}

/** A configured provider: its connection pool, its base URL with its parts, and its API keys or its identity. */
export type Connection = {
  pool: Dispatcher
  /** The proxy of its requests; null = none. */
  proxy: string | null
  baseUrl: string
  origin: string
  prefix: string
  credentials: readonly Credential[]
  /** API keys that were replaced while the process runs: what they started is continued with them. */
  former: readonly Credential[]
  auth: ProviderRow['auth']
}

/**
 * The access of an organisation to a provider by its own keys. A target with one is called, priced, observed and limited apart from
 * the operator's target of the same model and provider.
 */
export type OwnAccount = {
  readonly connection: Connection
  /** See `ownKeyMarginPpm` in own-accounts.ts. */
  marginPpm: bigint
  /** The name of its concurrency limit for delayed work. */
  lane: string
  /** Calls so far, for the turn of its keys. */
  calls: number
}
