import type { Facts } from '../outcome.tsx'

export type Picture = { name: string; url: string }
export type ToolCall = { id: string; name: string; arguments: string }
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

type Delta = {
  content?: string | null
  reasoning?: string | null
  reasoning_content?: string | null
  images?: { image_url: { url: string } }[]
  tool_calls?: { index: number; id?: string; function?: { name?: string; arguments?: string } }[]
}

/** The parts of a stream event that are shown. */
export type Chunk = {
  id?: string
  model?: string
  provider?: string
  choices?: { delta?: Delta; finish_reason?: string | null }[]
  usage?: { prompt_tokens: number; completion_tokens: number; cost?: number } | null
  error?: { code: string; message: string; param: string | null }
}

/** Adds an event to a response. */
export function extended(answer: Answer, { choices }: Chunk): Answer {
  const [choice] = choices ?? []
  if (!choice) return answer
  const { content, reasoning, reasoning_content, images, tool_calls } = choice.delta ?? {}
  return {
    text: answer.text + (content ?? ''),
    reasoning: answer.reasoning + (reasoning ?? reasoning_content ?? ''),
    pictures: images ? [...answer.pictures, ...images.map(({ image_url }) => image_url.url)] : answer.pictures,
    toolCalls: tool_calls ? withCalls(answer.toolCalls, tool_calls) : answer.toolCalls,
    finishReason: choice.finish_reason ?? answer.finishReason,
  }
}

function withCalls(calls: ToolCall[], parts: NonNullable<Delta['tool_calls']>): ToolCall[] {
  const extended = [...calls]
  for (const { index, id, function: called } of parts) {
    const call = extended[index] ?? { id: '', name: '', arguments: '' }
    extended[index] = {
      id: call.id || (id ?? ''),
      name: call.name + (called?.name ?? ''),
      arguments: call.arguments + (called?.arguments ?? ''),
    }
  }
  return extended
}

/** The tool calls of the last response that have no result yet. */
export function openCalls(turns: Turn[]): ToolCall[] {
  const last = turns.findLast(turn => turn.role === 'assistant')
  if (last?.role !== 'assistant' || last.state !== 'done') return []
  const answered = new Set(turns.flatMap(turn => (turn.role === 'tool' ? [turn.callId] : [])))
  return last.answer.toolCalls.filter(({ id }) => !answered.has(id))
}

/** Converts a conversation to API messages. Of incomplete responses only the text is kept, because their tool calls have no results. */
export function messagesOf(system: string, turns: Turn[]): object[] {
  const messages = turns.flatMap(turn => messageOf(turn) ?? [])
  return system.trim() === '' ? messages : [{ role: 'system', content: system }, ...messages]
}

function messageOf(turn: Turn): object | null {
  if (turn.role === 'tool') return { role: 'tool', tool_call_id: turn.callId, content: turn.text }
  if (turn.role === 'user') {
    const { text, pictures } = turn
    const parts = pictures.map(({ url }) => ({ type: 'image_url', image_url: { url } }))
    return {
      role: 'user',
      content: parts.length === 0 ? text : [...(text === '' ? [] : [{ type: 'text', text }]), ...parts],
    }
  }
  const { text } = turn.answer
  const toolCalls = turn.state === 'done' ? turn.answer.toolCalls : []
  if (text === '' && toolCalls.length === 0) return null
  const calls = toolCalls.map(call => ({
    id: call.id,
    type: 'function',
    function: { name: call.name, arguments: call.arguments },
  }))
  return { role: 'assistant', content: text || null, ...(calls.length > 0 && { tool_calls: calls }) }
}
