import { asText } from '../../base/as-text.ts'
import { isRawNumber } from '../../base/exact-numbers.ts'
import { isObject } from '../../base/is-object.ts'
import {
  annotations,
  beside$ref,
  type FitNode,
  inDefs,
  isObjectNode,
  type Lose,
  onlyPart,
  type Schema,
  tell,
  withDefs,
  withTypedParts,
} from './schema-nodes.ts'

/** Any value: MoonshotAI/walle permits lists of types. */
const anyType = ['string', 'number', 'boolean', 'object', 'array', 'null']
/** Members that say of which type a node is that does not state it. */
const typeByMember: readonly [type: string, members: readonly string[]][] = [
  ['object', ['properties', 'required', 'additionalProperties', 'patternProperties', 'minProperties', 'maxProperties']],
  ['array', ['items', 'prefixItems', 'minItems', 'maxItems', 'uniqueItems', 'contains']],
  ['string', ['minLength', 'maxLength', 'pattern', 'format']],
  ['number', ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf']],
]

/**
 * Moonshot's dialect: each node states its type, but not beside alternatives or a reference, which is to `$defs`; values of an `enum` are
 * of one type. Its validator is https://github.com/MoonshotAI/walle (docs/walle.md); of its rules, those that its API was seen to
 * apply: MoonshotAI/kimi-cli#1595, lidge-jun/opencodex#2677, vercel/ai#18921 (which tried the API).
 */
export const typedNode: FitNode = (node, lose, merger) => {
  const fitted = onlyPart(withDefs(node))
  if (typeof fitted.$ref === 'string') return reference(fitted, fitted.$ref, lose)
  const { anyOf, oneOf, ...others } = fitted
  const alternatives = Array.isArray(anyOf) ? anyOf : oneOf
  const isUnion =
    Array.isArray(alternatives) && !(anyOf && oneOf) && Object.keys(others).every(name => annotations.has(name))
  if (isUnion) return withTypedParts(others, alternatives)
  if ((anyOf || oneOf || fitted.allOf) && isObjectNode(fitted)) {
    const { schema, losesMeaning } = merger.merge(fitted)
    if (losesMeaning) lose()
    return typed(schema, lose)
  }
  return Array.isArray(alternatives) && !fitted.allOf ? withTypedParts(others, alternatives) : typed(fitted, lose)
}

function reference(node: Schema, $ref: string, lose: Lose): Schema {
  if (Object.keys(node).some(name => !beside$ref.has(name) && name !== 'type')) lose()
  const kept = Object.fromEntries(Object.entries(node).filter(([name]) => beside$ref.has(name)))
  return { ...kept, $ref: inDefs($ref) }
}

/** The node with its type, and with rules that agree with it. */
function typed(node: Schema, lose: Lose): Schema {
  const told: Schema = {}
  let fitted = node
  if (Array.isArray(node.enum) && !takesAll(node.type, node.enum)) {
    const types = [...new Set(node.enum.map(typeOf))]
    const isOne = types.filter(type => type !== 'null').length === 1
    if (!isOne) {
      told.enum = node.enum
      delete (fitted = { ...fitted }).enum
    }
    fitted = { ...fitted, type: types.length === 0 ? anyType : types.length === 1 ? types[0] : types }
  } else if (node.type === undefined) fitted = { ...fitted, type: inferredType(node) }
  const names = isObject(node.properties) ? node.properties : {}
  if (Array.isArray(node.required) && node.required.some(name => !(asText(name) in names))) {
    told.required = node.required
    fitted = { ...fitted, required: node.required.filter(name => asText(name) in names) }
  }
  if (typeof node.items === 'boolean') {
    const { items, ...others } = fitted
    const count = Array.isArray(node.prefixItems) ? node.prefixItems.length : 0
    fitted = items ? others : { maxItems: count, ...others }
  }
  if (Object.keys(told).length === 0) return fitted
  lose()
  return { ...fitted, ...tell(fitted, told) }
}

/** Whether values may be listed beside a type: one, or one and null. */
function takesAll(type: unknown, values: readonly unknown[]): boolean {
  const types = Array.isArray(type) ? type : [type]
  const isSimple = types.length === 1 || (types.length === 2 && types.includes('null'))
  return (
    isSimple &&
    values.every(value => types.includes(typeOf(value)) || (types.includes('number') && typeOf(value) === 'integer'))
  )
}

function inferredType(node: Schema): string | string[] {
  if ('const' in node) return typeOf(node.const)
  return typeByMember.find(([, members]) => members.some(name => name in node))?.[0] ?? anyType
}

function typeOf(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  if (isRawNumber(value)) return Number.isInteger(Number(JSON.stringify(value))) ? 'integer' : 'number'
  return Number.isInteger(value) ? 'integer' : typeof value
}
