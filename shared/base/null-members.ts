import type { z } from 'zod'
import { isObject } from './is-object.ts'
import { compilePredicate, type Predicate } from './predicate.ts'

type Schema = z.core.$ZodType
type Json = Record<string, unknown>
/** Returns a value without nulls in place of absent members; the value itself if it has none. */
type Dropper = (value: unknown) => unknown

/** The dropper of each schema, compiled on first use; null if the schema has no member to drop. */
const droppers = new WeakMap<Schema, Dropper | null>()

/**
 * A value without the members that are null although their schema lets them be absent, but not null: clients that write
 * all their fields, as those of typed languages do, mean by it that there is none. A member that may be null keeps it,
 * except at the top level, since providers refuse it there. Objects without such members are returned as they are, others
 * are copied.
 */
export function withoutNulls(schema: Schema, value: unknown): unknown {
  const dropped = dropperOf(schema)?.(value) ?? value
  const { def } = schema._zod as z.core.$ZodTypes['_zod']
  if (def.type !== 'object' || !hasNull(dropped)) return dropped
  const given = { ...(dropped as Json) }
  for (const name in given) if (given[name] === null && isOptional(def.shape[name])) delete given[name]
  return given
}

/** Whether a member of an object is null. */
export function hasNull(value: unknown): boolean {
  if (!isObject(value)) return false
  for (const name in value) if (value[name] === null) return true
  return false
}

/** Not one with a default, which may mean something else than null. */
function isOptional(member: Schema | undefined): boolean {
  return member?._zod.def.type === 'optional'
}

function dropperOf(schema: Schema): Dropper | null {
  let dropper = droppers.get(schema)
  if (dropper === undefined) {
    dropper = compile(schema)
    droppers.set(schema, dropper)
  }
  return dropper
}

function compile(schema: Schema): Dropper | null {
  const { def } = schema._zod as z.core.$ZodTypes['_zod']
  switch (def.type) {
    case 'optional':
    case 'nullable':
    case 'default':
    case 'prefault':
    case 'nonoptional':
    case 'readonly':
      return dropperOf(def.innerType)
    case 'pipe':
      return dropperOf(def.in)
    case 'array':
      return compileArray(def.element)
    case 'record':
      return compileRecord(def.valueType)
    case 'object':
      return compileObject(def.shape)
    case 'union':
      return 'discriminator' in def
        ? compileDiscriminatedUnion(def as z.core.$ZodDiscriminatedUnionDef)
        : compileUnion(def.options)
    default:
      return null
  }
}

function compileArray(element: Schema): Dropper | null {
  const drop = dropperOf(element)
  if (!drop) return null
  return value => {
    if (!Array.isArray(value)) return value
    let changed: unknown[] | null = null
    for (let index = 0; index < value.length; index++) {
      const item = drop(value[index])
      if (item === value[index]) continue
      changed ??= [...value]
      changed[index] = item
    }
    return changed ?? value
  }
}

function compileRecord(valueType: Schema): Dropper | null {
  const drop = dropperOf(valueType)
  if (!drop) return null
  return value => (isObject(value) ? withChanged(value, Object.keys(value), drop) : value)
}

function withChanged(value: Json, names: readonly string[], drop: Dropper): Json {
  let changed: Json | null = null
  for (const name of names) {
    const member = drop(value[name])
    if (member === value[name]) continue
    changed ??= { ...value }
    changed[name] = member
  }
  return changed ?? value
}

/** `isDropped`: whether its null means that it is absent. */
type Member = { name: string; isDropped: boolean; drop: Dropper | null }

function compileObject(shape: z.core.$ZodShape): Dropper | null {
  const members: Member[] = []
  for (const [name, schema] of Object.entries(shape)) {
    const drop = dropperOf(schema)
    const isDropped = schema._zod.optin === 'optional' && !acceptsOf(schema)(null)
    if (isDropped || drop) members.push({ name, isDropped, drop })
  }
  if (members.length === 0) return null
  return value => {
    if (!isObject(value)) return value
    let changed: Json | null = null
    for (const { name, isDropped, drop } of members) {
      const member = value[name]
      if (member === null && isDropped) {
        changed ??= { ...value }
        delete changed[name]
      } else if (drop && typeof member === 'object' && member !== null) {
        const dropped = drop(member)
        if (dropped === member) continue
        changed ??= { ...value }
        changed[name] = dropped
      }
    }
    return changed ?? value
  }
}

function compileDiscriminatedUnion({ options, discriminator }: z.core.$ZodDiscriminatedUnionDef): Dropper | null {
  const branches = new Map<unknown, Dropper>()
  for (const option of options) {
    const drop = dropperOf(option)
    if (drop) for (const value of option._zod.propValues?.[discriminator] ?? []) branches.set(value, drop)
  }
  if (branches.size === 0) return null
  return value => (isObject(value) ? (branches.get(value[discriminator] ?? undefined)?.(value) ?? value) : value)
}

/** The first option that accepts a value without its nulls is meant; if none does, the value stays, to be refused. */
function compileUnion(options: readonly Schema[]): Dropper | null {
  const branches = options.map(option => ({ drop: dropperOf(option), accepts: acceptsOf(option) }))
  if (branches.every(({ drop }) => drop === null)) return null
  return value => {
    if (typeof value !== 'object' || value === null) return value
    for (const { drop, accepts } of branches) {
      const dropped = drop ? drop(value) : value
      if (accepts(dropped)) return dropped
    }
    return value
  }
}

function acceptsOf(schema: Schema): Predicate {
  return compilePredicate(schema) ?? (value => (schema as z.ZodType).safeParse(value).success)
}
