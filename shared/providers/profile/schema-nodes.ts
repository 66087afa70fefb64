import { isObject } from '../../base/is-object.ts'

export type Schema = Record<string, unknown>
/** `losesMeaning`: a rule of the schema is not sent, or only as text of a description. */
export type FittedSchema = { schema: Schema; losesMeaning: boolean }
/** One node of a schema as a provider accepts it, the same object if it does; what is in it is fitted by the caller. */
export type FitNode = (node: Schema, lose: () => void, merger: Merger) => Schema
/** Merges the alternatives of an object, and finds what a node refers to. */
type Merger = { merge(schema: Schema): FittedSchema; resolve(schema: Schema): Schema }

const limits = [
  ['minimum', 'exclusiveMinimum'],
  ['maximum', 'exclusiveMaximum'],
] as const

/**
 * What older drafts had in other words: tuples as a list of `items`, exclusive limits as flags. "JSON schema is invalid. It must
 * match JSON Schema draft 2020-12": https://github.com/openclaw/openclaw/issues/98588, https://github.com/Dokploy/mcp/issues/74;
 * xAI and Moonshot refuse lists of `items`, too.
 */
export function inDraft2020(node: Schema): Schema {
  let current = node
  if (Array.isArray(node.items)) {
    const { items, additionalItems, ...others } = node
    current = { prefixItems: items, ...others, ...(additionalItems !== undefined && { items: additionalItems }) }
  }
  for (const [limit, flag] of limits) {
    if (typeof current[flag] !== 'boolean') continue
    const { [flag]: isExclusive, ...others } = current
    current = others
    if (!isExclusive || typeof others[limit] !== 'number') continue
    const { [limit]: value, ...unlimited } = others
    current = { ...unlimited, [flag]: value }
  }
  return current
}

/** A group that looks ahead or behind, in a regular expression. */
const lookaround = /(?:^|[^\\])(?:\\\\)*\(\?<?[=!]/

/**
 * A node whose pattern can be compiled: "regex lookaround is not supported. Found at $.properties.email.pattern." Zod writes such a
 * pattern for e-mail addresses. OpenAI: vercel/ai#21037, SmartBear/smartbear-mcp#491 (tools), existential-birds/daydream#304 (formats);
 * llama.cpp: codefuturist/email-mcp#72.
 */
export const patternNode: FitNode = (node, lose) => {
  const { pattern, ...others } = node
  if (typeof pattern !== 'string' || !lookaround.test(pattern)) return node
  lose()
  return { ...others, ...tell(node, { pattern }) }
}

/** "array schema missing items": https://github.com/streamnative/streamnative-mcp-server/issues/26 */
export const openAiNode: FitNode = (node, lose, merger) => {
  const isArray = node.type === 'array' || (Array.isArray(node.type) && node.type.includes('array'))
  return patternNode(isArray && node.items === undefined ? { ...node, items: {} } : node, lose, merger)
}

/**
 * Google refuses a reference beside other members: "can only contain properties starting with '$' when $ref is present",
 * https://github.com/google-gemini/gemini-cli/issues/4758
 */
export const geminiNode: FitNode = (node, lose) => {
  if (typeof node.$ref !== 'string') return node
  const foreign = Object.keys(node).filter(name => !name.startsWith('$'))
  if (foreign.length === 0) return node
  if (foreign.some(name => name !== 'description' && name !== 'title')) lose()
  return Object.fromEntries(Object.entries(node).filter(([name]) => name.startsWith('$')))
}

/** A schema without references. One that is resolved too often, as in a recursion, may be anything. */
export const resolvedNode: FitNode = (node, lose, merger) => {
  const { $ref, $defs: _, definitions: __, ...others } = merger.resolve(node)
  if (typeof $ref === 'string') lose()
  else if (['$ref', '$defs', 'definitions'].every(name => node[name] === undefined)) return node
  return others
}

/** Members beside a `$ref` that add no rule. */
export const beside$ref = new Set(['$ref', '$defs', 'definitions', '$schema', 'description', 'title'])
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
export const anthropicNode: FitNode = (node, lose, merger) => {
  if (typeof node.$ref === 'string') {
    const { $ref, $defs, definitions } = node
    if (Object.keys(node).length === 1) return node
    if (Object.keys(node).some(name => !beside$ref.has(name))) lose()
    return { $ref, ...($defs ? { $defs } : {}), ...(definitions ? { definitions } : {}) }
  }
  const told: Schema = {}
  const kept: Schema = {}
  let isSame = true
  for (const [name, value] of Object.entries(node)) {
    if (name === '$schema') isSame = false
    else if (isRefused(name, value)) told[name] = value
    else kept[name] = value
  }
  const tells = Object.keys(told).length > 0
  if (Array.isArray(kept.oneOf) && kept.anyOf === undefined) {
    const { oneOf, ...others } = kept
    if (tells) lose()
    return anthropicNode({ ...others, anyOf: oneOf, ...(tells && tell(others, told)) }, lose, merger)
  }
  if (tells) {
    lose()
    Object.assign(kept, tell(kept, told))
  }
  if (isObjectNode(node) && kept.additionalProperties !== false) {
    // A map has no counterpart: the model may then give no other properties than the listed ones.
    if (kept.additionalProperties !== undefined && kept.additionalProperties !== true) lose()
    kept.additionalProperties = false
    isSame = false
  }
  return isSame && !tells ? node : kept
}

function isRefused(name: string, value: unknown): boolean {
  if (name === 'format') return typeof value === 'string' && !formats.has(value)
  if (name === 'minItems') return value !== 0 && value !== 1
  return refusedKeywords.has(name)
}

/** Whether a node is about objects. */
export function isObjectNode({ type, properties }: Schema): boolean {
  return type === 'object' || (Array.isArray(type) && type.includes('object')) || isObject(properties)
}

/** A description that tells of rules that are not sent as such. */
export function tell({ description }: Schema, told: Schema): { description: string } {
  const rules = `{${Object.entries(told)
    .map(([name, value]) => `${name}: ${JSON.stringify(value)}`)
    .join(', ')}}`
  return { description: typeof description === 'string' && description !== '' ? `${description}\n\n${rules}` : rules }
}
