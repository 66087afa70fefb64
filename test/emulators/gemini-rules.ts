import { geminiReferenceFault } from './schema-rules.ts'

/** What the Gemini API refuses, with its words. Bodies are of unknown shape until checked. */
// biome-ignore lint/suspicious/noExplicitAny: requests may have any shape
type Json = any

/** The only value accepted in place of a real thought signature. */
const skipSignature = 'skip_thought_signature_validator'
export const signaturePrefix = 'thought:'

const fields = {
  request: [
    ...['contents', 'systemInstruction', 'tools', 'toolConfig', 'safetySettings', 'generationConfig'],
    ...['cachedContent', 'labels', 'serviceTier', 'store', 'continuationToken', 'model'],
  ],
  generationConfig: [
    ...['temperature', 'topP', 'topK', 'candidateCount', 'maxOutputTokens', 'stopSequences', 'responseMimeType'],
    ...['responseSchema', 'responseJsonSchema', 'presencePenalty', 'frequencyPenalty', 'seed', 'responseLogprobs'],
    ...['logprobs', 'responseModalities', 'speechConfig', 'thinkingConfig', 'imageConfig', 'mediaResolution'],
  ],
  declaration: [
    'name',
    'description',
    'parameters',
    'parametersJsonSchema',
    'response',
    'responseJsonSchema',
    'behavior',
  ],
  content: ['role', 'parts'],
}
const partData = ['text', 'inlineData', 'fileData', 'functionCall', 'functionResponse']
/** `speechMetadata`: `Part` of `@google/genai` 3.1. */
const partFields = [...partData, 'thought', 'thoughtSignature', 'speechMetadata']

/** Gemini 3 and newer: thinking levels, call ids and thought signatures. */
export function isSigning(model: string): boolean {
  return Number(/^gemini-(\d+)/.exec(model)?.[1] ?? 0) >= 3
}

/** The message of the 400 that Gemini gives for a `generateContent` body, or null. */
export function generateFault(model: string, body: Json): string | null {
  if (typeof body !== 'object' || body === null) return 'Invalid JSON payload received. Unexpected token.'
  if (!Array.isArray(body.contents) || body.contents.length === 0)
    return '* GenerateContentRequest.contents: contents is not specified\n'
  return (
    unknownName(body, fields.request, '') ??
    unknownName(body.generationConfig, fields.generationConfig, 'generation_config') ??
    tierFault(body) ??
    first(
      // Google's clients send instructions with the role `system` (@google/generative-ai, formatSystemInstruction).
      [...body.contents, ...(body.systemInstruction ? [{ ...body.systemInstruction, role: 'user' }] : [])],
      contentFault,
    ) ??
    configFault(model, body.generationConfig ?? {}) ??
    toolFault(body) ??
    modelFault(model, body) ??
    referenceFault(body) ??
    historyFault(model, body.contents)
  )
}

/** Values in lower case only: @google/genai `ServiceTier`, prism-php/prism#1002. */
function tierFault({ serviceTier }: Json): string | null {
  if (serviceTier === undefined || ['unspecified', 'flex', 'standard', 'priority'].includes(serviceTier)) return null
  return `Invalid value at 'service_tier' (type.googleapis.com/google.ai.generativelanguage.v1beta.ServiceTier), "${serviceTier}"`
}

/** LibreChat-AI/agents#323 and #412, livekit/agents-js#2108; "and future releases": Zoo-Code-Org/Zoo-Code#1052. */
const withoutPrefill = /^gemini-3\.(?:[6-9]-flash|5-flash-lite)/

/** googleapis/python-genai#867; forced tools: langchain-ai/langchainjs#9126; google-gemini/cookbook#1290. */
function modelFault(model: string, { contents, tools, toolConfig, generationConfig = {} }: Json): string | null {
  if (withoutPrefill.test(model) && contents.at(-1)?.role === 'model')
    return 'Requests ending with a model turn are not supported.'
  const { responseMimeType, presencePenalty, frequencyPenalty } = generationConfig
  if (/^gemini-2\.5/.test(model) && tools?.length && responseMimeType === 'application/json')
    return "Function calling with a response mime type: 'application/json' is unsupported"
  if (toolConfig?.functionCallingConfig?.mode === 'ANY' && responseMimeType === 'application/json')
    return "Forced function calling (ANY mode) with a response mime type: 'application/json' is unsupported"
  return presencePenalty || frequencyPenalty ? 'Penalty is not enabled for this model' : null
}

/** google-gemini/gemini-cli#4758; in results of tools: NousResearch/hermes-agent#93014. */
function referenceFault({ contents, tools, generationConfig }: Json): string | null {
  const responses = contents.flatMap(({ parts }: Json) => parts.flatMap((part: Json) => part.functionResponse ?? []))
  const inResult = responses.some(({ response }: Json) => findReference(response, () => true))
  if (inResult) return 'referenced name does not match to a display_name'
  const hasMore = (node: Json) => Object.keys(node).some(name => !name.startsWith('$'))
  const isBad = findReference([tools ?? [], generationConfig?.responseJsonSchema ?? {}], hasMore)
  if (isBad) return "reference can only contain properties starting with '$' when $ref is present"
  const declarations = (tools ?? []).flatMap((tool: Json) => tool.functionDeclarations ?? [])
  const schemas = declarations.map((one: Json) => one.parametersJsonSchema)
  return first([...schemas, generationConfig?.responseJsonSchema], geminiReferenceFault)
}

function findReference(node: Json, matches: (node: Json) => boolean): boolean {
  if (typeof node !== 'object' || node === null) return false
  if (typeof node.$ref === 'string' && matches(node)) return true
  return Object.values(node).some(one => findReference(one, matches))
}

function first<T>(items: T[], fault: (item: T, index: number) => string | null): string | null {
  for (const [index, item] of items.entries()) {
    const found = fault(item, index)
    if (found !== null) return found
  }
  return null
}

function unknownName(value: Json, known: string[], at: string): string | null {
  const name = Object.keys(value ?? {}).find(key => !known.includes(key))
  return name ? `Invalid JSON payload received. Unknown name "${name}"${at && ` at '${at}'`}: Cannot find field.` : null
}

function contentFault(content: Json, index: number): string | null {
  const at = `contents[${index}]`
  if (!['user', 'model'].includes(content?.role)) return 'Please use a valid role: user, model.'
  if (!Array.isArray(content.parts) || content.parts.length === 0)
    return `* GenerateContentRequest.${at}.parts: contents.parts must not be empty.\n`
  return (
    unknownName(content, fields.content, at) ??
    first(content.parts, (part, position) => partFault(part, `${at}.parts[${position}]`))
  )
}

function partFault(part: Json, at: string): string | null {
  const given = partData.filter(name => part?.[name] !== undefined)
  if (given.length !== 1 || part.text === '')
    return `* GenerateContentRequest.${at}.data: required oneof field 'data' must have one initialized field\n`
  const { inlineData } = part
  if (inlineData && (!inlineData.mimeType || !isBase64(inlineData.data)))
    return `Invalid value at '${at}.inline_data.data' (TYPE_BYTES), Base64 decoding failed`
  return unknownName(part, partFields, at)
}

/** Of either alphabet, as google-genai for Python writes that for URLs: https://protobuf.dev/programming-guides/json/. */
function isBase64(text: unknown): boolean {
  if (typeof text !== 'string' || text === '') return false
  return ['base64', 'base64url'].some(
    form =>
      Buffer.from(text, 'base64').toString(form as 'base64') === text.replace(form === 'base64url' ? /=+$/ : /$^/, ''),
  )
}

function configFault(model: string, config: Json): string | null {
  const {
    candidateCount = 1,
    temperature = 0,
    topP = 0,
    maxOutputTokens = 1,
    stopSequences = [],
    thinkingConfig,
  } = config
  if (candidateCount < 1 || candidateCount > 8) return 'candidateCount must be between 1 and 8.'
  if (temperature < 0 || temperature > 2)
    return '* GenerateContentRequest.generation_config.temperature: temperature must be in the range [0.0, 2.0].\n'
  if (topP < 0 || topP > 1)
    return '* GenerateContentRequest.generation_config.top_p: top_p must be in the range [0.0, 1.0].\n'
  if (maxOutputTokens < 1) return 'max_output_tokens must be positive.'
  if (stopSequences.length > 5) return 'The number of stop sequences must not exceed 5.'
  if (config.logprobs !== undefined && !config.responseLogprobs) return 'Logprobs is set but responseLogprobs is not.'
  if (config.responseJsonSchema && config.responseMimeType !== 'application/json')
    return 'responseJsonSchema needs the response mime type application/json.'
  const { thinkingLevel, thinkingBudget } = thinkingConfig ?? {}
  if (thinkingLevel !== undefined && thinkingBudget !== undefined)
    return 'You can only set only one of thinking budget and thinking level.'
  if (thinkingLevel !== undefined && !isSigning(model)) return 'Thinking level is not supported for this model.'
  return null
}

/** kaitranntt/ccs#25, google-gemini/gemini-cli#7869 */
const functionName = /^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$/
const nameFault =
  '* GenerateContentRequest.tools[0].function_declarations[0].name: [Invalid function name. Must start with a letter or an underscore. Must be alphanumeric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64.]\n'

function toolFault({ tools = [], toolConfig }: Json): string | null {
  const declarations: Json[] = tools.flatMap((tool: Json) => tool.functionDeclarations ?? [])
  const { mode, allowedFunctionNames, streamFunctionCallArguments } = toolConfig?.functionCallingConfig ?? {}
  // "This field is not supported in Gemini API": @google/genai.
  if (streamFunctionCallArguments !== undefined)
    return 'Invalid JSON payload received. Unknown name "streamFunctionCallArguments" at \'tool_config.function_calling_config\': Cannot find field.'
  const names = declarations.map(declaration => declaration.name)
  if (allowedFunctionNames && !['ANY', 'VALIDATED'].includes(mode))
    return 'Allowed function names can only be set for mode ANY or VALIDATED.'
  if (allowedFunctionNames?.some((name: string) => !names.includes(name)))
    return 'Allowed function names must be declared.'
  if (mode === 'ANY' && declarations.length === 0)
    return 'Function calling config is set without function_declarations.'
  return first(
    declarations,
    declaration =>
      (functionName.test(declaration.name) ? null : nameFault) ??
      unknownName(declaration, fields.declaration, 'tools[0].function_declarations[0]'),
  )
}

/** Every turn of calls is answered whole; on newer models its first call carries the signature it came with. */
function historyFault(model: string, contents: Json[]): string | null {
  return first(contents, ({ parts }, index) => {
    const calls = parts.filter((part: Json) => part.functionCall)
    const answers = (contents[index + 1]?.parts ?? []).filter((part: Json) => part.functionResponse)
    if (calls.length !== answers.length && (calls.length === 0 || index + 1 < contents.length)) {
      return 'Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.'
    }
    if (!isSigning(model) || calls.length === 0) return null
    const [{ functionCall, thoughtSignature }] = calls
    if (!thoughtSignature)
      return `Function call is missing a thought_signature in functionCall parts. Function call \`${functionCall.name}\`, position ${index}.`
    const isOurs = Buffer.from(thoughtSignature, 'base64').toString().startsWith(signaturePrefix)
    return isOurs || thoughtSignature === skipSignature ? null : 'Thought signature is not valid.'
  })
}
