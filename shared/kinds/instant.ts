import type { z } from 'zod'
import type { IdPrefix } from '../base/ids.ts'
import { nanoFromPico, picoPerUnit, withMargin } from '../base/money.ts'
import type { Usage } from '../base/usage.ts'
import { lengthCost, tokenCost } from '../catalog/prices.ts'
import type { ModelRow, Price } from '../catalog/schema.ts'
import type { ReferenceField, References } from './media.ts'

/** What the kinds of media that are made while the caller waits have in common. */

/** What a call uses, by everything that models are priced by: tokens, images or songs, characters, seconds. */
export type Quantity = {
  usage: Usage
  pieces: number
  /** The size that each piece has, where prices depend on it. */
  size: string | null
  characters: number
  seconds: number
  /** Options of the request that may have a price of their own. */
  options: readonly string[]
}

export const nothingUsed: Usage = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }
export const noQuantity: Quantity = {
  usage: nothingUsed,
  pieces: 0,
  size: null,
  characters: 0,
  seconds: 0,
  options: [],
}

/** One kind of media that is waited for. Pure: everything alive is handed in. */
export type InstantKindRow<Request, Input> = {
  idPrefix: IdPrefix
  path: string
  type: ModelRow['type']
  /** Validates the route's body; the OpenAPI document is made from it. */
  request: z.ZodType<Request>
  /** Every URL in the body. */
  references(request: Request): ReferenceField[]
  /**
   * The body as one model takes it, its defaults filled in. Throws a GatewayError 400 naming the field the model cannot
   * take. Called before the references are there (`references` null) to choose a model, and again with them.
   */
  input(request: Request, model: ModelRow, references: References | null): Input
  /** The most that this input can use: what is reserved is made from it. */
  most(input: Input, model: ModelRow): Quantity
}

/** What a quantity costs, in nano-dollars with margin, rounded once. Throws for a price that these kinds do not have. */
export function priceNano(price: Price, quantity: Quantity, marginPpm: bigint): bigint {
  return nanoFromPico(withMargin(picoOf(price, quantity), marginPpm))
}

function picoOf(price: Price, { usage, pieces, size, characters, seconds, options }: Quantity): bigint {
  // A length counts to the millisecond, rounded up.
  const ms = BigInt(Math.ceil(Math.round(seconds * 1e6) / 1e3))
  switch (price.unit) {
    case 'token':
      return tokenCost(price, usage)
    case 'character':
      return picoPerUnit(price.usd, 1_000_000) * BigInt(characters)
    case 'image':
      return picoPerUnit((size && price.by_size?.[size]) || price.usd) * BigInt(pieces)
    case 'flat':
      return picoPerUnit(price.usd) * BigInt(pieces)
    case 'second':
      return lengthCost(price, ms)
    case 'minute': {
      const added = options.map(option =>
        lengthCost({ unit: 'minute', usd: price.added_by_option?.[option] ?? '0' }, ms),
      )
      return added.reduce((sum, pico) => sum + pico, lengthCost(price, ms))
    }
    case 'credit':
      throw new Error('media that is waited for has no invoice')
  }
}

/** The number of a text's characters, as providers count them: Unicode code points. */
export function charactersOf(text: string): number {
  let count = 0
  for (const _ of text) count++
  return count
}
