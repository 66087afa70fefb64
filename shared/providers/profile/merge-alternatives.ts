import { isObject } from '../../base/is-object.ts'
import { type FittedSchema, isObjectNode, isOpen, type Schema, tell } from './schema-nodes.ts'

/**
 * OpenAI: "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level"
 * (https://github.com/langchain-ai/langchainjs/issues/9804). Anthropic: "input_schema does not support oneOf, allOf, or anyOf at the
 * top level" (https://github.com/anthropics/claude-code/issues/27337).
 */
const combinators = ['allOf', 'anyOf', 'oneOf'] as const
const others = ['not', 'enum', 'const'] as const
/** Alternatives within alternatives beyond this are left to the text. */
const maxDepth = 8
/** How often one reference of a schema is resolved: definitions may refer to each other. */
const maxUses = 8
/** Alternatives whose text is longer are not told. */
const maxToldCharacters = 4_000
/** Longer rules for one property count as different. */
const maxComparedCharacters = 64 * 1024
/** The members of a part that the merged object has. */
const mergedMembers = new Set(['type', 'properties', 'required', 'additionalProperties', 'title', 'description'])

type Part = { schema: Schema; isWhole: boolean }

/**
 * By how many characters the schemas of one request may become longer when they are fitted: definitions that stand in place of each of
 * their references, and rules that are told in texts. A request may double its schemas, and what is reserved for it by its length
 * still covers them: a token has some four characters.
 */
export class SchemaGrowth {
  #characters = 64 * 1024

  /** Counts the characters of a schema, of which as many may be added. */
  count(characters: number): void {
    this.#characters += characters
  }

  /** Whether so many may be added: they count. */
  take(characters: number): boolean {
    if (characters > this.#characters) return false
    this.#characters -= characters
    return true
  }
}

/** Merges the alternatives of objects in one schema, to whose definitions they may refer. */
export class AlternativesMerger {
  readonly #root: Schema
  readonly #growth: SchemaGrowth
  readonly #uses = new Map<string, number>()
  readonly #texts = new WeakMap<object, string | null>()
  /** The characters of definitions that were referred to, as JSON. */
  readonly #lengths = new WeakMap<object, number>()
  #isCounted = false

  constructor(root: Schema, growth: SchemaGrowth) {
    this.#root = root
    this.#growth = growth
  }

  /**
   * An object schema with the properties of all its alternatives: of `allOf` all that is required, of `anyOf` and `oneOf` what all
   * of them require. What that does not say is told in the description. The same object if it has no alternatives.
   */
  merge(given: Schema, depth = 0): FittedSchema {
    const schema = this.resolve(given)
    if (![...combinators, ...others].some(name => schema[name] !== undefined)) return { schema, losesMeaning: false }
    const told: Schema = {}
    let object: Schema = { ...schema, type: 'object' }
    for (const name of combinators) {
      const list: unknown = object[name]
      delete object[name]
      if (!Array.isArray(list)) continue
      const parts = list.filter(isObject).map(part => this.#partOf(part, depth))
      const isAll = name === 'allOf' || parts.length === 1
      if (!isAll || !parts.every(part => part.isWhole) || this.#collide(object, parts)) told[name] = list
      object = this.#withParts(object, parts, isAll)
    }
    for (const name of others) {
      if (object[name] !== undefined) told[name] = object[name]
      delete object[name]
    }
    if (Object.keys(told).length === 0) return { schema: object, losesMeaning: false }
    const isTold = isJsonWithin(told, maxToldCharacters) && this.#mayAdd(JSON.stringify(told).length)
    return { schema: isTold ? { ...object, ...tell(object, told) } : object, losesMeaning: true }
  }

  /**
   * The object that is all parts of an `allOf`, the same node if they are no objects; null if one object cannot state what they do.
   * Parts that are closed each for itself, as Zod writes those of an intersection, are meant to be closed together.
   */
  intersect(node: Schema): Schema | null {
    const { allOf, ...own } = node
    const given = (Array.isArray(allOf) ? allOf : []).filter(isObject).map(part => this.resolve(part))
    if (![own, ...given].some(isObjectNode)) return node
    const parts = given.map(part => this.#partOf(part, 0))
    const isWhole = parts.every(part => part.isWhole && !isOpen(part.schema))
    if (!isWhole || this.#collide(own, parts)) return null
    return this.#withParts({ ...own, type: 'object' }, parts, true)
  }

  /** A part with its own alternatives merged; `isWhole`: a merged object can say all of it. */
  #partOf(part: Schema, depth: number): Part {
    if (depth >= maxDepth) return { schema: part, isWhole: false }
    const { schema, losesMeaning } = this.merge(part, depth + 1)
    return { schema, isWhole: !losesMeaning && Object.keys(schema).every(name => mergedMembers.has(name)) }
  }

  /** A schema with what it refers to, where definitions usually are, in place of the reference. */
  resolve(schema: Schema): Schema {
    if (typeof schema.$ref !== 'string') return schema
    const [, place, name] = /^#\/(\$defs|definitions)\/([^/]+)$/.exec(schema.$ref) ?? []
    const definitions = place && this.#root[place]
    const found = isObject(definitions) && Object.hasOwn(definitions, name!) ? definitions[name!] : undefined
    const uses = (this.#uses.get(schema.$ref) ?? 0) + 1
    if (!isObject(found) || uses > maxUses || !this.#mayAdd(this.#lengthOf(found))) return schema
    this.#uses.set(schema.$ref, uses)
    const { $ref: _, ...own } = schema
    return { ...found, ...own }
  }

  /** Whether two of these schemas have rules for one property that differ. */
  #collide(object: Schema, parts: readonly Part[]): boolean {
    const seen = new Map<string, string | null>()
    return [object, ...parts.map(({ schema }) => schema)].some(one =>
      Object.entries(propertiesOf(one)).some(([name, value]) => {
        const text = this.#textOf(value)
        const isOther = seen.has(name) && (text === null || seen.get(name) !== text)
        seen.set(name, text)
        return isOther
      }),
    )
  }

  /** The object with the properties of the parts; its own rules for one count. */
  #withParts(object: Schema, parts: readonly Part[], isAll: boolean): Schema {
    const variants = new Map<string, Map<unknown, unknown>>()
    for (const { schema } of parts)
      for (const [name, value] of Object.entries(propertiesOf(schema))) {
        const known = variants.get(name) ?? new Map<unknown, unknown>()
        variants.set(name, known.set(this.#textOf(value) ?? value, value))
      }
    const added = [...variants].map(([name, values]) => {
      const [first, ...further] = values.values()
      return [name, further.length === 0 || isAll ? first : { anyOf: [first, ...further] }] as const
    })
    const lists = parts.map(({ schema }) => requiredOf(schema))
    const sets = lists.map(list => new Set(list))
    const shared = isAll ? lists.flat() : (lists[0] ?? []).filter(name => sets.every(set => set.has(name)))
    const required = [...new Set([...requiredOf(object), ...shared])]
    const isClosed = parts.length > 0 && parts.every(({ schema }) => schema.additionalProperties === false)
    return {
      ...object,
      properties: { ...Object.fromEntries(added), ...propertiesOf(object) },
      ...(required.length > 0 && { required }),
      ...(isClosed && { additionalProperties: false, ...pick(object, 'additionalProperties') }),
      ...(isAll && parts.length === 1 && { ...pick(parts[0]!.schema, 'description'), ...pick(object, 'description') }),
    }
  }

  /** A value as JSON; null if that is too long to be compared. */
  #textOf(value: unknown): string | null {
    if (typeof value !== 'object' || value === null) return String(value)
    let text = this.#texts.get(value)
    if (text === undefined) {
      text = isJsonWithin(value, maxComparedCharacters) ? JSON.stringify(value) : null
      this.#texts.set(value, text)
    }
    return text
  }

  #lengthOf(definition: object): number {
    let length = this.#lengths.get(definition)
    if (length === undefined) {
      length = JSON.stringify(definition).length
      this.#lengths.set(definition, length)
    }
    return length
  }

  /** Whether the schema may become longer by this many characters. */
  #mayAdd(characters: number): boolean {
    if (!this.#isCounted) this.#growth.count(JSON.stringify(this.#root).length)
    this.#isCounted = true
    return this.#growth.take(characters)
  }
}

/** Whether the JSON of a value has at most about `maxCharacters`; reads no more than these. */
function isJsonWithin(value: unknown, maxCharacters: number): boolean {
  let left = maxCharacters
  const fits = (inner: unknown): boolean => {
    if (typeof inner === 'string') left -= inner.length + 2
    else if (typeof inner !== 'object' || inner === null) left -= 4
    else if (Array.isArray(inner)) {
      left -= 2
      return left >= 0 && inner.every(fits)
    } else {
      left -= 2
      for (const name in inner) {
        left -= name.length + 4
        if (left < 0 || !fits((inner as Schema)[name])) return false
      }
    }
    return left >= 0
  }
  return fits(value)
}

function propertiesOf({ properties }: Schema): Schema {
  return isObject(properties) ? properties : {}
}

function requiredOf({ required }: Schema): unknown[] {
  return Array.isArray(required) ? required : []
}

function pick(schema: Schema, name: string): Schema {
  return schema[name] === undefined ? {} : { [name]: schema[name] }
}
