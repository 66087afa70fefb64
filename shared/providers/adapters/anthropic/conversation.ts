import type { ChatMessage } from '../../../kinds/chat.ts'
import type { Call } from '../../contract.ts'
import { invalid, unsupported } from '../../toolkit/field-refusals.ts'
import {
  assistantBlocks,
  type Block,
  cacheMark,
  type TextBlock,
  textBlocks,
  toolResult,
  userBlocks,
} from './content.ts'

type Turn = { role: 'user' | 'assistant' | 'system'; content: Block[] }
type Conversation = { system: TextBlock[]; turns: Turn[] }

/**
 * Converts OpenAI messages to a system prompt and alternating turns. Later system messages keep their position: as
 * their own turn where the model supports it (`systemTurns`), otherwise as user text. Throws a GatewayError 400 naming
 * the message.
 */
export function conversation(
  messages: ChatMessage[],
  systemTurns: boolean,
  media: Call<'chat'>['media'],
): Conversation {
  const system: TextBlock[] = []
  const turns: Turn[] = []
  const resultsOf = new Map<string, Block[]>()
  for (const [index, message] of messages.entries()) {
    const param = `messages.${index}`
    switch (message.role) {
      case 'system':
      case 'developer': {
        const content = withMark(message, textBlocks(message.content))
        if (turns.length === 0) for (const block of content) system.push(block)
        else turns.push({ role: systemTurns ? 'system' : 'user', content })
        break
      }
      case 'user':
        turns.push({ role: 'user', content: withMark(message, userBlocks(message.content, `${param}.content`, media)) })
        break
      case 'assistant': {
        const content = withMark(message, assistantBlocks(message, param))
        // All results of a turn go into the next user message, before its other content.
        const results: Block[] = []
        turns.push({ role: 'assistant', content }, { role: 'user', content: results })
        for (const block of content) if (block.type === 'tool_use') resultsOf.set(block.id, results)
        break
      }
      case 'tool': {
        const [result] = withMark(message, [toolResult(message)])
        const results = result?.type === 'tool_result' && resultsOf.get(result.tool_use_id)
        if (!results) throw invalid(`${param}.tool_call_id`, 'answers no tool call of an earlier assistant message')
        results.push(result)
        break
      }
      case 'function':
        throw unsupported(`${param}.role`, 'use the role "tool" with a tool_call_id')
    }
  }
  return { system, turns: mergeTurns(turns) }
}

/** The blocks of a message; the last one bears the message's own cache mark unless it has one. */
function withMark<B extends Block>(message: ChatMessage, blocks: B[]): B[] {
  const mark = cacheMark(message)
  const last = blocks.at(-1)
  return mark.cache_control && last ? [...blocks.slice(0, -1), { ...mark, ...last }] : blocks
}

/** Merges adjacent turns of one role and removes empty ones: the API rejects both. */
function mergeTurns(turns: Turn[]): Turn[] {
  const turnsMerged: Turn[] = []
  for (const turn of turns) {
    const last = turnsMerged.at(-1)
    if (last?.role === turn.role) for (const block of turn.content) last.content.push(block)
    else if (turn.content.length > 0) turnsMerged.push({ role: turn.role, content: [...turn.content] })
  }
  return turnsMerged
}
