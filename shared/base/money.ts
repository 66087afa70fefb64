/**
 * Money is held in integers that are only ever added. Amounts are nano-dollars (1 USD = 10⁹), prices are pico-dollars
 * per unit (10⁻¹² USD per token, image, second …), both bigint. All conversions are in this file.
 */

export type Nano = bigint
export type PicoPerUnit = bigint

const decimal = /^(-?)(\d+)(?:\.(\d+))?$/

/**
 * Parses a decimal string into an integer scaled by 10^digits. Throws a RangeError for malformed text or lost digits.
 */
function scaled(text: string, digits: number): bigint {
  const [, sign, whole, fraction = ''] = decimal.exec(text) ?? []
  if (whole === undefined) throw new RangeError(`not a decimal number: ${text}`)
  if (/[1-9]/.test(fraction.slice(digits))) throw new RangeError(`more than ${digits} decimals: ${text}`)
  const value = BigInt(whole + fraction.slice(0, digits).padEnd(digits, '0'))
  return sign ? -value : value
}

/** USD as a decimal string or a JSON number → nano-dollars. A number is rounded to 9 decimals, a string must be exact. */
export function nanoFromUsd(usd: string | number): Nano {
  return scaled(typeof usd === 'number' ? usd.toFixed(9) : usd, 9)
}

/** Nano-dollars → USD as a JSON number (rounded to 9 decimals). */
export function usdFromNano(nano: Nano): number {
  return Number(nano) / 1e9
}

/** Nano-dollars → USD as an exact decimal string with nine decimals. */
export function formatUsd(nano: Nano): string {
  const digits = (nano < 0n ? -nano : nano).toString().padStart(10, '0')
  return `${nano < 0n ? '-' : ''}${digits.slice(0, -9)}.${digits.slice(-9)}`
}

const cents = 10_000_000n

/** Nano-dollars → whole cents for people, rounded half away from zero: "$1,234.50", "-$3.00". */
export function formatCents(nano: Nano): string {
  const size = nano < 0n ? -nano : nano
  const rounded = (size + cents / 2n) / cents
  const whole = (rounded / 100n).toString().replace(/\B(?=(\d{3})+$)/g, ',')
  return `${nano < 0n && rounded > 0n ? '-' : ''}$${whole}.${(rounded % 100n).toString().padStart(2, '0')}`
}

/** Cents, as payment providers count → nano-dollars. Throws a RangeError if it is not an integer. */
export function nanoFromCents(cents: number): Nano {
  return BigInt(cents) * 10_000_000n
}

/** Nano-dollars → whole cents, rounded towards zero. */
export function centsFromNano(nano: Nano): number {
  return Number(nano / cents)
}

/** A price in USD per `per` units (1 = per unit, 1_000_000 = per million) → pico-dollars per unit. Throws when finer than a pico-dollar. */
export function picoPerUnit(usd: string, per: 1 | 1_000_000 = 1): PicoPerUnit {
  return scaled(usd, per === 1 ? 12 : 6)
}

/** Pico-dollars per unit → USD per unit as a decimal string without an exponent. */
export function usdPerUnit(pico: PicoPerUnit): string {
  const text = pico.toString().padStart(13, '0')
  return `${text.slice(0, -12)}.${text.slice(-12)}`.replace(/\.?0+$/, '')
}

/** Pico-dollars → nano-dollars, rounded half up. The only function that rounds a cost. */
export function nanoFromPico(pico: bigint): Nano {
  return (pico + 500n) / 1000n
}

/** Pico-dollars → nano-dollars, rounded up: for reservations. */
export function nanoCeilFromPico(pico: bigint): Nano {
  return (pico + 999n) / 1000n
}

/** Adds a surcharge in parts per million (5 % = 50_000), rounded up. */
export function withMargin(pico: bigint, marginPpm: bigint): bigint {
  return (pico * (1_000_000n + marginPpm) + 999_999n) / 1_000_000n
}

/** A percentage given as a decimal string ("2.5") → parts per million. */
export function ppmFromPercent(percent: string): bigint {
  return scaled(percent, 4)
}
