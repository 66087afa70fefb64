import { z } from 'zod'
import { isRawNumber } from '../base/exact-numbers.ts'

const maxSeed = 2n ** 63n - 1n

/** OpenAI's is an integer of 64 bits, which may be a raw number (`isRawNumber`). */
export const seed = z
  .custom<number>(value => {
    if (!isRawNumber(value)) return Number.isInteger(value) && Math.abs(value as number) < Number(maxSeed)
    const digits = JSON.stringify(value)
    return /^-?\d{16,19}$/.test(digits) && BigInt(digits) <= maxSeed && BigInt(digits) >= -maxSeed - 1n
  }, 'must be a whole number of 64 bits.')
  .meta({ type: 'integer', format: 'int64' })
