/** The value below which a share `q` (0 to 1) of the numbers lies; NaN when there are none. */
export function quantile(sorted: ArrayLike<number>, q: number): number {
  const at = Math.ceil(q * sorted.length) - 1
  return sorted[Math.min(sorted.length - 1, Math.max(0, at))] ?? NaN
}

export type Spread = { median: number; min: number; max: number }

/** Median and range of the repeated rounds of one figure. */
export function spread(values: number[]): Spread {
  const sorted = Float64Array.from(values).sort()
  const middle = sorted.length / 2
  const median = Number.isInteger(middle) ? (sorted[middle - 1]! + sorted[middle]!) / 2 : sorted[Math.floor(middle)]!
  return { median, min: sorted[0] ?? NaN, max: sorted.at(-1) ?? NaN }
}

/** Median and quartiles of the repeated rounds of one figure, each between the two values next to it; NaN when there are none. */
export function quartiles(values: number[]): { median: number; lower: number; upper: number } {
  const sorted = Float64Array.from(values).sort()
  const at = (q: number) => {
    const place = q * (sorted.length - 1)
    const below = sorted[Math.floor(place)] ?? NaN
    return below + ((sorted[Math.ceil(place)] ?? NaN) - below) * (place % 1)
  }
  return { median: at(0.5), lower: at(0.25), upper: at(0.75) }
}

/** A growing list of numbers that allocates nothing per value. */
export class Samples {
  #values = new Float64Array(1 << 16)
  count = 0

  push(value: number): void {
    if (this.count === this.#values.length) {
      const larger = new Float64Array(this.count * 2)
      larger.set(this.#values)
      this.#values = larger
    }
    this.#values[this.count++] = value
  }

  quantiles(): { p50: number; p99: number; max: number } {
    const sorted = this.#values.slice(0, this.count).sort()
    return { p50: quantile(sorted, 0.5), p99: quantile(sorted, 0.99), max: sorted.at(-1) ?? NaN }
  }
}
