import type { Catalog } from '../catalog/catalog.ts'
import { maxTokenRates } from '../catalog/prices.ts'
import type { Price } from '../catalog/schema.ts'
import { canPriceSession } from '../kinds/realtime.ts'
import type { Target } from '../providers/contract.ts'

/**
 * The price of another model used within a session, by the provider's name of it: the catalog's price (dated names
 * match their family), else the provider's most expensive token price, so that no usage is undercharged.
 */
export function priceOf(catalog: Catalog, { provider, deployment }: Target, upstreamModel: string): Price {
  const offers = [...catalog.models.values()]
    .flatMap(model => model.providers)
    .filter(offer => offer.provider === provider.name && canPriceSession(offer.price))
  const named = offers
    .filter(({ upstream_model: name }) => upstreamModel === name || upstreamModel.startsWith(`${name}-`))
    .sort((a, b) => b.upstream_model.length - a.upstream_model.length)
  return named[0]?.price ?? findHighestPrice(offers.map(({ price }) => price)) ?? deployment.price
}

function findHighestPrice(prices: Price[]): Price | undefined {
  const rate = (price: Price) => {
    if (price.unit !== 'token') return -1n
    const { input, output } = maxTokenRates(price)
    return input + output
  }
  const [first] = prices.sort((a, b) => (rate(a) > rate(b) ? -1 : 1))
  return first?.unit === 'token' ? first : undefined
}
