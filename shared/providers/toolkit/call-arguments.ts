import { parseExact } from '../../base/exact-numbers.ts'
import { isObject } from '../../base/is-object.ts'
import { parseJsonOrNull } from './json-fields.ts'

/**
 * The arguments of a call as an object: the input of a tool, where an API has no text for it. What is no JSON object is wrapped in
 * one, as a model may write it wrongly or be cut off in it: a client's own check then refuses the call. It hands the call back with
 * that error in every turn from then on, so that a refusal here would end the conversation (openai/openai-agents-python#2061,
 * charmbracelet/crush#3201).
 */
export function argumentsObject(text: string): object {
  if (isWithoutArguments(text)) return {}
  return jsonObjectIn(text) ?? { invalid_json: text }
}

/**
 * The arguments of an earlier call for servers that parse them and refuse what is no JSON object, such as vLLM, Kimi's API and
 * llama.cpp (vllm-project/vllm#43995, MoonshotAI/kimi-cli#2196, lemonade-sdk/lemonade#1481). The same text if they are one, or blank.
 */
export function parseableArguments(text: string): string {
  return text.trim() === '' || jsonObjectIn(text) ? text : JSON.stringify(argumentsObject(text))
}

/** Whether a call has no arguments, which servers also write as `null` or as an empty list (n8n-io/n8n#25731). */
export function isWithoutArguments(text: string): boolean {
  return /^\s*(?:null|\[\s*\])?\s*$/.test(text)
}

/**
 * Arguments that a server has encoded twice, encoded once: a text whose value is the text of an object (vllm-project/vllm#54964,
 * tailcallhq/forgecode#2764). All others as they are.
 */
export function encodedOnce(text: string): string {
  const value = isEncodedText(text) ? parseJsonOrNull(text) : null
  return typeof value === 'string' && jsonObjectIn(value) ? value : text
}

/** Whether arguments begin as a text, which the arguments of no tool are. */
export function isEncodedText(text: string): boolean {
  return /^\s*"/.test(text)
}

/** The object that a text is as JSON, with all its numbers as they are written; null for any other text. */
export function jsonObjectIn(text: string): object | null {
  try {
    const value = parseExact(text)
    return isObject(value) ? value : null
  } catch {
    return null
  }
}
