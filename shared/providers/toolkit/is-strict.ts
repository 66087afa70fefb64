import { isObject } from '../../base/is-object.ts'

/** Members that hold schemas by name: the names are no members. */
const named = new Set(['properties', '$defs', 'definitions'])
/** Deeper schemas count as not strict. */
const maxSchemaDepth = 32

/**
 * Whether OpenAI's strict mode accepts a JSON Schema: every object lists all its properties as required and permits no
 * others. Anthropic's strict mode permits optional properties, too.
 */
export function isStrict(schema: unknown, depth = 0): boolean {
  if (depth > maxSchemaDepth) return false
  if (Array.isArray(schema)) return schema.every(one => isStrict(one, depth + 1))
  if (!isObject(schema)) return true
  if (isObject(schema.properties) || schema.type === 'object') {
    const { properties, required, additionalProperties } = schema
    const names = isObject(properties) ? Object.keys(properties) : []
    if (additionalProperties !== false || !names.every(name => Array.isArray(required) && required.includes(name)))
      return false
  }
  if (schema.patternProperties !== undefined) return false
  return Object.entries(schema).every(([name, value]) => {
    const inner = named.has(name) && isObject(value) ? Object.values(value) : value
    return isStrict(inner, depth + 1)
  })
}
