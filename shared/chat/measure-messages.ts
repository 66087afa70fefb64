import type { SlotOwner } from '../io/fair-slots.ts'
import { measureDocument } from '../io/media/measure.ts'
import { isBlock, type MessagesBlock, type MessagesRequest, type MessagesResultBlock } from '../kinds/messages.ts'
import { countDocuments } from '../kinds/messages-members.ts'
import type { Platform } from '../platform.ts'
import type { Features } from '../routing/features.ts'
import { fetchDocuments, totalSize } from './documents.ts'

type Block = MessagesBlock | MessagesResultBlock
type Document = Extract<MessagesBlock, { type: 'document' }>

/**
 * Measures the documents of a Messages request, so that its `features` reflect their cost, and returns the request to
 * send: documents behind a URL are fetched and inlined, so that the provider receives what was measured. Documents in
 * the provider's file storage, and those in results of tools that the provider runs, keep an unknown size. `owner`: the
 * organisation. Throws 400 `url_not_allowed`, `invalid_request`, 413.
 */
export async function measureMessages(
  services: Pick<Platform, 'urlPolicy'>,
  body: MessagesRequest,
  features: Features,
  owner: SlotOwner,
): Promise<MessagesRequest> {
  const located = documentsIn(body)
  const remote = located.filter(({ document }) => document.source.type === 'url')
  const urls = remote.map(({ document, param }) => ({ url: document.source.url ?? '', param: `${param}.source.url` }))
  const files = await fetchDocuments(services, urls)
  const inlined = new Map(remote.map(({ document }, i) => [document, withFile(document, files[i]!)]))
  const documents = located.map(({ document }) => inlined.get(document) ?? document)
  const sizes = documents.map(({ source }) =>
    source.type === 'base64' ? measureDocument(Buffer.from(source.data ?? '', 'base64'), owner) : null,
  )
  const isComplete = located.length === countDocuments(body)
  features.media = { ...features.media, documents: isComplete ? totalSize(await Promise.all(sizes)) : null }
  if (inlined.size === 0) return body
  const replace = (block: Block): Block => {
    if (isBlock(block, 'tool_result') && Array.isArray(block.content))
      return { ...block, content: block.content.map(replace) } as Block
    return inlined.get(block as Document) ?? block
  }
  const messages = body.messages.map(message =>
    typeof message.content === 'string' ? message : { ...message, content: message.content.map(replace) },
  )
  return { ...body, messages } as MessagesRequest
}

/** Whether a request has documents behind a URL. */
export function hasRemoteDocuments(body: MessagesRequest): boolean {
  return documentsIn(body).some(({ document }) => document.source.type === 'url')
}

/** The documents that are files, with their places; those of text are counted as text. */
function documentsIn({ messages }: MessagesRequest): { document: Document; param: string }[] {
  const found: { document: Document; param: string }[] = []
  const visit = (block: Block, param: string) => {
    if (isBlock(block, 'document') && block.source.type !== 'text' && block.source.type !== 'content')
      found.push({ document: block, param })
    else if (isBlock(block, 'tool_result') && Array.isArray(block.content))
      for (const [i, inner] of block.content.entries()) visit(inner, `${param}.content.${i}`)
  }
  for (const [i, { content }] of messages.entries())
    if (typeof content !== 'string')
      for (const [j, block] of content.entries()) visit(block, `messages.${i}.content.${j}`)
  return found
}

const pdfType = 'application/pdf'

/** The document with its bytes; servers often give no type of their own for PDFs. */
function withFile(document: Document, { contentType, bytes }: { contentType: string; bytes: Buffer }): Document {
  const media_type = contentType === 'application/octet-stream' ? pdfType : contentType
  return { ...document, source: { type: 'base64', media_type, data: bytes.toString('base64') } }
}
