/** What people, and providers' own documentation, call the two variables of a provider. */
const synonyms = {
  API_KEY: ['APIKEY', 'API_KEYS', 'KEY', 'KEYS', 'API_TOKEN', 'API_SECRET', 'SECRET_KEY'],
  BASE_URL: ['BASEURL', 'BASE_URI', 'API_BASE', 'API_BASE_URL', 'API_URL'],
  WEBHOOK_SECRET: ['WEBHOOKSECRET', 'WEBHOOK_KEY', 'WEBHOOKS_SECRET'],
} as const

/** Short names resemble too many others. */
const minServiceLength = 8
const minProviderLength = 6
/** Above this length, two letters may be wrong. */
const longLength = 12

/**
 * Variables that are set, mean nothing, and resemble one that does and is not set: pairs of the two names. `known`: the
 * service's own variables; `providers`: the names of the providers there are.
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

/** The provider that a name begins with: spelled right, or before a right ending wrong by a letter. */
function resembles(name: string, ending: string, prefixes: readonly string[]): string | undefined {
  const given = name.slice(0, -ending.length - 1)
  if (prefixes.includes(given)) return given
  if (!Object.hasOwn(synonyms, ending)) return undefined
  return prefixes.find(prefix => isNear(given, prefix, minProviderLength))
}

function serviceVariable(name: string, known: readonly string[]): string | null {
  return known.find(other => isNear(name, other, minServiceLength)) ?? null
}

function isNear(name: string, other: string, minLength: number): boolean {
  if (other.length < minLength) return false
  const most = other.length > longLength ? 2 : 1
  return Math.abs(name.length - other.length) <= most && distance(name, other, most) <= most
}

/**
 * How many letters must be added, dropped, replaced or swapped with their neighbour (optimal string alignment); Infinity once it is
 * clear that they are more than `most`.
 */
function distance(a: string, b: string, most: number): number {
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
    const fewest = Math.min(...row)
    // A row is reached from the two before it, at no lower cost than theirs.
    if (fewest > most && minBefore > most) return Number.POSITIVE_INFINITY
    minBefore = fewest
  }
  return rows[a.length]![b.length]!
}
