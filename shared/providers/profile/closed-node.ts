import { isObject } from '../../base/is-object.ts'
import {
  beside$ref,
  type FitNode,
  intersected,
  isObjectNode,
  isOpen,
  type Lose,
  type Merger,
  type Schema,
  tell,
  withTypedParts,
} from './schema-nodes.ts'

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
 * no other properties, rules that the grammar lacks go to the description. `allOf` is not taken with references, and closed objects
 * in one permit nothing together (veryfront/veryfront-code#3918): they are merged.
 */
export const closedNode: FitNode = (given, lose, merger) => {
  const node = withoutAlternatives(given, lose, merger)
  if (typeof node.$ref === 'string') {
    const { $ref, $defs, definitions } = node
    if (Object.keys(node).length === 1) return node
    if (Object.keys(node).some(name => !beside$ref.has(name))) lose()
    return { $ref, ...($defs ? { $defs } : {}), ...(definitions ? { definitions } : {}) }
  }
  const told: Schema = {}
  const kept: Schema = {}
  for (const [name, value] of Object.entries(node)) {
    if (name === '$schema') continue
    if (isRefused(name, value)) told[name] = value
    else kept[name] = value
  }
  const tells = Object.keys(told).length > 0
  if (Array.isArray(kept.oneOf) && kept.anyOf === undefined) {
    kept.anyOf = kept.oneOf
    delete kept.oneOf
  }
  if (tells) {
    lose()
    Object.assign(kept, tell(kept, told))
  }
  if (losesAnswers(node)) lose('answers')
  if (isObjectNode(node) || isOpen(node)) kept.additionalProperties = false
  const names = Object.keys(kept)
  const isSame = names.length === Object.keys(node).length && names.every(name => kept[name] === node[name])
  return isSame ? node : kept
}

/** Whether an object, once closed, cannot have properties that the schema permits, or requires. */
function losesAnswers(node: Schema): boolean {
  if (isOpen(node)) return true
  if (!isObjectNode(node)) return false
  const { properties, required, dependentSchemas } = node
  const names = isObject(properties) ? properties : {}
  const isOther = (name: unknown) => typeof name === 'string' && !Object.hasOwn(names, name)
  if (node.additionalProperties !== false && Array.isArray(required) && required.some(isOther)) return true
  const rules = [node.then, node.else, ...(isObject(dependentSchemas) ? Object.values(dependentSchemas) : [])]
  return rules.some(rule => isObject(rule) && isObject(rule.properties) && Object.keys(rule.properties).some(isOther))
}

/** A node in which no object is closed beside another that has more properties. */
function withoutAlternatives(given: Schema, lose: Lose, merger: Merger): Schema {
  const whole = intersected(given, merger)
  const isReferring = Array.isArray(whole?.allOf) && whole.allOf.some(part => isObject(part) && '$ref' in part)
  if (!whole || isReferring) lose('answers')
  const node = whole ?? given
  const alternatives = node.anyOf ?? node.oneOf
  if (!Array.isArray(alternatives) || !isObjectNode(node)) return node
  if (!isObject(node.properties)) {
    const { anyOf: _, oneOf: __, additionalProperties: ___, ...others } = node
    return withTypedParts(others, alternatives)
  }
  if (!alternatives.some(one => isObject(one) && ('properties' in one || '$ref' in one))) return node
  const { schema, losesMeaning } = merger.merge(node)
  if (losesMeaning) lose()
  return schema
}

function isRefused(name: string, value: unknown): boolean {
  if (name === 'format') return typeof value === 'string' && !formats.has(value)
  if (name === 'minItems') return value !== 0 && value !== 1
  return refusedKeywords.has(name)
}
