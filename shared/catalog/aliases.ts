import namePrefixes from './name-prefixes.json' with { type: 'json' }
import type { ModelRow } from './schema.ts'

/** A row and its source file. */
type SourceRow = { file: string; row: ModelRow }

/** Other prefixes of an owner's models, e.g. in the `models/…` of Google's own API, and in the names of LiteLLM. */
const otherPrefixes: Record<string, string[]> = namePrefixes

/** Those that a name of any owner may have, also one with a vendor. */
const gatewayPrefixes = namePrefixes['*'].map(prefix => `${prefix}/`)

/** A name without the prefix of another gateway; null if it has none. */
export function withoutGateway(name: string): string | null {
  const prefix = gatewayPrefixes.find(one => name.startsWith(one))
  return prefix === undefined ? null : name.slice(prefix.length)
}

/** The names that select a row in requests, in lower case: the id and the aliases, each also as `owned_by/name`. */
export function namesOf({ id, aliases, owned_by }: ModelRow): { own: string[]; aliases: string[] } {
  const prefixes = [owned_by, ...(otherPrefixes[owned_by] ?? [])]
  const withOwner = (name: string) =>
    [name, ...prefixes.map(prefix => `${prefix}/${name}`)].map(one => one.toLowerCase())
  // A name that contains a vendor gets no prefixed form.
  const aliasNames = aliases.flatMap(alias => (alias.includes('/') ? [alias.toLowerCase()] : withOwner(alias)))
  return { own: withOwner(id), aliases: aliasNames }
}

/** Returns the shipped rows without the aliases that name one of the operator's rows. */
export function dropTakenAliases(
  shipped: Map<string, SourceRow>,
  operators: Map<string, SourceRow>,
): Map<string, SourceRow> {
  const taken = new Set<string>()
  for (const { row } of operators.values()) {
    const { own, aliases } = namesOf(row)
    for (const name of [...own, ...aliases]) taken.add(name)
  }
  if (taken.size === 0) return shipped
  const kept = [...shipped].map(([id, { file, row }]): [string, SourceRow] => {
    const aliases = row.aliases.filter(alias => !taken.has(alias.toLowerCase()))
    return [id, { file, row: { ...row, aliases } }]
  })
  return new Map(kept)
}

/**
 * Returns one line per conflicting alias: one that names the router, another row, or a row that another alias names.
 */
export function aliasFaults(models: Map<string, SourceRow>): string[] {
  const faults: string[] = []
  const owners = new Map<string, string>()
  for (const { row } of models.values()) for (const name of namesOf(row).own) owners.set(name, row.id)
  for (const { file, row } of models.values()) {
    for (const alias of row.aliases) {
      const name = alias.toLowerCase()
      const owner = name === 'auto' ? 'the router' : owners.get(name)
      if (owner === undefined) owners.set(name, row.id)
      else faults.push(`${file}: models[${row.id}]: aliases: "${alias}" already names ${owner}`)
    }
  }
  return faults
}
