import { isObject } from '../../base/is-object.ts'
import { type FittedSchema, type Schema, tell } from './schema-nodes.ts'

/**
 * OpenAI: "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level"
 * (https://github.com/langchain-ai/langchainjs/issues/9804). Anthropic: "input_schema does not support oneOf, allOf, or anyOf at the
 * top level" (https://github.com/anthropics/claude-code/issues/27337).
 */
const combinators = ['allOf', 'anyOf', 'oneOf'] as const
const others = ['not', 'enum', 'const'] as const
/** Alternatives within alternatives beyond this are left to the text. */
const maxDepth = 8
/** Alternatives whose text is longer are not told. */
const maxToldCharacters = 4_000
/** The members of a part that the merged object has. */
const merged = new Set(['type', 'properties', 'required', 'additionalProperties', 'title', 'description'])

type Part = { schema: Schema; isWhole: boolean }

/**
 * An object schema with the properties of all its alternatives: of `allOf` all that is required, of `anyOf` and `oneOf` what all of
 * them require. What that does not say is told in the description. The same object if it has no alternatives.
 */
export function mergeAlternatives(given: Schema, root: Schema, depth = 0): FittedSchema {
  const schema = resolved(given, root)
  if (![...combinators, ...others].some(name => schema[name] !== undefined)) return { schema, losesMeaning: false }
  const told: Schema = {}
  let object: Schema = { ...schema, type: 'object' }
  for (const name of combinators) {
    const list: unknown = object[name]
    delete object[name]
    if (!Array.isArray(list)) continue
    const parts = list.filter(isObject).map(part => partOf(part, root, depth))
    const isAll = name === 'allOf' || parts.length === 1
    const isWhole = isAll && parts.every(part => part.isWhole) && !collide(object, parts)
    if (!isWhole) told[name] = list
    object = withParts(object, parts, isAll)
  }
  for (const name of others) {
    if (object[name] !== undefined) told[name] = object[name]
    delete object[name]
  }
  if (Object.keys(told).length === 0) return { schema: object, losesMeaning: false }
  const isShort = JSON.stringify(told).length <= maxToldCharacters
  return { schema: isShort ? { ...object, ...tell(object, told) } : object, losesMeaning: true }
}

/** A part with what it refers to and its own alternatives merged; `isWhole`: a merged object can say all of it. */
function partOf(part: Schema, root: Schema, depth: number): Part {
  if (depth >= maxDepth) return { schema: resolved(part, root), isWhole: false }
  const { schema, losesMeaning } = mergeAlternatives(part, root, depth + 1)
  return { schema, isWhole: !losesMeaning && Object.keys(schema).every(name => merged.has(name)) }
}

/** A schema with what it refers to, where definitions usually are, in place of the reference. */
function resolved(schema: Schema, root: Schema): Schema {
  if (typeof schema.$ref !== 'string') return schema
  const [, place, name] = /^#\/(\$defs|definitions)\/([^/]+)$/.exec(schema.$ref) ?? []
  const definitions = place && root[place]
  const found = isObject(definitions) ? definitions[name!] : undefined
  if (!isObject(found)) return schema
  const { $ref: _, ...own } = schema
  return { ...found, ...own }
}

function propertiesOf({ properties }: Schema): Schema {
  return isObject(properties) ? properties : {}
}

function requiredOf({ required }: Schema): unknown[] {
  return Array.isArray(required) ? required : []
}

/** Whether two of these schemas have rules for one property that differ. */
function collide(object: Schema, parts: readonly Part[]): boolean {
  const seen = new Map<string, string>()
  return [object, ...parts.map(({ schema }) => schema)].some(one =>
    Object.entries(propertiesOf(one)).some(([name, value]) => {
      const text = JSON.stringify(value)
      const isOther = seen.has(name) && seen.get(name) !== text
      seen.set(name, text)
      return isOther
    }),
  )
}

/** The object with the properties of the parts; its own rules for one count. */
function withParts(object: Schema, parts: readonly Part[], isAll: boolean): Schema {
  const own = propertiesOf(object)
  const variants = new Map<string, Map<string, unknown>>()
  for (const { schema } of parts)
    for (const [name, value] of Object.entries(propertiesOf(schema))) {
      const known = variants.get(name) ?? new Map<string, unknown>()
      variants.set(name, known.set(JSON.stringify(value), value))
    }
  const added = [...variants].map(([name, values]) => {
    const [first, ...further] = values.values()
    return [name, further.length === 0 || isAll ? first : { anyOf: [first, ...further] }] as const
  })
  const properties = { ...Object.fromEntries(added), ...own }
  const lists = parts.map(({ schema }) => requiredOf(schema))
  const shared = isAll ? lists.flat() : (lists[0] ?? []).filter(name => lists.every(list => list.includes(name)))
  const required = [...new Set([...requiredOf(object), ...shared])]
  const isClosed = parts.length > 0 && parts.every(({ schema }) => schema.additionalProperties === false)
  return {
    ...object,
    properties,
    ...(required.length > 0 && { required }),
    ...(isClosed && { additionalProperties: false, ...pick(object, 'additionalProperties') }),
    ...(isAll && parts.length === 1 && { ...pick(parts[0]!.schema, 'description'), ...pick(object, 'description') }),
  }
}

function pick(schema: Schema, name: string): Schema {
  return schema[name] === undefined ? {} : { [name]: schema[name] }
}
