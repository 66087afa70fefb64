import type { Figures } from '../providers/health.ts'

/** The values of all groups, as `flat()` gives them: that is several times slower, and `auto` joins a hundred groups. */
export function joined<T>(groups: readonly (readonly T[])[]): T[] {
  const values: T[] = []
  for (const group of groups) for (const value of group) values.push(value)
  return values
}

/** Moves the first `count` values of the order by `compare` to the front, in this order. */
export function bringForward<T>(values: T[], count: number, compare: (a: T, b: T) => number): void {
  for (let i = 1; i < values.length; i++) {
    const value = values[i]!
    let at = Math.min(i, count - 1)
    if (i >= count) {
      if (compare(value, values[at]!) >= 0) continue
      values[i] = values[at]!
    }
    for (; at > 0 && compare(value, values[at - 1]!) < 0; at--) values[at] = values[at - 1]!
    values[at] = value
  }
}

/** The options by cooldown, the shortest first. */
export function byCooldown<O extends { figures: Figures }>(options: readonly O[]): Iterable<readonly O[]> {
  if (options.every(({ figures }) => figures.cooldownMs === 0)) return [options]
  const groups = Map.groupBy(options, ({ figures }) => figures.cooldownMs)
  return [...groups].sort(([a], [b]) => a - b).map(([, group]) => group)
}
