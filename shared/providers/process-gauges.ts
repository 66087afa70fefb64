import type { Catalog } from '../catalog/catalog.ts'
import { definitions } from '../metrics/definitions.ts'
import type { Metrics } from '../metrics/metrics.ts'
import type { Health } from './health.ts'

type Measured = {
  admission: { readonly reservedNano: number }
  health: Health
  keepAlive: { readonly size: number }
  clockSkew: { readonly skewMs: number }
  catalog: Catalog
}

/** Adds the gauges of what a process holds in memory. */
export function addProcessGauges(
  metrics: Metrics,
  { admission, health, keepAlive, catalog, clockSkew }: Measured,
): void {
  metrics.addGauge(definitions.reservedUsd, () => admission.reservedNano / 1e9)
  metrics.addGauge(definitions.openStreams, () => keepAlive.size)
  metrics.addGauge(definitions.clockSkew, () => Math.abs(clockSkew.skewMs) / 1_000)
  metrics.add(definitions.circuitOpen, () =>
    Array.from(metrics.calledTargets(), labels => {
      const model = catalog.models.get(labels.model)
      const row = model && catalog.targets(model).find(({ provider }) => provider.name === labels.provider)
      const isOpen = row && health.figures({ model, ...row }).circuit !== 'closed'
      return { labels, value: isOpen ? 1 : 0 }
    }),
  )
}
