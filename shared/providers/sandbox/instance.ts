/**
 * A small valid instance of a JSON schema, as a model with structured output would write one. Understood: local `$ref`
 * (`#`, `#/$defs/…`), const, enum, type (also a list), properties, required, items, prefixItems, minItems, uniqueItems,
 * string lengths and formats, number limits, anyOf, oneOf, allOf. Patterns are not: the text may not match one.
 */

type Schema = Record<string, unknown>

const deepest = 24
const longestText = 10_000
const mostItems = 1000
/** Schemas visited per attempt: a schema that branches at every level is given up, not explored. */
const stepsPerAttempt = 5000
/** Characters an instance may have: a long constant in a long list is given up as well. */
const charsPerAttempt = 200_000

/** Keys, list members and characters of schemas that are copied or looked through, for all attempts together. */
const maxCopies = 100_000
/** Characters of constants that are looked at, for all attempts together. */
const maxConstantChars = 2_000_000

/** No instance within the depth, or none at all. Made once: it is thrown often, and a stack trace takes its time. */
const unsatisfiable = new Error('The schema has no instance within the limits.')

/** The schema costs more work than all attempts together may. */
const exhausted = new Error('The schema costs too much work.')

type Budget = { copies: number; constantChars: number }

/** The instance of least depth, or undefined when there is none within the limits. */
export function instanceOf(schema: unknown): unknown {
  const budget: Budget = { copies: maxCopies, constantChars: maxConstantChars }
  for (let depth = 0; depth <= deepest; depth++) {
    try {
      return new Builder(schema, budget).build(schema, depth)
    } catch (error) {
      if (error === exhausted) return undefined
      if (error !== unsatisfiable) throw error
    }
  }
  return undefined
}

class Builder {
  readonly #root: unknown
  readonly #budget: Budget
  #steps = stepsPerAttempt
  #chars = charsPerAttempt

  constructor(root: unknown, budget: Budget) {
    this.#root = root
    this.#budget = budget
  }

  build(schema: unknown, depth: number): unknown {
    if (depth < 0 || this.#steps-- <= 0) throw unsatisfiable
    if (schema === true) return {}
    if (!isSchema(schema)) throw unsatisfiable
    if (typeof schema.$ref === 'string')
      return this.build(this.#merged(schema, [this.#find(schema.$ref)], '$ref'), depth - 1)
    if (Array.isArray(schema.allOf)) return this.build(this.#merged(schema, schema.allOf, 'allOf'), depth - 1)
    if (schema.const !== undefined) return this.#afforded(schema.const)
    if (Array.isArray(schema.enum)) return this.#afforded(firstOf(schema.enum))
    for (const keyword of ['anyOf', 'oneOf']) {
      const options = schema[keyword]
      if (Array.isArray(options))
        return this.#either(options, option => this.build(this.#merged(schema, [option], keyword), depth - 1))
    }
    const types = Array.isArray(schema.type) ? schema.type : [schema.type ?? impliedType(schema)]
    this.#charge(types.length)
    // Null is the smallest instance of all, but says the least: it is the last choice that the depth allows.
    const ordered = [...types.filter(type => type !== 'null'), ...types.filter(type => type === 'null')]
    return this.#either(ordered, type => this.#ofType(type, schema, depth))
  }

  /** The instance of the first of the options that has one. */
  #either<O>(options: readonly O[], instance: (option: O) => unknown): unknown {
    for (const option of options) {
      try {
        this.#charge(1)
        return instance(option)
      } catch (error) {
        if (error !== unsatisfiable) throw error
      }
    }
    throw unsatisfiable
  }

  #ofType(type: unknown, schema: Schema, depth: number): unknown {
    switch (type) {
      case 'object':
        return this.#object(schema, depth)
      case 'array':
        return this.#array(schema, depth)
      case 'string':
        if (this.#chars < 0) throw unsatisfiable
        return this.#afforded(text(schema))
      case 'integer':
        return number(schema, 1)
      case 'number':
        return number(schema, 0)
      case 'boolean':
        return true
      case 'null':
        return null
      default:
        throw unsatisfiable
    }
  }

  #object(schema: Schema, depth: number): Record<string, unknown> {
    const properties = isSchema(schema.properties) ? schema.properties : {}
    const required = Array.isArray(schema.required) ? schema.required.filter(name => typeof name === 'string') : []
    this.#charge(sizeOf(schema.required))
    const rest = schema.additionalProperties ?? true
    const entries = required.map(name => {
      this.#afforded(name)
      return [name, this.build(Object.hasOwn(properties, name) ? properties[name] : rest, depth - 1)] as const
    })
    return Object.fromEntries(entries)
  }

  #array(schema: Schema, depth: number): unknown[] {
    const least = typeof schema.minItems === 'number' ? schema.minItems : 0
    const most = typeof schema.maxItems === 'number' ? schema.maxItems : mostItems
    if (least > Math.min(most, mostItems)) throw unsatisfiable
    const prefix = Array.isArray(schema.prefixItems) ? schema.prefixItems : []
    const items = schema.items ?? true
    const array: unknown[] = []
    for (let i = 0; i < least; i++) {
      const item = prefix[i] ?? items
      if (schema.uniqueItems === true && isSchema(item)) this.#charge(sizeOf(item) + sizeOf(item.enum))
      array.push(this.build(schema.uniqueItems === true ? distinct(item, i) : item, depth - 1))
    }
    return array
  }

  /** The value itself, if there is room for it. */
  #afforded<V>(value: V): V {
    if (this.#chars < 0) throw unsatisfiable
    const { length } = JSON.stringify(value)
    this.#budget.constantChars -= length
    if (this.#budget.constantChars < 0) throw exhausted
    this.#chars -= length
    if (this.#chars < 0) throw unsatisfiable
    return value
  }

  /** Pays for keys or members that are about to be copied. */
  #charge(copies: number): void {
    this.#budget.copies -= copies
    if (this.#budget.copies < 0) throw exhausted
  }

  /** `schema` without `keyword`, narrowed by the parts that the keyword named. */
  #merged(schema: Schema, parts: unknown[], keyword: string): Schema {
    this.#charge(sizeOf(schema))
    const { [keyword]: _replaced, ...result } = schema
    for (const part of parts) {
      this.#charge(1)
      if (part === true) continue
      if (!isSchema(part)) throw unsatisfiable
      this.#charge(sizeOf(part))
      for (const key of ['properties', 'required'])
        if (key in part) this.#charge(sizeOf(part[key]) + sizeOf(result[key]))
      for (const [key, value] of Object.entries(part)) result[key] = narrowed(key, result[key], value)
    }
    return result
  }

  /** What a local reference points at: `#` or a JSON pointer below it. */
  #find(reference: string): unknown {
    if (!reference.startsWith('#')) throw unsatisfiable
    this.#charge(reference.length)
    let found = this.#root
    for (const part of reference.slice(1).split('/').slice(1)) {
      const key = decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~')
      if (typeof found !== 'object' || found === null || !Object.hasOwn(found, key)) throw unsatisfiable
      found = (found as Schema)[key]
    }
    return found
  }
}

/** How many keys or members a value has. */
function sizeOf(value: unknown): number {
  if (Array.isArray(value)) return value.length
  return typeof value === 'object' && value !== null ? Object.keys(value).length : 0
}

function isSchema(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Two constraints under one keyword, both of which must hold. */
function narrowed(key: string, one: unknown, other: unknown): unknown {
  if (one === undefined) return other
  if (key === 'required' && Array.isArray(one) && Array.isArray(other)) return [...new Set([...one, ...other])]
  if (key === 'properties' && isSchema(one) && isSchema(other)) {
    const both = Object.entries(other).map(([name, value]) => {
      return [name, Object.hasOwn(one, name) ? { allOf: [one[name], value] } : value] as const
    })
    return { ...one, ...Object.fromEntries(both) }
  }
  if (typeof one === 'number' && typeof other === 'number') {
    return key.startsWith('max') || key === 'exclusiveMaximum' ? Math.min(one, other) : Math.max(one, other)
  }
  return other
}

function firstOf(values: unknown[]): unknown {
  if (values.length === 0) throw unsatisfiable
  return values[0]
}

function impliedType(schema: Schema): string {
  if ('items' in schema || 'prefixItems' in schema || 'minItems' in schema) return 'array'
  if ('minLength' in schema || 'maxLength' in schema || 'format' in schema || 'pattern' in schema) return 'string'
  if ('minimum' in schema || 'maximum' in schema || 'multipleOf' in schema) return 'number'
  return 'object'
}

/** The schema of the i-th of several items that must differ from one another. */
function distinct(item: unknown, i: number): unknown {
  if (!isSchema(item)) return { const: i }
  if (Array.isArray(item.enum)) return { enum: item.enum.slice(i) }
  if (item.type === 'string') return { ...item, minLength: Math.max(Number(item.minLength ?? 0), 1) + i }
  if (item.type === 'integer' || item.type === 'number') {
    const step = typeof item.multipleOf === 'number' ? item.multipleOf : 1
    return { ...item, minimum: number(item, item.type === 'integer' ? 1 : 0) + i * step }
  }
  if (item.type === 'boolean') return { enum: [true, false].slice(i) }
  return i === 0 ? item : false
}

const formats = new Map<unknown, string>([
  ['date-time', '2026-01-01T00:00:00Z'],
  ['date', '2026-01-01'],
  ['time', '00:00:00Z'],
  ['duration', 'P1D'],
  ['email', 'sandbox@example.com'],
  ['hostname', 'example.com'],
  ['ipv4', '192.0.2.1'],
  ['ipv6', '2001:db8::1'],
  ['uri', 'https://example.com/'],
  ['url', 'https://example.com/'],
  ['uuid', '00000000-0000-4000-8000-000000000000'],
])

function text(schema: Schema): string {
  const least = typeof schema.minLength === 'number' ? schema.minLength : 0
  const most = typeof schema.maxLength === 'number' ? schema.maxLength : longestText
  if (least > Math.min(most, longestText)) throw unsatisfiable
  const sample = formats.get(schema.format) ?? 'text'
  return sample.padEnd(least, '.').slice(0, most)
}

/** The number nearest to zero within the limits; `unit` 1 asks for a whole one. */
function number(schema: Schema, unit: 0 | 1): number {
  const low = limit(schema.minimum, schema.exclusiveMinimum, Math.max, -Infinity)
  const high = limit(schema.maximum, schema.exclusiveMaximum, Math.min, Infinity)
  const step = typeof schema.multipleOf === 'number' && schema.multipleOf > 0 ? schema.multipleOf : unit
  const allowed = (value: number) =>
    value >= low && value <= high && value !== schema.exclusiveMinimum && value !== schema.exclusiveMaximum
  const nearest = Math.max(low, Math.min(high, 0))
  const candidates = step
    ? [Math.round(nearest / step), Math.ceil(nearest / step), Math.floor(nearest / step)].flatMap(n =>
        [n, n + 1, n - 1].map(k => k * step),
      )
    : [nearest, nearest + 1, nearest - 1, (low + high) / 2]
  const found = candidates.find(allowed)
  if (found === undefined) throw unsatisfiable
  return found === 0 ? 0 : found
}

function limit(inclusive: unknown, exclusive: unknown, tighter: (...values: number[]) => number, none: number): number {
  return tighter(typeof inclusive === 'number' ? inclusive : none, typeof exclusive === 'number' ? exclusive : none)
}
