import { loadCatalog } from '../../../shared/catalog/catalog.ts'
import type { Statement } from './upstream.ts'

/** The default of SERVICE_MARGIN_PERCENT, 5 %. */
const margin = 1.05
const perMillion = 1e6

/** What the tokens that a provider stated cost a user, in USD, by the prices of the catalog. */
export function costOf({ provider, model, usage }: Statement): number {
  const targets = [...loadCatalog().models.values()].flatMap(({ providers }) => providers)
  const target = targets.find(one => one.provider === provider && one.upstream_model === model)
  const prices = target?.price as Partial<Record<string, string>> | undefined
  if (!prices || !usage) throw new Error(`no price for ${model} of ${provider}`)
  const costs = Object.entries(usage).map(([name, tokens]) => (tokens > 0 ? tokens * Number(prices[name]) : 0))
  return (costs.reduce((sum, cost) => sum + cost, 0) / perMillion) * margin
}
