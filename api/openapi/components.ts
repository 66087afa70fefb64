import { z } from 'zod'

export type Json = Record<string, unknown>

type Kind = 'schemas' | 'responses' | 'requestBodies' | 'parameters' | 'headers' | 'examples'

/** The components of a document, by kind and name. */
export class Components {
  readonly #parts: Record<Kind, Json> = {
    schemas: {},
    requestBodies: {},
    responses: {},
    parameters: {},
    headers: {},
    examples: {},
  }

  /** The schemas of request bodies, by their `id`. */
  readonly #bodies = new Map<string, Json>()

  /** The referenced components, each kind sorted by name. */
  toJson(): Json {
    const kinds = Object.entries(this.#parts).filter(([, parts]) => Object.keys(parts).length > 0)
    const sorted = (parts: Json) => Object.fromEntries(Object.entries(parts).sort(([a], [b]) => (a < b ? -1 : 1)))
    return Object.fromEntries(kinds.map(([kind, parts]) => [kind, sorted(parts)]))
  }

  /** Adds a component and returns a reference to it. Throws an Error if two different components have one name. */
  refer(kind: Kind, name: string, part: unknown): Json {
    const parts = this.#parts[kind]
    if (parts[name] !== undefined && JSON.stringify(parts[name]) !== JSON.stringify(part))
      throw new Error(`two ${kind} of the OpenAPI document are called ${name}`)
    parts[name] = part
    return { $ref: `#/components/${kind}/${name}` }
  }

  /** A reference to an unnamed shared component: `name`, with a number if there are several. */
  share(kind: 'responses', name: string, part: unknown): Json {
    const parts = this.#parts[kind]
    const text = JSON.stringify(part)
    let free = name
    for (let i = 2; parts[free] !== undefined && JSON.stringify(parts[free]) !== text; i++) free = `${name}${i}`
    return this.refer(kind, free, part)
  }

  /** The JSON Schema of a Zod schema. Schemas with an `id` become references. */
  schema(schema: z.ZodType, io: 'input' | 'output'): Json {
    const { root, named } = jsonSchema(schema, io)
    for (const [name, part] of Object.entries(named)) this.refer('schemas', name, part)
    return root
  }

  /**
   * The JSON Schema of a request body, inlined even if it has an `id`. Bodies that contain it refer to a component without defaults,
   * as those of other parts are. `takesNulls`: its optional members may be null.
   */
  body(schema: z.ZodType, takesNulls: boolean): Json {
    const { root, named } = jsonSchema(schema, 'input')
    if (takesNulls) for (const part of [root, ...Object.values(named)]) permitNulls(part)
    const id = typeof root.$ref === 'string' ? nameIn(root.$ref) : null
    const body = id === null ? root : named[id]!
    if (id !== null && !this.#bodies.has(id)) this.#bodies.set(id, body)
    for (const [name, part] of Object.entries(named)) {
      if (name === id) continue
      const whole = this.#bodies.get(name)
      this.refer('schemas', name, whole ? withoutDefaults(whole) : part)
    }
    return body
  }
}

/** A schema without the defaults of its members, at any depth. */
function withoutDefaults(schema: Json): Json {
  const kept = Object.entries(schema).filter(([name]) => name !== 'default')
  return Object.fromEntries(
    kept.map(([name, value]) => [name, name === 'properties' ? mapMembers(value as Json) : withoutDefaultsIn(value)]),
  )
}

const mapMembers = (members: Json) =>
  Object.fromEntries(Object.entries(members).map(([name, member]) => [name, withoutDefaults(member as Json)]))

function withoutDefaultsIn(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutDefaultsIn)
  return typeof value === 'object' && value !== null ? withoutDefaults(value as Json) : value
}

/** Converts a Zod schema to JSON Schema, with the schemas with an `id` that it references. */
function jsonSchema(schema: z.ZodType, io: 'input' | 'output'): { root: Json; named: Record<string, Json> } {
  const made = z.toJSONSchema(schema, {
    io,
    target: 'draft-2020-12',
    unrepresentable: 'any',
    reused: 'inline',
    override: ({ jsonSchema }) => simplify(jsonSchema),
  })
  // Zod nests named schemas inside the given one; this document has one place for all.
  const text = JSON.stringify(made).replaceAll('"#/$defs/', '"#/components/schemas/')
  const {
    $schema: _dialect,
    $defs = {},
    ...root
  } = JSON.parse(text) as { $schema: string; $defs?: Record<string, Json> }
  const named = Object.entries($defs).map(([name, { id: _, ...part }]) => [name, addDiscriminator(part, $defs)])
  return { root, named: Object.fromEntries(named) }
}

function nameIn($ref: unknown): string {
  return String($ref).split('/').at(-1)!
}

/** Removes what only describes Zod's validation, and fields that are not public. */
function simplify(schema: z.core.JSONSchema.BaseSchema): void {
  if (schema.minimum === Number.MIN_SAFE_INTEGER) delete schema.minimum
  if (schema.maximum === Number.MAX_SAFE_INTEGER) delete schema.maximum
  if (schema.format) delete schema.pattern
  // Zod duplicates a named schema that was refined.
  if (schema.$ref) for (const name of ['type', 'properties', 'required', 'additionalProperties']) delete schema[name]
  // Zod emits no default for transformed schemas.
  if ('x-default' in schema) {
    schema.default = schema['x-default'] as NonNullable<typeof schema.default>
    delete schema['x-default']
  }
  for (const [name, field] of Object.entries(schema.properties ?? {}))
    if (typeof field === 'object' && field['x-internal']) {
      delete schema.properties![name]
      if (schema.required) schema.required = schema.required.filter(one => one !== name)
    }
  // The default of a missing object consists of the defaults of its fields.
  if (schema.properties && schema.default && typeof schema.default === 'object')
    schema.default = { ...defaultsIn(schema.properties), ...schema.default }
  mergeNull(schema)
  relaxUnion(schema)
}

function defaultsIn(properties: Record<string, unknown>): Json {
  const fields = Object.entries(properties as Record<string, Json>).filter(([, field]) => field.default !== undefined)
  return Object.fromEntries(fields.map(([name, field]) => [name, field.default]))
}

/** Merges `anyOf` of a type and null into a nullable type. */
function mergeNull(schema: z.core.JSONSchema.BaseSchema): void {
  const [whole, nothing] = schema.anyOf ?? []
  if (schema.anyOf?.length !== 2 || typeof whole !== 'object' || typeof nothing !== 'object') return
  if (nothing.type !== 'null' || typeof whole.type !== 'string' || 'const' in whole || whole.$ref) return
  delete schema.anyOf
  const values = whole.enum && { enum: [...whole.enum, null] }
  Object.assign(schema, { ...whole, ...schema, type: [whole.type, 'null'], ...values })
}

/** Lets the optional members of a schema's objects, at any depth, be null. */
function permitNulls(schema: unknown): void {
  if (typeof schema !== 'object' || schema === null) return
  const { properties, required = [] } = schema as { properties?: Record<string, Json>; required?: string[] }
  for (const value of Object.values(schema)) permitNulls(value)
  for (const [name, property] of Object.entries(properties ?? {}))
    if (!required.includes(name) && !mayBeNull(property)) properties![name] = nullable(property)
}

function mayBeNull({ type, anyOf, $ref, enum: values, const: only, oneOf }: Json): boolean {
  if (Array.isArray(anyOf)) return anyOf.some(mayBeNull)
  if ([$ref, values, only, oneOf].every(one => one === undefined) && type === undefined) return true
  return [type].flat().includes('null')
}

function nullable(property: Json): Json {
  const { description, default: usual, ...whole } = property
  const about = { ...(description !== undefined && { description }), ...(usual !== undefined && { default: usual }) }
  if (typeof whole.type !== 'string' || 'const' in whole || whole.$ref)
    return { ...about, anyOf: [...((whole.anyOf as Json[] | undefined) ?? [whole]), { type: 'null' }] }
  const values = Array.isArray(whole.enum) ? { enum: [...whole.enum, null] } : {}
  return { ...about, ...whole, type: [whole.type, 'null'], ...values }
}

/** Makes `oneOf` of objects that an optional constant distinguishes `anyOf`: without it, an object may match several. */
function relaxUnion(schema: z.core.JSONSchema.BaseSchema): void {
  const branches = schema.oneOf as Json[] | undefined
  const first = branches?.[0]?.properties as Json | undefined
  if (!branches || !first) return
  const isOptional = (field: string) =>
    branches.every(
      ({ properties }) => ((properties as Json | undefined)?.[field] as Json | undefined)?.const !== undefined,
    ) && branches.some(({ required }) => !(required as string[] | undefined)?.includes(field))
  if (!Object.keys(first).some(isOptional)) return
  schema.anyOf = schema.oneOf!
  delete schema.oneOf
}

/**
 * Adds the `discriminator` to a union of named objects that differ in the constants of one field; without one where that field is
 * optional: an object may match several then.
 */
function addDiscriminator(union: Json, named: Record<string, Json>): Json {
  const branches = union.oneOf as Json[] | undefined
  if (!branches?.every(branch => typeof branch.$ref === 'string')) return union
  const objects = branches.map(({ $ref }) => named[nameIn($ref)] as { properties?: Json; required?: string[] })
  const [first] = objects
  const isConstant = (field: string) =>
    objects.every(({ properties }) => (properties?.[field] as Json | undefined)?.const !== undefined)
  const propertyName = Object.keys(first?.properties ?? {}).find(isConstant)
  if (!propertyName) return union
  if (!objects.every(({ required }) => required?.includes(propertyName))) {
    const { oneOf: _, ...rest } = union
    return { ...rest, anyOf: branches }
  }
  const mapping = objects.map(({ properties }, i) => [(properties![propertyName] as Json).const, branches[i]!.$ref])
  return { ...union, discriminator: { propertyName, mapping: Object.fromEntries(mapping) } }
}
