import type { ChatMessage } from '../../../kinds/chat.ts'
import type { Call } from '../../contract.ts'
import { argumentsObject } from '../../toolkit/call-arguments.ts'
import { readDataUri, textOfFile } from '../../toolkit/data-uri.ts'
import { invalid, unsupported } from '../../toolkit/field-refusals.ts'
import { type ThinkingBlock, thinkingBlocks } from '../../toolkit/signed-thinking.ts'

type Source = { type: 'url'; url: string } | { type: 'base64'; media_type: string; data: string }
type TextSource = { type: 'text'; media_type: 'text/plain'; data: string }
export type TextBlock = { type: 'text'; text: string; cache_control?: unknown }
export type Block =
  | TextBlock
  | (ThinkingBlock & CacheMark)
  | { type: 'image'; source: Source; cache_control?: unknown }
  | { type: 'document'; source: Source | TextSource; title?: string; cache_control?: unknown }
  | { type: 'tool_use'; id: string; name: string; input: object; cache_control?: unknown }
  | { type: 'tool_result'; tool_use_id: string; content?: string | TextBlock[]; cache_control?: unknown }

type UserPart = Exclude<Extract<ChatMessage, { role: 'user' }>['content'], string>[number]
type AssistantMessage = Extract<ChatMessage, { role: 'assistant' }>
type ToolMessage = Extract<ChatMessage, { role: 'tool' }>
type TextContent = ToolMessage['content']
type CacheMark = { cache_control?: unknown }

const imageTypes = ['image/jpeg', 'image/png', 'image/gif', 'image/webp']
const documentTypes = ['application/pdf']

/** The cache mark of a message, part or tool, or of the request, to be forwarded. */
export function cacheMark({ cache_control: mark }: CacheMark): CacheMark {
  return mark ? { cache_control: mark } : {}
}

type Markable = { content: string | readonly object[] }

/**
 * The messages with a mark at the last block, for where the mark of a whole request is refused: Bedrock and Vertex AI answer
 * "cache_control: Extra inputs are not permitted" (UKGovernmentBEIS/inspect_ai#3851, vercel/ai#13986).
 */
export function withMarkAtEnd<M extends Markable>(messages: readonly M[], mark: CacheMark['cache_control']): M[] {
  const last = messages.at(-1)
  if (!last || last.content.length === 0) return [...messages]
  const { content } = last
  const blocks = typeof content === 'string' ? [{ type: 'text', text: content }] : content
  const end = { cache_control: mark, ...blocks.at(-1)! }
  return [...messages.slice(0, -1), { ...last, content: [...blocks.slice(0, -1), end] }]
}

/** Text blocks of a message. Blank ones are omitted: the API rejects them. */
export function textBlocks(content: TextContent): TextBlock[] {
  if (typeof content === 'string') return textBlock(content)
  return content.flatMap(part => textBlock(part.text, cacheMark(part)))
}

function textBlock(text: string, mark: CacheMark = {}): TextBlock[] {
  return text.trim() === '' ? [] : [{ type: 'text', text, ...mark }]
}

/** Blocks of a user message. Throws a GatewayError 400 naming the part that cannot be expressed. */
export function userBlocks(content: string | UserPart[], param: string, media: Call<'chat'>['media']): Block[] {
  if (typeof content === 'string') return textBlock(content)
  return content.flatMap((part, index) => userBlock(part, `${param}.${index}`, media))
}

function userBlock(part: UserPart, param: string, media: Call<'chat'>['media']): Block[] {
  const mark = cacheMark(part)
  switch (part.type) {
    case 'text':
      return textBlock(part.text, mark)
    case 'image_url': {
      const source = sourceOf(part.image_url.url, imageTypes, `${param}.image_url.url`, media)
      return [{ type: 'image', source, ...mark }]
    }
    case 'file':
      return [{ ...document(part.file, `${param}.file`, media), ...mark }]
    case 'input_audio':
      throw unsupported(`${param}.input_audio`, 'this model takes no audio input')
  }
}

function document(file: { file_data?: string; filename?: string }, param: string, media: Call<'chat'>['media']): Block {
  if (file.file_data === undefined) throw invalid(`${param}.file_data`, 'is required')
  const source = textSource(file.file_data) ?? sourceOf(file.file_data, documentTypes, `${param}.file_data`, media)
  return { type: 'document', source, ...(file.filename && { title: file.filename }) }
}

/** A document that is text; the API takes it as such, whatever its media type. */
function textSource(uri: string): TextSource | null {
  const file = readDataUri(uri)
  const text = file && textOfFile(file)
  return text?.trim() ? { type: 'text', media_type: 'text/plain', data: text } : null
}

function sourceOf(url: string, mediaTypes: string[], param: string, media: Call<'chat'>['media']): Source {
  const fetched = media.get(url)
  if (!fetched && /^https:\/\//i.test(url)) return { type: 'url', url }
  const file = readDataUri(fetched ? `data:${fetched.contentType};base64,${fetched.bytes.toString('base64')}` : url)
  if (!file) throw invalid(param, 'must be an https URL or a base64 data URI')
  const { mediaType, data } = file
  if (!mediaTypes.includes(mediaType)) throw unsupported(param, `${mediaType} is not one of ${mediaTypes.join(', ')}`)
  return { type: 'base64', media_type: mediaType, data }
}

/** Blocks of an assistant message: the thinking first, unless there is nothing else, which the API rejects. */
export function assistantBlocks(message: AssistantMessage, param: string): Block[] {
  if (message.audio) throw unsupported(`${param}.audio`, 'this model knows no earlier audio answers')
  const content = message.content || message.refusal || ''
  const blocks: Block[] =
    typeof content === 'string'
      ? textBlock(content)
      : content.flatMap(part => textBlock(part.type === 'text' ? part.text : part.refusal, cacheMark(part)))
  for (const [index, call] of (message.tool_calls ?? []).entries()) {
    const at = `${param}.tool_calls.${index}`
    if (call.type !== 'function') throw unsupported(`${at}.type`, 'only function tools can be called')
    const input = argumentsObject(call.function.arguments)
    blocks.push({ type: 'tool_use', id: call.id, name: call.function.name, input })
  }
  return blocks.length > 0 ? [...thinkingBlocks(message), ...blocks] : blocks
}

export function toolResult(message: ToolMessage): Block {
  const { tool_call_id: tool_use_id } = message
  const text = textBlocks(message.content)
  if (text.length === 0) return { type: 'tool_result', tool_use_id }
  return { type: 'tool_result', tool_use_id, content: typeof message.content === 'string' ? message.content : text }
}
