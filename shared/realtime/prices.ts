import type { Catalog } from '../catalog/catalog.ts'
import { maxTokenRates } from '../catalog/prices.ts'
import type { Price } from '../catalog/schema.ts'
import { canPriceSession } from '../kinds/realtime.ts'
import type { Target } from '../providers/contract.ts'

type Host = Pick<Target, 'provider'>
/** A model of the catalog, and the provider's name of it. */
type Offer = { model: string; name: string; price: Price }

/**
 * The price of another model used within a session, by the provider's name of it: the catalog's price (dated names
 * match their model), else the provider's most expensive token price, so that no usage is undercharged.
 */
export function priceOf(catalog: Catalog, { provider, deployment }: Target, upstreamModel: string): Price {
  const named = findOffer(catalog, { provider }, upstreamModel)?.price
  return named ?? findHighestPrice(offersOf(catalog, { provider }).map(({ price }) => price)) ?? deployment.price
}

/** The catalog's model and price of another model used within a session; undefined where it has no price. */
export function findOffer(catalog: Catalog, host: Host, upstreamModel: string): Offer | undefined {
  return offersOf(catalog, host)
    .filter(({ name }) => isVersionOf(upstreamModel, name))
    .sort((a, b) => b.name.length - a.name.length)[0]
}

function offersOf(catalog: Catalog, { provider }: Host): Offer[] {
  return [...catalog.models.values()].flatMap(({ id, providers }) =>
    providers
      .filter(offer => offer.provider === provider.name && canPriceSession(offer.price))
      .map(({ upstream_model: name, price }) => ({ model: id, name, price })),
  )
}

const date = /^-(?:\d{4}(?:-?\d{2}-?\d{2})?|latest)$/

/** Whether a name is another one with a date. Any other ending may name a model with another price, such as `-pro`. */
function isVersionOf(upstreamModel: string, name: string): boolean {
  return upstreamModel === name || (upstreamModel.startsWith(name) && date.test(upstreamModel.slice(name.length)))
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
