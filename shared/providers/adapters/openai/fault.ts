import { isObject } from '../../../base/is-object.ts'
import { readErrorText } from '../../toolkit/error-text.ts'
import type { Json } from './json.ts'

/** An error as a server reports it, before it is classified. */
export type Fault = {
  message: string
  /** What identifies the error, the most specific first: OpenRouter's `error_type`, then `code`. */
  codes: readonly string[]
  /** The class of the error; less specific than its codes. */
  type: string
  /** An HTTP status in the body, of servers that report errors inside a stream or a 200. */
  httpCode: number | null
  moderated: boolean
  param: string | null
  /** What the model wrote, where that is at fault (Groq). */
  generation: unknown
}

/** Reads `{error:{…}}`, `{error:"…"}`, `{message,type,code}` and `{detail:…}`, alone or in an array, or plain text. */
export function readFault(body: unknown): Fault {
  const text = readErrorText(body)
  const outer = Array.isArray(body) ? body[0] : body
  if (!isObject(outer)) return { ...text, codes: [], type: '', httpCode: null, moderated: false, generation: null }
  const error: Json = isObject(outer.error) ? outer.error : outer
  const metadata = isObject(error.metadata) ? error.metadata : {}
  return {
    ...text,
    codes: [metadata.error_type, error.code].filter(code => typeof code === 'string' && code !== ''),
    type: typeof error.type === 'string' ? error.type : typeof error.__type === 'string' ? error.__type : '',
    httpCode: statusIn(error) ?? statusIn(outer),
    // OpenRouter reports a prompt flagged by moderation as 403 with the reasons.
    moderated: Array.isArray(metadata.reasons) || metadata.flagged_input !== undefined,
    generation: error.failed_generation,
  } as Fault
}

function statusIn({ code, status_code, status }: Json): number | null {
  const found = [code, status_code, status]
    .map(Number)
    .find(number => Number.isInteger(number) && number >= 400 && number < 600)
  return found ?? null
}
