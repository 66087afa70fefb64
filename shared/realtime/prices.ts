import type { Catalog } from '../catalog/catalog.ts'
import { maxTokenRates } from '../catalog/prices.ts'
import type { Price } from '../catalog/schema.ts'
import { paysSessions } from '../kinds/realtime.ts'
import type { Target } from '../providers/contract.ts'

/**
 * The price of another model that a session drew in, by the provider's name of it: that of the catalog, where dated names
 * have their family's, else the dearest that the provider has by the token, so that nothing is given away.
 */
export function priceOf(catalog: Catalog, { provider, deployment }: Target, upstreamModel: string): Price {
  const offers = [...catalog.models.values()]
    .flatMap(model => model.providers)
    .filter(offer => offer.provider === provider.name && paysSessions(offer.price))
  const named = offers
    .filter(({ upstream_model: name }) => upstreamModel === name || upstreamModel.startsWith(`${name}-`))
    .sort((a, b) => b.upstream_model.length - a.upstream_model.length)
  return named[0]?.price ?? dearest(offers.map(({ price }) => price)) ?? deployment.price
}

function dearest(prices: Price[]): Price | undefined {
  const rate = (price: Price) => {
    if (price.unit !== 'token') return -1n
    const { input, output } = maxTokenRates(price)
    return input + output
  }
  const [first] = prices.sort((a, b) => (rate(a) > rate(b) ? -1 : 1))
  return first?.unit === 'token' ? first : undefined
}
