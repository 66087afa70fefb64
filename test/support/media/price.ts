import type { Price } from '../../../shared/catalog/schema.ts'

/** What something costs, reckoned apart from the product. */

/** What was used, by everything that models are priced by. */
export type Used = {
  input?: number
  imageInput?: number
  audioInput?: number
  output?: number
  imageOutput?: number
  audioOutput?: number
  pieces?: number
  characters?: number
  seconds?: number
  /** Options with a price of their own. */
  options?: string[]
}

const decimals = 12
const per = { million: 1_000_000n, minute: 60_000n, one: 1n }
type Part = [usd: string, amount: number, per: bigint]

/** Nano-dollars at this price and a margin of 5 %, rounded once. */
export function priceOf(price: Price, used: Used): number {
  const common = per.million * per.minute
  const sum = partsOf(price, used).reduce(
    (total, [usd, amount, each]) => total + (scaled(usd) * BigInt(amount) * common) / each,
    0n,
  )
  const nano = (sum * 105n) / 100n
  const unit = common * 10n ** BigInt(decimals - 9)
  return Number((nano + unit / 2n) / unit)
}

function partsOf(price: Price, { pieces = 0, characters = 0, seconds = 0, options = [], ...used }: Used): Part[] {
  switch (price.unit) {
    case 'token': {
      const { input, output, image_input, audio_input, image_output, audio_output } = price
      return [
        [input, used.input ?? 0, per.million],
        [image_input ?? input, used.imageInput ?? 0, per.million],
        [audio_input ?? input, used.audioInput ?? 0, per.million],
        [output, used.output ?? 0, per.million],
        [image_output ?? output, used.imageOutput ?? 0, per.million],
        [audio_output ?? output, used.audioOutput ?? 0, per.million],
      ]
    }
    case 'character':
      return [[price.usd, characters, per.million]]
    case 'minute':
      return [price.usd, ...options.map(option => price.added_by_option![option]!)].map(usd => [
        usd,
        Math.round(Math.max(seconds, price.min_seconds ?? 0) * 1_000),
        per.minute,
      ])
    case 'image':
    case 'flat':
      return [[price.usd, pieces, per.one]]
    default:
      throw new Error(`the tests know no price per ${price.unit}`)
  }
}

function scaled(usd: string): bigint {
  const [whole = '', fraction = ''] = usd.split('.')
  return BigInt(whole + fraction.padEnd(decimals, '0'))
}
