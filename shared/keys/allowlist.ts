import { GatewayError } from '../base/errors.ts'
import { listNames } from '../base/names.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { Policy } from './policy.ts'

/** An allowlist may name models by any of their slugs; resolved once per policy. */
const resolved = new WeakMap<ReadonlySet<string>, ReadonlySet<string>>()

/** The ids of the models a key may use; null = all. */
export function allowedModels(catalog: Catalog, { allowlist }: Policy): ReadonlySet<string> | null {
  if (!allowlist) return null
  let ids = resolved.get(allowlist)
  if (!ids) {
    ids = new Set([...allowlist].map(slug => catalog.find(slug)?.id ?? slug))
    resolved.set(allowlist, ids)
  }
  return ids
}

/** The 400 of a request that leaves the choice of the model to us where the key's allowlist has none of its kind. */
export function noneAllowed(allowlist: Iterable<string>): GatewayError {
  const message = `The allowlist of this key has no model that this request can be sent to. It has: ${listNames([...allowlist])}.`
  return new GatewayError('invalid_request', message, { param: 'model' })
}
