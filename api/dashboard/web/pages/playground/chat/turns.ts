import type { Facts } from '../response-facts.ts'

export type Picture = { name: string; url: string }
/** `key`: its position in the stream of its response. */
export type ToolCall = { key: number; id: string; name: string; arguments: string }
export type Answer = {
  text: string
  reasoning: string
  toolCalls: ToolCall[]
  pictures: string[]
  finishReason: string | null
}

/** One entry of a conversation. */
export type Turn = { id: number } & (
  | { role: 'user'; text: string; pictures: Picture[] }
  | { role: 'tool'; callId: string; name: string; text: string }
  | {
      role: 'assistant'
      answer: Answer
      state: 'streaming' | 'done' | 'stopped' | 'failed'
      facts: Facts | null
      error: Error | null
    }
)
export type AssistantTurn = Extract<Turn, { role: 'assistant' }>

export const noAnswer: Answer = { text: '', reasoning: '', toolCalls: [], pictures: [], finishReason: null }

/** The part of a response that one event of its stream has, in any format. */
export type Piece = {
  id?: string
  model?: string
  provider?: string
  text?: string
  reasoning?: string
  pictures?: string[]
  calls?: (Partial<ToolCall> & { key: number })[]
  finishReason?: string | null
  tokens?: { prompt?: number; completion?: number }
  costUsd?: number
  error?: { code: string; message: string; param: string | null }
  /** Whether the response is complete; a format without such an event ends with `[DONE]`. */
  isLast?: boolean
}

/** Adds a piece to a response. */
export function extended(answer: Answer, { text, reasoning, pictures, calls, finishReason }: Piece): Answer {
  return {
    text: answer.text + (text ?? ''),
    reasoning: answer.reasoning + (reasoning ?? ''),
    pictures: pictures ? [...answer.pictures, ...pictures] : answer.pictures,
    toolCalls: calls ? withCalls(answer.toolCalls, calls) : answer.toolCalls,
    finishReason: finishReason ?? answer.finishReason,
  }
}

function withCalls(calls: ToolCall[], parts: NonNullable<Piece['calls']>): ToolCall[] {
  const byKey = new Map(calls.map(call => [call.key, call]))
  for (const { key, id = '', name = '', arguments: json = '' } of parts) {
    const call = byKey.get(key) ?? { id: '', name: '', arguments: '' }
    byKey.set(key, { key, id: call.id || id, name: call.name + name, arguments: call.arguments + json })
  }
  return [...byKey.values()]
}

/** The tool calls of the last response that have no result yet. */
export function openCalls(turns: Turn[]): ToolCall[] {
  const last = turns.findLast(turn => turn.role === 'assistant')
  if (last?.role !== 'assistant' || last.state !== 'done') return []
  const answered = new Set(turns.flatMap(turn => (turn.role === 'tool' ? [turn.callId] : [])))
  return last.answer.toolCalls.filter(({ id }) => !answered.has(id))
}

/** What of a response is sent back. Of incomplete ones only the text is kept, because their tool calls have no results. */
export function keptAnswer({ answer, state }: AssistantTurn): Pick<Answer, 'text' | 'toolCalls'> {
  return { text: answer.text, toolCalls: state === 'done' ? answer.toolCalls : [] }
}
