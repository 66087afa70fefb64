import { isObject } from '../base/is-object.ts'

/**
 * A tool of a chat request as other APIs write it, in the form of chat: with its name beside its type, as in Responses, or
 * with Anthropic's `input_schema`. Cursor sends both to `/v1/chat/completions`
 * (forum.cursor.com/t/153019, lbjlaq/Antigravity-Manager#506), beside tools in the form of chat (Wei-Shaw/sub2api#5861).
 */
export function nestedTool(tool: unknown): unknown {
  if (!isObject(tool) || typeof tool.name !== 'string' || tool.function !== undefined || tool.custom !== undefined)
    return tool
  const { type, name, description, format, parameters, input_schema, strict, ...rest } = tool
  const named = { name, ...(description != null && { description }) }
  if (type === 'custom' && input_schema == null) {
    const nested = { ...rest, type, custom: { ...named, ...(format != null && { format: nestedFormat(format) }) } }
    flatTools.add(nested)
    return nested
  }
  if (type != null && type !== 'function' && type !== 'custom') return tool
  const schema = parameters ?? input_schema
  const callable = { ...named, ...(schema != null && { parameters: schema }), ...(strict != null && { strict }) }
  return { ...rest, type: 'function', function: callable }
}

/** Custom tools that were not written in the form of chat. */
const flatTools = new WeakSet<object>()

/** Whether a custom tool came with its name beside its type: then its caller reads calls of functions only. */
export function isFlatTool(tool: object): boolean {
  return flatTools.has(tool)
}

function nestedFormat(format: unknown): unknown {
  if (!isObject(format) || format.type !== 'grammar' || format.grammar !== undefined) return format
  const { type, ...grammar } = format
  return { type, grammar }
}

/** The choice of a tool by the name beside its type, or in Anthropic's form, in the form of chat. */
export function nestedChoice(choice: unknown): unknown {
  if (choice === 'any') return 'required' // Mistral's name (mistralai, ToolChoiceEnum).
  if (!isObject(choice) || choice.function !== undefined || choice.custom !== undefined) return choice
  const { type, name } = choice
  if (typeof name !== 'string') return choices.get(type) ?? choice
  if (type === 'function' || type === 'tool') return { type: 'function', function: { name } }
  return type === 'custom' ? { type, custom: { name } } : choice
}

/** The types of Anthropic's choices that are names in chat. */
const choices: ReadonlyMap<unknown, string> = new Map([
  ['auto', 'auto'],
  ['any', 'required'],
  ['none', 'none'],
])
