import { GatewayError } from '../../../base/errors.ts'
import { isObject } from '../../../base/is-object.ts'
import type { ChatRequest } from '../../../kinds/chat.ts'
import { declaredFunctions, type GeminiTool, type GenerateContentRequest } from '../../../kinds/generate-content.ts'
import { jsonSchemaOf } from './schema.ts'

type ChatTools = Pick<ChatRequest, 'tools' | 'tool_choice'>

/**
 * The functions of the client and which of them are called. Throws a GatewayError 400 for tools that Google runs: ignored in
 * silence, the model would answer a search from memory.
 */
export function chatTools({ tools, toolConfig }: GenerateContentRequest): ChatTools {
  for (const [index, tool] of (tools ?? []).entries()) refuseOwnTools(tool, `tools.${index}`)
  const functions = declaredFunctions(tools).map(({ declaration, param }) => {
    const { name, description, parameters, parametersJsonSchema: schema } = declaration
    if (schema != null && !isObject(schema)) throw invalid(`${param}.parametersJsonSchema`, 'must be a JSON Schema')
    const read = isObject(schema) ? schema : parameters && jsonSchemaOf(parameters)
    const described = description !== undefined && { description }
    return { type: 'function' as const, function: { name, ...described, ...(read && { parameters: read }) } }
  })
  if (functions.length === 0) return {}
  const tool_choice = choiceOf(toolConfig?.functionCallingConfig, new Set(functions.map(one => one.function.name)))
  return { tools: functions, ...(tool_choice && { tool_choice }) }
}

function refuseOwnTools(tool: GeminiTool, param: string): void {
  const own = Object.keys(tool).find(name => name !== 'functionDeclarations' && isObject(tool[name]))
  if (own === undefined) return
  const message = `${param}.${own}: only Gemini’s own models have this tool.`
  throw new GatewayError('unsupported_capability', message, { param: `${param}.${own}` })
}

type Config = NonNullable<NonNullable<GenerateContentRequest['toolConfig']>['functionCallingConfig']>

function choiceOf(config: Config | undefined, names: ReadonlySet<string>): ChatRequest['tool_choice'] {
  const { mode = 'AUTO', allowedFunctionNames: allowed = [] } = config ?? {}
  const param = 'toolConfig.functionCallingConfig'
  const unknown = allowed.find(name => !names.has(name))
  if (unknown !== undefined)
    throw invalid(`${param}.allowedFunctionNames`, `"${unknown.slice(0, 100)}" is not the name of a function`)
  const ofSome = (required: boolean): ChatRequest['tool_choice'] => {
    const tools = allowed.map(name => ({ type: 'function', function: { name } }))
    return { type: 'allowed_tools', allowed_tools: { mode: required ? 'required' : 'auto', tools } }
  }
  switch (mode.toUpperCase()) {
    case 'MODE_UNSPECIFIED':
    case 'AUTO':
      return config?.mode === undefined ? undefined : 'auto'
    case 'NONE':
      return 'none'
    case 'VALIDATED':
      return allowed.length > 0 ? ofSome(false) : 'validated'
    case 'ANY':
      if (allowed.length === 1) return { type: 'function', function: { name: allowed[0]! } }
      return allowed.length > 0 ? ofSome(true) : 'required'
    default:
      throw invalid(`${param}.mode`, 'must be AUTO, ANY, NONE or VALIDATED')
  }
}

function invalid(param: string, message: string): GatewayError {
  return new GatewayError('invalid_request', `${param}: ${message}.`, { param })
}
