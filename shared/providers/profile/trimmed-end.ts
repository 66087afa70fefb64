import { isObject } from '../../base/is-object.ts'

/**
 * An answer to continue without the white space at its end: "final assistant content cannot end with trailing whitespace"
 * (https://github.com/langchain-ai/langchain/pull/35072). The same object if there is none, or nothing else.
 */
export function withTrimmedEnd<M extends { content?: unknown }>(message: M): M {
  const { content } = message
  if (typeof content === 'string') {
    const trimmed = content.trimEnd()
    return trimmed === '' || trimmed === content ? message : { ...message, content: trimmed }
  }
  if (!Array.isArray(content)) return message
  const parts: unknown[] = content.slice(0, content.findLastIndex(part => !isBlank(part)) + 1)
  const last = parts.at(-1)
  if (!isObject(last) || typeof last.text !== 'string') return message
  const text = last.text.trimEnd()
  if (text === last.text && parts.length === content.length) return message
  return { ...message, content: [...parts.slice(0, -1), { ...last, text }] }
}

/** Whether a part is text of nothing but white space. */
function isBlank(part: unknown): boolean {
  return isObject(part) && typeof part.text === 'string' && part.text.trim() === ''
}
