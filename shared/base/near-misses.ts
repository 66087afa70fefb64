/** Other suffixes that people and providers' documentation use for the variables of a provider. */
const synonyms = {
  API_KEY: ['APIKEY', 'API_KEYS', 'KEY', 'KEYS', 'API_TOKEN', 'API_SECRET', 'SECRET_KEY'],
  BASE_URL: ['BASEURL', 'BASE_URI', 'API_BASE', 'API_BASE_URL', 'API_URL'],
  PROXY: ['PROXY_URL', 'HTTP_PROXY', 'HTTPS_PROXY'],
  WEBHOOK_SECRET: ['WEBHOOKSECRET', 'WEBHOOK_KEY', 'WEBHOOKS_SECRET'],
} as const

/** Shorter names resemble too many others. */
const minServiceLength = 8
const minProviderLength = 6
/** Above this length, two letters may differ. */
const longLength = 12

/**
 * Finds variables that are set, are unknown, and resemble a known variable that is not set: pairs of the two names.
 * `known`: the service's own variables; `providers`: the names of the configured providers.
 */
export function nearMisses(
  set: readonly string[],
  known: readonly string[],
  providers: readonly string[],
): [name: string, meant: string][] {
  const prefixes = providers.map(provider => provider.toUpperCase())
  const suffixes = Object.keys(synonyms)
  const meaning = new Set([...known, ...prefixes.flatMap(prefix => suffixes.map(suffix => `${prefix}_${suffix}`))])
  const isSet = new Set(set)
  return set.flatMap(name => {
    const meant = meaning.has(name) ? null : (providerVariable(name, prefixes) ?? serviceVariable(name, known))
    return meant && !isSet.has(meant) ? [[name, meant] satisfies [string, string]] : []
  })
}

function providerVariable(name: string, prefixes: readonly string[]): string | null {
  for (const [suffix, others] of Object.entries(synonyms)) {
    const ending = [suffix, ...others].find(other => name.endsWith(`_${other}`) && resembles(name, other, prefixes))
    if (ending) return `${resembles(name, ending, prefixes)}_${suffix}`
  }
  return null
}

/** The provider named by the prefix: spelled exactly, or off by a letter if the suffix is exact. */
function resembles(name: string, ending: string, prefixes: readonly string[]): string | undefined {
  const given = name.slice(0, -ending.length - 1)
  if (prefixes.includes(given)) return given
  if (!Object.hasOwn(synonyms, ending)) return undefined
  return prefixes.find(prefix => isNear(given, prefix, minProviderLength))
}

function serviceVariable(name: string, known: readonly string[]): string | null {
  return known.find(other => isNear(name, other, minServiceLength)) ?? null
}

/** The name that differs least from a given one, by few letters; null if none does. Names below `minLength` are left out. */
export function nearestName(given: string, names: Iterable<string>, minLength: number): string | null {
  let nearest: string | null = null
  let minDistance = Number.POSITIVE_INFINITY
  for (const name of names) {
    if (!isNear(given, name, minLength)) continue
    const letters = distance(given, name, maxDistance(name))
    if (letters < minDistance) [nearest, minDistance] = [name, letters]
  }
  return nearest
}

function isNear(name: string, other: string, minLength: number): boolean {
  if (other.length < minLength) return false
  const max = maxDistance(other)
  return Math.abs(name.length - other.length) <= max && distance(name, other, max) <= max
}

function maxDistance(name: string): number {
  return name.length > longLength ? 2 : 1
}

/** Edit distance with transpositions (optimal string alignment); Infinity as soon as it must exceed `max`. */
function distance(a: string, b: string, max: number): number {
  const rows = [Array.from({ length: b.length + 1 }, (_, j) => j)]
  let minBefore = 0
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const isSame = a[i - 1] === b[j - 1]
      const isSwapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      row[j] = Math.min(rows[i - 1]![j]! + 1, row[j - 1]! + 1, rows[i - 1]![j - 1]! + (isSame ? 0 : 1))
      if (isSwapped) row[j] = Math.min(row[j]!, rows[i - 2]![j - 2]! + 1)
    }
    rows.push(row)
    const min = Math.min(...row)
    // Every row derives from the two before it at no lower cost.
    if (min > max && minBefore > max) return Number.POSITIVE_INFINITY
    minBefore = min
  }
  return rows[a.length]![b.length]!
}
