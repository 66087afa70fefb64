import { isObject } from '../../base/is-object.ts'

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
  return Object.values(schema).every(value => isStrict(value, depth + 1))
}
