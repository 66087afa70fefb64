import type { ChatMessage } from '../../../kinds/chat.ts'
import { isBlock, type MessagesBlock, type MessagesMessage, type MessagesRequest } from '../../../kinds/messages.ts'
import type { Target } from '../../contract.ts'
import { invalid } from '../field-refusals.ts'
import {
  marked,
  pushLaterSystem,
  pushUserParts,
  resultParts,
  toolText,
  type UserPart,
} from '../over-chat/user-parts.ts'
import { type LocatedBlock, resultText, userParts } from './media.ts'
import { reasoningOf } from './reasoning.ts'
import { unexpectedTag } from './refusals.ts'

type Role = MessagesMessage['role']
type Turn = { role: Role; param: string; blocks: LocatedBlock[] }
type ToolUse = { id: string; name: string }
type ToolResult = Extract<MessagesBlock, { type: 'tool_result' }>

/** Claude Code's line of version and build, which changes between conversations and would void every prompt cache. */
const attribution = 'x-anthropic-billing-header:'

/** The chat messages of a Messages request. Throws a GatewayError 400 naming the block that cannot be translated. */
export function chatMessages({ system, messages }: MessagesRequest, target: Target): ChatMessage[] {
  const builder = new ConversationBuilder(target)
  builder.addSystemPrompt(system)
  for (const turn of turnsOf(messages)) builder.add(turn)
  return builder.end()
}

/** Adjacent messages of one role are one turn, as in Anthropic's API. */
function turnsOf(messages: readonly MessagesMessage[]): Turn[] {
  const turns: Turn[] = []
  for (const [index, { role, content }] of messages.entries()) {
    const param = `messages.${index}`
    const blocks: LocatedBlock[] =
      typeof content === 'string'
        ? [{ block: { type: 'text', text: content }, param: `${param}.content` }]
        : content.map((block, position) => ({ block, param: `${param}.content.${position}` }))
    const last = turns.at(-1)
    if (last?.role === role) last.blocks.push(...blocks)
    else turns.push({ role, param, blocks })
  }
  return turns
}

class ConversationBuilder {
  readonly #target: Target
  readonly #messages: ChatMessage[] = []
  /** The tool calls of the last assistant turn, whose results must come next. */
  #openCalls: readonly ToolUse[] = []
  #openCallsParam = ''
  /** System texts that came between tool calls and their results: chat permits no message there. */
  #pendingSystemTexts: string[] = []

  constructor(target: Target) {
    this.#target = target
  }

  addSystemPrompt(system: MessagesRequest['system']): void {
    const blocks = typeof system === 'string' ? [{ type: 'text' as const, text: system }] : (system ?? [])
    const parts = blocks
      .filter(({ text }) => text.trim() !== '' && !text.startsWith(attribution))
      .map(({ text, cache_control }) => ({ type: 'text' as const, text, ...marked(cache_control) }))
    const [first] = parts
    if (!first) return
    const isPlain = parts.length === 1 && !first.cache_control
    this.#messages.push({ role: 'system', content: isPlain ? first.text : parts })
  }

  add(turn: Turn): void {
    if (turn.role === 'system') this.#addSystem(turn)
    else if (turn.role === 'assistant') this.#addAssistant(turn)
    else this.#addUser(turn)
  }

  /** All messages. */
  end(): ChatMessage[] {
    this.#assertNoOpenCalls([])
    if (this.#messages.every(({ role }) => role === 'system'))
      throw invalid('messages', 'at least one message with content is required')
    return this.#messages
  }

  #addSystem({ blocks }: Turn): void {
    const texts = blocks.map(({ block, param }) => {
      if (isBlock(block, 'text')) return block.text
      throw unexpectedTag(param, block.type)
    })
    const text = texts.filter(one => one.trim() !== '').join('\n\n')
    if (text === '') return
    if (this.#openCalls.length > 0) this.#pendingSystemTexts.push(text)
    else pushLaterSystem(this.#messages, text, this.#target)
  }

  #addAssistant({ param, blocks }: Turn): void {
    this.#assertNoOpenCalls([])
    const texts: string[] = []
    const toolCalls: Extract<ChatMessage, { role: 'assistant' }>['tool_calls'] = []
    const calls: ToolUse[] = []
    for (const { block, param: at } of blocks) {
      if (isBlock(block, 'text')) texts.push(block.text)
      else if (isBlock(block, 'tool_use')) {
        const { id, name, input } = block
        // Within one message: servers that count their calls begin again with every answer, and Anthropic accepts that.
        if (calls.some(call => call.id === id)) throw invalid(`${at}.id`, '`tool_use` ids must be unique')
        calls.push({ id, name })
        toolCalls.push({ id, type: 'function', function: { name, arguments: JSON.stringify(input) } })
      } else if (!isBlock(block, 'thinking') && !isBlock(block, 'redacted_thinking')) {
        throw unexpectedTag(at, block.type)
      }
    }
    const content = texts.filter(text => text.trim() !== '').join('\n\n')
    this.#openCalls = calls
    this.#openCallsParam = param
    if (content === '' && calls.length === 0) return
    this.#messages.push({
      role: 'assistant',
      content: content || null,
      ...reasoningOf(blocks, this.#target),
      ...(calls.length > 0 && { tool_calls: toolCalls }),
      ...lastMark(blocks),
    })
  }

  /** The results of tools first, in the order of the calls; then their images and documents, and all other content. */
  #addUser({ blocks }: Turn): void {
    const results = new Map<string, { result: ToolResult; param: string }>()
    const others: LocatedBlock[] = []
    for (const { block, param } of blocks) {
      if (!isBlock(block, 'tool_result')) others.push({ block, param })
      else this.#takeResult(block, param, results)
    }
    this.#assertNoOpenCalls([...results.keys()])
    const attachments: UserPart[] = []
    for (const call of this.#openCalls) {
      const { result, param } = results.get(call.id)!
      attachments.push(...this.#pushResult(call, result, param))
    }
    this.#openCalls = []
    pushUserParts(this.#messages, attachments)
    for (const text of this.#pendingSystemTexts.splice(0)) pushLaterSystem(this.#messages, text, this.#target)
    pushUserParts(
      this.#messages,
      others.flatMap(other => userParts(other, this.#target)),
    )
  }

  #takeResult(result: ToolResult, param: string, results: Map<string, { result: ToolResult; param: string }>): void {
    const id = result.tool_use_id
    if (!this.#openCalls.some(call => call.id === id)) {
      const rule = 'Each `tool_result` block must have a corresponding `tool_use` block in the previous message.'
      throw invalid(param, `unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${id}. ${rule}`)
    }
    if (results.has(id)) {
      const rule = 'each tool_use must have a single result.'
      throw invalid(param, `${rule} Found multiple \`tool_result\` blocks with id: ${id}`)
    }
    results.set(id, { result, param })
  }

  /**
   * Adds a tool message, and returns the images and documents of the result: most providers take only text in a tool
   * message.
   */
  #pushResult(call: ToolUse, result: ToolResult, param: string): UserPart[] {
    const { content, is_error, cache_control } = result
    const blocks = typeof content === 'string' ? [] : (content ?? [])
    const located = blocks.map((block, index) => ({ block, param: `${param}.content.${index}` }))
    const media = located.filter(one => resultText(one) === null).flatMap(one => userParts(one, this.#target))
    const texts = typeof content === 'string' ? [content] : located.flatMap(one => resultText(one) ?? [])
    const text = texts.filter(one => one.trim() !== '').join('\n')
    const shown = toolText(text, media)
    const answer = is_error ? `Error: ${shown || 'the tool failed'}` : shown
    this.#messages.push({ role: 'tool', tool_call_id: call.id, content: answer, ...marked(cache_control) })
    return resultParts(call, media)
  }

  #assertNoOpenCalls(resultIds: readonly string[]): void {
    const missing = this.#openCalls.filter(({ id }) => !resultIds.includes(id)).map(({ id }) => id)
    if (missing.length === 0) return
    const rule = 'Each `tool_use` block must have a corresponding `tool_result` block in the next message.'
    const found = `\`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${missing.join(', ')}`
    throw invalid(this.#openCallsParam, `${found}. ${rule}`)
  }
}

/** A chat message has one cache mark: that of the last marked block. */
function lastMark(blocks: readonly LocatedBlock[]): ReturnType<typeof marked> {
  const marks = blocks.map(({ block }) =>
    isBlock(block, 'text') || isBlock(block, 'tool_use') ? block.cache_control : null,
  )
  return marked(marks.findLast(mark => mark != null))
}
