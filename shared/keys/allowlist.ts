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
