import { parseArgs } from 'node:util'

type Value = string | number | boolean

/** Command line options over their defaults: `--name value`, or `--name` alone for a flag. Exits with 2 and one line when they do not parse. */
export function readOptions<T extends Record<string, Value>>(defaults: T): { values: T; positionals: string[] } {
  const kinds = Object.entries(defaults).map(([name, value]) => [
    name,
    { type: typeof value === 'boolean' ? ('boolean' as const) : ('string' as const) },
  ])
  try {
    const given = parseArgs({ options: Object.fromEntries(kinds), allowPositionals: true })
    const values: Record<string, Value> = { ...defaults }
    for (const [name, text] of Object.entries(given.values)) {
      const value = typeof defaults[name] === 'number' ? Number(text) : (text as Value)
      if (Number.isNaN(value)) throw new Error(`--${name} must be a number`)
      values[name] = value
    }
    return { values: values as T, positionals: given.positionals }
  } catch (error) {
    console.error((error as Error).message)
    process.exit(2)
  }
}
