import type { Catalog } from '../catalog/catalog.ts'
import type { ModelRow } from '../catalog/schema.ts'
import { type DirectKind, isConversation } from '../kinds/index.ts'
import type { ModelSelector, Sort } from './options.ts'

const suffixes: readonly [suffix: string, sort: Sort][] = [
  [':floor', 'price'],
  [':nitro', 'speed'],
]

/**
 * Parses the `model` of a request: a model id or `auto`, optionally with a suffix. An exact model id takes precedence
 * over a suffix.
 */
export function parseModelSelector(catalog: Catalog, slug: string, kind: DirectKind): ModelSelector {
  const model = catalog.find(slug) ?? null
  const auto = isConversation(kind)
  if (model || slug === 'auto') return { slug, auto: !model && auto, model, sort: 'score' }
  for (const [suffix, sort] of suffixes) {
    if (!slug.endsWith(suffix)) continue
    const base = slug.slice(0, -suffix.length)
    return { slug, auto: auto && base === 'auto', model: catalog.find(base) ?? null, sort }
  }
  return { slug, auto: false, model: null, sort: 'score' }
}

/** Whether a kind's route serves a model. */
export function serves(model: ModelRow, kind: DirectKind): boolean {
  if (kind === 'embedding') return model.type === 'embeddings'
  if (isConversation(kind)) return model.type === 'chat' && !model.endpoint
  return model.type === 'chat'
}
