import type { ChatMessage } from '../../kinds/chat.ts'
import {
  assistantBlocks,
  type Block,
  invalid,
  type TextBlock,
  textBlocks,
  toolResult,
  unsupported,
  userBlocks,
} from './content.ts'

export type Turn = { role: 'user' | 'assistant' | 'system'; content: Block[] }
export type Conversation = { system: TextBlock[]; turns: Turn[] }

/**
 * OpenAI messages as a system prompt and alternating turns. Later system messages keep their place: as a turn of their
 * own where the model takes that (`systemTurns`), else as user text. Throws a GatewayError 400 naming the message.
 */
export function conversation(messages: ChatMessage[], systemTurns: boolean): Conversation {
  const system: TextBlock[] = []
  const turns: Turn[] = []
  const resultsOf = new Map<string, Block[]>()
  for (const [index, message] of messages.entries()) {
    const param = `messages.${index}`
    switch (message.role) {
      case 'system':
      case 'developer': {
        const content = textBlocks(message.content, `${param}.content`)
        if (turns.length === 0) for (const block of content) system.push(block)
        else turns.push({ role: systemTurns ? 'system' : 'user', content })
        break
      }
      case 'user':
        turns.push({ role: 'user', content: userBlocks(message.content, `${param}.content`) })
        break
      case 'assistant': {
        const content = assistantBlocks(message, param)
        // A turn's results all stand in the one user message behind it, before anything else the user says.
        const results: Block[] = []
        turns.push({ role: 'assistant', content }, { role: 'user', content: results })
        for (const block of content) if (block.type === 'tool_use') resultsOf.set(block.id, results)
        break
      }
      case 'tool': {
        const result = toolResult(message, param)
        const results = result.type === 'tool_result' && resultsOf.get(result.tool_use_id)
        if (!results) throw invalid(`${param}.tool_call_id`, 'answers no tool call of an earlier assistant message')
        results.push(result)
        break
      }
      case 'function':
        throw unsupported(`${param}.role`, 'use the role "tool" with a tool_call_id')
    }
  }
  return { system, turns: alternating(turns) }
}

/** Neighbours of one role become one turn and empty turns go: the API refuses both. */
function alternating(turns: Turn[]): Turn[] {
  const merged: Turn[] = []
  for (const turn of turns) {
    const last = merged.at(-1)
    if (last?.role === turn.role) for (const block of turn.content) last.content.push(block)
    else if (turn.content.length > 0) merged.push({ role: turn.role, content: [...turn.content] })
  }
  return merged
}
