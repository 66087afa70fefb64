import type { ChatMessage } from '../../../kinds/chat.ts'
import type { Call } from '../../contract.ts'
import { argumentsObject } from '../../toolkit/call-arguments.ts'
import { readDataUri } from '../../toolkit/data-uri.ts'
import { invalid, unsupported } from '../../toolkit/field-refusals.ts'
import { systemReminder } from '../../toolkit/over-chat/user-parts.ts'
import { thinkingBlocks } from '../../toolkit/signed-thinking.ts'

export type CachePoint = { cachePoint: { type: 'default'; ttl?: '5m' | '1h' } }
type Text = { text: string }
type Reasoning = {
  reasoningContent: { reasoningText: { text: string; signature: string } } | { redactedContent: string }
}
type ToolUse = { toolUse: { toolUseId: string; name: string; input: object } }
type ToolResult = { toolResult: { toolUseId: string; content: Text[] } }
type Image = { image: { format: string; source: { bytes: string } } }
type Document = { document: { format: string; name: string; source: { bytes: string } } }
export type Block = Text | CachePoint | Reasoning | ToolUse | ToolResult | Image | Document
export type Turn = { role: 'user' | 'assistant'; content: Block[] }
type Conversation = {
  system: (Text | CachePoint)[]
  turns: Turn[]
  /** The names of the tools that the conversation calls. */
  calledTools: ReadonlySet<string>
}

type Of<Role extends ChatMessage['role']> = Extract<ChatMessage, { role: Role }>
type UserPart = Exclude<Of<'user'>['content'], string>[number]
type Media = Call<'chat'>['media']
type Marked = { cache_control?: unknown }

const imageFormats: Record<string, string> = {
  'image/jpeg': 'jpeg',
  'image/png': 'png',
  'image/gif': 'gif',
  'image/webp': 'webp',
}
const officeType = 'application/vnd.openxmlformats-officedocument'
const documentFormats: Record<string, string> = {
  'application/pdf': 'pdf',
  'text/csv': 'csv',
  'application/msword': 'doc',
  [`${officeType}.wordprocessingml.document`]: 'docx',
  'application/vnd.ms-excel': 'xls',
  [`${officeType}.spreadsheetml.sheet`]: 'xlsx',
  'text/html': 'html',
  'text/markdown': 'md',
  'text/plain': 'txt',
  'application/json': 'txt',
}
/** "You can't include more than 5 documents in a request." (aws-samples/generative-ai-use-cases#1685) */
const maxDocuments = 5
const maxNameCharacters = 200

/** Texts for what must not be blank: "The text field in the ContentBlock object … is blank." (boto/botocore#3525) */
const noOutput = '(no output)'
const withDocument = 'See the document.'

/**
 * Converts OpenAI messages to a system prompt and turns that alternate, as the API requires. Later system messages become
 * the user's text in their place. `marks`: whether cache marks are sent; models without a cache refuse them.
 * Throws a GatewayError 400 naming the message.
 */
export function conversation(messages: readonly ChatMessage[], media: Media, marks: boolean): Conversation {
  return new ConversationWriter(media, marks).write(messages)
}

class ConversationWriter {
  readonly #media: Media
  readonly #marks: boolean
  readonly #system: (Text | CachePoint)[] = []
  readonly #turns: Turn[] = []
  readonly #calledTools = new Set<string>()
  /** Where the results of a call belong, by its id: all results of a turn come first in the next turn of the user. */
  readonly #resultsOf = new Map<string, Block[]>()
  readonly #documentNames = new Set<string>()

  constructor(media: Media, marks: boolean) {
    this.#media = media
    this.#marks = marks
  }

  write(messages: readonly ChatMessage[]): Conversation {
    for (const [index, message] of messages.entries()) this.#add(message, `messages.${index}`)
    return { system: this.#system, turns: mergeTurns(this.#turns), calledTools: this.#calledTools }
  }

  #add(message: ChatMessage, param: string): void {
    switch (message.role) {
      case 'system':
      case 'developer':
        this.#addSystem(message)
        break
      case 'user':
        this.#turns.push({ role: 'user', content: this.#marked(message, this.#userBlocks(message.content, param)) })
        break
      case 'assistant':
        this.#addAnswer(message, param)
        break
      case 'tool': {
        const results = this.#resultsOf.get(message.tool_call_id)
        if (!results) throw invalid(`${param}.tool_call_id`, 'answers no tool call of an earlier assistant message')
        for (const block of this.#marked(message, [toolResult(message)])) results.push(block)
        break
      }
      case 'function':
        throw unsupported(`${param}.role`, 'use the role "tool" with a tool_call_id')
    }
  }

  #addSystem(message: Of<'system' | 'developer'>): void {
    const blocks = this.#marked(message, this.#textBlocks(message.content))
    if (this.#turns.length === 0) for (const block of blocks) this.#system.push(block)
    else this.#turns.push({ role: 'user', content: blocks.map(block => ('text' in block ? reminder(block) : block)) })
  }

  #addAnswer(message: Of<'assistant'>, param: string): void {
    const content = this.#marked(message, this.#assistantBlocks(message, param))
    const results: Block[] = []
    this.#turns.push({ role: 'assistant', content }, { role: 'user', content: results })
    for (const block of content) {
      if (!('toolUse' in block)) continue
      this.#resultsOf.set(block.toolUse.toolUseId, results)
      this.#calledTools.add(block.toolUse.name)
    }
  }

  /** The blocks of a message, with its own cache mark after them unless a part has ended with one. */
  #marked<B>(message: Marked, blocks: B[]): (B | CachePoint)[] {
    const point = this.#pointOf(message)
    const last = blocks.at(-1)
    return point && last !== undefined && !isCachePoint(last) ? [...blocks, point] : blocks
  }

  #pointOf({ cache_control: mark }: Marked): CachePoint | null {
    return this.#marks ? cachePoint(mark) : null
  }

  /** Blank texts are omitted. */
  #textBlocks(content: Of<'system' | 'tool'>['content']): (Text | CachePoint)[] {
    if (typeof content === 'string') return textBlock(content)
    return content.flatMap(part => this.#marked(part, textBlock(part.text)))
  }

  #userBlocks(content: string | UserPart[], param: string): Block[] {
    if (typeof content === 'string') return textBlock(content)
    const blocks = content.flatMap((part, index) =>
      this.#marked<Block>(part, this.#userBlock(part, `${param}.content.${index}`)),
    )
    // A document needs a text beside it (API_runtime_DocumentBlock).
    const isAlone = blocks.some(block => 'document' in block) && !blocks.some(block => 'text' in block)
    return isAlone ? [...blocks, { text: withDocument }] : blocks
  }

  #userBlock(part: UserPart, param: string): Block[] {
    switch (part.type) {
      case 'text':
        return textBlock(part.text)
      case 'image_url': {
        const at = `${param}.image_url.url`
        const { mediaType, data } = this.#bytesOf(part.image_url.url, at)
        const format = imageFormats[mediaType]
        if (!format) throw unsupported(at, `${mediaType} is not one of ${Object.keys(imageFormats).join(', ')}`)
        return [{ image: { format, source: { bytes: data } } }]
      }
      case 'file':
        return [this.#document(part.file, `${param}.file`)]
      case 'input_audio':
        throw unsupported(`${param}.input_audio`, 'this model takes no audio input')
    }
  }

  #document({ file_data: uri, filename }: { file_data?: string; filename?: string }, param: string): Document {
    if (uri === undefined) throw invalid(`${param}.file_data`, 'is required')
    const { mediaType, data } = this.#bytesOf(uri, `${param}.file_data`)
    const format = documentFormats[mediaType] ?? (mediaType.startsWith('text/') ? 'txt' : undefined)
    if (!format)
      throw unsupported(`${param}.file_data`, `${mediaType} is not one of ${Object.keys(documentFormats).join(', ')}`)
    if (this.#documentNames.size === maxDocuments)
      throw unsupported(`${param}.file_data`, `this model takes at most ${maxDocuments} documents`)
    return { document: { format, name: this.#documentName(filename), source: { bytes: data } } }
  }

  /**
   * The name of a document: letters, digits, single spaces, hyphens, parentheses and square brackets (as recorded in
   * vercel/ai, amazon-bedrock-invalid-document-filenames.json), and no other document's (maximhq/bifrost#7003).
   */
  #documentName(filename = ''): string {
    const plain = filename.replace(/\.[a-z\d]{1,5}$/i, '').replace(/[^a-zA-Z0-9()[\]-]+/g, ' ')
    const name =
      plain
        .trim()
        .slice(0, maxNameCharacters - 10)
        .trim() || 'Document'
    let unique = name
    for (let count = 2; this.#documentNames.has(unique.toLowerCase()); count++) unique = `${name} (${count})`
    this.#documentNames.add(unique.toLowerCase())
    return unique
  }

  #bytesOf(url: string, param: string): { mediaType: string; data: string } {
    const fetched = this.#media.get(url)
    if (fetched) return { mediaType: fetched.contentType, data: fetched.bytes.toString('base64') }
    const file = readDataUri(url)
    if (!file) throw invalid(param, 'must be an https URL or a base64 data URI')
    return file
  }

  #assistantBlocks(message: Of<'assistant'>, param: string): Block[] {
    if (message.audio) throw unsupported(`${param}.audio`, 'this model knows no earlier audio answers')
    const content = message.content || message.refusal || ''
    const blocks: Block[] =
      typeof content === 'string'
        ? textBlock(content)
        : content.flatMap(part => this.#marked<Block>(part, textBlock(part.type === 'text' ? part.text : part.refusal)))
    for (const [index, call] of (message.tool_calls ?? []).entries()) {
      const at = `${param}.tool_calls.${index}`
      if (call.type !== 'function') throw unsupported(`${at}.type`, 'only function tools can be called')
      const input = argumentsObject(call.function.arguments)
      blocks.push({ toolUse: { toolUseId: call.id, name: call.function.name, input } })
    }
    // An answer of reasoning alone is refused.
    return blocks.length > 0 ? [...reasoningBlocks(message), ...blocks] : blocks
  }
}

/** The reasoning of an earlier answer, as the API sent it. */
function reasoningBlocks(message: Of<'assistant'>): Reasoning[] {
  return thinkingBlocks(message).map(block =>
    block.type === 'thinking'
      ? { reasoningContent: { reasoningText: { text: block.thinking, signature: block.signature } } }
      : { reasoningContent: { redactedContent: block.data } },
  )
}

function reminder({ text }: Text): Text {
  return { text: systemReminder(text) }
}

/**
 * The blocks with cache points where the API reads them: not after a document that is no PDF, for which it answers "type: Field
 * required" (strands-agents/harness-sdk#1966), and not first, where there is "nothing available to cache" (#3677). A point
 * before such documents caches what precedes them.
 */
export function withPlacedPoints(blocks: readonly Block[]): Block[] {
  const placed: Block[] = []
  for (const block of blocks) {
    let at = placed.length
    if (isCachePoint(block)) while (at > 0 && isOtherDocument(placed[at - 1]!)) at--
    if (!isCachePoint(block) || (at > 0 && !isCachePoint(placed[at - 1]))) placed.splice(at, 0, block)
  }
  return placed
}

function isOtherDocument(block: Block): boolean {
  return 'document' in block && block.document.format !== 'pdf'
}

function isCachePoint(block: unknown): boolean {
  return typeof block === 'object' && block !== null && 'cachePoint' in block
}

/** The cache point for a mark; null without one. */
export function cachePoint(mark: unknown): CachePoint | null {
  if (typeof mark !== 'object' || mark === null) return null
  const is1h = 'ttl' in mark && mark.ttl === '1h'
  return { cachePoint: is1h ? { type: 'default', ttl: '1h' } : { type: 'default' } }
}

function textBlock(text: string): Text[] {
  return text.trim() === '' ? [] : [{ text }]
}

function toolResult({ tool_call_id: toolUseId, content }: Of<'tool'>): ToolResult {
  const texts = typeof content === 'string' ? textBlock(content) : content.flatMap(({ text }) => textBlock(text))
  return { toolResult: { toolUseId, content: texts.length > 0 ? texts : [{ text: noOutput }] } }
}

/** Merges adjacent turns of one role and removes empty ones: the API refuses both. */
function mergeTurns(turns: readonly Turn[]): Turn[] {
  const merged: Turn[] = []
  for (const { role, content } of turns) {
    const last = merged.at(-1)
    if (last?.role === role) for (const block of content) last.content.push(block)
    else if (content.length > 0) merged.push({ role, content: [...content] })
  }
  return merged
}
