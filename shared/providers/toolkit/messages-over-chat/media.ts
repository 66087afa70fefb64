import { asText } from '../../../base/as-text.ts'
import {
  isBlock,
  type KnownMessagesBlock,
  type MessagesBlock,
  type MessagesResultBlock,
} from '../../../kinds/messages.ts'
import type { Target } from '../../contract.ts'
import { invalid, unsupported } from '../field-refusals.ts'
import { marked, textParts, type UserPart } from '../over-chat/user-parts.ts'
import { rejected, unexpectedTag } from './refusals.ts'

/** A block, and its path in the request. */
export type LocatedBlock = { block: MessagesBlock | MessagesResultBlock; param: string }

type Known<T extends KnownMessagesBlock['type']> = Extract<KnownMessagesBlock, { type: T }>
type Source = Known<'image'>['source']

/**
 * The chat parts of a block of user content. Throws a GatewayError 400 naming a block that has no counterpart, or that
 * the target does not take.
 */
export function userParts({ block, param }: LocatedBlock, target: Target): UserPart[] {
  if (isBlock(block, 'text')) return textParts(block.text, block.cache_control)
  if (isBlock(block, 'image')) return [imagePart(block, param, target)]
  if (isBlock(block, 'document')) return documentParts(block, param, target)
  if (block.type === 'search_result') return textParts(searchResultText(block))
  throw unexpectedTag(param, block.type)
}

/** The text of a block inside a tool result; null for an image or a document. */
export function resultText({ block, param }: LocatedBlock): string | null {
  if (isBlock(block, 'text')) return block.text
  if (isBlock(block, 'image') || isBlock(block, 'document')) return null
  if (block.type === 'search_result') return searchResultText(block)
  if (block.type === 'tool_reference') return asText(block.tool_name ?? '')
  throw unexpectedTag(param, block.type)
}

function imagePart({ source, cache_control }: Known<'image'>, param: string, { model }: Target): UserPart {
  if (!model.input_modalities.includes('image')) throw rejected('image_block', param, 'this model takes no images')
  return { type: 'image_url', image_url: { url: uriOf(source, `${param}.source`) }, ...marked(cache_control) }
}

/** A PDF stays a file; a document of plain text or of blocks becomes parts, under its title and context. */
function documentParts(document: Known<'document'>, param: string, target: Target): UserPart[] {
  const { source, title, context, cache_control } = document
  const at = `${param}.source`
  const heading = [title, context].filter(Boolean).join('\n')
  if (source.type === 'text') return textParts([heading, source.data].filter(Boolean).join('\n\n'), cache_control)
  if (source.type === 'content') return [...textParts(heading), ...contentParts(source.content, at, target)]
  if (!target.model.input_modalities.includes('file'))
    throw rejected('document_block', param, 'this model takes no documents')
  if (source.type === 'base64' && source.media_type !== 'application/pdf')
    throw unsupported(`${at}.media_type`, 'must be application/pdf')
  const file = { file_data: uriOf(source, at), filename: title || 'document.pdf' }
  return [...textParts(context ?? ''), { type: 'file', file, ...marked(cache_control) }]
}

/** The parts of a document that consists of text and image blocks. */
function contentParts(content: unknown, param: string, target: Target): UserPart[] {
  if (typeof content === 'string') return textParts(content)
  if (!Array.isArray(content)) throw invalid(`${param}.content`, 'must be a text or a list of blocks')
  return content.flatMap((block: MessagesBlock, index) => {
    const at = `${param}.content.${index}`
    if (isBlock(block, 'text') && typeof block.text === 'string') return textParts(block.text)
    if (isBlock(block, 'image') && block.source) return [imagePart(block, at, target)]
    throw unexpectedTag(at, asText(block?.type))
  })
}

/** A `data:` URI of bytes in base64, or the URL. */
function uriOf(source: Source, param: string): string {
  if (source.type === 'url' && source.url) return source.url
  if (source.type === 'base64' && source.data && source.media_type)
    return `data:${source.media_type};base64,${source.data}`
  if (source.type === 'base64') throw invalid(param, '`media_type` and `data` are required')
  if (source.type === 'url') throw invalid(`${param}.url`, 'Field required')
  if (source.type === 'file') throw unsupported(`${param}.type`, 'send the bytes in base64: there is no Files API')
  throw unexpectedTag(param, source.type)
}

function searchResultText({ title, source, content }: Record<string, unknown>): string {
  const texts = Array.isArray(content) ? content.map(block => block?.text) : []
  return [title, source, ...texts].filter(text => typeof text === 'string' && text !== '').join('\n')
}
