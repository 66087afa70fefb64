import { GatewayError } from '../base/errors.ts'
import { formatNames } from '../base/names.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { Policy } from './policy.ts'

type Resolved = { models: Catalog['models']; ids: ReadonlySet<string> }

/** Model ids by allowlist: an allowlist may name models by any of their slugs, and is resolved once per policy and catalog. */
const idsByAllowlist = new WeakMap<ReadonlySet<string>, Resolved>()

/** The ids of the models a key may use; null = all. */
export function allowedModels(catalog: Catalog, { allowlist }: Policy): ReadonlySet<string> | null {
  if (!allowlist) return null
  const { models } = catalog
  const resolved = idsByAllowlist.get(allowlist)
  if (resolved?.models === models) return resolved.ids
  const ids = new Set([...allowlist].map(slug => catalog.find(slug)?.id ?? slug))
  idsByAllowlist.set(allowlist, { models, ids })
  return ids
}

/** The 400 of a request for automatic model selection when the key's allowlist has no model of its kind. */
export function noAllowedModelError(allowlist: Iterable<string>): GatewayError {
  const message = `The allowlist of this key has no model that this request can be sent to. It has: ${formatNames([...allowlist])}.`
  return new GatewayError('invalid_request', message, { param: 'model' })
}
