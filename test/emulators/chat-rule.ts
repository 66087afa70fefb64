import { json, type Reply } from './emulator.ts'

// biome-ignore lint/suspicious/noExplicitAny: request bodies of every shape
export type Any = any
/** The answer to a request that breaks the rule; null or undefined if it does not. */
export type Rule = { source: string; refusal(body: Any): Reply | null | undefined | false }

export function refused(message: string, param: string | null = null, code: string | null = null): Reply {
  return json(400, { error: { message, type: 'invalid_request_error', param, code } })
}

/** Mistral's and FastAPI's list of faults, https://github.com/editor-code-assistant/eca/issues/231 */
export function unprocessable(type: string, loc: (string | number)[], msg: string, input: unknown = null): Reply {
  const detail = [{ type, loc: ['body', ...loc], msg, input }]
  return json(422, { object: 'error', message: { detail }, type: 'invalid_request_error', param: null, code: null })
}

export function firstOf<T, R>(values: readonly T[] | undefined | null, find: (value: T, index: number) => R): R | null {
  for (const [index, value] of (values ?? []).entries()) {
    const found = find(value, index)
    if (found) return found
  }
  return null
}

export const idsOf = ({ tool_calls: calls, tool_call_id: id }: Any): string[] => [
  ...(calls ?? []).map((call: Any) => call.id),
  ...(id === undefined ? [] : [id]),
]
export const isForced = (choice: Any) => choice !== undefined && choice !== 'auto' && choice !== 'none'
/** OpenAI's words (ultimatejimmy/xray.koplugin#33), which others have taken over. */
export const lacksJsonWord = ({ messages, response_format: format }: Any): boolean =>
  format?.type === 'json_object' && !/json/i.test(JSON.stringify(messages))
export const jsonWordMissing =
  "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'."
export const maxOf = ({ max_completion_tokens: newer, max_tokens: older }: Any): number | undefined => newer ?? older
export const tooLong = (name: string, { length }: string, max: number): Reply =>
  refused(
    `Invalid '${name}': string too long. Expected a string with maximum length ${max}, but got a string with length ${length} instead.`,
    name,
    'string_above_max_length',
  )
