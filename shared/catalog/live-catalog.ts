import type { Catalog, CatalogTarget } from './catalog.ts'
import type { ModelRow, ProviderRow } from './schema.ts'

/**
 * The current catalog of a process, which can be replaced while requests run. Each replacement has its own maps, which never
 * change: a decision that reads them sees one catalog, and a request that has chosen its targets keeps their prices. What is
 * derived from a catalog can be cached by the identity of its `models`.
 */
export class LiveCatalog implements Catalog {
  /** The catalog that the process started with: that of the files. */
  readonly initial: Catalog
  #current: Catalog
  /** The targets of the rows of former catalogs, for requests that still hold such a row. */
  readonly #formerTargets = new WeakMap<ModelRow, readonly CatalogTarget[]>()

  constructor(initial: Catalog) {
    this.initial = initial
    this.#current = initial
  }

  get models(): ReadonlyMap<string, ModelRow> {
    return this.#current.models
  }

  get providers(): ReadonlyMap<string, ProviderRow> {
    return this.#current.providers
  }

  get retired(): Catalog['retired'] {
    return this.#current.retired
  }

  find(slug: string): ModelRow | undefined {
    return this.#current.find(slug)
  }

  targets(model: ModelRow): readonly CatalogTarget[] {
    const targets = this.#current.targets(model)
    return targets.length > 0 ? targets : (this.#formerTargets.get(model) ?? targets)
  }

  replace(next: Catalog): void {
    for (const row of this.#current.models.values()) this.#formerTargets.set(row, this.#current.targets(row))
    this.#current = next
  }
}
