import type { z } from 'zod'
import type { IdPrefix } from '../base/ids.ts'
import { nanoFromPico, picoPerUnit, withMargin } from '../base/money.ts'
import type { Usage } from '../base/usage.ts'
import { lengthCost, tokenCost } from '../catalog/prices.ts'
import type { ModelRow, Price } from '../catalog/schema.ts'
import type { ReferenceField, References } from './media.ts'

/** Shared parts of the synchronous media kinds. */

/** The quantities used by a call, one per price unit: tokens, images, songs or pages, characters, seconds. */
export type Quantity = {
  usage: Usage
  pieces: number
  /** The pages of a document that are also annotated, which are priced separately. */
  annotatedPages: number
  /** The size of each piece, if prices depend on it. */
  size: string | null
  characters: number
  seconds: number
  /** Options of the request that may be priced separately. */
  options: readonly string[]
}

const zeroUsage: Usage = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }
export const zeroQuantity: Quantity = {
  usage: zeroUsage,
  pieces: 0,
  annotatedPages: 0,
  size: null,
  characters: 0,
  seconds: 0,
  options: [],
}

/** A synchronous media kind. Pure: dependencies are passed in. */
export type SyncKindRow<Request, Input> = {
  idPrefix: IdPrefix
  path: string
  /** The route that lists its models. */
  modelsPath: string
  type: ModelRow['type']
  /** Validates the route's body; also the source of the OpenAPI document. */
  request: z.ZodType<Request>
  /** Every URL in the body. */
  references(request: Request): ReferenceField[]
  /**
   * Converts the body to one model's input, with defaults applied. Throws a GatewayError 400 naming the field the model
   * does not support. Called without references (`references` null) to choose a model, and again with them.
   */
  input(request: Request, model: ModelRow, references: References | null): Input
  /** The fields of the request that have no effect on this model and are not sent: named in `x-gateway-dropped`. */
  fieldsWithoutEffect?(request: Request, model: ModelRow): string[]
  /** The fields whose value is changed to one that this model has: named in `x-gateway-adjusted`. */
  adjustedFields?(request: Request, model: ModelRow): string[]
  /** The maximum quantities of this input, from which the reservation is computed. */
  maxQuantity(input: Input, model: ModelRow): Quantity
}

/**
 * Prices a quantity, in nano-dollars with margin, rounded once. Throws for a price unit that these kinds do not have.
 */
export function priceNano(price: Price, quantity: Quantity, marginPpm: bigint): bigint {
  return nanoFromPico(withMargin(picoOf(price, quantity), marginPpm))
}

function picoOf(price: Price, quantity: Quantity): bigint {
  const { usage, pieces, annotatedPages, size, characters, seconds, options } = quantity
  // Durations are billed in milliseconds, rounded up.
  const ms = BigInt(Math.ceil(Math.round(seconds * 1e6) / 1e3))
  switch (price.unit) {
    case 'token':
      return tokenCost(price, usage)
    case 'character':
      return picoPerUnit(price.usd, 1_000_000) * BigInt(characters)
    case 'image':
      return picoPerUnit((size && price.by_size?.[size]) || price.usd) * BigInt(pieces)
    case 'page':
      return picoPerUnit(price.usd) * BigInt(pieces) + picoPerUnit(price.annotated ?? '0') * BigInt(annotatedPages)
    case 'flat':
      return picoPerUnit(price.usd) * BigInt(pieces)
    case 'second':
      return lengthCost(price, ms)
    case 'minute': {
      const minMs = BigInt(price.min_seconds ?? 0) * 1_000n
      // What gave no result has no length, and is free.
      const billedMs = ms > 0n && ms < minMs ? minMs : ms
      const added = options.map(option =>
        lengthCost({ unit: 'minute', usd: price.added_by_option?.[option] ?? '0' }, billedMs),
      )
      return added.reduce((sum, pico) => sum + pico, lengthCost(price, billedMs))
    }
    case 'credit':
      throw new Error('price unit `credit` is not supported for synchronous media')
  }
}

/** Counts the characters of a text as providers do: in Unicode code points. */
export function charactersOf(text: string): number {
  let count = 0
  for (const _ of text) count++
  return count
}
