import { isObject } from '../../base/is-object.ts'
import type { ChatProfile } from '../../catalog/chat-profile.ts'

type Schema = Record<string, unknown>
/** `losesMeaning`: a rule of the schema is not sent, or only as text of a description. */
type FittedSchema = { schema: Schema; losesMeaning: boolean }

/** Deeper schemas are sent as they are. */
const maxDepth = 64

/**
 * Fits a JSON Schema to the subset that a provider accepts; the same object if it does. What is left out is told in the
 * description, which the model reads.
 */
export function fitSchema(schema: Schema, dialect: ChatProfile['schema']): FittedSchema {
  if (dialect === 'with_properties') return { schema: withProperties(schema), losesMeaning: false }
  const fitter = new SchemaFitter(dialect === 'closed_objects' ? anthropicNode : geminiNode)
  return { schema: fitter.fit(schema, 0) as Schema, losesMeaning: fitter.losesMeaning }
}

/** "object schema missing properties": https://github.com/openai/openai-agents-python/issues/454 */
function withProperties(schema: Schema): Schema {
  if (schema.properties !== undefined) return schema
  if (schema.type !== 'object' && Object.keys(schema).length > 0) return schema
  return { ...schema, type: 'object', properties: {} }
}

type FitNode = (node: Schema, lose: () => void) => Schema

/** The members of a schema that hold one schema, a list of schemas, or schemas by name. */
const single = new Set(['items', 'additionalProperties', 'not', 'if', 'then', 'else', 'contains', 'propertyNames'])
const lists = new Set(['anyOf', 'oneOf', 'allOf', 'prefixItems'])
const named = new Set(['properties', '$defs', 'definitions', 'patternProperties', 'dependentSchemas'])

class SchemaFitter {
  losesMeaning = false
  readonly #fitNode: FitNode

  constructor(fitNode: FitNode) {
    this.#fitNode = fitNode
  }

  fit(node: unknown, depth: number): unknown {
    if (!isObject(node) || depth > maxDepth) return node
    let fitted: Schema = this.#fitNode(node, () => {
      this.losesMeaning = true
    })
    for (const name of Object.keys(fitted)) {
      const value = fitted[name]
      const inner = this.#fitMember(name, value, depth + 1)
      if (inner === value) continue
      fitted = fitted === node ? { ...fitted } : fitted
      fitted[name] = inner
    }
    return fitted
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

/**
 * Google refuses a reference beside other members: "can only contain properties starting with '$' when $ref is present",
 * https://github.com/google-gemini/gemini-cli/issues/4758
 */
const geminiNode: FitNode = (node, lose) => {
  if (typeof node.$ref !== 'string') return node
  const foreign = Object.keys(node).filter(name => !name.startsWith('$'))
  if (foreign.length === 0) return node
  if (foreign.some(name => name !== 'description' && name !== 'title')) lose()
  return Object.fromEntries(Object.entries(node).filter(([name]) => name.startsWith('$')))
}

/** Members beside a `$ref` that add no rule. */
const beside$ref = new Set(['$ref', '$defs', 'definitions', '$schema', 'description', 'title'])
const formats = new Set('date-time time date duration email hostname uri ipv4 ipv6 uuid'.split(' '))
/** The keywords that Anthropic's structured outputs refuse, as the transformation of its SDKs knows them. */
const refusedKeywords = new Set(
  [
    'minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength pattern maxItems uniqueItems',
    'minContains maxContains contains minProperties maxProperties patternProperties propertyNames prefixItems',
    'not if then else dependentSchemas dependentRequired unevaluatedProperties',
  ]
    .join(' ')
    .split(' '),
)

/**
 * https://platform.claude.com/docs/en/build-with-claude/structured-outputs (How SDK transformation works): objects permit
 * no other properties, rules that the grammar lacks go to the description.
 */
const anthropicNode: FitNode = (node, lose) => {
  if (typeof node.$ref === 'string') {
    const { $ref, $defs, definitions } = node
    if (Object.keys(node).length === 1) return node
    if (Object.keys(node).some(name => !beside$ref.has(name))) lose()
    return { $ref, ...($defs ? { $defs } : {}), ...(definitions ? { definitions } : {}) }
  }
  const told: string[] = []
  const kept: Schema = {}
  let isSame = true
  for (const [name, value] of Object.entries(node)) {
    if (name === '$schema') isSame = false
    else if (!isRefused(name, value)) kept[name] = value
    else told.push(`${name}: ${JSON.stringify(value)}`)
  }
  if (Array.isArray(kept.oneOf) && kept.anyOf === undefined) {
    const { oneOf, ...others } = kept
    return anthropicNode({ ...others, anyOf: oneOf, ...(told.length > 0 && tell(others, told, lose)) }, lose)
  }
  if (told.length > 0) Object.assign(kept, tell(kept, told, lose))
  if (isObjectNode(node) && kept.additionalProperties !== false) {
    // A map has no counterpart: the model may then give no other properties than the listed ones.
    if (kept.additionalProperties !== undefined && kept.additionalProperties !== true) lose()
    kept.additionalProperties = false
    isSame = false
  }
  return isSame && told.length === 0 ? node : kept
}

function isRefused(name: string, value: unknown): boolean {
  if (name === 'format') return typeof value === 'string' && !formats.has(value)
  if (name === 'minItems') return value !== 0 && value !== 1
  return refusedKeywords.has(name)
}

function isObjectNode({ type, properties }: Schema): boolean {
  return type === 'object' || (Array.isArray(type) && type.includes('object')) || isObject(properties)
}

function tell({ description }: Schema, told: readonly string[], lose: () => void): { description: string } {
  lose()
  const rules = `{${told.join(', ')}}`
  return { description: typeof description === 'string' && description !== '' ? `${description}\n\n${rules}` : rules }
}
