import { namesIn } from '../../base/names.ts'
import type { ChatMessage } from '../../kinds/chat.ts'
import type { Fitting } from './fitting.ts'

export type Part = { type: 'text'; text: string } | { type: 'refusal'; refusal: string }

/**
 * The parts of a message as the provider takes them, the same list if it does: without empty texts, which say nothing and are
 * refused by Z.ai beside an image (earendil-works/pi#9797) and by Moonshot beside calls (BerriAI/litellm#42186).
 */
export function fitParts(given: readonly Part[], takesLists: boolean): readonly Part[] | string {
  const parts = given.some(isEmptyText) ? given.filter(part => !isEmptyText(part)) : given
  if (parts.length === 0) return ''
  return !takesLists && parts.every(isText) ? textOf(parts) : parts
}

/**
 * An answer with its refusal as a text, in the words that the model has said; the same message if there is none. Without it the answer
 * would be empty, which is refused: OpenAI's answers that refuse have no content (openai/openai-agents-js#1524).
 */
export function withRefusalAsText(message: ChatMessage): ChatMessage {
  if (message.role !== 'assistant') return message
  const { content, refusal } = message
  if (!refusal && !(Array.isArray(content) && content.some(({ type }) => type === 'refusal'))) return message
  if (!Array.isArray(content))
    return { ...message, content: content ? `${content}\n${refusal}` : refusal!, refusal: undefined }
  const parts = content.map(part => {
    if (part.type !== 'refusal') return part
    const { refusal: text, ...marks } = part
    return { ...marks, type: 'text' as const, text }
  })
  return { ...message, content: refusal ? [...parts, { type: 'text', text: refusal }] : parts, refusal: undefined }
}

/** Whether a content says nothing. */
export function isEmptyContent(content: string | readonly object[] | null | undefined): boolean {
  if (!Array.isArray(content)) return !content
  return content.every(isEmptyText)
}

export function textOf(parts: readonly Part[]): string {
  return parts.map(part => (part.type === 'text' ? part.text : part.refusal)).join('\n')
}

function isText({ type }: { type: string }): boolean {
  return type === 'text' || type === 'refusal'
}

function isEmptyText(part: { type: string; text?: unknown }): boolean {
  return part.type === 'text' && part.text === ''
}

const callMembers = namesIn('id type function')
const functionMembers = namesIn('name arguments')

/**
 * Whether a call has the API's members only, as a server that knows its messages' members takes it: Mistral refuses others
 * (zeroclaw-labs/zeroclaw#3572), such as the SDKs' `parsed_arguments`.
 */
export function isPlainCall(call: { function: object }): boolean {
  const hasOnly = (value: object, names: ReadonlySet<string>) => Object.keys(value).every(name => names.has(name))
  return hasOnly(call, callMembers) && hasOnly(call.function, functionMembers)
}

/** Throws 400 for more images than a request may have. */
export function assertFewImages(fitting: Fitting, maxImages: number): void {
  if (countImages(fitting.body.messages) > maxImages)
    throw fitting.refusal('messages', `This model takes at most ${maxImages} images in a request.`)
}

/**
 * "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'": a line of the system prompt
 * of a `json_object` has it where the client's messages do not, as those of clients of Gemini or Claude, which ask for no such word.
 */
export function fitJsonWord(fitting: Fitting): void {
  if (!fitting.profile.json_word || fitting.body.messages.some(mentionsJson)) return
  fitting.instruct('Answer with one JSON object.')
  fitting.adjusted.push('messages')
}

function mentionsJson({ content }: ChatMessage): boolean {
  if (typeof content === 'string') return /json/i.test(content)
  return content?.some(part => part.type === 'text' && /json/i.test(part.text)) === true
}

function countImages(messages: readonly ChatMessage[]): number {
  let count = 0
  for (const { content } of messages)
    if (Array.isArray(content)) for (const { type } of content) if (type === 'image_url') count++
  return count
}
