import fc from 'fast-check'
import { type OpenApi, resolved } from './openapi.ts'

/** Random values by the schemas of an OpenAPI document. */

type JsonSchema = {
  $ref?: string
  type?: string | string[]
  const?: unknown
  enum?: unknown[]
  format?: string
  pattern?: string
  minimum?: number
  maximum?: number
  exclusiveMinimum?: number
  exclusiveMaximum?: number
  minLength?: number
  maxLength?: number
  minItems?: number
  maxItems?: number
  properties?: Record<string, JsonSchema>
  required?: string[]
  additionalProperties?: boolean | JsonSchema
  items?: JsonSchema
  prefixItems?: JsonSchema[]
  anyOf?: JsonSchema[]
  oneOf?: JsonSchema[]
  allOf?: JsonSchema[]
  examples?: unknown[]
  default?: unknown
}

const maxDepth = 7
const maxItems = 3
const maxTextLength = 60
/** Of the fields that may be left out, this share is there. */
const optionalShare = 0.25

/** What has a form of its own. No address leads out of this machine. */
const formats: Record<string, fc.Arbitrary<unknown>> = {
  uri: fc.constantFrom('https://fuzz.invalid/a.png', 'http://127.0.0.1:9/a', 'data:text/plain;base64,SGk='),
  'date-time': fc.constantFrom('2026-11-01T00:00:00Z', '2026-11-27T10:00:00.000Z', '2020-02-29T23:59:59+01:00'),
  date: fc.constantFrom('2026-11-01', '2026-02-28'),
  email: fc.constant('fuzz@fuzz.invalid'),
  uuid: fc.uuid(),
  binary: fc.constantFrom('', 'not a file', 'RIFF\0\0\0\0WAVEfmt '),
}
const word = fc.string({ maxLength: 12 })
const anything = fc.jsonValue({ maxDepth: 2 })

/** Values that a schema takes, as far as it can be read; small ones. */
export function valuesOf(schema: object, document: OpenApi, depth = 0): fc.Arbitrary<unknown> {
  const whole = resolved(document, schema as JsonSchema)
  if (whole !== schema) return valuesOf(whole, document, depth)
  if (whole.const !== undefined) return fc.constant(whole.const)
  if (whole.enum) return fc.constantFrom(...whole.enum)
  const branches = whole.anyOf ?? whole.oneOf
  if (branches) {
    const { anyOf: _any, oneOf: _one, ...common } = whole
    const some = depth > maxDepth ? branches.slice(0, 1) : branches
    return fc.oneof(...some.map(branch => valuesOf(merged([common, branch], document), document, depth + 1)))
  }
  if (whole.allOf) {
    const { allOf, ...common } = whole
    return valuesOf(merged([common, ...allOf], document), document, depth + 1)
  }
  const types = [whole.type ?? (whole.properties ? 'object' : [])].flat()
  if (types.length === 0) return anything
  return fc.oneof(...types.map(type => valuesOfType(type, whole, document, depth)))
}

/** One schema of several that hold together. */
function merged(parts: readonly JsonSchema[], document: OpenApi): JsonSchema {
  const whole: JsonSchema = {}
  for (const part of parts.map(one => resolved(document, one))) {
    const properties = { ...whole.properties, ...part.properties }
    const required = [...new Set([...(whole.required ?? []), ...(part.required ?? [])])]
    Object.assign(whole, part)
    if (Object.keys(properties).length > 0) whole.properties = properties
    if (required.length > 0) whole.required = required
  }
  return whole
}

function valuesOfType(type: string, schema: JsonSchema, document: OpenApi, depth: number): fc.Arbitrary<unknown> {
  switch (type) {
    case 'null':
      return fc.constant(null)
    case 'boolean':
      return fc.boolean()
    case 'integer':
    case 'number':
      return numbersOf(schema, type === 'integer')
    case 'string':
      return textsOf(schema)
    case 'array':
      return listsOf(schema, document, depth)
    default:
      return objectsOf(schema, document, depth)
  }
}

function numbersOf(schema: JsonSchema, isWhole: boolean): fc.Arbitrary<number> {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum } = schema
  const min = minimum ?? (exclusiveMinimum === undefined ? -5 : exclusiveMinimum + (isWhole ? 1 : 0.01))
  const max = maximum ?? (exclusiveMaximum === undefined ? min + 5_000 : exclusiveMaximum - (isWhole ? 1 : 0.01))
  const ends = fc.constantFrom(min, max)
  if (isWhole) return fc.oneof(fc.integer({ min: Math.ceil(min), max: Math.floor(Math.max(min, max)) }), ends)
  return fc.oneof(fc.double({ min, max: Math.max(min, max), noNaN: true }), ends)
}

function textsOf({ format, pattern, minLength = 0, maxLength = maxTextLength }: JsonSchema): fc.Arbitrary<unknown> {
  const known = format && formats[format]
  if (known) return known
  const longest = Math.max(minLength, Math.min(maxLength, maxTextLength))
  if (pattern) {
    const matching = matchingOf(pattern)
    if (matching) return matching.filter(text => text.length >= minLength && text.length <= maxLength)
  }
  return fc.oneof(
    fc.string({ minLength, maxLength: longest }),
    fc.string({ unit: 'grapheme', minLength, maxLength: longest }),
  )
}

/** Texts that match a pattern; null for one that cannot be followed. */
function matchingOf(pattern: string): fc.Arbitrary<string> | null {
  try {
    return fc.stringMatching(new RegExp(pattern, 'u'))
  } catch {
    return null
  }
}

function listsOf(schema: JsonSchema, document: OpenApi, depth: number): fc.Arbitrary<unknown[]> {
  const { items, prefixItems, minItems = 0, maxItems: most = maxItems } = schema
  if (prefixItems) return fc.tuple(...prefixItems.map(item => valuesOf(item, document, depth + 1)))
  const maxLength = depth > maxDepth ? minItems : Math.max(minItems, Math.min(most, maxItems))
  return fc.array(items ? valuesOf(items, document, depth + 1) : anything, { minLength: minItems, maxLength })
}

function objectsOf(schema: JsonSchema, document: OpenApi, depth: number): fc.Arbitrary<object> {
  const { properties = {}, required = [], additionalProperties } = schema
  const needed = new Set(required)
  const shown = Object.entries(properties).filter(([name]) => depth <= maxDepth || needed.has(name))
  const fields = shown.map(([name, property]) => {
    const value = fc.noShrink(valuesOf(property, document, depth + 1))
    const share = { maxWeight: 100, weight: Math.round(100 * optionalShare) }
    const some = fc.oneof(
      { weight: share.weight, arbitrary: value.map(one => ({ [name]: one })) },
      { weight: share.maxWeight - share.weight, arbitrary: fc.constant({}) },
    )
    return needed.has(name) ? value.map(one => ({ [name]: one })) : some
  })
  const own = fc.tuple(...fields).map(parts => Object.assign({}, ...parts))
  if (shown.length > 0 || typeof additionalProperties !== 'object') return own
  return fc.dictionary(word, valuesOf(additionalProperties, document, depth + 1), { maxKeys: maxItems })
}
