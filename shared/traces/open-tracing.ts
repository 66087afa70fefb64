import type { Proxies } from '../base/proxies.ts'
import type { TracingConfig } from '../base/telemetry-config.ts'
import type { Tracing } from './tracing.ts'

/** Opens tracing; null without a collector. The packages are loaded only then. */
export async function openTracing(config: TracingConfig | null, proxies: Proxies): Promise<Tracing | null> {
  if (!config) return null
  const { Tracing } = await import('./tracing.ts')
  return new Tracing(config, proxies)
}
