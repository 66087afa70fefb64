import type { Config } from '../base/config.ts'
import type { ChargedUsage, Metrics } from './metrics.ts'

/** Counts the lines of batches once they are charged. */
export function recordLines(metrics: Metrics, { discountsPpm }: Config): (events: readonly ChargedUsage[]) => void {
  const discountPpm = Number(discountsPpm.batch)
  return events => {
    for (const event of events) metrics.recordUsage(event, discountPpm)
  }
}
