import { isObject } from '../../base/is-object.ts'
import type { ChatProfile } from '../../catalog/chat-profile.ts'
import { isStrict } from '../toolkit/is-strict.ts'
import { closedNode } from './closed-node.ts'
import type { Fitting } from './fitting.ts'
import { AlternativesMerger, type SchemaGrowth } from './merge-alternatives.ts'
import {
  type FitNode,
  type FittedSchema,
  geminiNode,
  inDraft2020,
  type Lose,
  named,
  openAiNode,
  patternNode,
  resolvedNode,
  type Schema,
} from './schema-nodes.ts'
import { typedNode } from './typed-node.ts'

type Dialect = ChatProfile['schema']

/** `losesAnswers`: the sent schema refuses some that the given one permits. */
type FittedNodes = FittedSchema & { losesAnswers: boolean }

/** Deeper schemas are sent as they are. */
const maxDepth = 64

const nodes: Record<Dialect, FitNode> = {
  with_properties: openAiNode,
  closed_objects: closedNode,
  bare_references: geminiNode,
  typed_nodes: typedNode,
  bare_root: resolvedNode,
}

/**
 * Fits a JSON Schema to the subset that a provider accepts; the same object if it does. What is left out is told in the
 * description, which the model reads. Null as dialect: any schema of the present draft.
 */
export function fitSchema(schema: Schema, dialect: Dialect | null, merger: AlternativesMerger): FittedNodes {
  const fitNode = dialect && nodes[dialect]
  return fitNodes(schema, merger, (node, lose) => {
    const current = inDraft2020(node)
    return fitNode ? fitNode(current, lose, merger) : current
  })
}

function fitNodes(schema: Schema, merger: AlternativesMerger, fitNode: FitNode): FittedNodes {
  const fitter = new SchemaFitter(fitNode, merger)
  const fitted = fitter.fit(schema, 0) as Schema
  return { schema: fitted, losesMeaning: fitter.losesMeaning, losesAnswers: fitter.losesAnswers }
}

/** Fits the schema of a tool's parameters, of which some providers require more than of others. */
export function fitParametersSchema(
  schema: Schema,
  { schema: dialect, root_combinators: takesCombinators }: Pick<ChatProfile, 'schema' | 'root_combinators'>,
  strict: boolean,
  growth: SchemaGrowth,
): FittedNodes {
  const merger = new AlternativesMerger(schema, growth)
  const merged = takesCombinators ? { schema, losesMeaning: false } : merger.merge(schema)
  // Anthropic compiles only the schemas of strict tools, all of which are objects, also those that do not say so.
  const compiled = dialect === 'closed_objects' && !strict ? null : dialect
  // Where no properties are named, there are none, unless others are permitted.
  const isNamed = compiled !== 'closed_objects' || (merged.schema.type !== undefined && merged.schema.properties)
  const given = isNamed ? merged.schema : { properties: {}, ...merged.schema, type: 'object' }
  const { losesMeaning, losesAnswers, ...fitted } = fitSchema(given, compiled, merger)
  return {
    schema: withRoot(fitted.schema, dialect),
    losesMeaning: merged.losesMeaning || losesMeaning || (dialect === 'bare_root' && isOpenRecord(fitted.schema)),
    losesAnswers,
  }
}

/** The schema of parameters with the root that a provider requires. */
function withRoot(schema: Schema, dialect: Dialect): Schema {
  if (dialect === 'with_properties' || dialect === 'typed_nodes') return withProperties(schema)
  if (dialect !== 'bare_root') return schema
  const { properties = {}, required } = schema
  return { type: 'object', properties, ...(required !== undefined && { required }) }
}

/** Whether an object has rules for properties that it does not name. */
export function isOpenRecord({ additionalProperties: others, patternProperties }: Schema): boolean {
  return isObject(others) || isObject(patternProperties)
}

/** "object schema missing properties": https://github.com/openai/openai-agents-python/issues/454 */
function withProperties(schema: Schema): Schema {
  if (schema.properties !== undefined) return schema
  if (schema.type !== 'object' && Object.keys(schema).length > 0) return schema
  return { ...schema, type: 'object', properties: {} }
}

/** The members of a schema that hold one schema, or a list of schemas. */
const single = new Set(['items', 'additionalProperties', 'not', 'if', 'then', 'else', 'contains', 'propertyNames'])
const lists = new Set(['anyOf', 'oneOf', 'allOf', 'prefixItems'])

class SchemaFitter {
  losesMeaning = false
  losesAnswers = false
  readonly #fitNode: FitNode
  readonly #merger: AlternativesMerger

  constructor(fitNode: FitNode, merger: AlternativesMerger) {
    this.#fitNode = fitNode
    this.#merger = merger
  }

  fit(node: unknown, depth: number): unknown {
    if (!isObject(node) || depth > maxDepth) return node
    let fitted = this.#fitNode(node, this.#lose, this.#merger)
    for (const name of Object.keys(fitted)) {
      const value = fitted[name]
      const inner = this.#fitMember(name, value, depth + 1)
      if (inner === value) continue
      fitted = fitted === node ? { ...fitted } : fitted
      fitted[name] = inner
    }
    return fitted
  }

  #lose: Lose = what => {
    this.losesMeaning = true
    if (what === 'answers') this.losesAnswers = true
  }

  #fitMember(name: string, value: unknown, depth: number): unknown {
    if (single.has(name)) return this.fit(value, depth)
    if (lists.has(name) && Array.isArray(value)) {
      const fitted = value.map(one => this.fit(one, depth))
      return fitted.every((one, index) => one === value[index]) ? value : fitted
    }
    if (!named.has(name) || !isObject(value)) return value
    const fitted = Object.entries(value).map(([key, one]) => [key, this.fit(one, depth)] as const)
    return fitted.every(([key, one]) => one === value[key]) ? value : Object.fromEntries(fitted)
  }
}

/** Fits the schema of an answer. What OpenAI requires of a tool's parameters does not apply to it, apart from patterns. */
export function fitFormatSchema(schema: Schema, dialect: Dialect, growth: SchemaGrowth): FittedNodes {
  const merger = new AlternativesMerger(schema, growth)
  return dialect === 'with_properties' ? fitNodes(schema, merger, patternNode) : fitSchema(schema, dialect, merger)
}

/** Fits the schema of the answer, if its format has one. */
export function fitAnswerSchema(fitting: Fitting): void {
  const { response_format: format } = fitting.body
  const { schema: dialect, strict_schemas: strictSchemas } = fitting.profile
  if (format?.type !== 'json_schema' || !format.json_schema.schema) return
  const { schema: given, strict } = format.json_schema
  const losesStrict = strict === true && strictSchemas === 'closed_required' && !isStrict(given)
  const { schema, losesMeaning } = fitFormatSchema(given, dialect, fitting.schemaGrowth)
  if (schema === given && !losesStrict) return
  const json_schema = { ...format.json_schema, schema, ...(losesStrict && { strict: false }) }
  if (losesMeaning || losesStrict) fitting.adjust('response_format', { ...format, json_schema })
  else fitting.set({ response_format: { ...format, json_schema } })
}
