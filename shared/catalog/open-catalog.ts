import { type Config, ConfigError } from '../base/config.ts'
import { type Catalog, CatalogError, loadCatalog } from './catalog.ts'

/** The catalog of this configuration. Throws a ConfigError if the operator's file is invalid. */
export function openCatalog(config: Config): Catalog {
  try {
    return loadCatalog(config.modelCatalog ?? undefined, config.providers)
  } catch (error) {
    if (error instanceof CatalogError)
      throw new ConfigError(error.faults.map(fault => (variableFault.test(fault) ? fault : `MODEL_CATALOG: ${fault}`)))
    throw error
  }
}

/** A fault of a variable, not of a row of a file. */
const variableFault = /^[A-Z][A-Z0-9_]*(:| is not set)/
