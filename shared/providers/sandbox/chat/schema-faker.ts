import { isObject } from '../../../base/is-object.ts'

/**
 * Generates a small valid instance of a JSON schema, as a model with structured output would. Supported: local `$ref`
 * (`#`, `#/$defs/…`), const, enum, type (also a list), properties, required, items, prefixItems, minItems, uniqueItems,
 * string lengths and formats, number limits, anyOf, oneOf, allOf. Patterns are not supported: the text may not match
 * one.
 */

type Schema = Record<string, unknown>

const deepest = 24
/**
 * How much deeper than necessary an instance may be: lists that may be empty and members that may be null have something
 * in them then. An item of a list is often a reference, to an object, with a member of two possible types.
 */
const fillingDepth = 4
const maxText = 10_000
const maxItems = 1000
/** Maximum schemas visited per attempt: a schema that branches at every level is abandoned, not explored. */
const stepsPerAttempt = 5000
/** Maximum characters of an instance: bounds long constants in long lists. */
const charsPerAttempt = 200_000

/** Maximum keys, list members and characters of schemas copied or searched, in all attempts together. */
const maxCopies = 100_000
/** Maximum characters of constants examined, in all attempts together. */
const maxConstantChars = 2_000_000

/**
 * No instance within the depth, or none at all. A single object: it is thrown often, and a stack trace is expensive.
 */
const unsatisfiable = new Error('The schema has no instance within the limits.')

/** The schema exceeds the limits of all attempts together. */
const exhausted = new Error('The schema costs too much work.')

type Budget = { copies: number; constantChars: number }

/** An instance of nearly the least depth, or undefined if there is none within the limits. */
export function fakeInstance(schema: unknown): unknown {
  const budget: Budget = { copies: maxCopies, constantChars: maxConstantChars }
  for (let depth = 0; depth <= deepest && budget.copies >= 0 && budget.constantChars >= 0; depth++) {
    const least = tryBuild(schema, budget, depth)
    if (least) return (tryBuild(schema, budget, depth + fillingDepth, true) ?? least).instance
  }
  return undefined
}

/** Null if there is no instance within the depth and the limits. */
function tryBuild(schema: unknown, budget: Budget, depth: number, fillsLists = false): { instance: unknown } | null {
  try {
    return { instance: new Builder(schema, budget, fillsLists).build(schema, depth) }
  } catch (error) {
    if (error === exhausted || error === unsatisfiable) return null
    throw error
  }
}

class Builder {
  readonly #root: unknown
  readonly #budget: Budget
  readonly #fillsLists: boolean
  /** The references that are being followed. */
  readonly #open = new Set<string>()
  #steps = stepsPerAttempt
  #chars = charsPerAttempt

  constructor(root: unknown, budget: Budget, fillsLists: boolean) {
    this.#root = root
    this.#budget = budget
    this.#fillsLists = fillsLists
  }

  build(schema: unknown, depth: number): unknown {
    if (depth < 0 || this.#steps-- <= 0) throw unsatisfiable
    if (schema === true) return {}
    if (!isSchema(schema)) throw unsatisfiable
    if (typeof schema.$ref === 'string') return this.#referred(schema.$ref, schema, depth)
    if (Array.isArray(schema.allOf)) return this.build(this.#merge(schema, schema.allOf, 'allOf'), depth - 1)
    if (schema.const !== undefined) return this.#afford(schema.const)
    if (Array.isArray(schema.enum)) return this.#afford(firstOf(schema.enum))
    for (const keyword of ['anyOf', 'oneOf']) {
      const options = schema[keyword]
      if (Array.isArray(options))
        return this.#either(options, option => this.build(this.#merge(schema, [option], keyword), depth - 1))
    }
    const types = Array.isArray(schema.type) ? schema.type : [schema.type ?? impliedType(schema)]
    this.#charge(types.length)
    // Null is the smallest instance, but the least informative: it is the last choice within the depth.
    const ordered = [...types.filter(type => type !== 'null'), ...types.filter(type => type === 'null')]
    return this.#either(ordered, type => this.#ofType(type, schema, depth))
  }

  /** What a schema refers to. Where lists are filled, it is not repeated within itself. */
  #referred(reference: string, schema: Schema, depth: number): unknown {
    if (this.#fillsLists && this.#open.has(reference)) throw unsatisfiable
    this.#open.add(reference)
    try {
      return this.build(this.#merge(schema, [this.#find(reference)], '$ref'), depth - 1)
    } finally {
      this.#open.delete(reference)
    }
  }

  /** The instance of the first option that has one. */
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
        return this.#afford(text(schema))
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
      this.#afford(name)
      return [name, this.build(Object.hasOwn(properties, name) ? properties[name] : rest, depth - 1)] as const
    })
    return Object.fromEntries(entries)
  }

  #array(schema: Schema, depth: number): unknown[] {
    const min = typeof schema.minItems === 'number' ? schema.minItems : 0
    const max = typeof schema.maxItems === 'number' ? schema.maxItems : maxItems
    if (min > Math.min(max, maxItems)) throw unsatisfiable
    const prefix = Array.isArray(schema.prefixItems) ? schema.prefixItems : []
    const items = schema.items ?? true
    const array: unknown[] = []
    for (let i = 0; i < min; i++) {
      const item = prefix[i] ?? items
      if (schema.uniqueItems === true && isSchema(item)) this.#charge(sizeOf(item) + sizeOf(item.enum))
      array.push(this.build(schema.uniqueItems === true ? distinctSchema(item, i) : item, depth - 1))
    }
    if (this.#fillsLists && min === 0 && max > 0 && isSchema(items))
      this.#either([() => [this.build(prefix[0] ?? items, depth - 1)], () => []], fill => array.push(...fill()))
    return array
  }

  /** The value itself, if the character limit allows it. */
  #afford<V>(value: V): V {
    if (this.#chars < 0) throw unsatisfiable
    const { length } = JSON.stringify(value)
    this.#budget.constantChars -= length
    if (this.#budget.constantChars < 0) throw exhausted
    this.#chars -= length
    if (this.#chars < 0) throw unsatisfiable
    return value
  }

  /** Charges keys or members that are about to be copied. */
  #charge(copies: number): void {
    this.#budget.copies -= copies
    if (this.#budget.copies < 0) throw exhausted
  }

  /** `schema` without `keyword`, narrowed by that keyword's parts. */
  #merge(schema: Schema, parts: unknown[], keyword: string): Schema {
    this.#charge(sizeOf(schema))
    const { [keyword]: _replaced, ...result } = schema
    for (const part of parts) {
      this.#charge(1)
      if (part === true) continue
      if (!isSchema(part)) throw unsatisfiable
      this.#charge(sizeOf(part))
      for (const key of ['properties', 'required'])
        if (key in part) this.#charge(sizeOf(part[key]) + sizeOf(result[key]))
      for (const [key, value] of Object.entries(part)) result[key] = narrow(key, result[key], value)
    }
    return result
  }

  /** Resolves a local reference: `#` or a JSON pointer below it. */
  #find(reference: string): unknown {
    if (!reference.startsWith('#')) throw unsatisfiable
    this.#charge(reference.length)
    let resolved = this.#root
    for (const part of reference.slice(1).split('/').slice(1)) {
      const key = decoded(part).replaceAll('~1', '/').replaceAll('~0', '~')
      if (typeof resolved !== 'object' || resolved === null || !Object.hasOwn(resolved, key)) throw unsatisfiable
      resolved = (resolved as Schema)[key]
    }
    return resolved
  }
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    throw unsatisfiable
  }
}

/** The number of keys or members of a value. */
function sizeOf(value: unknown): number {
  if (Array.isArray(value)) return value.length
  return typeof value === 'object' && value !== null ? Object.keys(value).length : 0
}

function isSchema(value: unknown): value is Schema {
  return isObject(value)
}

/** Combines two constraints of one keyword; both must hold. */
function narrow(key: string, left: unknown, right: unknown): unknown {
  if (left === undefined) return right
  if (key === 'required' && Array.isArray(left) && Array.isArray(right)) return [...new Set([...left, ...right])]
  if (key === 'properties' && isSchema(left) && isSchema(right)) {
    const both = Object.entries(right).map(([name, value]) => {
      return [name, Object.hasOwn(left, name) ? { allOf: [left[name], value] } : value] as const
    })
    return { ...left, ...Object.fromEntries(both) }
  }
  if (typeof left === 'number' && typeof right === 'number') {
    return key.startsWith('max') || key === 'exclusiveMaximum' ? Math.min(left, right) : Math.max(left, right)
  }
  return right
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

/** The schema of the i-th of several items that must be distinct. */
function distinctSchema(item: unknown, i: number): unknown {
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
  const min = typeof schema.minLength === 'number' ? schema.minLength : 0
  const max = typeof schema.maxLength === 'number' ? schema.maxLength : maxText
  if (min > Math.min(max, maxText)) throw unsatisfiable
  const sample = formats.get(schema.format) ?? 'text'
  return sample.padEnd(min, '.').slice(0, max)
}

/** The number nearest to zero within the limits; `unit` 1 requires an integer. */
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
  const resolved = candidates.find(allowed)
  if (resolved === undefined) throw unsatisfiable
  return resolved === 0 ? 0 : resolved
}

function limit(inclusive: unknown, exclusive: unknown, tighter: (...values: number[]) => number, none: number): number {
  return tighter(typeof inclusive === 'number' ? inclusive : none, typeof exclusive === 'number' ? exclusive : none)
}
