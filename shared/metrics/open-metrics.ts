import type { Config } from '../base/config.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { Metrics } from './metrics.ts'

/** Creates the metrics of this process; null where they are off. Their package is loaded only otherwise. */
export async function openMetrics(config: Config, catalog: Catalog): Promise<Metrics | null> {
  if (!config.metrics) return null
  const { Metrics } = await import('./metrics.ts')
  return new Metrics({ catalog, ...config })
}
