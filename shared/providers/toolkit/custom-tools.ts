import { asText } from '../../base/as-text.ts'
import { isObject } from '../../base/is-object.ts'
import type { ChatRequest } from '../../kinds/chat.ts'

type FunctionTool = Extract<NonNullable<ChatRequest['tools']>[number], { type: 'function' }>

/** Custom tools for models that know functions only: a custom tool is a function with one text, `input`. */
const parameters = {
  type: 'object',
  properties: { input: { type: 'string' } },
  required: ['input'],
  additionalProperties: false,
}

/** The function of a custom tool, described by the grammar that its provider would enforce. */
export function functionOfCustom(name: string, description: unknown, grammar: unknown): FunctionTool {
  const { syntax, definition }: Record<string, unknown> = isObject(grammar) ? grammar : {}
  const rule =
    typeof definition === 'string' ? `\`input\` must match this ${asText(syntax)} grammar:\n${definition}` : ''
  const text = [description, rule].filter(one => typeof one === 'string' && one !== '').join('\n\n')
  return { type: 'function', function: { name, ...(text !== '' && { description: text }), parameters } }
}

/** The arguments of the function for the input of a custom tool. */
export function customArguments(input: string): string {
  return JSON.stringify({ input })
}

/** The input of a custom tool within the arguments of its function; what is no such JSON is handed on as it is. */
export function customInput(json: string): string {
  try {
    const parsed: unknown = JSON.parse(json)
    if (isObject(parsed) && typeof parsed.input === 'string') return parsed.input
  } catch {
    // Handed on below.
  }
  return json
}
