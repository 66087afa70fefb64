import { isObject } from '../../base/is-object.ts'

export type Schema = Record<string, unknown>
/** `losesMeaning`: a rule of the schema is not sent, or only as text of a description. */
export type FittedSchema = { schema: Schema; losesMeaning: boolean }
/** Notes that a node loses a rule, or `answers`: the sent schema refuses some that the given one permits. */
export type Lose = (what?: 'rule' | 'answers') => void
/** One node of a schema as a provider accepts it, the same object if it does; what is in it is fitted by the caller. */
export type FitNode = (node: Schema, lose: Lose, merger: Merger) => Schema
/** Merges the alternatives of an object, or the parts of an intersection, and finds what a node refers to. */
export type Merger = {
  merge(schema: Schema): FittedSchema
  intersect(schema: Schema): Schema | null
  resolve(schema: Schema): Schema
}

/** The members of a schema that hold schemas by name. */
export const named = new Set(['properties', '$defs', 'definitions', 'patternProperties', 'dependentSchemas'])

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
 * llama.cpp: codefuturist/email-mcp#72. `propertyNames`, which Zod writes for records, is not permitted by OpenAI, strict or not:
 * vercel/ai#20621, mastra-ai/mastra#20977.
 */
export const patternNode: FitNode = (node, lose) => {
  const { pattern, propertyNames: names } = node
  const told: Schema = {}
  if (typeof pattern === 'string' && lookaround.test(pattern)) told.pattern = pattern
  if (isObject(names) && !isAnyName(names)) told.propertyNames = names
  const tells = Object.keys(told).length > 0
  if (!tells && !isObject(names)) return node
  const kept: Schema = { ...node, ...(tells && tell(node, told)) }
  if (isObject(names)) delete kept.propertyNames
  if (told.pattern !== undefined) delete kept.pattern
  if (tells) lose()
  return kept
}

/** Whether a rule for names of properties permits all: they are texts in any case. */
function isAnyName(rule: Schema): boolean {
  return Object.entries(rule).every(([name, value]) => name === 'type' && value === 'string')
}

/** "array schema missing items": https://github.com/streamnative/streamnative-mcp-server/issues/26 */
export const openAiNode: FitNode = (node, lose, merger) => {
  const isArray = node.type === 'array' || (Array.isArray(node.type) && node.type.includes('array'))
  return patternNode(isArray && node.items === undefined ? { ...node, items: {} } : node, lose, merger)
}

/**
 * Google refuses a reference beside other members: "can only contain properties starting with '$' when $ref is present",
 * https://github.com/google-gemini/gemini-cli/issues/4758. They stand beside an `anyOf` of it, as pydantic writes what is optional.
 * Of JSON Schema it reads `$defs`, `anyOf` and `additionalProperties`, but not `definitions`, `allOf` and `patternProperties`
 * (https://ai.google.dev/api/generate-content, responseJsonSchema); "reference to undefined schema": google-gemini/gemini-cli#13326.
 */
export const geminiNode: FitNode = (given, lose, merger) => {
  const moved = withDefs(given)
  const node = withoutPatternNames(intersected(moved, merger) ?? moved, lose)
  if (typeof node.$ref !== 'string') return node
  const { $ref: pointer, ...beside } = node
  const $ref = inDefs(pointer as string)
  const foreign = Object.keys(beside).filter(name => !name.startsWith('$'))
  if (foreign.length === 0) return $ref === pointer ? node : { ...beside, $ref }
  const isAlternative = ['anyOf', 'oneOf', 'allOf'].some(name => name in beside)
  if (!isAlternative && foreign.some(name => name !== 'title')) return { ...beside, anyOf: [{ $ref }] }
  if (isAlternative) lose()
  const kept = Object.entries(beside).filter(([name]) => name.startsWith('$'))
  return { ...Object.fromEntries(kept), $ref }
}

/** An object whose patterns for names of properties are told: all that have no schema of their own have that of a pattern. */
function withoutPatternNames(node: Schema, lose: Lose): Schema {
  const { patternProperties, additionalProperties: others, ...kept } = node
  if (!isObject(patternProperties)) return node
  const given = isObject(others) ? [others] : []
  const values = [...Object.values(patternProperties), ...given]
  if (values.length === 0) return node
  lose()
  const additionalProperties = others === true ? true : values.length === 1 ? values[0] : { anyOf: values }
  return { ...kept, ...tell(node, { patternProperties }), additionalProperties }
}

/** Definitions where references have to lead. */
export function withDefs(node: Schema): Schema {
  if (!isObject(node.definitions)) return node
  const { definitions, $defs, ...others } = node
  return { ...others, $defs: { ...definitions, ...(isObject($defs) && $defs) } }
}

/** A reference to what `withDefs` has moved. */
export function inDefs($ref: string): string {
  if (!$ref.startsWith('#/') || !$ref.includes('definitions')) return $ref
  let isName = false
  const segments = $ref.split('/').map(segment => {
    const isMember = !isName
    isName = isMember && named.has(segment)
    return isMember && segment === 'definitions' ? '$defs' : segment
  })
  return segments.join('/')
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
/** Members beside alternatives that add no rule. */
export const annotations = new Set([
  ...beside$ref,
  ...['default', 'examples', '$id', '$comment', 'deprecated', 'nullable', 'type'],
])

/** A node whose `allOf` has one part, as pydantic writes a reference with a description: the part itself. */
export function onlyPart(node: Schema): Schema {
  const { allOf, ...others } = node
  if (!Array.isArray(allOf) || allOf.length !== 1 || !isObject(allOf[0])) return node
  return Object.keys(others).every(name => annotations.has(name)) ? { ...others, ...allOf[0] } : node
}

/** A node without an `allOf` of objects, which are one; null if one node cannot state what they do. */
export function intersected(node: Schema, merger: Merger): Schema | null {
  if (!Array.isArray(node.allOf)) return node
  const fitted = onlyPart(node)
  return Array.isArray(fitted.allOf) ? merger.intersect(fitted) : fitted
}

/** Alternatives that state the type which the node above them had. */
export function withTypedParts({ type, ...others }: Schema, parts: unknown[]): Schema {
  const hasType = (part: unknown) => !isObject(part) || ['type', '$ref', 'anyOf', 'oneOf'].some(name => name in part)
  const anyOf = type === undefined ? parts : parts.map(part => (hasType(part) ? part : { type, ...(part as Schema) }))
  return { ...others, anyOf }
}

/** Whether a node is about objects. */
export function isObjectNode({ type, properties }: Schema): boolean {
  return type === 'object' || (Array.isArray(type) && type.includes('object')) || isObject(properties)
}

/** Whether an object may have properties that its schema does not name, as dictionaries and records have. */
export function isOpen({ unevaluatedProperties, additionalProperties, ...node }: Schema): boolean {
  if (isObject(node.patternProperties) && Object.keys(node.patternProperties).length > 0) return true
  const others = additionalProperties ?? unevaluatedProperties
  if (others !== undefined) return others !== false
  return isObjectNode(node) && !['properties', ...unnamed].some(name => node[name] !== undefined)
}

/** Members that say what an object is without naming its properties. */
const unnamed = ['$ref', 'anyOf', 'oneOf', 'allOf', 'enum', 'const']

/** A description that tells of rules that are not sent as such. */
export function tell({ description }: Schema, told: Schema): { description: string } {
  const rules = `{${Object.entries(told)
    .map(([name, value]) => `${name}: ${JSON.stringify(value)}`)
    .join(', ')}}`
  return { description: typeof description === 'string' && description !== '' ? `${description}\n\n${rules}` : rules }
}
