import { type Config, ConfigError } from '../base/config.ts'
import { type Catalog, CatalogError, loadCatalog } from './catalog.ts'

/** The catalog of the files that are configured. Throws a ConfigError. */
export function configuredCatalog(config: Config): Catalog {
  try {
    return loadCatalog(config.modelCatalog ?? undefined)
  } catch (error) {
    if (error instanceof CatalogError) throw new ConfigError(error.faults.map(fault => `MODEL_CATALOG: ${fault}`))
    throw error
  }
}
