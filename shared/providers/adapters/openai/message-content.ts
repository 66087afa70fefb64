import { isObject } from '../../../base/is-object.ts'
import type { Json } from './json.ts'

/** The content of a message as the two texts of our format. */
export type Texts = { text: string; reasoning: string }

/**
 * The texts of a content that is a list, as Mistral's models that reason give it: parts `thinking`, whose own content is
 * a list or a text, and `text` (docs.mistral.ai/capabilities/reasoning). Parts without text, such as references, say
 * nothing in our format.
 */
export function textsOf(parts: readonly unknown[]): Texts {
  const texts: Texts = { text: '', reasoning: '' }
  for (const part of parts) {
    if (typeof part === 'string') texts.text += part
    else if (isObject(part) && part.type === 'thinking') texts.reasoning += thoughtOf(part)
    else if (isObject(part) && typeof part.text === 'string') texts.text += part.text
  }
  return texts
}

function thoughtOf({ thinking, text }: Json): string {
  if (Array.isArray(thinking)) return textsOf(thinking).text
  return typeof thinking === 'string' ? thinking : typeof text === 'string' ? text : ''
}

/**
 * A message or delta whose content is text. `reasoning_content` gets the thinking of a list; the rest is as it was. The
 * same object where there is nothing to change.
 */
export function withTextContent(message: Json): Json {
  const { content } = message
  if (!Array.isArray(content)) return message
  const { text, reasoning } = textsOf(content)
  const given = typeof message.reasoning_content === 'string' ? message.reasoning_content : ''
  return { ...message, content: text, ...((given || reasoning) && { reasoning_content: given + reasoning }) }
}

/**
 * A complete message without halves of characters, at which clients in Python and databases fail. In a stream a half may
 * be followed by the other.
 */
export function withWholeCharacters(message: Json): Json {
  const { content, reasoning_content: reasoning } = message
  if (isWhole(content) && isWhole(reasoning)) return message
  return {
    ...message,
    ...(typeof content === 'string' && { content: content.toWellFormed() }),
    ...(typeof reasoning === 'string' && { reasoning_content: reasoning.toWellFormed() }),
  }
}

function isWhole(text: unknown): boolean {
  return typeof text !== 'string' || text.isWellFormed()
}
