import { base64Start } from '../base/data-uri.ts'
import type { RunServices } from '../engine/base-run.ts'
import type { SlotOwner } from '../io/fair-slots.ts'
import { measureDocument, measureSound } from '../io/media/measure.ts'
import type { DocumentSize } from '../io/media/pdf.ts'
import type { ChatMessage, ChatRequest } from '../kinds/chat.ts'
import type { GeminiPart, GenerateContentRequest } from '../kinds/generate-content.ts'
import { fileKindOf } from '../kinds/generate-content-members.ts'
import type { DirectKind, DirectKinds } from '../kinds/index.ts'
import {
  isBlock,
  type MessagesBlock,
  type MessagesRequest,
  type MessagesResultBlock,
  mapBlocks,
} from '../kinds/messages.ts'
import { countDocuments } from '../kinds/messages-members.ts'
import { type Features, hasMeasuredInput } from '../routing/features.ts'
import { snapshotOf } from '../routing/options.ts'
import { route } from '../routing/router.ts'
import type { ChatFormat } from './chat-format.ts'
import type { RemoteFiles } from './remote-files.ts'
import type { ChatRunInput } from './run-input.ts'

/**
 * Measures the audio and the documents of a request, so that its `features` reflect their cost, and returns the request
 * to send: documents behind a URL are fetched and inlined, so that the provider receives what was measured. Those of
 * dialects that measure nothing keep an unknown size. Throws what `RemoteFiles.documents` throws.
 */
export async function measureRequest<K extends DirectKind>(
  remoteFiles: RemoteFiles,
  format: MeasuringFormat<K>,
  body: DirectKinds[K]['request'],
  features: Features,
  owner: SlotOwner,
): Promise<DirectKinds[K]['request']> {
  if (!hasMeasured(format, features)) return body
  const inlined = await format.inlineDocuments!(remoteFiles, body)
  await format.measure!(inlined, features, owner)
  return inlined
}

/** Measures what is inside a request, as above: documents behind a URL are not fetched, and keep an unknown size. */
export async function measureInline<K extends DirectKind>(
  format: MeasuringFormat<K>,
  body: DirectKinds[K]['request'],
  features: Features,
  owner: SlotOwner,
): Promise<void> {
  if (hasMeasured(format, features)) await format.measure!(body, features, owner)
}

type MeasuringFormat<K extends DirectKind> = Pick<ChatFormat<K>, 'measure' | 'inlineDocuments'>

/** Whether a request has content that has to be measured. */
function hasMeasured({ measure }: MeasuringFormat<DirectKind>, features: Features): boolean {
  return measure !== undefined && hasMeasuredInput(features)
}

/**
 * Measures a request that needs it, unless its key does not allow it or it cannot be routed. Also throws what routing and
 * the key's policy throw.
 */
export async function measureIfAllowed<K extends DirectKind>(
  services: RunServices,
  format: MeasuringFormat<K>,
  input: ChatRunInput<K>,
  marginPpm: bigint,
  remoteFiles: RemoteFiles,
): Promise<ChatRunInput<K>> {
  const { key, kind, body, features } = input
  if (!hasMeasured(format, features)) return input
  const inputs = snapshotOf(services, marginPpm)
  await services.policies.decide(key, policy => route(inputs, { policy, kind, request: body, features }))
  const measured = await measureRequest(remoteFiles, format, body, features, key.policy)
  // Measuring takes time, so the cached policy may be outdated.
  key.forget()
  return measured === body ? input : { ...input, body: measured, raw: null, releaseRaw: undefined }
}

type UserPart = Exclude<Extract<ChatMessage, { role: 'user' }>['content'], string>[number]
type LocatedPart = { part: UserPart; param: string }

/** Measures the audio and the inline documents of a chat request. */
export async function measureChat(body: ChatRequest, features: Features, owner: SlotOwner): Promise<void> {
  const parts = userParts(body).map(({ part }) => part)
  const sounds = parts.filter(part => part.type === 'input_audio').map(part => part.input_audio.data)
  const files = parts.filter(part => part.type === 'file').map(part => part.file.file_data)
  const [soundsMs, documents] = await Promise.all([
    Promise.all(sounds.map(data => measureSound(Buffer.from(data, 'base64'), owner))),
    Promise.all(files.map(data => documentSize(data, owner))),
  ])
  features.media = {
    ...features.media,
    soundMs: sum(soundsMs),
    documents: totalSize(documents),
  }
}

function sum(values: (number | null)[]): number | null {
  return values.reduce((total, value) => (total === null || value === null ? null : total + value), 0)
}

async function documentSize(data: string | undefined, owner: SlotOwner): Promise<DocumentSize | null> {
  const start = data === undefined ? null : base64Start(data)
  return start === null ? null : measureDocument(Buffer.from(data!.slice(start), 'base64'), owner)
}

function userParts({ messages }: ChatRequest): LocatedPart[] {
  return messages.flatMap((message, i) =>
    hasParts(message)
      ? message.content.map((part: UserPart, j) => ({ part, param: `messages.${i}.content.${j}` }))
      : [],
  )
}

/** The messages that may have files: those of the user, and results of tools. */
function hasParts(message: ChatMessage): message is ChatMessage & { content: UserPart[] } {
  return (message.role === 'user' || message.role === 'tool') && typeof message.content !== 'string'
}

/** Inlines the files of a chat request that are behind a URL. */
export async function inlineChatDocuments(remoteFiles: RemoteFiles, body: ChatRequest): Promise<ChatRequest> {
  const remote = userParts(body).filter(
    ({ part }) => part.type === 'file' && /^https?:/i.test(part.file.file_data ?? ''),
  )
  if (remote.length === 0) return body
  const urls = remote.flatMap(({ part, param }) =>
    part.type === 'file' ? { url: part.file.file_data!, param: `${param}.file.file_data` } : [],
  )
  const files = await remoteFiles.documents(urls)
  const inlined = new Map(
    remote.map(({ part }, i): [UserPart, UserPart] => {
      const { contentType, bytes } = files[i]!
      const file_data = `data:${contentType};base64,${bytes.toString('base64')}`
      return [part, part.type === 'file' ? { ...part, file: { ...part.file, file_data } } : part]
    }),
  )
  const messages = body.messages.map(message =>
    hasParts(message)
      ? { ...message, content: message.content.map((part: UserPart) => inlined.get(part) ?? part) }
      : message,
  )
  return { ...body, messages: messages as ChatMessage[] }
}

/** The size of all documents; null if one is unknown. */
function totalSize(sizes: readonly (DocumentSize | null)[]): DocumentSize | null {
  const total = { pages: 0, textBytes: 0 }
  for (const size of sizes) {
    if (size === null) return null
    total.pages += size.pages
    total.textBytes += size.textBytes
  }
  return total
}

type Block = MessagesBlock | MessagesResultBlock
type Document = Extract<MessagesBlock, { type: 'document' }>

/**
 * Measures the inline documents of a Messages request. Documents behind a URL or in the provider's file storage, and those in
 * results of tools that the provider runs, have an unknown size.
 */
export async function measureMessages(body: MessagesRequest, features: Features, owner: SlotOwner): Promise<void> {
  const located = documentsIn(body)
  const sizes = located.map(({ document: { source } }) =>
    source.type === 'base64' ? measureDocument(Buffer.from(source.data ?? '', 'base64'), owner) : null,
  )
  const isComplete = located.length === countDocuments(body)
  features.media = { ...features.media, documents: isComplete ? totalSize(await Promise.all(sizes)) : null }
}

/** Inlines the documents of a Messages request that are behind a URL. */
export async function inlineMessagesDocuments(
  remoteFiles: RemoteFiles,
  body: MessagesRequest,
): Promise<MessagesRequest> {
  const remote = documentsIn(body).filter(({ document }) => document.source.type === 'url')
  if (remote.length === 0) return body
  const urls = remote.map(({ document, param }) => ({ url: document.source.url ?? '', param: `${param}.source.url` }))
  const files = await remoteFiles.documents(urls)
  const inlined = new Map(remote.map(({ document }, i) => [document, withFile(document, files[i]!)]))
  const messages = mapBlocks(body.messages, block => inlined.get(block as Document) ?? block)
  return { ...body, messages }
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

type FilePart = Pick<GeminiPart, 'inlineData' | 'fileData'>

/** The files of a request in Google's form, also those in results of functions, with their places. */
function filesIn({ contents }: GenerateContentRequest): { part: FilePart; param: string }[] {
  const partsOf = (parts: readonly FilePart[] = [], at: string) =>
    parts.map((part, index) => ({ part, param: `${at}.${index}` }))
  return contents.flatMap(({ parts = [] }, index) => {
    const at = `contents.${index}.parts`
    const results = parts.flatMap(({ functionResponse }, i) =>
      partsOf(functionResponse?.parts, `${at}.${i}.functionResponse.parts`),
    )
    return [...partsOf(parts, at), ...results].filter(({ part }) => part.inlineData || part.fileData)
  })
}

/** Measures the sounds and documents of a request in Google's form. Videos, and what is behind a URL, have an unknown size. */
export async function measureGenerateContent(
  body: GenerateContentRequest,
  features: Features,
  owner: SlotOwner,
): Promise<void> {
  const files = filesIn(body).map(({ part }) => part)
  const ofKind = (wanted: string) =>
    files.filter(({ inlineData, fileData }) => fileKindOf((inlineData ?? fileData)!.mimeType) === wanted)
  const sizeOf = ({ inlineData }: FilePart) =>
    inlineData?.mimeType.startsWith(pdfType) ? measureDocument(Buffer.from(inlineData.data, 'base64'), owner) : null
  const soundMs = ({ inlineData }: FilePart) =>
    inlineData ? measureSound(Buffer.from(inlineData.data, 'base64'), owner) : null
  const [soundsMs, documents] = await Promise.all([
    Promise.all(ofKind('sound').map(soundMs)),
    Promise.all(ofKind('document').map(sizeOf)),
  ])
  features.media = { ...features.media, soundMs: sum(soundsMs), documents: totalSize(documents) }
}

/** Inlines the sounds and documents of a request in Google's form that are behind a URL; images are fetched where it is sent. */
export async function inlineGenerateContent(
  remoteFiles: RemoteFiles,
  body: GenerateContentRequest,
): Promise<GenerateContentRequest> {
  const remote = filesIn(body).filter(({ part }) => part.fileData && fileKindOf(part.fileData.mimeType) !== 'image')
  if (remote.length === 0) return body
  const urls = remote.map(({ part, param }) => ({ url: part.fileData!.fileUri, param: `${param}.fileData.fileUri` }))
  const files = await remoteFiles.documents(urls)
  const inlined = new Map(
    remote.map(({ part: { fileData, ...others } }, i): [FilePart, FilePart] => {
      const { contentType, bytes } = files[i]!
      const mimeType = fileData!.mimeType ?? (contentType === 'application/octet-stream' ? pdfType : contentType)
      return [remote[i]!.part, { ...others, inlineData: { mimeType, data: bytes.toString('base64') } }]
    }),
  )
  const replaced = <P extends FilePart>(part: P): P => (inlined.get(part) as P | undefined) ?? part
  const contents = body.contents.map(content => ({
    ...content,
    parts: (content.parts ?? []).map(part => {
      const { functionResponse } = part
      if (!functionResponse?.parts) return replaced(part)
      return { ...part, functionResponse: { ...functionResponse, parts: functionResponse.parts.map(replaced) } }
    }),
  }))
  return { ...body, contents }
}

/** The document with its bytes; servers often give no type of their own for PDFs. */
function withFile(document: Document, { contentType, bytes }: { contentType: string; bytes: Buffer }): Document {
  const media_type = contentType === 'application/octet-stream' ? pdfType : contentType
  return { ...document, source: { type: 'base64', media_type, data: bytes.toString('base64') } }
}
