/** Round values from 0 to at least `max`, about four of them. `isWhole`: no fractions. */
export function ticksUpTo(max: number, isWhole: boolean): number[] {
  if (!(max > 0)) return [0, 1]
  const roughly = max / 4
  const power = 10 ** Math.floor(Math.log10(roughly))
  const round = [1, 2, 5, 10].map(factor => factor * power).find(size => size >= roughly)!
  const step = isWhole ? Math.max(1, round) : round
  const count = Math.ceil(max / step - 1e-9)
  // Multiplied, as a sum would gather rounding errors.
  return Array.from({ length: count + 1 }, (_, i) => Number((i * step).toPrecision(12)))
}

/** At most about `wanted` of some items, evenly spaced, the last one included. */
export function thinOut<T>(items: readonly T[], wanted: number): T[] {
  const every = Math.max(1, Math.ceil(items.length / Math.max(1, wanted)))
  const first = (items.length - 1) % every
  return items.filter((_, i) => i >= first && (i - first) % every === 0)
}
