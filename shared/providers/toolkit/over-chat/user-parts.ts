import { GatewayError } from '../../../base/errors.ts'
import { profileOf } from '../../../catalog/traits.ts'
import type { ChatMessage, ChatRequest } from '../../../kinds/chat.ts'
import type { Media, Target } from '../../contract.ts'

export type UserPart = Exclude<Extract<ChatMessage, { role: 'user' }>['content'], string>[number]
type CacheMark = Extract<UserPart, { type: 'text' }>['cache_control']

/** The field of a part, message or tool with a block's cache mark. */
export function marked(mark: CacheMark): { cache_control?: NonNullable<CacheMark> } {
  return mark ? { cache_control: mark } : {}
}

/** A later system message as text of the user, for models that take none after the first other message. */
export function systemReminder(text: string): string {
  return `<system-reminder>\n${text}\n</system-reminder>`
}

/** Adds a later system message. Many models take a system message at the start only: for them it is text of the user. */
export function pushLaterSystem(messages: ChatMessage[], text: string, target: Target): void {
  if (profileOf(target).system_turns) messages.push({ role: 'system', content: text })
  else pushUserParts(messages, textParts(systemReminder(text)))
}

/** A text part; none for a blank text, which several providers reject. */
export function textParts(text: string, mark?: CacheMark): UserPart[] {
  return text.trim() === '' ? [] : [{ type: 'text', text, ...marked(mark) }]
}

/**
 * The request with the documents at URLs as `data:` URIs: chat providers take no other form. Throws `url_not_allowed`
 * for one that was not
 * fetched, naming `param`.
 */
export function inlineDocuments(body: ChatRequest, media: ReadonlyMap<string, Media>, param: string): ChatRequest {
  const inlined = (part: UserPart): UserPart => {
    if (part.type !== 'file' || !/^https?:/i.test(part.file.file_data ?? '')) return part
    const fetched = media.get(part.file.file_data!)
    if (!fetched) throw new GatewayError('url_not_allowed', 'The document could not be fetched.', { param })
    const type = fetched.contentType.split(';')[0]!.trim() || 'application/octet-stream'
    const file_data = `data:${type};base64,${fetched.bytes.toString('base64')}`
    return { ...part, file: { ...part.file, file_data } }
  }
  const messages = body.messages.map(message =>
    message.role === 'user' && typeof message.content !== 'string'
      ? { ...message, content: message.content.map(inlined) }
      : message,
  )
  return { ...body, messages }
}

/** Adds parts of the user to the last user message, as some models require that the roles alternate. */
export function pushUserParts(messages: ChatMessage[], parts: readonly UserPart[]): void {
  if (parts.length === 0) return
  const last = messages.at(-1)
  if (last?.role === 'user') {
    // In place: thousands of messages may become one. The list is this function's own.
    if (typeof last.content === 'string') last.content = textParts(last.content)
    for (const part of parts) last.content.push(part)
    return
  }
  const [first] = parts
  const isPlain = parts.length === 1 && first?.type === 'text' && !first.cache_control
  messages.push({ role: 'user', content: isPlain ? first.text : [...parts] })
}

/** The text of a tool message; images and documents follow in a user message, as most tool messages take only text. */
export function toolText(text: string, media: readonly UserPart[]): string {
  return text === '' && media.length > 0 ? 'The result follows in the next user message.' : text
}

/** The images and documents of a tool's result, for a user message. */
export function resultParts({ id, name }: { id: string; name: string }, media: readonly UserPart[]): UserPart[] {
  return media.length > 0 ? [...textParts(`From the result of ${name} (${id}):`), ...media] : []
}
