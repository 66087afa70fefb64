import type { Figures } from '../providers/health.ts'
import type { Option, RoutingContext } from './options.ts'
import type { Sort } from './provider-preferences.ts'
import { rate, type Scale, scoreOf, usual } from './score.ts'

/** Rates the providers of one model and returns them best first, those in cooldown last. */
export function rankProviders({ mode }: RoutingContext, options: Option[], sort: Sort, scale: Scale): Option[] {
  for (const option of options) {
    rate(option, option.figures, scale)
    option.score = scoreOf(option, mode)
  }
  // Usually two or three, for which calling the engine's sort costs more than sorting.
  bringForward(options, options.length, compareByPreference[sort])
  return options
}

type Comparison = (a: Option, b: Option) => number

/** Orders options of different models: shortest cooldown first, then those within the preferred thresholds, then by `sort`. */
export const compareBy: Record<Sort, Comparison> = {
  score: (a, b) => comparePlaces(a, b) || compareScores(a, b) || breakTie(a, b),
  price: (a, b) => comparePlaces(a, b) || breakTie(a, b),
  speed: (a, b) => comparePlaces(a, b) || a.seconds - b.seconds || compareScores(a, b) || breakTie(a, b),
  latency: (a, b) => comparePlaces(a, b) || waitOf(a) - waitOf(b) || compareScores(a, b) || breakTie(a, b),
}

/** Orders the providers of one model: the caller's order takes precedence over `sort`. */
const compareByPreference: Record<Sort, Comparison> = {
  score: preferring(compareBy.score),
  price: preferring(compareBy.price),
  speed: preferring(compareBy.speed),
  latency: preferring(compareBy.latency),
}

function preferring(compare: Comparison): Comparison {
  return (a, b) => compareCooldowns(a, b) || a.shared - b.shared || a.preference - b.preference || compare(a, b)
}

/** Breaks ties: cheaper first, then the model's maker, then alphabetically; never by catalog order. */
export function breakTie(a: Option, b: Option): number {
  return a.costNano - b.costNano || Number(isMaker(b)) - Number(isMaker(a)) || (a.name < b.name ? -1 : 1)
}

function compareCooldowns(a: Option, b: Option): number {
  return a.figures.cooldownMs - b.figures.cooldownMs
}

function comparePlaces(a: Option, b: Option): number {
  return compareCooldowns(a, b) || a.shared - b.shared || a.late - b.late
}

function waitOf({ figures }: Option): number {
  return figures.firstByteMs ?? usual.firstByteMs
}

function compareScores(a: Option, b: Option): number {
  return b.score - a.score
}

function isMaker({ target }: Option): boolean {
  return target.model.owned_by === target.provider.name
}

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
