/**
 * What providers refuse in JSON Schemas of tools and formats, in their words. Each rule has the public report in which it was
 * seen.
 */
// biome-ignore lint/suspicious/noExplicitAny: schemas of every shape
type Any = any

type Node = { schema: Any; path: string[] }
type Inner = [path: string[], schema: Any]

const single = ['items', 'additionalProperties', 'not', 'if', 'then', 'else', 'contains', 'propertyNames']
const lists = ['anyOf', 'oneOf', 'allOf', 'prefixItems', 'items']
const named = ['properties', '$defs', 'definitions', 'patternProperties']

/** A schema and all in it, with their paths. */
function nodesOf(schema: Any, path: string[] = []): Node[] {
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) return []
  const listed = (name: string): Any[] => (Array.isArray(schema[name]) ? schema[name] : [])
  const inner: Inner[] = [
    ...single.map((name): Inner => [[name], schema[name]]),
    ...lists.flatMap(name => listed(name).map((one, index): Inner => [[name, String(index)], one])),
    ...named.flatMap(name => Object.entries(schema[name] ?? {}).map(([key, one]): Inner => [[name, key], one])),
  ]
  return [{ schema, path }, ...inner.flatMap(([at, one]) => nodesOf(one, [...path, ...at]))]
}

const typesOf = ({ type }: Any): string[] => [type ?? []].flat()

/** openclaw/openclaw#98588 (tuples), Dokploy/mcp#74 (boolean limits). */
function isDraft2020(schema: Any): boolean {
  return nodesOf(schema).every(
    ({ schema: node }) =>
      !Array.isArray(node.items) &&
      typeof node.exclusiveMinimum !== 'boolean' &&
      typeof node.exclusiveMaximum !== 'boolean',
  )
}

/** What Anthropic says of the tools and the format of a request, or null. */
export function claudeSchemaFault(
  tools: readonly { input_schema?: Any; strict?: boolean }[],
  format: Any,
): string | null {
  for (const [index, { input_schema: schema }] of tools.entries()) {
    const at = `tools.${index}.custom.input_schema`
    // anthropics/claude-code#27337
    if (schema?.anyOf || schema?.oneOf || schema?.allOf)
      return `${at}: input_schema does not support oneOf, allOf, or anyOf at the top level`
    // aws-solutions-library-samples/accelerated-intelligent-document-processing-on-aws#709: at the top level only.
    if (Object.keys(schema?.properties ?? {}).some(key => !/^[a-zA-Z0-9_.-]{1,64}$/.test(key)))
      return `${at}.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'`
    if (!isDraft2020(schema)) return `${at}: JSON schema is invalid. It must match JSON Schema draft 2020-12`
  }
  const strict = tools.filter(tool => tool.strict)
  return grammarFault(
    strict.map(tool => tool.input_schema),
    format,
  )
}

/** camel-ai/camel#4171, elie222/inbox-zero#2323; the limits hold for all schemas of a request together. */
function grammarFault(strict: Any[], format: Any): string | null {
  if (strict.length > 20)
    return `Too many strict tools (${strict.length}). The maximum number of strict tools supported is 20.`
  const nodes = [...strict, ...(format ? [format] : [])].flatMap(schema => nodesOf(schema)).map(({ schema }) => schema)
  const optional = nodes.flatMap(node =>
    Object.keys(node.properties ?? {}).filter(key => !node.required?.includes(key)),
  ).length
  if (optional > 24)
    return `Schemas contains too many optional parameters (${optional}), which would make grammar compilation inefficient. Reduce the number of optional parameters in your tool schemas (limit: 24).`
  const unions = nodes.filter(node => node.anyOf || typesOf(node).length > 1).length
  if (unions > 16)
    return `Schemas contains too many parameters with union types (${unions} parameters with type arrays or anyOf) which exceeds the limit: 16`
  // platform.claude.com, structured outputs: "Recursive schemas" are not supported.
  return [...strict, format].some(isRecursive) ? 'Too many recursive definitions in schema' : null
}

/**
 * Keywords that the grammar of structured outputs lacks, by type: the texts of agentjido/req_llm#302, BerriAI/litellm#20813; of
 * objects as @anthropic-ai/sdk leaves them out (`transform-json-schema`).
 */
const refusedKeywords: Record<string, string[]> = {
  integer: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'],
  number: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'],
  string: ['minLength', 'maxLength'],
  array: ['maxItems', 'uniqueItems'],
  object: ['patternProperties', 'propertyNames', 'minProperties', 'maxProperties'],
}

/** What Anthropic says of one schema that it compiles to a grammar, or null. */
export function claudeGrammarFault(schema: Any, at: string): string | null {
  for (const { schema: node } of nodesOf(schema)) {
    // "an open record is rejected by Anthropic either way": veryfront/veryfront-code#3918
    if (node.type === 'object' && node.additionalProperties !== false)
      return `${at}: For 'object' type, 'additionalProperties' must be explicitly set to false`
    const found = (refusedKeywords[node.type] ?? []).filter(name => name in node)
    if (found.length > 0) return `${at}: For '${node.type}' type, properties ${found.join(', ')} are not supported`
    // ghostlobster/memorize-everything#93
    if (node.type === 'array' && node.minItems > 1)
      return `${at}: For 'array' type, 'minItems' values other than 0 or 1 are not supported`
    // platform.claude.com, structured outputs: "`allOf` with `$ref` not supported" (quoted by hexdocs.pm/lang_schema)
    if (node.allOf?.some((part: Any) => part.$ref)) return `${at}: allOf with $ref is not supported`
  }
  return null
}

function isRecursive(schema: Any): boolean {
  const defs = { ...schema?.definitions, ...schema?.$defs }
  const nameOf = (node: Any) =>
    String(node.$ref ?? '')
      .split('/')
      .at(-1)!
  const reaches = (from: Any, seen: string[]): boolean =>
    nodesOf({ ...from, $defs: undefined, definitions: undefined }).some(({ schema: node }) => {
      if (node.$ref === '#') return true
      const name = nameOf(node)
      return defs[name] !== undefined && (seen.includes(name) || reaches(defs[name], [...seen, name]))
    })
  return schema ? reaches(schema, []) : false
}

/** What OpenAI says of the parameters of a function, or null. */
export function openAiSchemaFault(name: string, schema: Any): string | null {
  const invalid = (rule: string) => `Invalid schema for function '${name}': ${rule}`
  if (!schema) return null
  // openai/openai-agents-python#454
  if (schema.type === 'object' && schema.properties === undefined)
    return invalid('In context=(), object schema missing properties.')
  // langchain-ai/langchainjs#9804; `const`: goruck/home-generative-agent#545
  if (schema.type !== 'object' || ['oneOf', 'anyOf', 'allOf', 'enum', 'const', 'not'].some(key => key in schema))
    return invalid(
      "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'const'/'not' at the top level.",
    )
  for (const { schema: node, path } of nodesOf(schema)) {
    const context = `In context=(${path.map(part => `'${part}'`).join(', ')})`
    if (Array.isArray(node.items)) return invalid(`${JSON.stringify(node.items)} is not of type 'object', 'boolean'.`)
    // streamnative/streamnative-mcp-server#26; of a list of types: campfirein/byterover-cli#42
    if (typesOf(node).includes('array') && node.items === undefined)
      return invalid(`${context}, array schema missing items.`)
  }
  return null
}

/**
 * Strict schemas at OpenAI, of tools and formats: moeru-ai/xsai#145, agentscope-ai/agentscope-java#2548, spring-projects/spring-ai#6865.
 */
export function openAiStrictFault(of: string, schema: Any): string | null {
  for (const { schema: node, path } of nodesOf(schema)) {
    if (!typesOf(node).includes('object')) continue
    const at = `Invalid schema for ${of}: In context=(${path.map(part => `'${part}'`).join(', ')})`
    if (node.additionalProperties !== false)
      return `${at}, 'additionalProperties' is required to be supplied and to be false.`
    const names = Object.keys(node.properties ?? {})
    const missing = names.find(name => !node.required?.includes(name))
    if (missing)
      return `${at}, 'required' is required to be supplied and to be an array including every key in properties. Missing '${missing}'.`
  }
  return null
}

/** vercel/ai#20621 (formats that are not strict, too), mastra-ai/mastra#20977. */
export function propertyNamesFault(name: string, schema: Any): string | null {
  const found = nodesOf(schema).find(({ schema: node }) => node.propertyNames !== undefined)
  const context = found?.path.map(part => `'${part}'`).join(', ')
  return found
    ? `Invalid schema for response_format '${name}': In context=(${context}), 'propertyNames' is not permitted.`
    : null
}

/** google-gemini/gemini-cli#13326; the list of ai.google.dev/api/generate-content, responseJsonSchema, has `$defs` only. */
export function geminiReferenceFault(schema: Any): string | null {
  const target = ($ref: string) =>
    $ref
      .split('/')
      .slice(1)
      .reduce((node: Any, name) => (name === 'definitions' ? undefined : node?.[name]), schema)
  const found = nodesOf(schema).find(({ schema: { $ref } }) => $ref !== undefined && !target($ref))
  return found ? `reference to undefined schema at ${found.path.join('.') || 'top level'}` : null
}

/** vercel/ai#21037 and SmartBear/smartbear-mcp#491 of tools, existential-birds/daydream#304 of formats. */
export function lookaroundFault(schema: Any): string | null {
  const looks = (pattern = '') => /\(\?<?[=!]/.test(pattern.replace(/\\./g, ''))
  const found = nodesOf(schema).find(({ schema: node }) => looks(node.pattern))
  const at = ['$', ...(found?.path ?? []), 'pattern'].join('.')
  return found ? `Invalid JSON schema: regex lookaround is not supported. Found at ${at}.` : null
}

/**
 * Strict schemas at Groq: eigent-ai/eigent#1786 and Meridiona/meridian#811 (`additionalProperties`), run-llama/LlamaIndexTS#2202 and
 * laravel/ai#923 (`required`).
 */
export function groqSchemaFault(schema: Any, of: string): string | null {
  for (const { schema: node, path } of nodesOf(schema ?? {})) {
    if (!typesOf(node).includes('object')) continue
    const place = `invalid JSON schema for ${of}: /${path.join('/')}`
    if (node.additionalProperties !== false) return `${place}: additionalProperties:false must be set on every object`
    const missing = Object.keys(node.properties ?? {}).filter(name => !node.required?.includes(name))
    if (missing.length > 0)
      return `${place}/required: The following properties must be listed in \`required\`: ${missing.join(', ')}`
  }
  return null
}

/** NousResearch/hermes-agent#20976 */
export function xaiSchemaFault(schema: Any): string | null {
  return nodesOf(schema).some(({ schema: node }) => Array.isArray(node.items))
    ? "'items' must be a schema (object or boolean), not an array. For tuple validation use 'prefixItems' instead."
    : null
}

/**
 * Moonshot's dialect: the rules and words of MoonshotAI/walle (`validator.go`, `keyword_validators.go`), a missing type as in
 * MoonshotAI/kimi-cli#1595, the root as measured in 14790897/MiqroForge-Desktop#1165.
 */
export function moonshotSchemaFault(schema: Any): string | null {
  if (!schema) return null
  if (schema.type !== 'object') return 'tools.function.parameters.type is required and must be "object"'
  for (const { schema: node, path } of nodesOf(schema)) {
    const fault = moonshotNodeFault(node, path)
    if (fault)
      return `tools.function.parameters is not a valid moonshot flavored json schema, details: <At path '${path.join('.') || 'root'}': ${fault}>`
  }
  return null
}

function moonshotNodeFault(node: Any, path: string[]): string | null {
  const { type, anyOf, enum: values, items, properties = {}, required = [], $ref } = node
  if (type !== undefined && anyOf)
    return 'when using anyOf, type should be defined in anyOf items instead of the parent schema'
  if (type !== undefined && $ref !== undefined)
    return 'when using $ref, type should be defined in the referenced schema instead of the parent schema'
  // `{}` is any value as `additionalProperties` only.
  const isAny = path.at(-1) === 'additionalProperties' && Object.keys(node).length === 0
  if (type === undefined && !anyOf && $ref === undefined && !isAny) return 'type is not defined'
  if ($ref !== undefined && $ref !== '#' && !$ref.startsWith('#/$defs/')) return 'references must start with #/$defs/'
  if (items !== undefined && (typeof items !== 'object' || Array.isArray(items))) return 'items must be an object'
  const undefinedName = required.find((name: string) => !(name in properties))
  if (undefinedName) return `required property '${undefinedName}' is not defined in properties`
  const stray = values?.find((value: Any) => !typesOfValue(value).some(one => typesOf(node).includes(one)))
  if (stray !== undefined) return `enum value (${stray}) does not match any type in [${typesOf(node)}]`
  const conflict = (anyOf ?? [])
    .flatMap((branch: Any) => Object.keys(branch))
    .find((key: string) => key in node && key !== 'description' && key !== 'title')
  return conflict ? `conflicting keywords found in anyOf with parent: ${conflict}` : null
}

function typesOfValue(value: Any): string[] {
  if (value === null) return ['null']
  if (Array.isArray(value)) return ['array']
  return Number.isInteger(value) ? ['integer', 'number'] : [typeof value]
}
