import { tokenRates } from '../../../shared/catalog/prices.ts'
import { chargeNano, marginOf } from '../../../shared/chat/pricing.ts'
import type { Generation } from '../../../shared/generated/prisma/client.ts'
import { delayedKind } from '../../../shared/jobs/jobs.ts'
import { directKinds } from '../../../shared/kinds/index.ts'
import type { Services } from '../../../shared/services.ts'
import type { CostPart } from '../wire/requests.ts'

/**
 * What a request's tokens cost by class, and the margin on them. Null where today's prices do not come to what was charged
 * (they have changed, or it had tokens of classes that the log does not tell apart), and where nothing was.
 */
export function costParts({ catalog, config }: Services, row: Generation, isOfBatch: boolean): CostPart[] | null {
  const { kind, model, provider, promptTokens, completionTokens, cachedTokens } = row
  const direct = kind in directKinds ? (kind as keyof typeof directKinds) : kind === delayedKind ? 'chat' : null
  const deployment = catalog.models.get(model)?.providers.find(one => one.provider === provider)
  if (!direct || deployment?.price.unit !== 'token' || row.costNano === 0n) return null
  const usage = {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens },
  }
  const { '1h': hour, '6h': sixHours, batch } = config.discountsPpm
  const discounts = kind === delayedKind ? [hour, sixHours] : [isOfBatch ? batch : 0n]
  const margins = discounts.map(discountPpm => marginOf(config, direct, discountPpm))
  if (!margins.some(marginPpm => BigInt(chargeNano(deployment, usage, marginPpm)) === row.costNano)) return null
  const rates = tokenRates(deployment.price, promptTokens)
  const cached = Math.min(cachedTokens, promptTokens)
  const parts = [
    partOf('input', promptTokens - cached, rates.input),
    partOf('cached_input', cached, rates.cachedInput),
    partOf('output', completionTokens, rates.output),
  ].filter(({ tokens }) => tokens > 0)
  const providersUsd = parts.reduce((sum, { cost_usd }) => sum + cost_usd, 0)
  const marginUsd = Number(row.costNano) / 1e9 - providersUsd
  return [...parts, { part: 'margin', tokens: null, usd_per_million: null, cost_usd: rounded(marginUsd) }]
}

function partOf(part: CostPart['part'], tokens: number, picoPerToken: bigint) {
  return {
    part,
    tokens,
    usd_per_million: Number(picoPerToken) / 1e6,
    cost_usd: rounded((tokens * Number(picoPerToken)) / 1e12),
  }
}

/** Parts of a nano-dollar are shown too: what they add up to was rounded once. */
function rounded(usd: number): number {
  return Number(usd.toFixed(12))
}
