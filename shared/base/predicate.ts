import type { z } from 'zod'

/**
 * Every request body is validated by its zod schema. Zod copies all objects and lists and allocates a result object
 * per field: 2 µs for a small chat in a tight loop, several in a busy process, and 1 ms for a conversation of 5,000
 * messages. The schemas must stay the only description of a body: the OpenAPI document and the error messages are
 * generated from them.
 *
 * A predicate is compiled from a schema. It returns true only for values that zod would return unchanged; then
 * `validate` returns the value itself. Everything else is parsed by zod, which reports the fault or makes the change.
 * So error messages are always zod's, and a valid body costs a fifth of what it did.
 *
 * Measured beside the same tree with `safeParse` in its place (microseconds of CPU in a tight loop, whole requests in
 * the bench's row of chat):
 *
 * - a chat of 1 kB: predicate 0.4 µs, zod 2.3 µs
 * - 20 tools and 42 messages, 20 of them tool calls: 12 and 50 µs
 * - 5,000 messages: 0.4 and 1.2 ms
 * - share of the web process's CPU, chat of 1 kB at 64 connections, three profiles each: 0.8, 0.9, 1.3 % and 3.9,
 *   3.8, 4.0 %
 * - CPU per request, median of 40 pairs on a busy machine: zod takes 1.04 times as much (0.96–1.12)
 *
 * That is about 3 % of the smallest chat, and far more of a coding agent's requests, which is why the compiler stays.
 *
 * - A schema has a predicate only if it changes nothing: one with a transform, default, coercion or trimming anywhere
 *   in it, or with a part that the compiler does not support, is parsed by zod as before. Chat, completions,
 *   embeddings, their batch lines, delayed jobs, music, sound effects and several of the dashboard's routes have one;
 *   routes of other media have defaults.
 * - Where the compiler knows that parsing would change a value, it aborts all predicates at once instead of returning
 *   false: a union branch that zod would take, with changes, must not be skipped for a later one. That applies to
 *   fields named `__proto__`, which zod drops, and to instances of classes.
 * - The predicate is compiled on the first use of its schema, which takes some milliseconds, so that processes start
 *   as fast as before. It is made of closures, not of generated source.
 *
 * The value of a valid body is the parsed JSON itself, with its fields in the caller's order; zod puts the fields it
 * knows first, in the schema's order. Adapters that build a provider's request from the body therefore send fields in
 * the caller's order. Their order has no meaning in JSON.
 *
 * A release of zod may change what schemas mean. `test/base/predicate.test.ts` compares both over mutated bodies of
 * the three kinds and over arbitrary schemas, in both directions.
 */

export type Predicate = (value: unknown) => boolean
type Schema = z.core.$ZodType
type Check = z.core.$ZodCheck<never>

/**
 * Compiles a predicate from a schema: true means that parsing would succeed and return a value deeply equal to this
 * one, with the same fields, so parsing can be skipped. It takes a fraction of the time of parsing and allocates
 * nothing. False means that the value is invalid or that parsing may change it; only parsing can tell which.
 *
 * Returns null for a schema that may change its input (transforms, defaults, coercion) or has an unsupported part.
 */
export function compilePredicate(schema: Schema): Predicate | null {
  try {
    const predicate = compile(schema)
    return value => predicateHolds(predicate, value)
  } catch (error) {
    if (error instanceof Undecided) return null
    throw error
  }
}

/**
 * Thrown by compilation for a schema, and by predicates for a value, when the result of parsing cannot be predicted.
 */
class Undecided extends Error {}

/**
 * Aborts all nested predicates for a value that is undecided: a union branch that parsing would select, with changes,
 * must not be skipped in favour of a later branch.
 */
function predicateHolds(predicate: Predicate, value: unknown): boolean {
  try {
    return predicate(value)
  } catch (error) {
    if (error instanceof Undecided) return false
    throw error
  }
}

function compile(schema: Schema): Predicate {
  const predicate = compileType(schema)
  const { checks = [] } = schema._zod.def
  // A schema such as `z.int()` is its own first check.
  const own = schema._zod.traits.has('$ZodCheck') ? [schema as unknown as Check] : []
  return [...own, ...checks].map(compileCheck).reduce(both, predicate)
}

function both(first: Predicate, second: Predicate): Predicate {
  return value => first(value) && second(value)
}

/** The predicate of a schema without its checks. */
function compileType(schema: Schema): Predicate {
  const { def } = schema._zod as z.core.$ZodTypes['_zod']
  if ('coerce' in def && def.coerce) throw new Undecided()
  switch (def.type) {
    case 'string':
      return value => typeof value === 'string'
    case 'number':
      return value => Number.isFinite(value)
    case 'boolean':
      return value => typeof value === 'boolean'
    case 'null':
      return value => value === null
    case 'unknown':
    case 'custom':
      return () => true
    case 'never':
      return () => false
    case 'literal':
    case 'enum':
      return compileValues(schema._zod.values!)
    case 'optional':
      return compileUnless(undefined, def.innerType)
    case 'nullable':
      return compileUnless(null, def.innerType)
    case 'array':
      return compileArray(def.element)
    case 'record':
      return compileRecord(def)
    case 'union':
      return 'discriminator' in def
        ? compileDiscriminatedUnion(def as z.core.$ZodDiscriminatedUnionDef)
        : compileUnion(def.options)
    case 'object':
      return compileObject(def)
    default:
      throw new Undecided()
  }
}

function compileValues(values: Set<unknown>): Predicate {
  const [only] = values
  if (values.size === 1) return value => value === only
  return value => values.has(value)
}

function compileUnless(exempt: null | undefined, innerType: Schema): Predicate {
  const predicate = compile(innerType)
  return value => value === exempt || predicate(value)
}

function compileArray(element: Schema): Predicate {
  const predicate = compile(element)
  return value => {
    if (!Array.isArray(value)) return false
    for (let i = 0; i < value.length; i++) if (!predicate(value[i])) return false
    return true
  }
}

function compileRecord({ keyType, valueType, mode, partial }: z.core.$ZodRecordDef & { partial?: boolean }): Predicate {
  if (keyType._zod.def.type !== 'string' || mode === 'loose' || partial) throw new Undecided()
  const allowsName = compile(keyType)
  const allowsValue = compile(valueType)
  return value => {
    if (!isPlainObject(value)) return false
    for (const name in value) if (!allowsName(assertParsed(name)) || !allowsValue(value[name])) return false
    return true
  }
}

function compileUnion(options: readonly Schema[]): Predicate {
  const branches = options.map(compile)
  return value => {
    for (let i = 0; i < branches.length; i++) if (branches[i]!(value)) return true
    return false
  }
}

function compileDiscriminatedUnion(def: z.core.$ZodDiscriminatedUnionDef): Predicate {
  const { options, discriminator, unionFallback } = def
  if (unionFallback) throw new Undecided()
  const branches = new Map<unknown, Predicate>()
  for (const option of options) {
    const values = option._zod.propValues?.[discriminator]
    if (!values) throw new Undecided()
    // Compiled as a field of its object, a discriminator that may be absent is optional, and has no default.
    const predicate = compile(option)
    for (const value of values) branches.set(value, predicate)
  }
  return value => {
    if (!isPlainObject(value)) return false
    const predicate = branches.get(value[discriminator])
    return predicate?.(value) === true
  }
}

type Field = { predicate: Predicate; isRequired: boolean }

function compileObject({ shape, catchall }: z.core.$ZodObjectDef): Predicate {
  const others = catchall?._zod.def.type
  // Without a catchall, parsing strips other fields.
  if (others !== 'unknown' && others !== 'never') throw new Undecided()
  const fields = new Map<string, Field>()
  let required = 0
  for (const [name, schema] of Object.entries(shape)) {
    const { optin, optout } = schema._zod
    const isRequired = optin === undefined
    // Parsing must not add absent fields.
    if (!isRequired && (optin !== 'optional' || optout !== 'optional')) throw new Undecided()
    // For such a name, parsing reads the inherited property.
    if (name in Object.prototype) throw new Undecided()
    if (isRequired) required++
    fields.set(name, { predicate: compile(schema), isRequired })
  }
  return value => {
    if (!isPlainObject(value)) return false
    let found = 0
    for (const name in value) {
      const field = fields.get(assertParsed(name))
      if (field !== undefined) {
        if (!field.predicate(value[name])) return false
        if (field.isRequired) found++
      } else if (others === 'never') return false
    }
    return found === required
  }
}

/**
 * Whether a value is a plain object. Throws Undecided for a class instance, which parsing converts to a plain object.
 */
function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  if (Object.getPrototypeOf(value) !== Object.prototype) throw new Undecided()
  return true
}

/** Returns the field name. Throws Undecided for `__proto__`, which parsing always strips. */
function assertParsed(name: string): string {
  if (name === '__proto__') throw new Undecided()
  return name
}

function compileCheck(check: Check): Predicate {
  const { def } = check._zod as z.core.$ZodChecks['_zod'] | z.core.$ZodCustom['_zod']
  switch (def.check) {
    case 'min_length':
      return compileMinLength(def.minimum)
    case 'max_length':
      return compileMaxLength(def.maximum)
    case 'greater_than': {
      const bound = numberOf(def.value)
      return def.inclusive ? value => (value as number) >= bound : value => (value as number) > bound
    }
    case 'less_than': {
      const bound = numberOf(def.value)
      return def.inclusive ? value => (value as number) <= bound : value => (value as number) < bound
    }
    case 'number_format':
      if (def.format !== 'safeint') throw new Undecided()
      return value => Number.isSafeInteger(value)
    case 'string_format':
      return compileFormat(def as z.core.$ZodCheckRegexDef)
    case 'custom':
      return compileCustom(def as z.core.$ZodCustomDef)
    default:
      throw new Undecided()
  }
}

function numberOf(value: unknown): number {
  if (typeof value !== 'number') throw new Undecided()
  return value
}

/** Strings are measured in code points: at most the number of code units, and at least half of it. */
function compileMinLength(minimum: number): Predicate {
  return value => {
    const { length } = value as string | unknown[]
    if (length < minimum) return false
    return typeof value !== 'string' || length >= 2 * minimum || codePointsIn(value) >= minimum
  }
}

function compileMaxLength(maximum: number): Predicate {
  return value => {
    const { length } = value as string | unknown[]
    if (length <= maximum) return true
    return typeof value === 'string' && length <= 2 * maximum && codePointsIn(value) <= maximum
  }
}

function codePointsIn(text: string): number {
  let count = 0
  for (let i = 0; i < text.length; i += text.codePointAt(i)! > 0xffff ? 2 : 1) count++
  return count
}

function compileFormat({ format, pattern }: z.core.$ZodCheckRegexDef): Predicate {
  // A global or sticky expression keeps state between calls.
  if (format !== 'regex' || pattern.global || pattern.sticky) throw new Undecided()
  return value => pattern.test(value as string)
}

function compileCustom({ fn, when }: z.core.$ZodCustomDef): Predicate {
  // Checks passed to `.check()` have no function of their own and may change the value.
  if (typeof fn !== 'function' || when) throw new Undecided()
  return value => {
    const result = fn(value)
    if (result instanceof Promise) throw new Undecided()
    return Boolean(result)
  }
}
