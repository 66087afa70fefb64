import type { ModelRow } from './schema.ts'

/** A row, and the file it is from. */
type Read = { file: string; row: ModelRow }

/** The names that a request may give a row, in lower case: the id and the aliases, each also as `owned_by/name`. */
export function namesOf({ id, aliases, owned_by }: ModelRow): { own: string[]; aliases: string[] } {
  const withOwner = (name: string) => [name, `${owned_by}/${name}`].map(one => one.toLowerCase())
  // A name with a vendor in it needs no other.
  const further = aliases.flatMap(alias => (alias.includes('/') ? [alias.toLowerCase()] : withOwner(alias)))
  return { own: withOwner(id), aliases: further }
}

/** The shipped rows without the aliases that name a row of the operator's own. */
export function yieldAliases(shipped: Map<string, Read>, operators: Map<string, Read>): Map<string, Read> {
  const taken = new Set<string>()
  for (const { row } of operators.values()) {
    const { own, aliases } = namesOf(row)
    for (const name of [...own, ...aliases]) taken.add(name)
  }
  if (taken.size === 0) return shipped
  const left = [...shipped].map(([id, { file, row }]): [string, Read] => {
    const aliases = row.aliases.filter(alias => !taken.has(alias.toLowerCase()))
    return [id, { file, row: { ...row, aliases } }]
  })
  return new Map(left)
}

/** One line per alias that names something else already: the router, another row, or what another row's alias names. */
export function aliasFaults(models: Map<string, Read>): string[] {
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
