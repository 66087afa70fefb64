import { isObject } from '../../../base/is-object.ts'

type Json = Record<string, unknown>

/** Deeper schemas are left as they are. */
const maxDepth = 64
/** Hints for Google's own models, and what has another form in a JSON Schema. */
const replaced: ReadonlySet<string> = new Set(['propertyOrdering', 'nullable', 'type', 'example'])
/** 64-bit integers, which Google's JSON writes as text. */
const counts: ReadonlySet<string> = new Set([
  ...['minItems', 'maxItems', 'minLength', 'maxLength', 'minProperties', 'maxProperties'],
])

/**
 * A schema in Google's form (https://ai.google.dev/api/caching#Schema: OpenAPI 3.0 with types in capitals) as a JSON Schema. One
 * whose types are in lower case stays as it is.
 */
export function jsonSchemaOf(schema: Json, depth = 0): Json {
  if (depth > maxDepth) return schema
  const result: Json = {}
  const type = typeof schema.type === 'string' ? schema.type.toLowerCase() : schema.type
  const isNullable = schema.nullable === true
  if (type !== undefined && type !== 'type_unspecified')
    result.type = isNullable && typeof type === 'string' ? [type, 'null'] : type
  for (const name in schema) {
    const value = schema[name]
    if (name === 'example') result.examples = [value]
    else if (!replaced.has(name)) result[name] = memberOf(name, value, isNullable, depth)
  }
  return result
}

function memberOf(name: string, value: unknown, isNullable: boolean, depth: number): unknown {
  if (counts.has(name) && typeof value === 'string') return Number(value)
  if (name === 'enum' && isNullable && Array.isArray(value) && !value.includes(null)) return [...value, null]
  if (name === 'items' || name === 'additionalProperties' || name === 'not')
    return isObject(value) ? jsonSchemaOf(value, depth + 1) : value
  if (name === 'anyOf' || name === 'oneOf' || name === 'allOf' || name === 'prefixItems')
    return Array.isArray(value) ? value.map(one => (isObject(one) ? jsonSchemaOf(one, depth + 1) : one)) : value
  if ((name !== 'properties' && name !== '$defs' && name !== 'defs') || !isObject(value)) return value
  const schemas = Object.entries(value).map(([key, one]) => [key, isObject(one) ? jsonSchemaOf(one, depth + 1) : one])
  return Object.fromEntries(schemas)
}
