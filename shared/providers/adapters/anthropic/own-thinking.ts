import { editMembers, mapItems, memberText } from '../../../base/json-member.ts'
import { isBlock, type MessagesMessage, type MessagesRequest } from '../../../kinds/messages.ts'
import { emptyEnvelope } from '../../../kinds/reasoning.ts'
import { isEnvelope } from '../../toolkit/reasoning-envelope.ts'

/** The positions of the thinking blocks that the API would refuse, by the position of their message. */
export type OwnThinking = ReadonlyMap<number, ReadonlySet<number>>

/**
 * Finds the thinking that other models wrote or guardrails changed: its signature or data is an envelope of the gateway,
 * which the API would refuse. Before calls, it also refuses thinking of which a part is missing, so the rest of such a message
 * is found as well (docs.claude.com/en/docs/build-with-claude/extended-thinking, "Preserving thinking blocks"). `hasState`: whether an envelope contains state.
 */
export function findOwnThinking(messages: readonly MessagesMessage[]): { found: OwnThinking; hasState: boolean } {
  const found = new Map<number, Set<number>>()
  let hasState = false
  for (const [index, { content }] of messages.entries()) {
    if (typeof content === 'string') continue
    const thinking = new Set<number>()
    const own = new Set<number>()
    for (const [position, block] of content.entries()) {
      const isThinking = isBlock(block, 'thinking')
      if (!isThinking && !isBlock(block, 'redacted_thinking')) continue
      thinking.add(position)
      const state = isThinking ? block.signature : block.data
      if (!state || !isEnvelope(state)) continue
      own.add(position)
      hasState ||= state !== emptyEnvelope
    }
    if (own.size > 0) found.set(index, content.some(block => isBlock(block, 'tool_use')) ? thinking : own)
  }
  return { found, hasState }
}

/** The messages without that thinking. A message of nothing else is removed, since the API refuses empty ones. */
export function withoutOwnThinking(messages: readonly MessagesMessage[], found: OwnThinking): MessagesMessage[] {
  return messages.flatMap((message, index): MessagesMessage[] => {
    const removed = found.get(index)
    if (!removed) return [message]
    const content = (message.content as Exclude<MessagesMessage['content'], string>).filter((_, at) => !removed.has(at))
    return content.length > 0 ? [{ ...message, content }] : []
  })
}

/** The same for the text of the list of messages; all else keeps its characters. Null if a name is written with escapes. */
export function cutOwnThinking(text: string, found: OwnThinking): string | null {
  let isReadable = true
  const cut = mapItems(text, (message, index) => {
    const removed = found.get(index)
    const content = removed && memberText(message, 'content')
    if (!removed) return message
    if (content == null) {
      isReadable = false
      return message
    }
    let kept = 0
    const blocks = mapItems(content, (block, position) => {
      if (removed.has(position)) return null
      kept++
      return block
    })
    return kept > 0 ? editMembers(message, new Map([['content', blocks]])) : null
  })
  return isReadable ? cut : null
}

/**
 * Whether the conversation ends in results of tools, in a turn whose first block would be no thinking, which the API refuses while
 * thinking has a budget (anomalyco/opencode#3077, anthropics/claude-code#14264): the thinking is left out, or the model that made the calls
 * has none. Later messages of a turn begin without it: “Claude will not output another thinking block until after the next
 * non-tool_result user turn” (anthropics/claude-cookbooks, extended_thinking_with_tool_use).
 */
export function continuesWithoutThinking({ messages }: Pick<MessagesRequest, 'messages'>, found: OwnThinking): boolean {
  const last = messages.at(-1)
  if (!last || last.role === 'assistant' || !hasResults(last)) return false
  const asked = messages.findLastIndex(message => message.role === 'user' && !hasResults(message))
  for (let at = asked + 1; at < messages.length; at++) {
    const { role, content } = messages[at]!
    if (role !== 'assistant') continue
    if (typeof content === 'string') return true
    const first = content.find((_, position) => !found.get(at)?.has(position))
    if (first) return !isBlock(first, 'thinking') && !isBlock(first, 'redacted_thinking')
  }
  return false
}

function hasResults({ content }: MessagesMessage): boolean {
  return typeof content !== 'string' && content.some(block => isBlock(block, 'tool_result'))
}
