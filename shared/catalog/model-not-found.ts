import { GatewayError } from '../base/errors.ts'
import { nearestName } from '../base/near-misses.ts'
import type { Catalog } from './catalog.ts'
import { endpoints, type ModelRow } from './schema.ts'

/** Shorter names resemble too many others. */
const minLength = 4

type UnknownModel = {
  /** The name in the request. */
  slug: string
  /** The model of that name, which the route does not serve; null if there is none. */
  model: ModelRow | null
  /** The path that lists the models of the route. */
  list: string
  /** Whether the route serves a model. */
  serves(model: ModelRow): boolean
  /** Whether to look for a similar name, which takes up to half a millisecond. */
  suggests: boolean
}

/**
 * The 404 of a name that no model of a route has. It names the route of the model, what replaces a retired name, or the
 * most similar name.
 */
export function modelNotFoundError(
  catalog: Catalog,
  { slug, model, list, serves, suggests }: UnknownModel,
): GatewayError {
  const isElsewhere = model !== null && !model.disabled && !serves(model)
  const replaced = isElsewhere ? null : replacementNote(catalog, slug)
  const isSought = suggests && !isElsewhere && replaced === null
  const similar = isSought ? nearestName(slug.toLowerCase(), namesOf(catalog, serves), minLength) : null
  const what = isElsewhere
    ? `\`${slug}\` is a model of ${endpointOf(model)}, not of this route.`
    : (replaced ?? `There is no model \`${slug}\` on this route.${similar ? ` Did you mean \`${similar}\`?` : ''}`)
  return new GatewayError('model_not_found', `${what} GET ${list} lists what there is.`, { param: 'model' })
}

/** What to use instead of a retired name, with its vendor or without; null for all others. */
export function replacementNote({ retired, models }: Catalog, slug: string): string | null {
  const name = slug.toLowerCase()
  const entry = retired.get(name) ?? retired.get(name.slice(name.indexOf('/') + 1))
  if (!entry) return null
  const { retired_on: day, replaced_by: id } = entry
  const what = day === null ? `\`${slug}\` is not offered here.` : `\`${slug}\` was retired on ${day}.`
  return models.get(id)?.disabled === false ? `${what} Use \`${id}\` instead.` : what
}

/** The path of the route that serves a model. */
export function endpointOf({ endpoint, type }: ModelRow): string {
  return endpoint ?? endpoints[type]
}

/** The ids and aliases of the enabled models of a route. */
function* namesOf(catalog: Catalog, serves: (model: ModelRow) => boolean): Generator<string> {
  for (const model of catalog.models.values()) {
    if (model.disabled || !serves(model)) continue
    yield model.id
    yield* model.aliases
  }
}
